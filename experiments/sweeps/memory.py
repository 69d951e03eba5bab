r"""Context policies on TextCraft's deep goals, under a context too small for them.

    python -m experiments.sweeps.memory --out=runs/memory
    python -m experiments.sweeps.memory --out=runs/memory4 \
        --config=experiments/sweeps/memory_config.py:depth=4
    python -m experiments.sweeps.memory --out=runs/smoke \
        --config=experiments/sweeps/memory_config.py:tiny

The transcript that is cut when the context is full, a window, and summaries that
are trained or masked; three seeds. All begin with one policy, which has imitated
whole episodes, and imitate some more in their own context before they learn by GRPO.
OUT/table.md ends with the progress of each: the share of a goal's crafts.
"""

from collections.abc import Mapping, Sequence

from experiments.sweeps import program, results, tables

CONFIG = 'experiments/sweeps/memory_config.py'
MASKED = {'agent.context.learn_summary': False}
SWEEP = [
    {':context': context, 'seed': seed} | masked
    for context, masked in (
        ('full', {}),
        ('window', {}),
        ('summary', {}),
        ('summary', MASKED),
    )
    for seed in (0, 1, 2)
]
_HEADER = (
    'run | progress before | after | while learning, first 5 steps | last 5'
    ' | cut by the context | tokens sampled'
)
_NOTE = (
    'Progress: the share of the crafts of a goal that were done. Cut: the share'
    ' of all training episodes that ended because the context was full.'
)
_STEPS = 5


def table(runs: Sequence[results.Run]) -> str:
  """Markdown: the progress of each run."""
  return f'{tables.markdown(_HEADER, list(map(_row, runs)))}\n\n{_NOTE}\n'


def _row(run: results.Run) -> list[str]:
  progress = run.column('rollout/progress')
  cut = run.column('rollout/stop_context')
  return [
      run.name,
      *map(_progress, (run.before, run.after)),
      *map(tables.mean_cell, (progress[:_STEPS], progress[-_STEPS:], cut)),
      f'{sum(run.column("rollout/completion_tokens")):,.0f}',
  ]


def _progress(found: Mapping[str, float] | None) -> str:
  """Of an evaluation, where it has any."""
  found = found or {}
  return tables.mean_cell(
      [found['progress_mean']] if 'progress_mean' in found else []
  )


if __name__ == '__main__':
  program.run(CONFIG, SWEEP, warm_start=(), more=table)
