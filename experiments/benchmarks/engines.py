"""Engines of random models, as the benchmarks of the sampler use them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from agentrl.engine.options import EngineOptions
from agentrl.engine.request import RESERVED
from agentrl.engine.server import Engine
from agentrl.models.config import TransformerConfig


@contextlib.contextmanager
def serving(
    config: TransformerConfig, params: Any, **settings: Any
) -> Iterator[tuple[Engine, str]]:
  """An engine that serves ids only and ends nothing early, and its URL.

  Args:
    config: shape of the model.
    params: engine layout.
    **settings: of `Engine`.
  """
  # So that prompt and completion may fill all of `max_len`.
  settings = {'context_length': settings['max_len'] + RESERVED} | settings
  engine = Engine(
      config,
      params,
      None,
      EngineOptions(eos_ids=(), model_path='random', **settings),
  )
  try:
    yield engine, engine.start()
  finally:
    engine.stop()


def warm_up(engine: Engine, run: Callable[[], Any], most: int) -> None:
  """Calls `run` until it compiles nothing new, at most so many times."""
  for _ in range(most):
    compiled = num_compiled(engine)
    run()
    if num_compiled(engine) == compiled:
      return


def num_compiled(engine: Engine) -> int:
  """Programs compiled so far."""
  return engine.stats()['num_compiled_programs']
