"""The sides of a comparison: what they have in common, and what differs."""

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agentrl.errors import PanelError
from agentrl.evaluation.compare.recorded import Recorded
from agentrl.evaluation.results import Panel

# Sections of an evaluation's config that shape an episode. What else does is
# recorded with the policy and the panel.
_SECTIONS = ('agent', 'rollout')
# Of a panel: equal by its hash, or about its tasks alone.
_IN_HASH = (
    'env', 'task_ids', 'subtasks', 'clusters', 'hash', 'data_version',
    'task_options',
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Side:
  """A side of a comparison: one policy, or several runs of one algorithm."""

  label: str
  runs: Sequence[Recorded]


class Setting(msgspec.Struct, frozen=True, kw_only=True):
  """A setting in which two sides differ.

  Attributes:
    a: label of the first side.
    b: label of the second.
    name: of the setting.
    value_a: of the first side; a list by run where its runs differ.
    value_b: likewise.
  """

  a: str
  b: str
  name: str
  value_a: Any
  value_b: Any


class Unpaired(msgspec.Struct, frozen=True, kw_only=True):
  """Tasks of an environment that only one of two sides has played.

  Attributes:
    env: name of the environment.
    a: label of the first side.
    b: label of the second.
    tasks: that all runs of both have, and that are compared.
    only_a: further ones of the first side.
    only_b: further ones of the second.
  """

  env: str
  a: str
  b: str
  tasks: int
  only_a: int
  only_b: int


def common_panels(a: Side, b: Side) -> tuple[dict[str, Panel], dict[str, str]]:
  """Panels that two sides have in common.

  Panels of different sizes have the tasks of both in common.

  Returns:
    The panels by environment, and of every environment that only one side has
    that side's label.

  Raises:
    PanelError: no environment is in common, or one was played on panels without
      a common task, or that differ in more than their tasks; says what differs.
  """
  runs = [*a.runs, *b.runs]
  names = {env: None for run in runs for env in run.panels}
  common, alone = {}, {}
  for env in names:
    have = [run for run in runs if env in run.panels]
    if len(have) == len(runs):
      for run in have[1:]:
        _check_panels(have[0], run, env)
      shared = set.intersection(
          *(set(run.panels[env].task_ids) for run in have)
      )
      if not shared:
        raise PanelError(
            f'{a.label} and {b.label} have no task of {env} in common. Evaluate'
            ' one again with the settings of the other.'
        )
      common[env] = have[0].panels[env].only(shared)
    else:
      sides = [s.label for s in (a, b) if any(env in r.panels for r in s.runs)]
      alone[env] = ' and '.join(sides)
  if not common:
    raise PanelError(
        f'{a.label} and {b.label} have no environment in common:'
        f' {_listed(a)} and {_listed(b)}. Evaluate both on one.'
    )
  return common, alone


def paired(side: Side, panels: Mapping[str, Panel]) -> Side:
  """The part of a side that was played on these panels, by `common_panels`."""
  runs = []
  for run in side.runs:
    own, episodes = dict(run.panels), dict(run.episodes)
    for env, panel in panels.items():
      tasks = set(panel.task_ids)
      own[env] = own[env].only(tasks)
      episodes[env] = {
          key: played
          for key, played in episodes[env].items()
          if key[0] in tasks
      }
    runs.append(dataclasses.replace(run, panels=own, episodes=episodes))
  return Side(side.label, runs)


def unpaired(a: Side, b: Side, panels: Mapping[str, Panel]) -> list[Unpaired]:
  """The panels, by `common_panels`, that are not all of what was played."""
  partial_panels = []
  for env, panel in panels.items():
    only_a, only_b = (
        len(
            set().union(*(run.panels[env].task_ids for run in side.runs))
            - set(panel.task_ids)
        )
        for side in (a, b)
    )
    if only_a or only_b:
      partial_panels.append(
          Unpaired(
              env=env,
              a=a.label,
              b=b.label,
              tasks=len(panel.task_ids),
              only_a=only_a,
              only_b=only_b,
          )
      )
  return partial_panels


def differing_settings(
    a: Side, b: Side, envs: Collection[str]
) -> list[Setting]:
  """Settings in which two sides differ: sampler, template, horizon, limits.

  Who was evaluated (source and weights) is no setting.

  Args:
    a: the first side.
    b: the second.
    envs: environments that both have.
  """
  first, second = _settings(a, envs), _settings(b, envs)
  return [
      Setting(
          a=a.label,
          b=b.label,
          name=name,
          value_a=first.get(name),
          value_b=second.get(name),
      )
      for name in sorted(first.keys() | second.keys())
      if first.get(name) != second.get(name)
  ]


def _settings(side: Side, envs: Collection[str]) -> dict[str, Any]:
  """Values by name; a list by run where the runs of a side differ."""
  runs = [_settings_of(run, envs) for run in side.runs]
  settings = {}
  for name in dict.fromkeys(name for run in runs for name in run):
    values = [run.get(name) for run in runs]
    same = all(value == values[0] for value in values)
    settings[name] = values[0] if same else values
  return settings


def _settings_of(run: Recorded, envs: Collection[str]) -> dict[str, Any]:
  settings: dict[str, Any] = {'template': run.policy.template}
  settings |= _flat(run.policy.sampler, 'sampler.')
  for section in _SECTIONS:
    settings |= _flat(run.config.get(section, {}), f'{section}.')
  for env in envs:
    values = msgspec.to_builtins(run.panels[env])
    values = {k: v for k, v in values.items() if k not in _IN_HASH}
    settings |= _flat(values, f'{env}.')
  return settings


def _flat(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
  leaves: dict[str, Any] = {}
  for name, value in values.items():
    if isinstance(value, Mapping) and value:
      leaves |= _flat(value, f'{prefix}{name}.')
    else:
      leaves[prefix + name] = value
  return leaves


def _check_panels(a: Recorded, b: Recorded, env: str) -> None:
  """Refuses two panels of an environment that do not compare in pairs."""
  first, second = a.panels[env], b.panels[env]
  versions = first.data_version, second.data_version
  if versions[0] != versions[1]:
    older, newer = sorted(versions)
    stale = a if versions[0] == older else b
    raise PanelError(
        f'{a.directory} and {b.directory} played other tasks of {env} under the'
        f' same ids: data_version {versions[0]} and {versions[1]}. Evaluate'
        f' {stale.policy.name} of {stale.directory} again, with an agentrl'
        f' whose {env} has version {newer}.'
    )
  same_tasks = first.task_ids == second.task_ids
  differ = list(_panel_differences(first, second))
  if first.hash != second.hash and (differ or same_tasks):
    raise PanelError(
        f'{a.directory} and {b.directory} have different panels of {env}:'
        f' {"; ".join(differ) or "options that give ids their meaning"}.'
        ' Evaluate one again with the settings of the other.'
    )
  shared = set(first.task_ids) & set(second.task_ids)
  parts = [panel.only(shared) for panel in (first, second)]
  kinds = [
      {
          task: (subtask, panel.clusters and panel.clusters[i])
          for i, (task, subtask) in enumerate(
              zip(panel.task_ids, panel.subtasks, strict=True)
          )
      }
      for panel in parts
  ]
  if kinds[0] != kinds[1]:
    raise PanelError(
        f'{a.directory} and {b.directory} sort the same tasks of {env} into'
        ' different subtasks or templates: other versions of the environment'
        ' wrote them. Evaluate one again.'
    )


def _panel_differences(first: Panel, second: Panel) -> Iterator[str]:
  """The settings in which pairs of equal tasks differ."""
  for name in ('samples', 'attempts', 'seed'):
    ours, theirs = getattr(first, name), getattr(second, name)
    if ours != theirs:
      yield f'{name} {ours!r} and {theirs!r}'
  names = ('task_options', 'options')
  name = names[first.task_options is None or second.task_options is None]
  ours, theirs = getattr(first, name), getattr(second, name)
  if ours != theirs:
    yield f'{name.replace("_", " ")} {ours!r} and {theirs!r}'


def _listed(side: Side) -> str:
  return ', '.join(dict.fromkeys(e for run in side.runs for e in run.panels))
