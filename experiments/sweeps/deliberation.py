r"""ReAct, plans and reflection on TextCraft, at equal sampled tokens.

    python -m experiments.sweeps.deliberation --out=runs/deliberation
    python -m experiments.sweeps.deliberation --out=runs/smoke \
        --config=experiments/sweeps/deliberation_config.py:tiny

All agents of a seed begin with one warm start, and each imitates some more in its own
way of talking; the expert, which has no words, plans 'Nothing yet.'. OUT/table.md ends
with success while learning once each run has sampled as many tokens as the one that
samples fewest, by attempt where there are several.
"""

import itertools
from collections.abc import Sequence

from experiments.sweeps import deliberation_config, program, results, tables

CONFIG = 'experiments/sweeps/deliberation_config.py'
SWEEP = [
    {':agent': agent, 'seed': seed}
    for agent in deliberation_config.AGENTS
    for seed in (0, 1, 2)
]
_TOKENS = 'rollout/completion_tokens'
_HEADER = (
    'run | tokens sampled | steps at equal tokens | success, first 5 steps'
    ' | last 5 at equal tokens | first attempts | second attempts'
)
_STEPS = 5


def table(runs: Sequence[results.Run]) -> str:
  """Markdown: success of each run at equal sampled tokens."""
  fewest = min(sum(run.column(_TOKENS)) for run in runs)
  rows = [_row(run, fewest) for run in runs]
  return (
      f'{tables.markdown(_HEADER, rows)}\n\n'
      f'Equal: {fewest:,.0f} tokens, as many as the run with the fewest.'
      ' Success of collected episodes, attempts apart where there are two.\n'
  )


def steps_within(tokens: Sequence[float], budget: float) -> int:
  """Steps whose tokens together are within a budget."""
  return sum(total <= budget for total in itertools.accumulate(tokens))


def _row(run: results.Run, budget: float) -> list[str]:
  tokens = run.column(_TOKENS)
  within = steps_within(tokens, budget)
  success = run.column('rollout/success')
  last = [
      tables.mean_cell(run.column(metric)[:within][-_STEPS:])
      for metric in (
          'rollout/success',
          'rollout/success_attempt_1',
          'rollout/success_attempt_2',
      )
  ]
  return [
      run.name,
      f'{sum(tokens):,.0f}',
      str(within),
      tables.mean_cell(success[:_STEPS]),
      *last,
  ]


if __name__ == '__main__':
  program.run(CONFIG, SWEEP, warm_start=('seed',), more=table)
