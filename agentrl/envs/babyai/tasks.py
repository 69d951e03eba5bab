"""The fixed lists of BabyAI: split by seed, the same for every level.

A task id is `seed * 40 + level`, as in AgentGym. The published lists of ids are
not part of that code, so these are ours: 300 test, 100 dev and 5,000 train
tasks a level.
"""

from collections.abc import Sequence

from agentrl.envs.babyai import levels as level_table

SEEDS = {
    'test': range(300),
    'dev': range(300, 400),
    'train': range(400, 5400),
}


def tasks(
    split: str, *, levels: Sequence[str] | None = None
) -> tuple[int, ...]:
  """The ids of `split` ('train', 'dev' or 'test') in `levels` (None: all 40).

  Seed by seed, so that a prefix of the list has every level equally often.
  """
  chosen = [level_table.NAMES.index(x) for x in level_table.check(levels)]
  num_levels = len(level_table.NAMES)
  return tuple(
      seed * num_levels + level for seed in SEEDS[split] for level in chosen
  )
