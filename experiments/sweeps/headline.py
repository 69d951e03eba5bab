r"""Does a growing horizon help? The study of experiments/2026-12-headline.

    python -m experiments.sweeps.headline --out=runs/headline \
        --keep=experiments/2026-12-headline --jobs=2
    python -m experiments.sweeps.headline --out=runs/headline \
        --keep=experiments/2026-12-headline --only=':env=babyai' --show
    python -m experiments.sweeps.headline --out=runs/smoke \
        --config=experiments/sweeps/headline_config.py:tiny --only='seed=0'

Cells run in the order of the plan, the primary comparison first, seed by seed. A
session may end at any time: the same command goes on, also on another machine, from
the finished cells that the page keeps; `--show` says what is missing and how many
hours it will take. Table and figures are made of what there is.
"""

from experiments.sweeps import headline_tables, program

CONFIG = 'experiments/sweeps/headline_config.py'
ENVS = ('babyai', 'textcraft')


def _cells(env: str, seeds: int, schedules, *changes) -> list[dict]:
  return [
      {':env': env, ':schedule': schedule} | change | {'seed': seed}
      for seed in range(seeds)
      for change in changes or ({},)
      for schedule in schedules
  ]


_BOTH = ('long', 'stepwise')
SWEEP = [
    # The primary comparison: ten seeds on both environments.
    *(cell for env in ENVS for cell in _cells(env, 10, _BOTH)),
    # The other arms.
    *_cells(
        'babyai',
        5,
        ('short', 'linear', 'success', 'saturation', 'random', 'reversed'),
    ),
    # Episodes that the horizon cut: as failures (above), left out, continued.
    *_cells('babyai', 5, _BOTH, {'algo.truncated': 'mask'}),
    # The other algorithms.
    *_cells(
        'babyai',
        5,
        _BOTH,
        {':algo': 'ppo'},
        {':algo': 'rloo'},
        {':algo': 'reinforce_pp'},
    ),
    *_cells('babyai', 5, _BOTH, {':algo': 'ppo', 'algo.bootstrap': True}),
    # A sampler whose log-probabilities are not the trainer's, and its correction.
    *_cells(
        'babyai',
        5,
        _BOTH,
        {'sampler.dtype': 'bfloat16'},
        {'sampler.dtype': 'bfloat16', 'algo.importance_cap': 2.0},
    ),
    # Each episode counts the same, however long it is.
    *_cells('textcraft', 5, _BOTH, {'algo.aggregation': 'sequence'}),
]

if __name__ == '__main__':
  program.run(
      CONFIG, SWEEP, warm_start=(':env', 'seed'), more=headline_tables.markdown
  )
