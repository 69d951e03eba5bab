r"""Playing ahead on the quickstart, by depth and correction: experiments/2026-12-asynchrony.

    python -m experiments.sweeps.asynchrony --out=runs/asynchrony \
        --keep=experiments/2026-12-asynchrony --only=':arm=depth'
    python -m experiments.sweeps.asynchrony --out=runs/asynchrony --show
    python -m experiments.sweeps.asynchrony --out=runs/smoke --only=':arm=depth' \
        --config=experiments/sweeps/asynchrony_config.py:tiny

Arm `depth` asks whether success is the synchronous run's: `rollout.ahead` 0, 1 and
2, three seeds, one correction. Arm `staleness` asks what each correction is worth:
groups 1, 2, 4 and 8 pushes old, uncorrected on purpose, with truncated weights
(decoupled PPO, since there are two updates), with the sampler's policy as the one
that ratios are to, and with masks of whole episodes.

Cells of a seed begin with one warm start. The same command continues; `--keep` leaves each finished cell as a small file.
"""

import statistics
from collections.abc import Sequence

from scipy import stats

from experiments.sweeps import program, signs, tables
from experiments.sweeps.results import Run

CONFIG = 'experiments/sweeps/asynchrony_config.py'
SEEDS = range(3)
DEPTHS = (0, 1, 2)
STALENESS = (1, 2, 4, 8)
CORRECTIONS = ('none', 'bypass', 'token', 'geometric')


SWEEP = [
    *(
        {':arm': 'depth', 'rollout.ahead': depth, 'seed': seed}
        for seed in SEEDS
        for depth in DEPTHS
    ),
    *(
        {
            ':arm': 'staleness',
            ':correction': name,
            'rollout.ahead': staleness,
            'rollout.max_staleness': staleness,
            'seed': seed,
        }
        for seed in SEEDS
        for staleness in STALENESS
        for name in CORRECTIONS
    ),
]

_DEPTH = (
    'ahead | seeds | after | gain over ahead=0, paired | 95% over seeds | p'
    ' | step, s | learner waits, s | sampler idle, s | staleness'
)
_NOTE = (
    'Success on the held-out panel, of each seed; below, their mean in bold.'
    ' Seconds are medians over steps. "Fell": the return of'
    f' {signs.WINDOW} steps was below half of its best before.'
)
_WORTH = ' | '.join(['staleness', *CORRECTIONS])


def table(runs: Sequence[Run]) -> str:
  """Markdown: success by depth, and by staleness and correction."""
  by_depth: dict[int, dict[int, Run]] = {}
  cells: dict[tuple[int, str], list[Run]] = {}
  for run in runs:
    chosen = dict(run.cell.overrides)
    ahead, seed = int(chosen['rollout.ahead']), int(chosen['seed'])
    if chosen[':arm'] == 'depth':
      by_depth.setdefault(ahead, {})[seed] = run
    else:
      cells.setdefault((ahead, chosen[':correction']), []).append(run)
  parts = [
      tables.markdown(
          _DEPTH, [_depth_row(depth, by_depth) for depth in sorted(by_depth)]
      ),
      tables.markdown(
          _WORTH,
          [
              [
                  str(age),
                  *(_cell(cells.get((age, name), [])) for name in CORRECTIONS),
              ]
              for age in STALENESS
              if any((age, name) in cells for name in CORRECTIONS)
          ],
      ),
      _NOTE,
  ]
  return '\n\n'.join(parts) + '\n'


def _depth_row(depth: int, by_depth: dict[int, dict[int, Run]]) -> list[str]:
  members, plain = by_depth[depth], by_depth.get(0, {})
  runs = list(members.values())
  median = lambda name: statistics.median(
      x for run in runs for x in run.column(name) or [0.0]
  )
  gains = [
      members[seed].after['mean'] - plain[seed].after['mean']
      for seed in sorted(members.keys() & plain.keys())
      if depth
  ]
  test = ['', '', '']
  if len(set(gains)) > 1:
    found = stats.ttest_1samp(gains, 0.0)
    low, high = found.confidence_interval()
    test = [
        f'{statistics.fmean(gains):+.3f}',
        f'[{low:+.3f}, {high:+.3f}]',
        f'{found.pvalue:.2f}',
    ]
  return [
      str(depth),
      str(len(runs)),
      _successes(runs),
      *test,
      f'{median("time/step_s"):.2f}',
      f'{median("time/collect_s"):.2f}',
      f'{median("time/sampler_idle_s"):.2f}',
      f'{median("rollout/staleness_mean"):.1f}',
  ]


def _successes(runs: Sequence[Run]) -> str:
  return ', '.join(f'{run.after["mean"]:.3f}' for run in runs)


def _cell(runs: Sequence[Run]) -> str:
  if not runs:
    return ''
  fell = sum(signs.fall(run.metrics) is not None for run in runs)
  mean = statistics.fmean(run.after['mean'] for run in runs)
  return f'**{mean:.3f}** ({_successes(runs)})' + f', {fell} fell' * bool(fell)


if __name__ == '__main__':
  program.run(CONFIG, SWEEP, warm_start=('seed',), more=table)
