"""Processes that read episode files for the index, all cores at once."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence

import msgspec

from agentrl.runtime import children
from agentrl.viewer import scan
from agentrl.viewer.scan import Job, Piece

# Below, processes would take longer to start than the reading takes.
_WORTH_BYTES = 2**26
_MOST = 4  # one writes what they read, and is busy then


def pieces(
    jobs: Sequence[Job], size: int
) -> Generator[tuple[int, Piece], None, None]:
  """The contents of the files of `jobs` in pieces, each with its job's number.

  Pieces of one file come in order.

  Args:
    jobs: files and what is known of them.
    size: bytes that there are to read, about.
  """
  count = min(os.cpu_count() or 1, _MOST, len(jobs))
  if count < 2 or size < _WORTH_BYTES:
    for number, job in enumerate(jobs):
      for piece in _pieces_of(job, scan.read):
        yield number, piece
  else:
    yield from _shared(jobs, count)


def _pieces_of(job: Job, read: Callable[[Job], Piece]) -> Iterator[Piece]:
  piece = read(job)
  yield piece
  while piece.more:
    assert piece.job is not None  # it says where to go on
    piece = read(piece.job)
    yield piece


class _Process:
  """A process of `scan`, which ends with this one: its input closes then."""

  def __init__(self):
    self._process = subprocess.Popen(
        [sys.executable, '-m', scan.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=children.environment(),
    )
    self._decoder = msgspec.msgpack.Decoder(Piece)

  def read(self, job: Job) -> Piece:
    """As `scan.read`.

    Raises:
      OSError: the process has ended.
    """
    self._process.stdin.write(msgspec.json.encode(job) + b'\n')
    self._process.stdin.flush()
    size = self._process.stdout.read(8)
    answer = self._process.stdout.read(int.from_bytes(size, 'big'))
    if len(size) < 8 or not answer:
      raise BrokenPipeError('A process that reads episodes has ended.')
    return self._decoder.decode(answer)

  def close(self) -> None:
    """Ends it."""
    self._process.kill()
    self._process.wait()
    self._process.stdin.close()
    self._process.stdout.close()


def _shared(jobs: Sequence[Job], count: int) -> Iterator[tuple[int, Piece]]:
  """The pieces as several processes read them, a thread for each."""
  waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
  for number in range(len(jobs)):
    waiting.put(number)
  # None or an error: a thread has ended.
  output: queue.Queue[tuple[int, Piece] | OSError | None] = queue.Queue(
      maxsize=2 * count
  )
  ended = threading.Event()

  def run(process: _Process) -> None:
    error = None
    try:
      while not ended.is_set():
        number = waiting.get_nowait()
        for piece in _pieces_of(jobs[number], process.read):
          output.put((number, piece))
    except queue.Empty:
      pass
    except OSError as caught:
      error = caught
    output.put(error)

  processes = [_Process() for _ in range(count)]
  threads = [
      threading.Thread(target=run, args=(x,), daemon=True) for x in processes
  ]
  for thread in threads:
    thread.start()
  working = count
  try:
    while working:
      item = output.get()
      if isinstance(item, OSError):
        raise item
      if item is None:
        working -= 1
      else:
        yield item
  finally:
    ended.set()
    for process in processes:
      process.close()
    while any(thread.is_alive() for thread in threads):  # none waits to put
      try:
        output.get(timeout=0.05)
      except queue.Empty:
        pass
