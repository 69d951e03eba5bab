r"""What playing ahead gains under heavy tails, and what its bound costs.

    python -m experiments.sweeps.latencies
    python -m experiments.sweeps.latencies --steps=100 --updates=30

The collector of a run (`rollout.ahead`) plays groups whose latencies are drawn, in
simulated time: 400 steps of 8 groups of 8 episodes, an episode's latency Pareto
1.5 cut at 100, an update of 10, 30 or 60 units, for which a barrier waits 3, 1 or 0.5 times as
long. The barrier is the same collector at depth 0. Others' rules are simulated beside it, with the same
latencies: strict order, and to discard what is too old and sample anew.

Prints a Markdown table: wall time over the time of updates, the largest and the
mean staleness, groups that were thrown away, and the p-value of a two-sample
Kolmogorov-Smirnov test of the latencies that were trained on against those that
were sampled, which a rule that prefers short episodes fails.
"""

import asyncio
import dataclasses
import functools
import heapq
import pathlib
import random
import selectors
import statistics
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, cast

from absl import app, flags
from scipy import stats

from agentrl import schedules
from agentrl.data.tasks import TaskIterator
from agentrl.rollout.ahead import Admission, Ahead, Settings
from agentrl.rollout.sources import Source, Sources
from agentrl.runtime.event_loop import EventLoop
from agentrl.types import ENV_ERROR, TERMINATED, Episode, Group, Turn

_STEPS = flags.DEFINE_integer('steps', 400, 'Steps of a run.')
_SEEDS = flags.DEFINE_integer('latency_seeds', 5, 'Runs of each rule.')
_UPDATES = flags.DEFINE_list('updates', ['10', '30', '60'], 'Their times.')

GROUPS, GROUP_SIZE = 8, 8
ALPHA, CUT = 1.5, 100.0
# Depth and bound of the rows.
OURS = ((0, 0), (1, 1), (1, 3), (2, 5), (3, 7), (4, 11))
DISCARDS = (1, 2, 4)


@dataclasses.dataclass(frozen=True)
class Result:
  """A run in simulated time.

  Attributes:
    wall: over the time that the updates take.
    staleness: of each group that was trained on.
    dropped: groups that were thrown away.
    trained: latencies of the groups that were trained on.
    sampled: of all.
  """

  wall: float
  staleness: Sequence[int]
  dropped: int
  trained: Sequence[float]
  sampled: Sequence[float]

  @property
  def p_value(self) -> float:
    return float(stats.ks_2samp(self.trained, self.sampled).pvalue)


def latencies(seed: int) -> Iterator[float]:
  """Of groups: that of the slowest episode."""
  rng = random.Random(seed)
  while True:
    yield max(min(rng.paretovariate(ALPHA), CUT) for _ in range(GROUP_SIZE))


class _Jump(selectors.DefaultSelector):
  """Waits by moving a clock."""

  now = 0.0

  def select(self, timeout=None):
    self.now += timeout or 0.0
    return super().select(0)


class SimulatedLoop:
  """`EventLoop` as a collector uses it, in which a second takes no time."""

  def __init__(self) -> None:
    selector = _Jump()
    self._loop = asyncio.SelectorEventLoop(selector)
    self._loop.time = lambda: selector.now  # type: ignore[method-assign]

  @property
  def now(self) -> float:
    return self._loop.time()

  def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
    return self._loop.run_until_complete(coroutine)

  def start(self, coroutine):
    return self._loop.create_task(coroutine)

  def beside(self, work):
    return work()

  def close(self) -> None:
    self._loop.close()


def ours(
    depth: int,
    bound: int,
    *,
    update: float,
    steps: int,
    seed: int,
    failures: float = 0.0,
) -> Result:
  """A run of `rollout.ahead`.

  Args:
    depth: `rollout.ahead`.
    bound: `rollout.max_staleness`.
    update: time of an update.
    steps: of the run.
    seed: of the latencies, and of the failures.
    failures: share of groups whose episodes all fail; they count as dropped.
  """
  rng, failed = random.Random(f'failures {seed}'), set()
  loop, drawn = SimulatedLoop(), latencies(seed)
  taken: dict[int, float] = {}

  async def play(admission: Admission) -> Group:
    taken[admission.number] = next(drawn)
    await asyncio.sleep(taken[admission.number])
    if rng.random() < failures:
      failed.add(admission.number)
      return _group(admission, stop_reason=ENV_ERROR, error='drawn to fail')
    return _group(admission)

  ahead = Ahead(
      Sources(
          [Source(TaskIterator(range(997), seed=0), schedules.fixed(1))], GROUPS
      ),
      play,
      cast(EventLoop, loop),
      Settings(
          depth=depth,
          bound=bound,
          groups=GROUPS,
          episodes=GROUPS,
          rounds=steps,
          max_failed_share=1.0,
      ),
      pathlib.Path('nothing is written'),
  )
  horizon, staleness, trained = None, [], []
  for step in range(steps):
    horizon, collection = ahead.collect(step, horizon, {}, step)
    for group in collection.groups:
      [episode] = group.episodes
      trained.append(taken[int(episode.episode_id)])
      staleness.append(step - episode.policy_version)
    loop.run(asyncio.sleep(update))
  wall = loop.now / (steps * update)
  loop.close()
  return Result(wall, staleness, len(failed), trained, list(taken.values()))


def _group(admission: Admission, **fields: Any) -> Group:
  """A group of one episode, named by its number."""
  turn = Turn('', '', None, '', 0.0, 'stop', 0, 0, 0, '0', 0.0, 0.0)
  episode = Episode(
      episode_id=f'{admission.number}',
      env='',
      task_id=admission.task_id,
      split='train',
      seed=0,
      policy_version=admission.policy_version,
      horizon=1,
      prompt=(),
      turns=(turn,),
      tokens=(),
      completion_mask=(),
      sampler_logprobs=(),
      **(dict(stop_reason=TERMINATED, success=not fields) | fields),
  )
  return Group(admission.task_id, admission.ordinal, (episode,))


def discarding(bound: int, *, update: float, steps: int, seed: int) -> Result:
  """Others' rule: what is too old is thrown away, and another group sampled.

  Up to `bound` + 1 batches are in flight; a batch is the first that ended.
  """
  drawn, now = latencies(seed), 0.0
  ends: list[tuple[float, int]] = []
  start: dict[int, int] = {}
  latency: dict[int, float] = {}
  done: list[int] = []
  staleness, trained, dropped = [], [], 0

  def admit(version: int) -> None:
    while len(ends) + len(done) < (bound + 1) * GROUPS:
      number = len(start)
      start[number], latency[number] = version, next(drawn)
      heapq.heappush(ends, (now + latency[number], number))

  for version in range(steps):
    while True:
      old = [n for n in done if version - start[n] > bound]
      done = [n for n in done if n not in old]
      dropped += len(old)
      admit(version)
      if len(done) >= GROUPS:
        break
      end, number = heapq.heappop(ends)
      now = max(now, end)
      done.append(number)
    used, done = done[:GROUPS], done[GROUPS:]
    staleness += [version - start[n] for n in used]
    trained += [latency[n] for n in used]
    updated = now + update
    while ends and ends[0][0] <= updated:
      done.append(heapq.heappop(ends)[1])
    now = updated
  return Result(
      now / (steps * update),
      staleness,
      dropped,
      trained,
      list(latency.values()),
  )


def table(updates: Sequence[float], *, steps: int, seeds: int) -> Iterator[str]:
  """The lines of the table."""
  yield (
      '| update | rule | wall / updates | staleness, largest | mean | dropped |'
      ' latency, trained | sampled | p |'
  )
  yield '|---' * 9 + '|'
  rules: list[tuple[str, Callable[..., Result]]] = [
      (_name(depth, bound), functools.partial(ours, depth, bound))
      for depth, bound in OURS
  ]
  rules += [
      (f'discard beyond {bound}', functools.partial(discarding, bound))
      for bound in DISCARDS
  ]
  mean = statistics.fmean
  for update in updates:
    for name, rule in rules:
      runs = [
          rule(update=update, steps=steps, seed=seed) for seed in range(seeds)
      ]
      cells = (
          f'{update:g}',
          name,
          f'{mean(run.wall for run in runs):.2f}',
          f'{max(max(run.staleness) for run in runs)}',
          f'{mean(mean(run.staleness) for run in runs):.1f}',
          f'{mean(run.dropped for run in runs):.0f}',
          f'{mean(mean(run.trained) for run in runs):.1f}',
          f'{mean(mean(run.sampled) for run in runs):.1f}',
          f'{min(run.p_value for run in runs):.3f}',
      )
      yield f'| {" | ".join(cells)} |'


def _name(depth: int, bound: int) -> str:
  if not depth:
    return 'barrier (ahead=0)'
  strict = ', strict order' * (depth == bound)
  return f'ahead={depth}, max_staleness={bound}{strict}'


def main(argv: Sequence[str]) -> None:
  del argv
  updates = [float(x) for x in _UPDATES.value]
  for line in table(updates, steps=_STEPS.value, seeds=_SEEDS.value):
    print(line, flush=True)


if __name__ == '__main__':
  app.run(main)
