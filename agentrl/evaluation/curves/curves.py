"""Success at test time: against turns, against sampled tokens, with k attempts.

No episode is played for a curve. A policy is not told how many turns it has, so
the first h turns of an episode are those that it would have played with a horizon
of h: it succeeds within h turns if it succeeds and ends by then. All points of a
curve are of the same episodes, and failures of the infrastructure are left out of
all of them. Within a budget of tokens a turn counts if all of its tokens are.

k attempts of h turns each are pass@k at k h turns in all: points of one `total`
compare longer attempts with more of them.
"""

import pathlib
import statistics
from collections.abc import Callable, Iterator, Sequence

import msgspec

from agentrl.evaluation.results import Figure, Panel, PolicyRecord
from agentrl.evaluation.stats import passes
from agentrl.types import ACT, Episode, Group

FILE = 'curves.json'
TURNS, TOKENS = 'turns', 'tokens'


class Point(msgspec.Struct, frozen=True, kw_only=True):
  """Success of a policy's attempts at the tasks of a panel, each cut at a limit.

  Attributes:
    env: name of the environment.
    policy: name of the policy.
    by: unit of the limit, `TURNS` or `TOKENS`, which are sampled ones.
    limit: of an attempt.
    k: attempts at a task.
    total: what the attempts at a task may use together, k times the limit.
    success: pass@k; at k = 1 the mean success.
    sampled: mean tokens that an attempt samples up to the limit; None: unknown.
  """

  env: str
  policy: str
  by: str
  limit: int
  k: int
  total: int
  success: Figure
  sampled: float | None


class Curves(msgspec.Struct, frozen=True, kw_only=True):
  """The file `curves.json`.

  Attributes:
    policies: who was evaluated, each with the temperature of its sampler.
    panels: on what.
    points: by environment, policy, unit, limit and k.
    format: of the file.
  """

  policies: tuple[PolicyRecord, ...]
  panels: tuple[Panel, ...]
  points: tuple[Point, ...]
  format: int = 1

  def of(self, env: str, by: str) -> list[Point]:
    """The points of an environment under limits of one unit."""
    return [x for x in self.points if (x.env, x.by) == (env, by)]


def of_panel(
    policy: str, panel: Panel, groups: Sequence[Group]
) -> Iterator[Point]:
  """The points of a policy on a panel; none without a valid episode.

  Limits are each number of turns up to the panel's horizon and, where the
  policy's tokens are known, `grid` around the tokens of its episodes; k is each
  power of two up to the fewest valid attempts at a task, and that itself.
  Of attempts that learn from each other the first alone count.

  Args:
    policy: its name.
    panel: what was played.
    groups: its episodes, in the order of the panel's tasks.
  """
  # A later attempt learnt from all turns of the one before, whatever the limit.
  tasks = [
      [e for e in group.episodes if e.valid and not e.attempt]
      for group in groups
  ]
  clusters = panel.clusters_of(range(len(tasks)))
  ks = attempts(passes.fewest(tasks))
  if not ks:
    return

  def points(by, limits, used):
    """Points of limits, where `used` gives what an episode used of them."""
    for limit in limits:
      won = [[e.success and used(e) <= limit for e in task] for task in tasks]
      sampled = _mean(tasks, lambda e, limit=limit: _sampled(e, by, limit))
      for k in ks:
        interval = passes.pass_at(k, won, clusters=clusters)
        yield Point(
            env=panel.env,
            policy=policy,
            by=by,
            limit=limit,
            k=k,
            total=k * limit,
            success=Figure.of(interval),
            sampled=sampled,
        )

  yield from points(TURNS, range(1, panel.horizon + 1), lambda e: len(e.acts))
  tokens = [_tokens(e) for task in tasks for e in task]
  counts = [count for count in tokens if count is not None]
  if len(counts) == len(tokens) and max(counts) > 0:
    limits = grid(max(min(counts), 1), max(counts))
    yield from points(TOKENS, limits, _tokens)


def attempts(most: int) -> list[int]:
  """The powers of two up to `most`, and `most`; none of 0."""
  powers = [2**i for i in range(most.bit_length())]
  return sorted({*powers, most} - {0})


def grid(least: int, most: int) -> list[int]:
  """1, 2, 3, 4, 6, 8, 12, ...: those between, and the next on either side.

  Grids of several policies share their numbers, and twice a number is one.
  """
  numbers = sorted({2**i for i in range(64)} | {3 * 2**i for i in range(63)})
  first = max(i for i, x in enumerate(numbers) if x <= least)
  last = min(i for i, x in enumerate(numbers) if x >= most)
  return numbers[first : last + 1]


def temperature_of(policy: PolicyRecord) -> float | None:
  """The temperature that a policy is sampled at; None: it is not, or unknown."""
  return policy.sampler.get('temperature')


def write(directory: pathlib.Path, curves: Curves) -> None:
  """Writes `curves.json`."""
  data = msgspec.json.format(msgspec.json.encode(curves), indent=2)
  (directory / FILE).write_bytes(data + b'\n')


def _tokens(episode: Episode) -> int | None:
  """Tokens that an episode sampled; None: an endpoint did not count them."""
  counts = [turn.completion_tokens for turn in episode.turns]
  numbers = [count for count in counts if count is not None]
  return sum(numbers) if len(numbers) == len(counts) else None


def _sampled(episode: Episode, by: str, limit: int) -> int | None:
  """Tokens that an episode sampled up to a limit."""
  tokens = _tokens(episode)
  if tokens is None:
    return None
  if by == TOKENS:
    return min(tokens, limit)
  # With the plans, summaries and the like before the last of these actions.
  total = acts = 0
  for turn in episode.turns:
    assert turn.completion_tokens is not None  # the sum is known
    total += turn.completion_tokens
    acts += turn.kind == ACT
    if acts == limit:
      break
  return total


def _mean(
    tasks: Sequence[Sequence[Episode]],
    value: Callable[[Episode], float | None],
) -> float | None:
  """The mean over tasks of each task's mean; None if a value is."""
  means = []
  for task in tasks:
    values = [x for x in map(value, task) if x is not None]
    if len(values) < len(task):
      return None
    if task:
      means.append(statistics.fmean(values))
  return statistics.fmean(means)
