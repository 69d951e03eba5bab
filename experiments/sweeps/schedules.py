"""Schedules of the horizon before a run: their turns on another's metrics."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentrl import metrics as metrics_lib, schedules
from agentrl.config.sections import HorizonOptions
from agentrl.errors import ConfigError
from agentrl.types import Turns

Lines = Sequence[Mapping[str, float]]


class Simulated(NamedTuple):
  """A schedule on a trace.

  Attributes:
    name: of the cell.
    turns: of each step.
    missing: metrics that it asked for and no line has.
  """

  name: str
  turns: list[int | Turns]
  missing: list[str]

  def __str__(self) -> str:
    """In words, where it changes."""
    parts = []
    for step, turns in enumerate(self.turns):
      if not step or turns != self.turns[step - 1]:
        parts.append(f'{_text(turns)} from step {step}')
    text = f'{self.name}: {", ".join(parts)}'
    if self.missing:
      text += f' (the trace has no {", ".join(self.missing)})'
    return text


def read(workdir: pathlib.Path) -> Lines:
  """The metrics of the run that gives the trace.

  Raises:
    ConfigError: it has none.
  """
  path = workdir / 'metrics.jsonl'
  try:
    lines = list(metrics_lib.read(path))
  except OSError as error:
    raise ConfigError(f'--trace={workdir} is no run: {error}') from error
  if not lines:
    raise ConfigError(f'--trace={workdir}: {path} has no step.')
  return lines


def simulate(name: str, config: Mapping[str, Any], trace: Lines) -> Simulated:
  """The turns of each step if its metrics were those of the trace.

  That is an assumption: a longer horizon would change success. Beyond the end
  of the trace its last line is repeated.

  Args:
    name: of the cell.
    config: its record.
    trace: lines of `metrics.jsonl`, at least one.

  Raises:
    ConfigError: the config has no horizon, or one for each of several members.
  """
  if 'horizon' not in config or config.get('mixture'):
    raise ConfigError(
        f'Cell {name} has no horizon of its own: --trace is for mode train with'
        ' one environment.'
    )
  fields = config['horizon']
  options = HorizonOptions(**fields | {'turns': tuple(fields['turns'])})
  schedule = schedules.make(options)
  asked: set[str] = set()
  state, stats, turns = schedule.init(), _Asked({}, asked), []
  for step in range(config['num_steps']):
    state, now = schedule.update(state, step, stats)
    turns.append(now)
    stats = _Asked(trace[min(step, len(trace) - 1)], asked)
  known = {key for line in trace for key in line}
  return Simulated(name, turns, sorted(asked - known))


class _Asked(dict):
  """Metrics that note which of them were asked for."""

  def __init__(self, values: Mapping[str, float], asked: set[str]):
    super().__init__(values)
    self._asked = asked

  def get(self, key, default=None):
    self._asked.add(key)
    return super().get(key, default)


def _text(turns: int | Turns) -> str:
  if isinstance(turns, Turns):
    return f'{turns.low} to {turns.high} turns'
  return f'{turns} turns'
