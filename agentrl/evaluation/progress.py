"""Progress of an evaluation: a bar on a terminal, lines at times in a pipe."""

import time
from collections.abc import Callable

import rich.console

from agentrl import metrics

_FIRST_S = (
    5.0  # until the first line in a pipe; the next ones take twice as long
)
_MOST_S = 60.0  # between two lines


class Progress:
  """Episodes played of all, with the time left.

  with Progress(console, 'expert on babyai', 256, done=40) as progress:
    progress.advance()
  """

  def __init__(
      self,
      console: rich.console.Console,
      title: str,
      total: int,
      *,
      done: int = 0,
      clock: Callable[[], float] = time.monotonic,
  ):
    """Keeps the settings.

    Args:
      console: where it is shown.
      title: of the bar, or of the lines.
      total: episodes.
      done: those that an earlier process has played.
      clock: gives seconds.
    """
    self._console = console
    self._title = title
    self._total = total
    self._before = self._done = done
    self._clock = clock
    self._bar = metrics.progress(console)
    self._task = self._bar.add_task(title, total=total, completed=done)

  def __enter__(self) -> 'Progress':
    self._bar.start()
    self._start = self._clock()
    self._pause = _FIRST_S
    self._next = self._start + self._pause
    return self

  def __exit__(self, *exc_info) -> None:
    self._bar.stop()

  def advance(self) -> None:
    """Counts one more episode."""
    self._done += 1
    self._bar.advance(self._task)
    now = self._clock()
    if self._console.is_terminal or now < self._next:
      return
    self._pause = min(2 * self._pause, _MOST_S)
    self._next = now + self._pause
    # By the speed of this process alone.
    left = (now - self._start) / (self._done - self._before)
    left *= self._total - self._done
    self._console.print(
        f'{self._title}: {100 * self._done // self._total}%,'
        f' {self._done} of {self._total} episodes,'
        f' ETA {metrics.duration(left)}',
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
