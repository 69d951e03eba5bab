"""Arms of a study: runs whose configs differ in the training seed alone.

Or runs that are equal in a few chosen fields, whatever else differs. The seed is
what the interval of an arm is over, so an arm is what a claim can be about.
"""

import collections
import functools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.errors import DataError
from agentrl.evaluation.chance import level as level_lib
from agentrl.evaluation.compare.matrix import Standing
from agentrl.evaluation.stats import training_seeds
from agentrl.evaluation.workdirs import run_facts
from agentrl.evaluation.workdirs.run_facts import Facts

SEED = 'seed'
# Fields that differ between machines and days, not between experiments.
OF_THE_MACHINE = ('compile_cache', 'agent.date')
# Modes whose runs have a training seed.
LEARNING = ('train', 'sft', 'dpo', 'agentevol')
UNIT = 'training seed'
# Kinds of policies that a success is read beside, see `chance`.
LEVELS = level_lib.KINDS
_SCALARS = (str, int, float, bool, type(None))
_ABSENT = '(none)'  # of a field that the config of a run lacks
# 'before', 'step_10', 'after/babyai': the part of a run, and the member.
_EVALUATION = re.compile(r'(before|after|step_\d+)(?:/(.+))?')


class Arm(NamedTuple):
  """Runs of one experiment under different seeds.

  Attributes:
    name: the fields that tell it from the other arms, or its first run.
    fields: its value of each field that was chosen, or that tells arms apart;
      `{seed}` stands in a path that follows the seed.
    runs: names, in order.
  """

  name: str
  fields: Mapping[str, Any]
  runs: tuple[str, ...]


class Score(NamedTuple):
  """Success of one run: at its first evaluation, and at its last so far."""

  before: float | None
  last: float | None


def sort_out(
    configs: Mapping[str, Mapping[str, Any]], fields: Sequence[str] = ()
) -> list[Arm]:
  """The arms of some runs, in the order of their first runs.

  A run without a config is an arm of its own.

  Args:
    configs: by run.
    fields: dotted names, in which the runs of an arm are equal; without, all but
      the seed, and what differs between machines.

  Raises:
    DataError: no config has one of the fields.
  """
  told = {run: run_facts.flat(config) for run, config in configs.items()}
  names = _names(told.values())
  if unknown := [name for name in fields if name not in names]:
    raise DataError(
        f'No run has the field {unknown[0]!r}; group by fields of their'
        f' configs, such as {", ".join(list(names)[:5])}.'
    )
  compared = fields or _of_the_experiment(names)
  flats = _without_seeds(told, compared)
  found: dict[tuple[str, ...], list[str]] = {}
  for run, flat in flats.items():
    key = _texts(flat, compared) if flat else (run,)
    found.setdefault(key, []).append(run)
  shown = list(fields) or _telling(compared, list(found))
  arms = [_arm(runs, flats[runs[0]], shown, fields) for runs in found.values()]
  counts = collections.Counter(arm.name for arm in arms)
  return [
      arm if counts[arm.name] == 1 else arm._replace(name=_of_first(arm.runs))
      for arm in arms
  ]


def differing(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
  """Fields in which configs differ -> how many values each has."""
  told = {
      run: run_facts.flat(config) for run, config in configs.items() if config
  }
  names = _names(told.values())
  flats = _without_seeds(told, _of_the_experiment(names))
  columns = zip(*(_texts(flat, names) for flat in flats.values()), strict=True)
  counts = {
      name: len(set(column))
      for name, column in zip(names, columns, strict=False)
  }
  return {name: count for name, count in counts.items() if count > 1}


def scores(facts: Facts) -> dict[str, Score]:
  """Success of a run by member of a mixture; '' without one."""
  members: dict[str, list[tuple[str, float]]] = {}
  for name, rate in facts.success.items():
    match = _EVALUATION.fullmatch(name)
    if match and rate.mean is not None:
      members.setdefault(match[2] or '', []).append((match[1], rate.mean))
  return {
      member: Score(
          before=dict(found).get('before'),
          last=found[-1][1] if found[-1][0] != 'before' else None,
      )
      for member, found in members.items()
  }


def rows(
    arms: Sequence[Arm],
    by_run: Mapping[str, Mapping[str, Score]],
    levels: Mapping[str, Mapping[str, Mapping[str, Standing]]],
    *,
    seed: int,
) -> list[dict[str, Any]]:
  """A row for each arm, and each member of a mixture, best first.

  `mean`, `low` and `high` are of the last evaluations: Student's interval over
  training seeds; `iqm` is the interquartile mean, with a bootstrap's interval.
  Numbers of fewer than two seeds are None, and ends of equal ones. `random` and `expert` are success of
  these on the same tasks, None where they were not evaluated.

  Args:
    arms: by `sort_out`.
    by_run: `scores` of each run.
    levels: `chance.of_arm` of each arm by its name.
    seed: of the bootstrap.
  """
  unsorted = [
      row
      for arm in arms
      for row in _rows(arm, by_run, levels.get(arm.name, {}), seed)
  ]
  return sorted(
      unsorted, key=lambda row: (row['mean'] is None, -(row['mean'] or 0))
  )


def _rows(
    arm: Arm,
    by_run: Mapping[str, Mapping[str, Score]],
    levels: Mapping[str, Mapping[str, Standing]],
    seed: int,
) -> Iterator[dict[str, Any]]:
  found = [by_run.get(run, {}) for run in arm.runs]
  members = sorted({name for each in found for name in each}) or ['']
  for member in members:
    each = [x[member] for x in found if member in x]
    last = [x.last for x in each if x.last is not None]
    before = [x.before for x in each if x.before is not None]
    own = levels.get(member, {})
    over = training_seeds.mean_intervals(np.array(last, np.float64))
    iqm = (
        training_seeds.over_seeds({'': last}, seed=seed)
        if len(last) > 1
        else None
    )
    yield {
        'group': arm.name,
        'member': member,
        **arm.fields,
        'runs': len(arm.runs),
        'seeds': len(last),
        'before': float(np.mean(before)) if before else None,
        'mean': _number(over.mean),
        'low': _number(over.low),
        'high': _number(over.high),
        'iqm': iqm and iqm.interquartile_mean,
        'iqm_low': iqm and _number(iqm.low),
        'iqm_high': iqm and _number(iqm.high),
        'least': min(last, default=None),
        'greatest': max(last, default=None),
        'unit': UNIT,
        **{
            kind: level.mean if (level := own.get(kind)) else None
            for kind in LEVELS
        },
        'members': list(arm.runs),
    }


def _arm(
    runs: Sequence[str],
    flat: Mapping[str, Any],
    shown: Sequence[str],
    fields: Sequence[str],
) -> Arm:
  values = {name: flat.get(name) for name in shown} if flat else {}
  words = [f'{name}={_plain(flat, name)}' for name in values]
  # Many fields are no name; the runs' own names often say it.
  named = words and (len(words) <= 3 or fields)
  name = ', '.join(words) if named else _common(runs) or _of_first(runs)
  return Arm(name, values, tuple(runs))


def _common(runs: Sequence[str]) -> str:
  """The part that names of several runs share, before their seeds."""
  common = os.path.commonprefix(list(runs)) if len(runs) > 1 else ''
  return re.sub(r'[-_./ ]+(?:seed|s)?[-_=]*\d*$|\d+$', '', common)


def _of_first(runs: Sequence[str]) -> str:
  more = f' (+{len(runs) - 1})' if len(runs) > 1 else ''
  return f'{runs[0]}{more}'


def _telling(
    names: Sequence[str], keys: Sequence[tuple[str, ...]]
) -> list[str]:
  """A few fields that tell all arms apart; those of few values first.

  An algorithm, say, brings fields of its own: its name alone tells as much.
  """
  whole = [key for key in keys if len(key) == len(names)]
  columns = list(zip(*whole, strict=True)) if whole else []
  differ = [i for i, column in enumerate(columns) if len({*column}) > 1]
  is_name = lambda i: names[i].rpartition('.')[2] in ('name', 'kind')
  differ.sort(key=lambda i: (not is_name(i), len({*columns[i]})))
  chosen: list[int] = []
  labels = 1
  for i in differ:
    told = len({tuple(key[j] for j in (*chosen, i)) for key in whole})
    if told > labels:
      chosen, labels = [*chosen, i], told
  return [names[i] for i in sorted(chosen)]


def _of_the_experiment(names: Iterable[str]) -> list[str]:
  """The fields in which runs of one arm are equal."""
  return [name for name in names if name not in (SEED, *OF_THE_MACHINE)]


def _without_seeds(
    flats: Mapping[str, Mapping[str, Any]], names: Sequence[str]
) -> dict[str, Mapping[str, Any]]:
  """Configs with `{seed}` in paths that follow the seed of their run.

  Each seed may have a warm start of its own: runs/warm-0, runs/warm-1. A path
  follows the seed if no other seed has it, and the path of another seed is equal
  with that one's seed at the same place: the 2 of models/llama-2 is none. Runs of
  several seeds that are equal as they are keep their paths.

  Args:
    flats: fields of each run.
    names: of the fields that are compared.
  """
  keys = {run: _texts(flat, names) for run, flat in flats.items()}
  alike: dict[tuple[str, ...], set[Any]] = collections.defaultdict(set)
  for run, key in keys.items():
    alike[key].add(flats[run].get(SEED))
  paths = {
      run: {
          name: value
          for name in names
          if (value := flat.get(name)).__class__ is str and '/' in value
      }
      for run, flat in flats.items()
      if len(alike[keys[run]]) == 1
  }
  seeds, values = (collections.defaultdict(set) for _ in range(2))
  for run, own in paths.items():
    seed = flats[run].get(SEED)
    for name, path in own.items():
      seeds[name, path].add(seed)
      for template in _templates(path, seed):
        values[name, template].add(path)
  result = dict(flats)
  for run, own in paths.items():
    follows = {}
    for name, path in own.items():
      templates = _templates(path, flats[run].get(SEED))
      best = max(templates, key=lambda x: len(values[name, x]), default=path)
      if len(seeds[name, path]) == 1 and len(values[name, best]) > 1:
        follows[name] = best
    result[run] = {**flats[run], **follows}
  return result


@functools.lru_cache(65_536)
def _templates(path: str, seed: Any) -> tuple[str, ...]:
  """A path with `{seed}` at each place of its seed, and at all of them.

  A place is a whole part of the path, or the end of one, as in warm-0, warm_0,
  seed=0 and seed0. The host of a URL has none.
  """
  scheme, mark, rest = path.partition('://')
  host = f'{scheme}{mark}{rest.partition("/")[0]}' if mark else ''
  number = rf'(?:(?<![^-_=/])|(?<=seed)){seed}(?=/|$|\.[a-zA-Z]\w*$)'
  # A few: the path is of a file that is shown, and may be anything.
  parts = re.split(number, path[len(host) :], maxsplit=4)
  join = f'{seed}'.join
  one = [
      f'{join(parts[:i])}{{seed}}{join(parts[i:])}'
      for i in range(1, len(parts))
  ]
  if not one:
    return ()
  return tuple(host + each for each in (*one, '{seed}'.join(parts)))


def _names(flats: Iterable[Mapping[str, Any]]) -> list[str]:
  """Names of all fields, in the order of their first configs."""
  names: dict[str, None] = {}
  for flat in flats:
    if not flat.keys() <= names.keys():
      names |= dict.fromkeys(flat)
  return list(names)


def _texts(flat: Mapping[str, Any], names: Iterable[str]) -> tuple[str, ...]:
  """The values of fields, to be compared."""
  return tuple([
      _scalar(value, kind)
      if (kind := (value := flat.get(name, flat)).__class__) in _SCALARS
      else _text(flat, name)
      for name in names
  ])


# The values of thousands of configs are few.
@functools.lru_cache(65_536)
def _scalar(value: Any, kind: type) -> str:
  del kind  # 1, 1.0 and True are one key
  return _text({'': value}, '')


def _text(flat: Mapping[str, Any], name: str) -> str:
  """A field's value, to be compared."""
  if name not in flat:
    return _ABSENT
  return json.dumps(flat[name], sort_keys=True, ensure_ascii=False)


def _plain(flat: Mapping[str, Any], name: str) -> str:
  """A field's value, to be read."""
  value = flat.get(name, _ABSENT)
  return value if isinstance(value, str) else _text(flat, name)


def _number(value: np.ndarray | float) -> float | None:
  return float(value) if np.isfinite(value) else None
