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

import pathlib
import statistics
from collections.abc import Sequence

from agentrl.evaluation.stats import training_seeds
from experiments.sweeps import program, tables
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
    ' Seconds are medians over steps. Behind the parenthesis: the largest'
    ' entropy of a step of any seed, in nats.'
)
_WORTH = ' | '.join(['staleness', *CORRECTIONS])
_GAIN = (
    'staleness | correction | gain over ahead=0, paired | 95% over seeds | p'
)


def table(runs: Sequence[Run]) -> str:
  """Markdown: success by depth, and by staleness and correction."""
  by_depth, cells = _sorted(runs)
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
      tables.markdown(
          _GAIN,
          [
              [str(age), name, *test]
              for age in STALENESS
              for name in CORRECTIONS
              if (test := _paired(cells.get((age, name), []), by_depth))
          ],
      ),
      _NOTE,
  ]
  return '\n\n'.join(parts) + '\n'


def draw(runs: Sequence[Run], page: pathlib.Path) -> None:
  """Draws success by staleness, a line a correction, as `staleness.svg`."""
  # Imported late: matplotlib takes a second, and a refusal should not.
  from experiments.sweeps import figure

  by_depth, cells = _sorted(runs)
  plain = list(by_depth.get(0, {}).values())
  lines = lambda measure: {
      name: points
      for name in CORRECTIONS
      if (
          points := {
              age: list(map(measure, cells[age, name]))
              for age in STALENESS
              if (age, name) in cells
          }
      )
  }
  figure.draw_by_setting(
      [
          figure.Against(name, lines(measure), list(map(measure, plain)))
          for name, measure in (
              ('success', _success),
              ('largest entropy of a step, nats', _entropy),
          )
      ],
      page / 'staleness.svg',
      setting='age of what is trained on, pushes',
      level='in turns (ahead=0)',
  )


def _sorted(
    runs: Sequence[Run],
) -> tuple[dict[int, dict[int, Run]], dict[tuple[int, str], list[Run]]]:
  """Runs by depth and seed, and by age and correction."""
  by_depth: dict[int, dict[int, Run]] = {}
  cells: dict[tuple[int, str], list[Run]] = {}
  for run in runs:
    chosen = dict(run.cell.overrides)
    ahead, seed = int(chosen['rollout.ahead']), int(chosen['seed'])
    if chosen[':arm'] == 'depth':
      by_depth.setdefault(ahead, {})[seed] = run
    else:
      cells.setdefault((ahead, chosen[':correction']), []).append(run)
  return by_depth, cells


def _depth_row(depth: int, by_depth: dict[int, dict[int, Run]]) -> list[str]:
  runs = list(by_depth[depth].values())
  median = lambda name: statistics.median(
      x for run in runs for x in run.column(name) or [0.0]
  )
  test = _paired(runs, by_depth) if depth else None
  return [
      str(depth),
      str(len(runs)),
      _text(runs),
      *(test or ['', '', '']),
      f'{median("time/step_s"):.2f}',
      f'{median("time/collect_s"):.2f}',
      f'{median("time/sampler_idle_s"):.2f}',
      f'{median("rollout/staleness_mean"):.1f}',
  ]


def _paired(
    runs: Sequence[Run], by_depth: dict[int, dict[int, Run]]
) -> list[str] | None:
  """Gain over the runs in turns of the same seeds, its interval and p.

  None: fewer than two of them, or all gain alike.
  """
  plain = by_depth.get(0, {})
  gains = [
      _success(run) - _success(plain[run.config['seed']])
      for run in runs
      if run.config['seed'] in plain
  ]
  found = training_seeds.paired_gain(gains)
  return found and [
      f'{found.mean:+.3f}',
      f'[{found.low:+.3f}, {found.high:+.3f}]',
      f'{found.p_value:.2f}',
  ]


def _success(run: Run) -> float:
  return run.after['mean']


def _entropy(run: Run) -> float:
  """The largest of a step, in nats."""
  return max(run.column('policy/entropy'))


def _text(runs: Sequence[Run]) -> str:
  return ', '.join(f'{_success(run):.3f}' for run in runs)


def _cell(runs: Sequence[Run]) -> str:
  if not runs:
    return ''
  mean = statistics.fmean(map(_success, runs))
  return f'**{mean:.3f}** ({_text(runs)}), {max(map(_entropy, runs)):.1f}'


if __name__ == '__main__':
  program.run(CONFIG, SWEEP, warm_start=('seed',), more=table, draw=draw)
