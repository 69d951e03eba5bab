"""Tests for agentrl.rollout.pipeline: the bound, and that nothing is lost."""

import heapq
import json
import random
import statistics

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.rollout import pipeline as pipeline_lib
from agentrl.rollout.pipeline import Pipeline


def run(
    latency,
    *,
    depth,
    bound,
    per_batch,
    steps,
    update=1.0,
    slots=10**9,
    tied=lambda number: False,
):
  """A run of `steps` batches in simulated time.

  Args:
    latency: of a group, by its number.
    depth: of the pipeline.
    bound: likewise.
    per_batch: likewise.
    steps: batches.
    update: time of one.
    slots: groups that are played at a time.
    tied: whether a group, by its number, is replaced when it ends.

  Returns:
    The wall time, and (number, staleness) of the groups of each batch.
  """
  pipeline, now = Pipeline(), 0.0
  ends: list[tuple[float, int]] = []
  queued: list[int] = []
  batches = []

  def play():
    while queued and len(ends) < slots:
      number = queued.pop(0)
      heapq.heappush(ends, (now + latency(number), number))

  def admit(count):
    nonlocal pipeline
    first = pipeline.next_number
    pipeline = pipeline_lib.admit(pipeline, count)
    queued.extend(range(first, pipeline.next_number))
    play()

  def end_one():
    nonlocal pipeline, now
    end, number = heapq.heappop(ends)
    now = max(now, end)
    pipeline = pipeline_lib.finish(pipeline, number)
    if tied(number):
      pipeline = pipeline_lib.release(pipeline, number)
      admit(1)
    play()

  left = steps * per_batch
  for _ in range(steps):
    free = pipeline_lib.vacancies(pipeline, depth=depth, per_batch=per_batch)
    admit(min(free, left))
    left -= min(free, left)
    limits = dict(bound=bound, per_batch=per_batch)
    while (chosen := pipeline_lib.ready(pipeline, **limits)) is None:
      assert ends, 'it waits for nothing'
      end_one()
    staleness = [pipeline.version - pipeline.done[n] for n in chosen]
    batches.append(list(zip(chosen, staleness, strict=True)))
    pipeline = pipeline_lib.consume(pipeline, chosen)
    updated = now + update
    while ends and ends[0][0] <= updated:
      end_one()
    now = updated
  assert not pipeline.unconsumed
  return now, batches


@settings(max_examples=200)
@given(
    depth=st.integers(0, 4),
    spare=st.integers(0, 5),
    per_batch=st.integers(1, 6),
    slots=st.integers(1, 40),
    update=st.sampled_from((0.0, 0.1, 1.0, 20.0)),
    seed=st.integers(0, 2**20),
    alpha=st.sampled_from((0.6, 1.0, 1.5, 3.0)),
    tied_share=st.sampled_from((0.0, 0.0, 0.3, 0.7)),
)
def test_the_bound_holds_and_every_group_is_trained_on_once(
    depth, spare, per_batch, slots, update, seed, alpha, tied_share
):
  latency = lambda number: min(
      random.Random(f'{seed} {number}').paretovariate(alpha), 1000
  )
  tied = lambda number: (
      random.Random(f'{seed} tied {number}').random() < tied_share
  )
  bound = depth + spare
  _, batches = run(
      latency,
      depth=depth,
      bound=bound,
      per_batch=per_batch,
      steps=20,
      update=update,
      slots=slots,
      tied=tied,
  )
  assert all(len(batch) == per_batch for batch in batches)
  used = sorted(number for batch in batches for number, _ in batch)
  # All but those that were replaced, each once.
  assert used == [n for n in range(used[-1] + 1) if not tied(n)]
  assert len(used) == 20 * per_batch
  staleness = [s for batch in batches for _, s in batch]
  assert 0 <= min(staleness) and max(staleness) <= bound
  # As many are unconsumed at each step: all are `depth` behind on average, but
  # for the first ones, and the last, which nothing was admitted behind.
  assert statistics.fmean(staleness) <= depth


def test_without_depth_it_is_the_order_of_a_loop_that_waits():
  _, batches = run(
      lambda n: 10.0 - n % 7, depth=0, bound=0, per_batch=3, steps=9
  )
  assert batches == [[(3 * i + j, 0) for j in range(3)] for i in range(9)]


def test_a_slow_group_is_waited_for_at_its_deadline_alone():
  latency = lambda number: 100.0 if number == 0 else 1.0
  limits = dict(depth=1, per_batch=2, steps=12)
  _, strict = run(latency, bound=1, **limits)
  assert [0 in dict(batch) for batch in strict].index(True) == 1
  _, batches = run(latency, bound=3, **limits)
  # Two versions later; what came after it was used meanwhile.
  assert [0 in dict(batch) for batch in batches].index(True) == 3
  assert batches[0] == [(1, 0), (2, 0)]


def test_depth_hides_heavy_tails_and_loses_nothing():
  """arXiv:2505.24298's setting: Pareto 1.5, cut at 100, the slowest of 8."""
  rng = random.Random(0)
  latencies = [
      max(min(rng.paretovariate(1.5), 100.0) for _ in range(8))
      for _ in range(400 * 8)
  ]
  walls = {}
  for depth, bound in ((0, 0), (2, 5)):
    wall, _ = run(
        latencies.__getitem__,
        depth=depth,
        bound=bound,
        per_batch=8,
        steps=400,
        update=15.0,
    )
    walls[depth] = wall / (400 * 15.0)
  assert walls[0] > 2.5  # two thirds of it waits
  assert walls[2] < 1.12


def test_its_state_is_json():
  pipeline = pipeline_lib.admit(Pipeline(version=3, next_number=7), 3)
  pipeline = pipeline_lib.finish(pipeline, 8)
  again = pipeline_lib.restore(json.loads(json.dumps(pipeline.state())))
  assert again == pipeline
  assert again.unconsumed == {7: 3, 8: 3, 9: 3}


def test_what_does_not_run_cannot_finish_and_what_is_not_done_cannot_be_used():
  pipeline = pipeline_lib.admit(Pipeline(), 2)
  with pytest.raises(KeyError):
    pipeline_lib.finish(pipeline, 2)
  with pytest.raises(KeyError):
    pipeline_lib.consume(pipeline, [0])
