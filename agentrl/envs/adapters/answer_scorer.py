"""Scores answers by reasoning-gym, in a process of its own.

Some of its datasets evaluate an answer as Python: binary_matrix, n_queens, spiral_matrix
and string_insertion by `eval`, countdown, puzzle24, integrals and polynomials by sympy's
`parse_expr`. A policy's answer may compute without end there (`9**9**9`), or do anything
that Python can. So the process has a bound on processor time and memory, and while it
scores it writes no file, starts no process and opens no connection.
"""

import base64
import json
import math
import os
import pickle
import resource
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

from agentrl.errors import EnvError, EnvFault
from agentrl.runtime import children
from agentrl.runtime.children import Child

CPU_S = 10.0  # of an answer
_MEMORY = 4 * 2**30  # bytes of the process
_WAIT_S = 100.0  # for the process, on a busy machine
_END_S = 5.0
_TOO_LONG = f'was killed by {signal.SIGVTALRM.name}'
# Audit events of what no scoring does, by their beginnings.
_REFUSED = (
    *('os.', 'shutil.', 'subprocess.', 'pty.', 'socket.', 'urllib.', 'ctypes.'),
    *('fcntl.', 'signal.', 'time.sleep', 'webbrowser.', 'ftplib.', 'http.'),
)
_READING = ('os.listdir', 'os.scandir')  # where Python looks for modules


class Scorer:
  """The process; it is started by the first answer, and again after it died."""

  def __init__(self, dataset: str, config: Mapping[str, Any]):
    """Keeps the arguments.

    Args:
      dataset: name in reasoning-gym.
      config: fields of it.
    """
    self._arguments = dataset, json.dumps(dict(config))
    self._lock = threading.Lock()
    self._child: Child | None = None

  def score(self, item: Mapping[str, Any], answer: str) -> float:
    """The score of an answer; 0 for one that takes too long, or cannot be read.

    Args:
      item: of the dataset.
      answer: any text.

    Raises:
      EnvError: the process does not answer, or has died of something else.
      EnvFault: scoring fails for the dataset's own answer, too.
    """
    data = base64.b64encode(pickle.dumps((dict(item), answer))).decode()
    with self._lock:
      if self._child is None:
        self._child = self._start()
      try:
        self._child.write_line(data)
        line = self._child.read_line(_WAIT_S)
        reply = json.loads(line)
      except (OSError, ValueError, TimeoutError) as error:
        ending = self._child.ending(_END_S)
        self._child.kill()
        self._child.reap(_END_S)
        words = f'{ending or "does not answer"}: {self._child.last_words()}'
        self._child = None
        if ending == _TOO_LONG:
          return 0.0
        raise EnvError(f'The process that scores answers {words}') from error
    if 'fault' in reply:
      raise EnvFault(reply['fault'])
    return float(reply['score'])

  def _start(self) -> Child:
    return Child(
        [sys.executable, '-m', __name__, *self._arguments],
        name='scorer of answers',
        env=children.module_environment(),
    )

  def close(self) -> None:
    """Ends the process."""
    with self._lock:
      if self._child is not None:
        self._child.stop(_END_S)
        self._child = None


def confine() -> list[bool]:
  """Bounds this process; gives the switch of what is refused while it scores."""
  resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
  scoring = [False]

  def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if not scoring[0]:
      return
    writes = event == 'open' and arguments[2] & (
        os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND
    )
    if writes or (event.startswith(_REFUSED) and event not in _READING):
      raise PermissionError(f'An answer may not cause {event}.')

  sys.addaudithook(refuse)
  return scoring


def score(dataset: Any, item: Mapping[str, Any], answer: str) -> dict[str, Any]:
  """The reply to an answer, {"score": 0.5} or {"fault": "words"}."""
  try:
    found = float(dataset.score_answer(answer, item))
    if math.isfinite(found):
      return {'score': found}
  # Also `exit()` is an answer, where answers are evaluated.
  except BaseException as error:
    words = f'{type(error).__name__}: {error}'[:500]
  else:
    words = f'The score is {found}.'
  try:
    dataset.score_answer(item['answer'], item)
  except Exception:  # the dataset's own fault, and not the answer's
    return {'fault': words}
  return {'score': 0.0}


def main(name: str, config: str) -> None:
  """Scores what comes in, a line each, until the input ends."""
  import reasoning_gym

  lines = os.fdopen(os.dup(0))  # of its own, since `exit()` closes sys.stdin
  out = os.fdopen(os.dup(1), 'w')
  os.dup2(2, 1)  # what a dataset prints is no reply
  dataset = reasoning_gym.create_dataset(name, **json.loads(config))
  scoring = confine()
  for line in lines:
    item, answer = pickle.loads(base64.b64decode(line))
    scoring[0] = True
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    reply = score(dataset, item, answer)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    scoring[0] = False
    print(json.dumps(reply), file=out, flush=True)


if __name__ == '__main__':
  main(*sys.argv[1:])
