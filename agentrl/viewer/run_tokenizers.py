"""Tokenizers of runs, without jax in this process."""

import pathlib
import tempfile
import threading

from agentrl.errors import AgentrlError, DataError
from agentrl.evaluation.workdirs import run_config
from agentrl.runtime import workdir
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.tokenizer import Tokenizer
from agentrl.viewer import python_child

_MOST = 8
_START_S = 120.0


class RunTokenizers:
  """The tokenizers of runs that were asked for. Thread-safe."""

  def __init__(self) -> None:
    self._known: dict[pathlib.Path, Tokenizer | AgentrlError] = {}
    self._lock = threading.Lock()

  def get(self, run: pathlib.Path) -> Tokenizer:
    """The tokenizer of a run: its own, or that of the model it started from.

    An exported adapter has that of its model. A child process looks the latter
    up: models are read with jax.

    Raises:
      AgentrlError: it is not known; says why. The answer is kept.
    """
    with self._lock:
      if run not in self._known:
        while len(self._known) >= _MOST:
          self._known.pop(next(iter(self._known)))
        try:
          self._known[run] = _load(run)
        except AgentrlError as error:
          self._known[run] = error
      answer = self._known[run]
    if isinstance(answer, AgentrlError):
      raise answer
    return answer


def _load(run: pathlib.Path) -> Tokenizer:
  exported = (run / workdir.EXPORTED).is_file()
  own = run if (run / 'tokenizer.json').is_file() else run / 'tokenizer'
  try:
    if own.is_dir():
      return tokenizer_lib.load(own)
    config = run_config.config(run)
    if not exported and not (config.get('model') or {}).get('name'):
      raise DataError(f'The config of {run.name} names no model.')
    with tempfile.TemporaryDirectory() as folder:
      child = python_child.start(
          'agentrl.training.save_tokenizer', str(run), folder, name='tokenizer'
      )
      ending = child.ending(_START_S)
      words = child.last_words() if ending else f'took over {_START_S:g} s'
      child.stop()
      if ending is None or not ending.endswith(' 0'):
        words = words.rpartition(' | ')[2]  # after a traceback
        raise DataError(f'The tokenizer of {run.name} is not known: {words}')
      return tokenizer_lib.load(folder)
  except (OSError, ValueError) as error:
    raise DataError(
        f'The tokenizer of {run.name} cannot be read: {error}'
    ) from error
