r"""Recomputes the tables of a study from the raw files of its runs, without agentrl.

    python tests/evaluation/studies/recomputed.py RUNS STUDY

RUNS has the workdirs of runs that learn one environment; STUDY is what mode `study` has
written of them. Every number of groups.csv, and of the groups in matrix.csv and
tasks.csv, follows here from config.json and episodes/eval/N.jsonl by SciPy and by
formulas that are written out. It prints how many numbers it has compared.
"""

import collections
import csv
import itertools
import json
import math
import pathlib
import sys

import numpy as np
from scipy import stats

TOLERANCE = 1e-9
RESAMPLES = 20_000


def raw(path):
  """Task -> success of each valid episode of an evaluation."""
  found = collections.defaultdict(list)
  for line in path.read_text().splitlines():
    episode = json.loads(line)
    if episode['stop_reason'] not in ('timeout', 'env_error', 'engine_error'):
      found[episode['task_id']].append(float(episode['success']))
  return found


def runs_of(root):
  """Name -> (config, first evaluation, last evaluation) of runs that learn."""
  found = {}
  for path in sorted(root.glob('*/config.json')):
    config = json.loads(path.read_text())
    files = sorted(
        file
        for file in (path.parent / 'episodes' / 'eval').glob('*.jsonl')
        if file.stem.isdecimal()
    )
    if config.get('mode') == 'train' and files:
      found[path.parent.name] = config, raw(files[0]), raw(files[-1])
  return found


def rows_of(path):
  with path.open(newline='', encoding='utf-8') as file:
    return list(csv.DictReader(file))


def score(evaluation):
  """The mean over tasks of a task's mean."""
  return np.mean([np.mean(values) for values in evaluation.values()])


def wilson(parts, span):
  """Ends of the interval of a mean of non-negative parts of at most `span`.

  Wilson's with t for z and the effective sample size p (1 - p) / se^2; Clopper's and
  Pearson's where fewer than six tasks are off a bound.
  """
  n, mean = len(parts), np.mean(parts) / span
  above, below = np.sum(parts > 0), np.sum(parts < span)
  noise = np.sum((parts / span - mean) ** 2) / n**2
  if above < 6 or below < 6 or noise < 1e-24:
    mean = 0.0 if above == 0 else 1.0 if below == 0 else mean
    low = stats.beta.ppf(0.025, mean * n, (1 - mean) * n + 1) if mean else 0.0
    high = (
        stats.beta.ppf(0.975, mean * n + 1, (1 - mean) * n) if mean < 1 else 1
    )
    return low * span, high * span
  ratio = stats.t.ppf(0.975, n - 1) ** 2 * noise / (mean * (1 - mean))
  centre = (mean + ratio / 2) / (1 + ratio)
  half = math.sqrt(ratio * mean * (1 - mean) + ratio**2 / 4) / (1 + ratio)
  return (centre - half) * span, (centre + half) * span


def paired_interval(differences):
  """MOVER of gains and losses, with their correlation (Zou and Donner 2008)."""
  gains, losses = np.maximum(differences, 0), np.maximum(-differences, 0)
  (gain_low, gain_high), (loss_low, loss_high) = wilson(gains, 1), wilson(
      losses, 1
  )
  gained, lost = gains.mean(), losses.mean()
  both = gains.std() * losses.std()
  r = np.mean((gains - gained) * (losses - lost)) / both if both > 0 else 0.0
  apart = lambda x, y: math.sqrt(max(x * x + y * y - 2 * r * x * y, 0.0))
  mean = gained - lost
  return (
      max(mean - apart(gained - gain_low, loss_high - lost), -1.0),
      min(mean + apart(gain_high - gained, lost - loss_low), 1.0),
  )


def sign_test(differences, rng):
  """p of the paired permutation test over tasks, and its standard error."""
  moved = differences[differences != 0]
  least = abs(moved.sum()) - 1e-9 * np.abs(moved).sum()
  if len(moved) <= 13:
    signs = np.array(list(itertools.product((-1, 1), repeat=len(moved))))
    return np.mean(np.abs(signs @ moved) >= least), 0.0
  signs = rng.choice((-1.0, 1.0), size=(RESAMPLES, len(moved)))
  p = (1 + np.sum(np.abs(signs @ moved) >= least)) / (RESAMPLES + 1)
  return p, math.sqrt(p * (1 - p) / RESAMPLES) + 1 / RESAMPLES


def iqm_interval(scores, rng):
  """rliable's: percentiles of the trimmed means of resampled runs."""
  drawn = rng.choice(scores, size=(RESAMPLES, len(scores)))
  return np.quantile(stats.trim_mean(drawn, 0.25, axis=1), (0.025, 0.975))


class Checks:
  """Comparisons, counted."""

  def __init__(self):
    self.count = 0

  def equal(self, what, found, want, tolerance=TOLERANCE):
    self.count += 1
    if want is None or want != want:
      assert found == '', f'{what}: {found} for nothing'
    else:
      assert (
          abs(float(found) - want) <= tolerance
      ), f'{what}: {found}, not {want}'


def check_groups(rows, members, runs, rng, checks):
  for row in rows:
    names = members[row['group']]
    assert sorted(json.loads(row['members'])) == sorted(names)
    last = np.array([score(runs[name][2]) for name in names])
    first = [score(runs[name][1]) for name in names]
    n, mean = len(last), last.mean()
    checks.equal('mean', row['mean'], mean)
    checks.equal('before', row['before'], np.mean(first))
    checks.equal('least', row['least'], last.min())
    checks.equal('greatest', row['greatest'], last.max())
    checks.equal('seeds', row['seeds'], n)
    if n < 2 or np.ptp(last) == 0:
      continue
    low, high = stats.t.interval(0.95, n - 1, mean, last.std(ddof=1) / n**0.5)
    checks.equal('low', row['low'], low)
    checks.equal('high', row['high'], high)
    checks.equal('iqm', row['iqm'], stats.trim_mean(last, 0.25))
    # Of other draws: the quantile's own error, and steps of a few seeds.
    ends = iqm_interval(last, rng)
    step = 0.25 * np.ptp(last)
    checks.equal('iqm_low', row['iqm_low'], ends[0], step)
    checks.equal('iqm_high', row['iqm_high'], ends[1], step)


def check_pairs(rows, members, runs, rng, checks):
  by_task = {}
  for group, names in members.items():
    tasks = runs[names[0]][2]
    by_task[group] = {
        task: np.mean([np.mean(runs[name][2][task]) for name in names])
        for task in tasks
    }
  own = [row for row in rows if row['a'] in members and row['b'] in members]
  for row in own:
    a, b = by_task[row['a']], by_task[row['b']]
    tasks = [task for task in a if task in b]
    differences = np.array([a[task] - b[task] for task in tasks])
    checks.equal('tasks', row['tasks'], len(tasks))
    checks.equal('a', row['success_a'], np.mean([a[task] for task in tasks]))
    checks.equal('b', row['success_b'], np.mean([b[task] for task in tasks]))
    checks.equal('difference', row['difference'], differences.mean())
    low, high = paired_interval(differences)
    checks.equal('low', row['low'], low, 1e-6)
    checks.equal('high', row['high'], high, 1e-6)
    p, error = sign_test(differences, rng)
    checks.equal('p', row['p_value'], p, 5 * error + TOLERANCE)
    first, second = (
        [score(runs[name][2]) for name in members[row[side]]]
        for side in ('a', 'b')
    )
    if min(len(first), len(second)) > 1:
      welch = stats.ttest_ind(first, second, equal_var=False)
      low, high = welch.confidence_interval(0.95)
      checks.equal('seed_low', row['seed_low'], low)
      checks.equal('seed_high', row['seed_high'], high)
  for env in {row['env'] for row in own}:
    family = [row for row in rows if row['env'] == env]
    ranked = sorted(family, key=lambda row: float(row['p_value']))
    least = 0.0
    for i, row in enumerate(ranked):
      least = max(least, min((len(ranked) - i) * float(row['p_value']), 1.0))
      if len(ranked) > 1 or row['p_holm']:  # one pair is no family
        checks.equal('p_holm', row['p_holm'], least)


def check_tasks(rows, members, runs, checks):
  for row in rows:
    names = members.get(row['column'])
    if names is None:
      continue
    values = [x for name in names for x in runs[name][2][int(row['task'])]]
    checks.equal('n', row['n'], len(values))
    checks.equal('solved', row['solved'], sum(values))
    checks.equal('success', row['success'], np.mean(values))


def main(root, study):
  """Compares all numbers; returns how many they were."""
  runs, rng, checks = runs_of(root), np.random.default_rng(1), Checks()
  groups = rows_of(study / 'groups.csv')
  # Of each group by its name, the runs that say so.
  members = collections.defaultdict(list)
  for row in rows_of(study / 'runs.csv'):
    if row['run'] in runs:
      members[row['group']].append(row['run'])
  check_groups(groups, members, runs, rng, checks)
  check_pairs(rows_of(study / 'matrix.csv'), members, runs, rng, checks)
  check_tasks(rows_of(study / 'tasks.csv'), members, runs, checks)
  # A group has one value of each field that it is told by: those between its
  # member of a mixture and its number of runs.
  names = list(groups[0])
  for field in names[names.index('member') + 1 : names.index('runs')]:
    for row in groups:
      for name in members[row['group']]:
        found = runs[name][0]
        for key in field.split('.'):
          found = found.get(key) if isinstance(found, dict) else None
        plain = isinstance(found, (str, int, float, type(None)))
        text = found if plain else json.dumps(found)
        want = '' if text is None else str(text)
        assert (
            row[field] == want
        ), f'{name}: {field} is {want}, not {row[field]}'
  return checks.count


if __name__ == '__main__':
  compared = main(*map(pathlib.Path, sys.argv[1:]))
  assert 'agentrl' not in sys.modules
  print(f'{compared} numbers are equal.')
