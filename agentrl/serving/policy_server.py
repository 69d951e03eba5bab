"""A server of one policy, with SGLang's and OpenAI's routes."""

import contextlib
import signal
import threading
from collections.abc import Mapping
from typing import Any

from absl import logging

from agentrl.http.auth import Keys
from agentrl.models.options import Model
from agentrl.parallel import compile_cache
from agentrl.serving import start as serving
from agentrl.serving.options import EmbeddedOptions, PolicyServer
from agentrl.training import language_model

_POLL_S = 0.05  # between two checks whether all is compiled


def serve(
    policy: Model,
    sampler: EmbeddedOptions,
    where: PolicyServer,
    keys: Keys,
    *,
    trained_with: Mapping[str, Any] | None = None,
    compile_folder: str | None,
) -> None:
  """Serves a policy behind `keys` until SIGTERM or SIGINT.

  Either of them ends the process at once while the model is being loaded, and
  after the program at hand while programs are compiled: /health is 503 until
  that is done (`serve.warmup`).

  Args:
    policy: the model and its type.
    sampler: the engine.
    where: address, name and limits; its key files are not read.
    keys: what requests must carry.
    trained_with: what the server tells of the policy, see `EngineOptions`.
    compile_folder: see `compile_cache.use`.

  Raises:
    AgentrlError: the model cannot be loaded, the port is taken, or the folder
      for compiled programs cannot be written.
  """
  compile_cache.use(compile_folder)
  model, version = language_model.load_policy(policy.name)
  stopped = threading.Event()
  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stopped.set())
  with contextlib.ExitStack() as stack:
    engine, url = serving.start_engine(
        stack,
        serving.ServedPolicy(
            model=model,
            version=version,
            dtype=policy.dtype,
            max_context=where.max_context or model.config.max_row,
            seed=where.seed,
            chat_template=where.chat_template,
            chat_date=where.chat_date,
            trained_with=trained_with,
        ),
        sampler,
        host=where.host,
        port=where.port,
        keys=keys,
        served_name=where.name or policy.name,
    )
    if where.warmup:
      logging.info('%s answers /health once it has compiled.', url)
      compiled = engine.warm_up()
      while not compiled.done():
        if stopped.wait(_POLL_S):
          return
      compiled.result()
    print(f'Serving {policy.name} at {url}', flush=True)
    stopped.wait()
