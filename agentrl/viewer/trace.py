r"""When a run did what, from its records: who waited for whom.

    python -m agentrl.viewer.trace runs/textcraft > trace.json

writes the trace of a whole run, which https://ui.perfetto.dev and chrome://tracing
open. Nothing has to be switched on for it: turns say when they began, and the lines
of metrics how long the parts of their steps took.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentrl import metrics
from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.types import Episode

# Parts of a step in their order, as `time/NAME_s`.
_PARTS = ('collect', 'teach', 'update', 'push')
# Between two steps: the evaluation and the checkpoint that came then.
BETWEEN = 'between'
SAMPLER, ENVIRONMENT = 'sampler', 'environment'
_LEARNER, _EPISODES = 1, 2  # processes of a trace


@dataclasses.dataclass(frozen=True)
class Span:
  """Something that was going on from one moment to another.

  Attributes:
    what: a part of a step; or `SAMPLER`, `ENVIRONMENT`, of a turn.
    start: in seconds since 1970.
    stop: likewise.
    step: of the learner; of a turn, its number in the episode.
  """

  what: str
  start: float
  stop: float
  step: int


def of_learner(lines: Iterable[Mapping[str, float]]) -> Iterator[Span]:
  """The parts of each step, from its line of metrics.

  With `rollout.ahead`, 'collect' is the time for which the learner had to wait.
  """
  before = None
  for line in lines:
    step, end = int(line['step']), line['time']
    parts = [(name, line.get(f'time/{name}_s', 0.0)) for name in _PARTS]
    # The line is written right after the last part.
    start = end - sum(seconds for _, seconds in parts)
    if before is not None and start > before:
      yield Span(BETWEEN, before, start, step)
    for name, seconds in parts:
      if seconds > 0:
        yield Span(name, start, start + seconds, step)
        start += seconds
    before = end


def of_episode(episode: Episode) -> Iterator[Span]:
  """The two halves of each turn; none of a turn that does not say when it was."""
  for number, turn in enumerate(episode.turns):
    if turn.began is None:
      continue
    answered = turn.began + turn.sampler_s
    yield Span(SAMPLER, turn.began, answered, number)
    if turn.env_s > 0:
      yield Span(ENVIRONMENT, answered, answered + turn.env_s, number)


def lanes(intervals: Sequence[tuple[float, float]]) -> list[int]:
  """A lane for each interval, so that those of a lane do not overlap.

  As few lanes as there are intervals at one time.

  Args:
    intervals: (start, stop), in any order.
  """
  free: list[float] = []  # when each lane is free again
  found = [0] * len(intervals)
  for index in sorted(range(len(intervals)), key=intervals.__getitem__):
    start, stop = intervals[index]
    lane = next((i for i, end in enumerate(free) if end <= start), len(free))
    free[lane : lane + 1] = [stop]
    found[index] = lane
  return found


def trace(
    lines: Iterable[Mapping[str, float]], episodes: Iterable[Episode]
) -> dict[str, Any]:
  """The events of a run in the Trace Event Format; times in microseconds.

  Args:
    lines: of metrics.
    episodes: of the run; tokens are not needed.
  """
  events = [
      _event(span, _LEARNER, 0, f'{span.what} {span.step + 1}')
      for span in of_learner(lines)
  ]
  played = [(e, spans) for e in episodes if (spans := [*of_episode(e)])]
  rows = lanes([(spans[0].start, spans[-1].stop) for _, spans in played])
  for (episode, spans), row in zip(played, rows, strict=True):
    whole = Span(episode.env, spans[0].start, spans[-1].stop, 0)
    about = {
        'task': episode.task_id,
        'stop_reason': episode.stop_reason,
        'return': episode.episode_return,
        'policy_version': episode.policy_version,
        'seed': episode.seed,
    }
    events.append(_event(whole, _EPISODES, row, episode.episode_id, **about))
    for span in spans:
      turn = episode.turns[span.step]
      events.append(
          _event(
              span,
              _EPISODES,
              row,
              span.what,
              turn=span.step + 1,
              tokens=turn.completion_tokens,
              weight_version=turn.weight_version,
          )
      )
  names = ((_LEARNER, 'learner'), (_EPISODES, 'episodes'))
  meta = [
      {'name': 'process_name', 'ph': 'M', 'pid': pid, 'args': {'name': name}}
      for pid, name in names
  ]
  return {'traceEvents': meta + events, 'displayTimeUnit': 'ms'}


def of_run(workdir: pathlib.Path) -> dict[str, Any]:
  """The trace of a run.

  Raises:
    OSError: it has no metrics.
    DataError: a file of episodes cannot be read.
  """
  return trace(metrics.read(workdir / 'metrics.jsonl'), episodes_of(workdir))


def episodes_of(workdir: pathlib.Path) -> Iterator[Episode]:
  """All episodes of a run, those of evaluations included.

  Raises:
    DataError: a file of episodes cannot be read.
  """
  for path in sorted((workdir / 'episodes').glob('*/*.jsonl')):
    yield from episodes_lib.read(path)


def _event(
    span: Span, process: int, row: int, name: str, **about: Any
) -> dict[str, Any]:
  return {
      'name': name,
      'cat': span.what,
      'ph': 'X',
      'ts': round(1e6 * span.start),
      'dur': round(1e6 * (span.stop - span.start)),
      'pid': process,
      'tid': row,
      'args': about,
  }


def main() -> None:
  """Prints the trace of the run that the command line names."""
  parser = argparse.ArgumentParser(description='Prints the trace of a run.')
  parser.add_argument('workdir', type=pathlib.Path, help='of the run')
  workdir = parser.parse_args().workdir
  try:
    trace = of_run(workdir)
  except (OSError, DataError) as error:
    sys.exit(f'{workdir} has no trace: {error}')
  json.dump(trace, sys.stdout)


if __name__ == '__main__':
  main()
