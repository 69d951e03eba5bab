"""Policies of finished evaluations, with the outcome of every episode."""

import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.data import episodes as episodes_lib
from agentrl.errors import ConfigError, DataError
from agentrl.evaluation import journal, report, results as results_lib
from agentrl.evaluation.results import Panel, PolicyRecord, Results
from agentrl.types import Episode

# Task and episode of it. Attempts follow each other: those after the first have
# the numbers after the samples.
Key = tuple[int, int]


class Played(NamedTuple):
  """Outcome of one episode; None where the infrastructure failed it."""

  episode_id: str
  success: float | None
  ret: float | None
  progress: float | None  # None, too, where the environment reports none


@dataclasses.dataclass(frozen=True)
class Recorded:
  """One policy of an evaluation.

  Attributes:
    directory: workdir of the evaluation.
    policy: who was evaluated.
    config: of the evaluation.
    panels: by environment.
    episodes: by environment, then by task and sample.
  """

  directory: pathlib.Path
  policy: PolicyRecord
  config: Mapping[str, Any]
  panels: Mapping[str, Panel]
  episodes: Mapping[str, Mapping[Key, Played]]


def read(specs: Sequence[str]) -> list[list[Recorded]]:
  """The policies that each of `specs` names, with their episodes.

  Args:
    specs: `DIR`, all policies of the evaluation in this workdir, or
      `DIR:POLICY`, one of them.

  Raises:
    ConfigError: a policy is unknown, or named twice.
    DataError: an evaluation is unfinished, damaged or of another format, or its
      episodes are not those of its panels.
  """
  by_spec: list[list[tuple[pathlib.Path, Results, PolicyRecord]]] = []
  seen = set()
  for spec in specs:
    directory, name = _parse(spec)
    evaluation = results_lib.read(directory)
    chosen = _choose(evaluation, directory, name)
    by_spec.append([(directory, evaluation, policy) for policy in chosen])
    for policy in chosen:
      key = directory.resolve(), policy.name
      if key in seen:
        raise ConfigError(
            f'Policy {policy.name!r} of {directory} is named twice; leave one'
            ' out, or name others of its policies as DIR:POLICY.'
        )
      seen.add(key)
  # Episodes take longest to read: not before all names are known to be right.
  return [[_record(*policy) for policy in policies] for policies in by_spec]


def labels(policies: Sequence[Recorded]) -> list[str]:
  """Names by which a report tells policies apart, as short as possible."""
  ways = (
      lambda x: x.policy.name,
      lambda x: f'{x.directory.name}:{x.policy.name}',
      lambda x: f'{x.directory.parent.name}/{x.directory.name}:{x.policy.name}',
      lambda x: f'{x.directory.absolute()}:{x.policy.name}',
  )
  for way in ways[:-1]:
    names = [way(policy) for policy in policies]
    if len(set(names)) == len(names):
      return names
  return [ways[-1](policy) for policy in policies]


def _parse(spec: str) -> tuple[pathlib.Path, str | None]:
  """Workdir and policy; a folder may have a colon in its name."""
  head, colon, tail = spec.rpartition(':')
  if not colon or pathlib.Path(spec).is_dir():
    return pathlib.Path(spec), None
  return pathlib.Path(head), tail


def _choose(
    evaluation: Results, directory: pathlib.Path, name: str | None
) -> list[PolicyRecord]:
  chosen = [p for p in evaluation.policies if name in (None, p.name)]
  if not chosen:
    names = ', '.join(p.name for p in evaluation.policies)
    raise ConfigError(
        f'The evaluation in {directory} has no policy {name!r}; it has {names}.'
    )
  return chosen


def _record(
    directory: pathlib.Path, evaluation: Results, policy: PolicyRecord
) -> Recorded:
  panels = {panel.env: panel for panel in evaluation.panels}
  return Recorded(
      directory=directory,
      policy=policy,
      config=evaluation.config,
      panels=panels,
      episodes={
          env: _episodes(
              results_lib.episodes_path(directory, policy.name, env), panel
          )
          for env, panel in panels.items()
      },
  )


def _episodes(path: pathlib.Path, panel: Panel) -> dict[Key, Played]:
  """The episodes of a panel, in its order."""
  again = 'Evaluate again with the same command and --workdir.'
  for names in (panel.subtasks, panel.clusters):
    if names is not None and len(names) != len(panel.task_ids):
      raise DataError(
          f'The panel of {panel.env} beside {path} has {len(names)} subtasks or'
          f' templates for {report.counted(len(panel.task_ids), "task")}.'
          f' {again}'
      )
  if not path.is_file():
    raise DataError(
        f'{path} is missing, the episodes of an evaluation. {again}'
    )

  def refuse(broken: DataError) -> None:
    raise DataError(
        f'{broken}: half a line of a process that was killed, or a damaged'
        ' one. The same evaluate command with the same --workdir repairs it:'
        ' that episode is played again.'
    ) from broken

  outcomes: dict[Key, Played] = {}
  counts: collections.Counter[Key] = collections.Counter()
  for episode in episodes_lib.read(path, on_broken=refuse):
    key = pair_key(panel, journal.key(episode))
    outcomes[key] = outcome_of(episode)
    counts[key] += 1
  expected = list(
      itertools.product(panel.task_ids, range(panel.samples * panel.attempts))
  )
  if counts != collections.Counter(expected):
    lacking = [key for key in expected if key not in outcomes]
    foreign = sorted(outcomes.keys() - set(expected))
    twice = [key for key, count in counts.items() if count > 1]
    raise DataError(
        f'{path} does not hold the episodes of its panel, as (task, sample):'
        f' {len(lacking)} of {len(expected)} lack {lacking[:3]},'
        f' {len(foreign)} are foreign {foreign[:3]}, {len(twice)} are there'
        f' more than once {twice[:3]}. {again}'
    )
  return {key: outcomes[key] for key in expected}


def pair_key(panel: Panel, key: journal.Key) -> Key:
  """The key of an episode by its task, sample and attempt."""
  task, sample, attempt = key
  return task, attempt * panel.samples + sample


def outcome_of(episode: Episode) -> Played:
  """The outcome of an episode; None throughout where it is not valid."""
  if not episode.valid:
    return Played(episode.episode_id, None, None, None)
  return Played(
      episode.episode_id,
      float(episode.success),
      episode.episode_return,
      episode.progress,
  )
