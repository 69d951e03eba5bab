"""Evaluations that can be compared: of mode 'evaluate', and those of a run.

A run that learns evaluates on one fixed panel before, between and after its
steps. Its episodes and its config say what an `evaluation.json` would, so both
kinds compare by the same functions, and with each other.
"""

import functools
import json
import pathlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agentrl import envs
from agentrl.data import episodes as episodes_lib
from agentrl.envs.spec import EnvSpec
from agentrl.errors import AgentrlError, DataError
from agentrl.evaluation import journal, results
from agentrl.evaluation.compare import recorded
from agentrl.evaluation.compare.recorded import Recorded
from agentrl.evaluation.results import Panel, PolicyRecord
from agentrl.evaluation.workdirs import files, folders, run_config
from agentrl.rollout import seeds
from agentrl.types import Episode

_EPISODES = 'episodes'
# Folders of a run's evaluations -> what their panel is called in labels.
_PANELS = {'eval': '', 'eval_small': 'small panel, '}
# What changes when a run or an evaluation has others.
_LISTED = (results.FILE, *(f'{_EPISODES}/{kind}' for kind in _PANELS))
_TICK_NS = 100_000_000  # more than any file system's
# Sections of a config that shape an evaluation.
_SECTIONS = ('env', 'eval', 'agent', 'rollout')
_NEEDED = (('env', 'name'), ('env', 'options'), ('eval', 'seed'))
# 'untrained' or the steps before; a mixture has a file for each member.
_STEM = re.compile(r'(?P<step>untrained|\d+)(-(?P<member>.+))?')


class Evaluated(NamedTuple):
  """A policy on a panel, as it can be chosen.

  Attributes:
    spec: `RUN:NAME`; the name of a policy, or of an episode file of a run, such
      as `eval/000010`.
    run: its run or evaluation.
    label: in words: a policy's name, or after which steps.
    step: steps of the run before it, -1 for the untrained policy; None: not of
      a run that learns.
    panel: which of the panels of a run; '' of an evaluation.
    file: its episodes, by path in the run; None: one for each environment.
    kind: of the policy, see `results.PolicyRecord`.
  """

  spec: str
  run: str
  label: str
  step: int | None
  panel: str
  file: str | None
  kind: str = 'model'


def find(root: pathlib.Path, run: str) -> list[Evaluated]:
  """All that a run or an evaluation has, in order."""
  stamp = folders.stamp_of(root / run, _LISTED)
  # A folder may change again within the tick of its clock: not kept until then.
  newest = max((changed for _, changed, _ in stamp), default=0)
  if time.time_ns() - newest < _TICK_NS:
    return _find(root, run)
  return list(_found(root, run, stamp))


@functools.lru_cache(16_384)
def _found(
    root: pathlib.Path, run: str, stamp: tuple[Any, ...]
) -> tuple[Evaluated, ...]:
  del stamp  # another one where its files are others
  return tuple(_find(root, run))


def _find(root: pathlib.Path, run: str) -> list[Evaluated]:
  folder = root / run
  if (folder / results.FILE).is_file():
    try:
      policies = results.read(folder).policies
    except DataError:
      return []  # damaged: choosing it by name says how
    return [
        Evaluated(f'{run}:{x.name}', run, x.name, None, '', None, x.kind)
        for x in policies
    ]
  evaluations = []
  for kind in _PANELS:
    for path in (folder / _EPISODES / kind).glob('*.jsonl'):
      name = f'{kind}/{path.stem}'
      if (parsed := _parse(name)) is not None:
        step, member = parsed
        evaluations.append(
            Evaluated(
                spec=f'{run}:{name}',
                run=run,
                label=describe(name),
                step=step,
                panel=f'{kind}/{member}' if member else kind,
                file=_file(name),
            )
        )
  return sorted(evaluations, key=lambda x: (x.panel, x.step))


def describe(name: str) -> str:
  """An evaluation of a run in words: its panel, and after which steps."""
  parsed = _parse(name)
  assert parsed is not None  # it names an evaluation
  step, member = parsed
  when = 'untrained' if step < 0 else f'after step {step}' if step else 'before'
  return ''.join((
      _PANELS[name.partition('/')[0]], f'{member}, ' if member else '', when
  ))  # fmt: skip


def meanings(root: pathlib.Path, evaluated: Evaluated) -> dict[str, str]:
  """By environment, the options and version under which ids name its tasks.

  Equal ones name equal tasks; nothing else of two panels need be equal.

  Args:
    root: folder of all.
    evaluated: by `find`, so that its names lead to no other place.

  Raises:
    AgentrlError: it cannot be read.
  """
  folder = root / evaluated.run
  if evaluated.file is None:
    return {p.env: meaning(p) for p in results.read(folder).panels}
  first = _first_line(folder / evaluated.file)
  parsed = _parse(evaluated.spec.rpartition(':')[2])
  assert parsed is not None  # it names an evaluation
  env = _config(folder, parsed[1])['env']
  options = _task_options(envs.get(env['name']), env['options'])
  return {first.env: _meaning(options, first.data_version)}


class _Line(msgspec.Struct):
  """The fields of an episode line that give its task id a meaning."""

  env: str
  data_version: int = 1


_line_decoder = msgspec.json.Decoder(_Line)


def _first_line(path: pathlib.Path) -> _Line:
  """The first episode of a file; the others need not be read for these fields."""
  try:
    with path.open('rb') as file:
      line = next((x for x in file if x.strip()), None)
    if line is None:
      raise DataError(f'{path.name} holds no episode.')
    return _line_decoder.decode(line)
  except (OSError, ValueError, RecursionError) as error:
    raise DataError(f'{path.name} cannot be read: {error}') from error


def meaning(panel: Panel) -> str:
  """The options and version under which a panel's ids name its tasks."""
  options = panel.task_options
  return _meaning(
      panel.options if options is None else options, panel.data_version
  )


def _meaning(options: Mapping[str, Any], data_version: int) -> str:
  return json.dumps([options, data_version], sort_keys=True, default=str)


def _task_options(spec: EnvSpec, options: Mapping[str, Any]) -> dict[str, Any]:
  """The options that give ids their meaning, by their paths in a config."""
  return {
      f'env.options.{name}': options.get(name) for name in spec.task_options
  }


def read(root: pathlib.Path, spec: str) -> Recorded:
  """The policy that `RUN:NAME` names, with the outcome of every episode.

  Raises:
    Missing: there is no such run or evaluation.
    DataError: it is unfinished or damaged.
    ConfigError: the evaluation has no such policy.
  """
  run, _, name = spec.rpartition(':')
  folder = files.run_folder(root, run)
  if (folder / results.FILE).is_file():
    ((policy,),) = recorded.read([f'{folder}:{name}'])
    return policy
  if _parse(name) is None:
    raise files.Missing(f'The run {run!r} has no evaluation {name!r}.')
  return _of_run(folder, name, files.file_of(root, run, _file(name)))


def _file(name: str) -> str:
  return f'{_EPISODES}/{name}.jsonl'


def _parse(name: str) -> tuple[int, str] | None:
  """Steps and member of an evaluation of a run; None: it is none."""
  kind, _, stem = name.partition('/')
  match = _STEM.fullmatch(stem)
  if kind not in _PANELS or match is None or '/' in stem:
    return None
  step = -1 if match['step'] == 'untrained' else int(match['step'])
  return step, match['member'] or ''


def _of_run(folder: pathlib.Path, name: str, path: pathlib.Path) -> Recorded:
  parsed = _parse(name)
  assert parsed is not None  # it names an evaluation
  _, member = parsed
  config = _config(folder, member)
  played: dict[journal.Key, recorded.Played] = {}
  first, episode_seeds = None, {}
  for episode in episodes_lib.read(path):
    first = first or episode
    key = journal.key(episode)
    played[key] = recorded.outcome_of(episode)
    episode_seeds[key] = episode.seed
  if first is None:
    raise DataError(f'{path.name} holds no episode.')
  panel = _panel(config, first, list(played), episode_seeds, path)
  policy = PolicyRecord(
      name=describe(name),
      kind='model',
      source=str(folder),
      weight_version=str(first.policy_version),
      template=config['agent'].get('template'),
      sampler={'temperature': config['eval'].get('temperature')},
  )
  return Recorded(
      directory=folder,
      policy=policy,
      config=config,
      panels={panel.env: panel},
      episodes={
          panel.env: {
              recorded.pair_key(panel, key): outcome
              for key, outcome in played.items()
          }
      },
  )


def _config(folder: pathlib.Path, member: str) -> dict[str, Any]:
  """The config of a run, or of a member of a mixture."""
  config = run_config.config(folder)
  own = (config.get('mixture') or {}).get(member)
  merged = {
      name: (config.get(name) or {}) | ((own or {}).get(name) or {})
      for name in _SECTIONS
  }
  if own is not None:
    merged['env'] = run_config.env_of_member(config, member)
    if (name := merged['env'].get('name')) in envs.ENVS:
      # A member lists what differs from the defaults; a panel has all options.
      defaults = json.loads(json.dumps(envs.get(name).options))
      merged['env']['options'] = defaults | merged['env']['options']
  for section, field in _NEEDED:
    if field not in merged[section]:
      raise DataError(
          f'The config of {folder.name} has no {section}.{field}, so that the'
          ' panel of its evaluations is not known.'
      )
  return config | merged


def _panel(
    config: Mapping[str, Any],
    first: Episode,
    keys: Sequence[journal.Key],
    episode_seeds: Mapping[journal.Key, int],
    path: pathlib.Path,
) -> Panel:
  """The panel that a run played, from the episodes and the config."""
  env, evaluated = config['env'], config['eval']
  task_ids = tuple(dict.fromkeys(task for task, _, _ in keys))
  samples = 1 + max(sample for _, sample, _ in keys)
  attempts = 1 + max(attempt for _, _, attempt in keys)
  if len(keys) != len(task_ids) * samples * attempts:
    raise DataError(
        f'{path.name} has {len(keys)} episodes, not {samples * attempts} of'
        ' each of its'
        f' {len(task_ids)} tasks: it is damaged.'
    )
  seed = evaluated['seed']
  if any(
      seeds.of_attempt(seed, task, sample, attempt=attempt) != episode_seed
      for (task, sample, attempt), episode_seed in episode_seeds.items()
  ):
    raise DataError(
        f'The episodes in {path.name} were not played under eval.seed={seed},'
        " as the run's config says, so that their panel is not known."
    )
  try:
    spec = envs.get(env['name'])
    kind_of = spec.subtasks(**env['options'])
    clusters = spec.clusters(**env['options'])
    task_options = _task_options(spec, env['options'])
    return Panel(
        env=spec.name,
        options=env['options'],
        split=first.split,
        task_file=evaluated.get('task_file'),
        task_ids=task_ids,
        subtasks=tuple(map(kind_of, task_ids)),
        clusters=clusters and tuple(map(clusters, task_ids)),
        samples=samples,
        attempts=attempts,
        data_version=first.data_version,
        task_options=task_options,
        seed=seed,
        horizon=first.horizon,
        success=spec.success,
        hash=results.panel_hash(
            spec.name,
            task_options=task_options,
            task_ids=task_ids,
            samples=samples,
            seed=seed,
            attempts=attempts,
            data_version=first.data_version,
        ),
    )
  except AgentrlError as error:
    raise DataError(
        f'The tasks in {path.name} cannot be told apart: {error}'
    ) from error
