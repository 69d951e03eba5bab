"""The engine without threads and HTTP: model, cache, requests, control.

The scheduler's thread alone calls it, between two dispatches, so nothing here
needs a lock.
"""

from collections.abc import Iterable
from typing import Any

from agentrl.engine.batcher import Batcher
from agentrl.engine.cache import SlotTable
from agentrl.engine.live_sequences import LiveSequences
from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.request import Request
from agentrl.engine.served_weights import ServedWeights

# SGLang's pause modes: end running requests; put them back into the queue;
# freeze them as they are.
PAUSE_MODES = ('abort', 'retract', 'in_place')


class EngineCore:
  """One model, its cache and its requests.

  Attributes:
    model_runner: the programs.
    weights: those that requests are served with.
    sequences: the requests that have not ended.
    batcher: runs them.
    paused: True from `pause` to `resume`: nothing decodes, requests wait.
  """

  def __init__(
      self,
      model_runner: ModelRunner,
      table: SlotTable,
      *,
      max_running: int,
      weight_version: str,
  ):
    self.model_runner = model_runner
    self._table = table
    self.weights = ServedWeights(model_runner, weight_version)
    self.sequences = LiveSequences(table, self.weights)
    self.batcher = Batcher(
        model_runner,
        table,
        self.weights,
        self.sequences,
        max_running=max_running,
    )
    self.paused = False

  @property
  def has_work(self) -> bool:
    """True if there is something to decode."""
    live = self.sequences
    return bool(live.running or live.waiting) and not self.paused

  def abort(self, rid: str | None) -> int:
    """Ends sequences; counts them.

    Args:
      rid: of a request that has not ended, or nothing happens. As in SGLang,
        whose scheduler compares beginnings, requests whose ids begin with it
        end too: `job-1` takes `job-10` along. None: all requests.
    """
    return self.sequences.abort(rid)

  def abandon(self, requests: Iterable[Request]) -> int:
    """Ends these very requests; counts those that had not ended."""
    return self.sequences.abandon(requests)

  def pause(self, mode: str) -> None:
    """Stops decoding; see PAUSE_MODES. New requests wait for `resume`."""
    if mode not in PAUSE_MODES:
      raise ValueError(
          f'Unknown pause mode {mode!r}; known: {", ".join(PAUSE_MODES)}.'
      )
    self.paused = True
    if mode == 'abort':
      self.abort(None)
    elif mode == 'retract':
      self.sequences.retract()

  def resume(self) -> None:
    """Ends a pause."""
    self.paused = False

  def flush(self) -> bool:
    """Empties the prefix cache; False, and nothing done, if requests exist.

    While paused, those that wait do not count: they have no entries.
    """
    if self.sequences.running or (self.sequences.waiting and not self.paused):
      return False
    self._table.flush()
    return True

  def swap(self, params: Any, version: str, *, flush: bool) -> int:
    """Replaces the weights; gives the number of sequences that were running.

    These go on with the new weights over the entries that the old ones
    computed; `Result.spans` says which weights gave which tokens.

    Args:
      params: engine layout; the engine keeps the reference, so no one else may
        donate these buffers.
      version: reported as `weight_version` from now on.
      flush: no later request may share an entry that old weights computed.

    Raises:
      EngineError: they do not fit, or adapters are loaded; the old ones stay.
    """
    self.weights.swap(params, version)
    if flush:
      self._table.flush()
    return len(self.sequences.running)

  def replace(self, params: Any, version: str) -> None:
    """As `swap`, but that nothing of the old weights' is used any more.

    Running sequences go back into the queue and compute their entries anew.
    """
    self.weights.swap(params, version)
    self.sequences.retract()
    self._table.flush()

  def set_version(self, version: str, *, abort_all: bool) -> None:
    """Names the weights anew; what was sampled keeps the old name."""
    if abort_all:
      self.abort(None)
    self.weights.version = version

  def load_adapter(self, name: str, path: str, params: Any) -> None:
    """Serves requests of an adapter's name with these weights."""
    self.weights.add(name, path, params)

  def unload_adapter(self, name: str) -> bool:
    """Retires an adapter; True once no request uses it and it is forgotten.

    Raises:
      EngineError: no adapter has this name.
    """
    self.weights.retire(name)
    if any(
        s.request.adapter == name
        for s in (*self.sequences.running, *self.sequences.waiting)
    ):
      return False
    self.weights.remove(name)
    self._table.flush()  # another of this name computes other entries
    return True

  def recover(self, message: str) -> None:
    """Fails everything and makes a new cache, as a failed dispatch consumed it.

    Waiting requests fail too: one may be the cause, and would fail for ever.
    """
    self.sequences.end_all(message, 500)
    self._table.clear()
    self.model_runner.reset()

  def close(self, message: str) -> None:
    """Ends every request, so that no client waits for ever."""
    self.sequences.end_all(message, 503)
