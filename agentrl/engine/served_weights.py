"""The weights that requests are served with: alone, or with a loaded adapter.

An adapter (LoRA) is merged when it is loaded: decoding costs what it does
without, and one copy of the weights that it changes. Requests of different
adapters never share a dispatch: the batcher ends one adapter's before it begins
another's, so every completion is of one adapter from its first token to its
last.
"""

from typing import Any

from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.request import Request
from agentrl.errors import EngineError, EngineRefusal


class ServedWeights:
  """Weights by adapter. Not thread-safe: the scheduler's thread owns it.

  Attributes:
    version: of the weights, reported with what they sample.
    num_swaps: updates of the weights so far.
    current: name of the adapter whose weights the runner has; None: the base's.
    paths: where each loaded adapter came from, by name.
  """

  def __init__(self, model_runner: ModelRunner, version: str):
    self._model_runner = model_runner
    self._params: dict[str | None, Any] = {None: model_runner.params}
    self._leaving: set[str] = set()
    self.version, self.num_swaps = version, 0
    self.current: str | None = None
    self.paths: dict[str, str] = {}

  @property
  def base(self) -> Any:
    """The weights without an adapter."""
    return self._params[None]

  def refusal(self, request: Request) -> str | None:
    """The reason why a new request cannot be served; None if it can."""
    name = request.adapter
    if name in self._params and name not in self._leaving:
      return None
    names = ', '.join(self.paths.keys() - self._leaving) or 'none'
    return f'The adapter {name!r} is not loaded; loaded: {names}.'

  def use(self, name: str | None) -> None:
    """Gives the runner the weights of an adapter."""
    self._model_runner.set_params(self._params[name])
    self.current = name

  def free(self) -> None:
    """Drops all weights, the runner's too."""
    self._params.clear()
    self._model_runner.free()

  def swap(self, params: Any, version: str) -> None:
    """Replaces the base's weights.

    Raises:
      EngineError: they do not fit, or there are adapters, which belong to the
        old ones; these stay.
    """
    if self.paths:
      raise EngineRefusal(
          'Adapters of the present weights are loaded:'
          f' {", ".join(self.paths)}. Unload them first.'
      )
    self._model_runner.set_params(params)
    self._params[None] = self._model_runner.params
    self.version = version
    self.num_swaps += 1

  def add(self, name: str, path: str, params: Any) -> None:
    """Serves requests of this name with weights that `path` was merged into.

    Raises:
      EngineError: the name is taken.
    """
    if name in self._params:
      raise EngineError(f'The adapter {name!r} is loaded already.')
    self._params[name], self.paths[name] = params, path

  def retire(self, name: str) -> None:
    """Refuses new requests of an adapter.

    Raises:
      EngineError: no adapter has this name.
    """
    if name not in self.paths:
      raise EngineError(f'The adapter {name!r} is not loaded.')
    self._leaving.add(name)

  def remove(self, name: str) -> None:
    """Forgets a retired adapter that no request uses any more."""
    if self.current == name:
      self.use(None)
    self._leaving.remove(name)
    del self._params[name], self.paths[name]


def salt(request: Request) -> str | None:
  """The cache salt of a request: its own, and the name of its weights."""
  if request.adapter is None:
    return request.salt
  return repr((request.adapter, request.salt))
