"""One writer for what a run measures: JSONL, TensorBoard, a progress line."""

import json
import math
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence

import rich.console
import rich.progress


class Writer:
  """Writes one line of metrics a step, and shows how the run goes.

  `metrics.jsonl` has exactly one line a step: a resumed run first moves the
  lines beyond its checkpoint aside with `discard_from`.
  """

  def __init__(
      self,
      directory: pathlib.Path,
      *,
      filename: str = 'metrics.jsonl',
      tensorboard: bool = True,
      prefix: str = '',
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
      tensorboard: also write event files under `tensorboard/`.
      prefix: of the TensorBoard tags, to keep two phases apart.
      total: steps of the whole run, for the time left.
      start: steps done before this process.
      shown: metrics that the progress line shows.
      show_every: steps between such lines.
      console: where it is shown.
    """
    self._path = directory / filename
    self._file = open(self._path, 'a', encoding='utf-8')
    self._tensorboard = None
    if tensorboard:
      self._tensorboard = _import_tensorboard().SummaryWriter(
          str(directory / 'tensorboard')
      )
    self._prefix = prefix
    self._total, self._start = total, start
    self._shown, self._show_every = shown, show_every
    self._console = console or rich.console.Console()
    self._began = time.monotonic()

  def write(self, step: int, values: Mapping[str, float]) -> None:
    """Records the metrics of step `step`, counted from 0."""
    line = {'step': step, 'time': time.time(), **values}
    self._file.write(json.dumps(line, allow_nan=True) + '\n')
    self._file.flush()
    self._add_scalars(step, values)
    if (step + 1) % self._show_every and step + 1 < self._total:
      return
    done = step + 1 - self._start
    left = (time.monotonic() - self._began) / done * (self._total - step - 1)
    parts = [f'{step + 1}/{self._total}']
    parts += [
        f'{name.rpartition("/")[2]} {values[name]:.3g}'
        for name in self._shown
        if name in values
    ]
    parts.append(f'ETA {duration(left)}')
    self._console.print('  '.join(parts), highlight=False)

  def amend(self, values: Mapping[str, float]) -> None:
    """Adds to the last step's line what was measured after it."""
    lines = self._path.read_text(encoding='utf-8').splitlines(keepends=True)
    # None is there if somebody took the file away.
    last = json.loads(lines.pop()) if lines else {'step': self._start - 1}
    line = json.dumps(last | values, allow_nan=True) + '\n'
    # At once, so that a kill leaves a line and not a part of it.
    _replace(self._path, ''.join([*lines, line]))
    self._file.close()
    self._file = open(self._path, 'a', encoding='utf-8')
    self._add_scalars(last['step'], values)

  def _add_scalars(self, step: int, values: Mapping[str, float]) -> None:
    if self._tensorboard is None:
      return
    for name, value in values.items():
      if math.isfinite(value):
        self._tensorboard.add_scalar(self._prefix + name, value, step)

  def close(self) -> None:
    self._file.close()
    if self._tensorboard is not None:
      self._tensorboard.close()


def _import_tensorboard():
  """Imports tensorboardX as it is without torch.

  Where there is torch it imports it, for types that are not written here: two
  seconds of every start.
  """
  hidden = 'torch' not in sys.modules
  if hidden:
    sys.modules['torch'] = None
  try:
    import tensorboardX
  finally:
    if hidden:
      del sys.modules['torch']
  return tensorboardX


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
  half a line; a resume does those steps again.

  Returns:
    How many lines were moved.
  """
  if not path.exists():
    return 0
  kept, moved = [], []
  for line in path.read_text(encoding='utf-8').splitlines():
    try:
      beyond = json.loads(line)['step'] >= step
    except (json.JSONDecodeError, KeyError, TypeError):
      beyond = True  # the line that the kill cut in half
    (moved if beyond else kept).append(line + '\n')
  if moved:
    discarded = path.with_name(path.name + '.discarded')
    with open(discarded, 'a', encoding='utf-8') as file:
      file.writelines(moved)
    _replace(path, ''.join(kept))
  return len(moved)


def _replace(path: pathlib.Path, text: str) -> None:
  partial = path.with_name(path.name + '.tmp')
  partial.write_text(text, encoding='utf-8')
  partial.replace(path)
