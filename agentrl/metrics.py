"""Writer of a run's metrics: JSON lines, trackers, a progress line."""

import json
import math
import os
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence

import rich.console
import rich.progress
from absl import logging

from agentrl import files
from agentrl.errors import DataError
from agentrl.trackers import Tracker

_COLUMN = 9  # characters of a number in a progress line
_HEADER_EVERY = 20  # progress lines below one line of names


class Writer:
  """Writes one line of metrics a step, and shows how the run goes.

  `metrics.jsonl` has exactly one line a step: a resumed run first moves the
  lines beyond its checkpoint aside with `discard_from`. A metric that is not
  finite is null there.
  """

  def __init__(
      self,
      directory: pathlib.Path,
      *,
      filename: str = 'metrics.jsonl',
      prefix: str = '',
      trackers: Sequence[Tracker] = (),
      total: int,
      start: int = 0,
      shown: Sequence[str] = (),
      show_every: int = 1,
      console: rich.console.Console | None = None,
  ):
    """Opens the files.

    Args:
      directory: the workdir.
      filename: of the JSON lines.
      prefix: of the names in trackers, to keep two phases apart.
      trackers: where the metrics go as well; they outlive the writer.
      total: steps of the whole run, for the time left.
      start: steps done before this process.
      shown: metrics that the progress line shows.
      show_every: steps between such lines.
      console: where it is shown.
    """
    self._path = directory / filename
    self._file = open(self._path, 'a', encoding='utf-8')
    self._tracked = [t.start(directory, prefix, start) for t in trackers]
    self._total, self._start = total, start
    self._shown, self._show_every = shown, show_every
    self._console = console or rich.console.Console()
    # When the first step, which compiles, was done.
    self._after_first: float | None = None
    self._lines = 0  # of progress that were shown
    if start < total:
      self._console.print(
          f'Step {start + 1} of {total} compiles its programs first.',
          highlight=False,
      )

  def write(self, step: int, values: Mapping[str, float]) -> None:
    """Records the metrics of step `step`, counted from 0.

    Returns when they would survive a SIGKILL.

    Raises:
      DataError: the file is not where it was opened any more.
    """
    line = {'step': step, 'time': time.time(), **values}
    self._check_place()
    self._file.write(_text(line))
    self._file.flush()
    self._track(step, values)
    now = time.monotonic()
    if self._after_first is None:
      self._after_first = now
    if (step + 1) % self._show_every and step + 1 < self._total:
      return
    left = '-'
    if timed := step - self._start:
      seconds = (now - self._after_first) / timed
      left = duration(seconds * (self._total - step - 1))
    texts = [f'{step + 1}/{self._total}']
    for name in self._shown:
      texts.append(f'{values[name]:.3g}' if name in values else '-')
    if not self._lines % _HEADER_EVERY:
      self._print(['step', *map(_short, self._shown), 'ETA'])
    self._lines += 1
    self._print([*texts, left])

  def _print(self, texts: Sequence[str]) -> None:
    """Prints a line whose columns stand below those of the other lines."""
    first = max(len('step'), 2 * len(str(self._total)) + 1)
    widths = [max(len(_short(x)), _COLUMN) for x in self._shown]
    cells = zip(texts, [first, *widths, _COLUMN], strict=True)
    line = ' '.join(f'{text:>{width}}' for text, width in cells)
    self._console.print(line, highlight=False, soft_wrap=True)

  def amend(self, values: Mapping[str, float]) -> None:
    """Adds to the last step's line what was measured after it.

    Raises:
      DataError: as `write`.
    """
    self._check_place()
    lines = self._path.read_text(encoding='utf-8').splitlines(keepends=True)
    # The file is empty if its lines were removed.
    last = json.loads(lines.pop()) if lines else {'step': self._start - 1}
    # At once, so that a kill leaves a line and not a part of it.
    text = ''.join([*lines, _text({**last, **values})])
    files.write_whole(self._path, text)
    self._file.close()
    self._file = open(self._path, 'a', encoding='utf-8')
    self._track(last['step'], values)

  def _track(self, step: int, values: Mapping[str, float]) -> None:
    for write in self._tracked:
      write(step, values)

  def close(self) -> None:
    self._file.close()

  def _check_place(self) -> None:
    """Lines written to a file that was deleted would be lost in silence."""
    try:
      same = os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
    except FileNotFoundError:
      same = False
    if not same:
      raise DataError(
          f'{self._path} was deleted or replaced while the run wrote to it.'
      )


def read(path: pathlib.Path) -> Iterator[dict[str, float]]:
  """Yields the lines of a file of metrics, without what was not finite.

  Raises:
    OSError: the file cannot be read.
  """
  with path.open(encoding='utf-8') as file:
    for line in map(json.loads, file):
      yield {name: x for name, x in line.items() if _is_finite(x)}


def _is_finite(value: float | None) -> bool:
  return value is not None and math.isfinite(value)


def _text(line: Mapping[str, float | None]) -> str:
  """A line of JSON, which has no NaN and no infinity: null stands for them."""
  finite = {name: x if _is_finite(x) else None for name, x in line.items()}
  return json.dumps(finite, allow_nan=False) + '\n'


def _short(name: str) -> str:
  """`rollout/return_mean` as `return`: what fits a line."""
  name = name.rpartition('/')[2].removesuffix('_mean').removesuffix('_norm')
  return 's' if name == 'step_s' else name


def duration(seconds: float) -> str:
  """`75` as `1:15`, `3700` as `1:01:40`."""
  minutes, seconds = divmod(int(seconds + 0.5), 60)
  hours, minutes = divmod(minutes, 60)
  if hours:
    return f'{hours}:{minutes:02d}:{seconds:02d}'
  return f'{minutes}:{seconds:02d}'


def progress(console: rich.console.Console) -> rich.progress.Progress:
  """A bar for a phase of known length; silent where there is no terminal."""
  return rich.progress.Progress(
      rich.progress.TextColumn('{task.description}'),
      rich.progress.BarColumn(),
      rich.progress.MofNCompleteColumn(),
      rich.progress.TimeRemainingColumn(),
      console=console,
      transient=True,
      disable=not console.is_terminal,
  )


def discard_from(path: pathlib.Path, step: int) -> int:
  """Moves the lines of step `step` and later to `<name>.discarded`.

  A run that was killed wrote lines beyond its last checkpoint, and perhaps
  half a line; a resume does those steps again. Lines that are missing before
  are logged.

  Returns:
    How many lines were moved.

  Raises:
    DataError: a line of an earlier step, but the last one of the file, is
      damaged, which no kill does.
  """
  if not path.exists():
    return 0
  kept: list[bytes] = []
  moved: list[bytes] = []
  coming = 0  # the step of the next line
  missing: list[int] = []
  lines = path.read_bytes().splitlines()
  for number, line in enumerate(lines, start=1):
    try:
      found = int(json.loads(line)['step'])
    except (ValueError, KeyError, TypeError) as error:
      if coming < step and number < len(lines):
        raise DataError(
            f'Line {number} of {path} is damaged ({error}). Put the file back,'
            ' or delete the line: the run goes on without it.'
        ) from error
      found = step  # the line that the kill cut in half
    missing += range(coming, min(found, step))
    coming = max(found + 1, coming)
    (moved if found >= step else kept).append(line + b'\n')
  missing += range(coming, step)
  if missing:
    logging.warning(
        '%s has no line of %d of the %d steps that were done, such as %d.',
        *(path, len(missing), step, missing[0]),
    )
  if moved:
    discarded = path.with_name(path.name + '.discarded')
    with open(discarded, 'ab') as file:
      file.writelines(moved)
    files.write_whole(path, b''.join(kept))
  return len(moved)
