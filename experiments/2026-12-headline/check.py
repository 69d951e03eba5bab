r"""The statistics of this page once more, from the raw files and SciPy alone.

    python experiments/2026-12-headline/check.py

Nothing of agentrl is imported. Prints for each environment and arm: runs, mean
success and its interval over seeds, and the difference to `long` paired by seed, with
its interval, p, and p by Holm within the environment: the figures of `table.md`.
"""

import collections
import json
import pathlib

import numpy as np
from scipy import stats

HERE = pathlib.Path(__file__).parent


def read():
  """{(environment, arm): {seed: success at the end}}, from the episodes."""
  found = collections.defaultdict(dict)
  for path in sorted((HERE / 'runs').glob('*.json')):
    record = json.loads(path.read_text())
    over = record['overrides']
    changes = [
        f'{name.lstrip(":")}={value}'
        for name, value in over.items()
        if name not in (':env', ':schedule', 'seed')
    ]
    arm = ' '.join([over[':schedule'], *changes])
    column = record['columns'].index('success')
    values = [row[column] for row in record['after']['']]
    score = np.mean([value for value in values if value is not None])
    found[over[':env'], arm][int(over['seed'])] = float(score)
  return found


def interval(values):
  """Student's 95% interval of a mean."""
  half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
  return np.mean(values) - half, np.mean(values) + half


def holm(p_values):
  """Adjusted p-values of a family, by their definition."""
  order, largest, adjusted = np.argsort(p_values), 0.0, {}
  for rank, index in enumerate(order):
    largest = max(largest, (len(order) - rank) * p_values[index])
    adjusted[index] = min(largest, 1.0)
  return [adjusted[index] for index in range(len(p_values))]


def main():
  found = read()
  for env in dict.fromkeys(env for env, _ in found):
    tests = {}
    for (other, arm), scores in found.items():
      if other != env:
        continue
      values = list(scores.values())
      line = f'{env} {arm}: {len(values)} runs, {np.mean(values):.3f}'
      if len(set(values)) > 1:
        line += ' [{:.3f}, {:.3f}]'.format(*interval(values))
      print(line)
      long = found.get((env, ' '.join(['long', *arm.split(' ')[1:]])), {})
      seeds = sorted(scores.keys() & long.keys())
      pairs = [scores[seed] - long[seed] for seed in seeds]
      if len(set(pairs)) > 1:
        tests[arm] = pairs
    p_values = [stats.ttest_1samp(x, 0.0).pvalue for x in tests.values()]
    for (arm, pairs), p, adjusted in zip(
        tests.items(), p_values, holm(p_values), strict=True
    ):
      low, high = interval(pairs)
      print(
          f'{env} {arm} - long: {len(pairs)} pairs, {np.mean(pairs):+.3f}'
          f' [{low:+.3f}, {high:+.3f}], p {p:.4f}, Holm {adjusted:.4f}'
      )


if __name__ == '__main__':
  main()
