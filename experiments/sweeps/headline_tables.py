"""Tables of the horizon study: arms against a long horizon from the first step on.

The unit is the run. Runs of one seed share their warm start, so differences are
paired by seed; p is Student's t-test of these differences.
"""

import math
import statistics
from collections.abc import Iterator, Sequence

from agentrl.evaluation.chance.level import NAMES
from agentrl.evaluation.compare import comparison
from agentrl.evaluation.stats import training_seeds
from experiments.sweeps import results, signs, tables
from experiments.sweeps.headline_config import TURNS
from experiments.sweeps.results import SUCCESS, Run

TARGET = 0.7  # success whose cost is compared
_ENV, _SCHEDULE = ':env', ':schedule'
_TOKENS = 'rollout/completion_tokens'
_SECONDS = 'time/step_s'
_HELD_OUT = ('eval_small/success', 'eval/success')
_ARMS = (
    'arm | runs | success | over seeds | IQM | bootstrap | turns taken'
    ' | return fell | tokens | minutes'
)
_TESTS = (
    'arm | pairs | difference | over seeds | p | p (Holm)'
    f' | at equal time | tokens to {TARGET} | of `long`'
)
_NOTE = """\
Success: at the longest horizon, after equal sampled tokens, of held-out tasks (of
TextCraft: of those that are trained on). Intervals (95%) are over seeds: Student's t of the mean, a bootstrap of the interquartile mean.
Return fell: runs whose rolling mean return was once below half of its best before.
Difference: to `long`, paired by seed; p by Student's t, adjusted (Holm) within the
table. At equal time: the difference in the last evaluations that both had after as many
seconds of steps as the quicker run took in all. Tokens to {target}: the median of the
tokens sampled until held-out success first was as high; none: most runs never were."""


def markdown(runs: Sequence[Run]) -> str:
  """Markdown of all environments: arms, differences, success by turns."""
  parts = []
  for env in dict.fromkeys(_value(run, _ENV) for run in runs):
    own = [run for run in runs if _value(run, _ENV) == env]
    arms: dict[str, dict[int, Run]] = {}
    for run in own:
      arms.setdefault(_arm(run), {})[run.config['seed']] = run
    parts += [
        f'## {env}',
        tables.markdown(_ARMS, [_arm_row(*arm) for arm in arms.items()]),
        *_chance(own),
        tables.markdown(_TESTS, _test_rows(arms)),
        tables.markdown(
            ' | '.join(['arm', *(f'{k} turns' for k in TURNS[env])]),
            [_curve_row(*arm, TURNS[env]) for arm in arms.items()],
        ),
    ]
  return '\n\n'.join([*parts, _NOTE.format(target=TARGET)]) + '\n'


def _chance(runs: Sequence[Run]) -> Iterator[str]:
  """A line with random actions and the expert, where they were played."""
  cells = [
      f'{NAMES[kind]} {cell}'
      for kind in tables.chance_kinds(runs)
      if (cell := tables.chance_cell(runs, kind))
  ]
  if cells:
    yield f'On the same tasks: {", ".join(cells)}.'


def tokens_to(run: Run, target: float) -> float | None:
  """Tokens sampled until held-out success first was `target`; None: never."""
  for tokens, success in _evaluations(run, _TOKENS):
    if success >= target:
      return tokens
  return None


def success_after(run: Run, seconds: float) -> float | None:
  """Held-out success in the last evaluation within `seconds` of steps."""
  found = [x for spent, x in _evaluations(run, _SECONDS) if spent <= seconds]
  return found[-1] if found else None


def success_within(run: Run, turns: int) -> float:
  """Held-out success if episodes had ended after `turns`."""
  taken = run.played[results.TURNS]
  return statistics.fmean(
      value * (taken[key] <= turns)
      for key, value in run.played[SUCCESS].items()
      if value is not None
  )


def baseline(arm: str) -> str:
  """The arm that an arm is compared with: the same with a long horizon."""
  return ' '.join(['long', *arm.split(' ')[1:]])


def _evaluations(run: Run, column: str) -> Iterator[tuple[float, float]]:
  """The sum of a column up to each evaluation between steps, and its success."""
  total = 0.0
  for line in run.metrics:
    total += line[column]
    for name in _HELD_OUT:
      if name in line:
        yield total, line[name]
        break


def _arm_row(name: str, members: dict[int, Run]) -> list[str]:
  runs = list(members.values())
  scores = [run.after['mean'] for run in runs]
  cells = ['', '', '']
  if len(set(scores)) > 1:
    found = training_seeds.over_seeds({'': scores}, seed=0)
    cells = [
        _ends(found.mean_low, found.mean_high),
        f'{found.interquartile_mean:.3f}',
        _ends(found.low, found.high),
    ]
  fell = sum(signs.fall(run.metrics) is not None for run in runs)
  mean = lambda value: statistics.fmean(map(value, runs))
  return [
      name,
      str(len(runs)),
      f'{statistics.fmean(scores):.3f}',
      *cells,
      f'{mean(_turns_taken):.1f}',
      f'{fell} of {len(runs)}',
      f'{mean(lambda run: sum(run.column(_TOKENS))):,.0f}',
      f'{mean(lambda run: sum(run.column(_SECONDS)) / 60):.1f}',
  ]


def _ends(low: float, high: float) -> str:
  """An interval; empty where it is not known."""
  return f'[{low:.3f}, {high:.3f}]' if math.isfinite(low) else ''


def _test_rows(
    arms: dict[str, dict[int, Run]],
) -> list[list[str]]:
  rows, tested = [], []
  for name, members in arms.items():
    others = arms.get(baseline(name), {})
    seeds = sorted(members.keys() & others.keys())
    if name == baseline(name):
      continue
    pairs = [(members[seed], others[seed]) for seed in seeds]
    found = training_seeds.paired_gain(
        [a.after['mean'] - b.after['mean'] for a, b in pairs]
    )
    if found is None:
      continue
    row = [
        name,
        str(len(pairs)),
        f'{found.mean:+.3f}',
        f'[{found.low:+.3f}, {found.high:+.3f}]',
        comparison.p_words(found.p_value),
        '',
        _at_equal_time(pairs),
        *(
            _median(tokens_to(pair[side], TARGET) for pair in pairs)
            for side in (0, 1)
        ),
    ]
    rows.append(row)
    tested.append(found.p_value)
  for row, p in zip(
      rows, comparison.holm(tested) if tested else [], strict=True
  ):
    row[5] = comparison.p_words(p)
  return rows


def _at_equal_time(pairs: Sequence[tuple[Run, Run]]) -> str:
  found = []
  for pair in pairs:
    seconds = min(sum(run.column(_SECONDS)) for run in pair)
    one, other = (success_after(run, seconds) for run in pair)
    if one is not None and other is not None:
      found.append(one - other)
  return f'{statistics.fmean(found):+.3f}' if found else ''


def _curve_row(
    name: str, members: dict[int, Run], turns: Sequence[int]
) -> list[str]:
  means = (
      statistics.fmean(success_within(run, k) for run in members.values())
      for k in turns
  )
  return [name, *(f'{mean:.3f}' for mean in means)]


def _turns_taken(run: Run) -> float:
  return statistics.fmean(
      x for x in run.played[results.TURNS].values() if x is not None
  )


def _median(values: Iterator[float | None]) -> str:
  """The median, where None is more than any."""
  middle = statistics.median_high(
      float('inf') if x is None else x for x in values
  )
  return 'none' if middle == float('inf') else f'{middle:,.0f}'


def _arm(run: Run) -> str:
  """The schedule, and what else a cell changes but environment and seed."""
  changes = (
      f'{field.lstrip(":")}={value}'
      for field, value in run.cell.overrides
      if field not in (_ENV, _SCHEDULE, 'seed')
  )
  return ' '.join([_value(run, _SCHEDULE), *changes])


def _value(run: Run, field: str) -> str:
  return dict(run.cell.overrides)[field]
