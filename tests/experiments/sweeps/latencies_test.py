"""The claims about playing ahead, with the collector of a run in simulated time."""

import functools

import pytest

from experiments.sweeps import latencies

STEPS = 150
run = functools.partial(latencies.ours, steps=STEPS, update=15.0, seed=0)


def test_depth_hides_latencies_keeps_its_bound_and_drops_nothing():
  barrier, ahead = run(0, 0), run(2, 5)
  assert barrier.wall > 2.5 and ahead.wall < 1.15
  assert max(barrier.staleness) == 0 and max(ahead.staleness) <= 5
  for result in (barrier, ahead):
    assert (
        len(result.trained) == len(result.sampled) == STEPS * latencies.GROUPS
    )
    assert sorted(result.trained) == sorted(result.sampled)
    assert result.p_value > 0.05


def test_a_bound_equal_to_the_depth_waits_for_the_slow():
  assert run(1, 1).wall > 1.2 * run(1, 3).wall


def test_a_thousand_failures_leave_the_throughput_as_it_is():
  found = run(2, 5, failures=0.85)
  assert found.dropped > 1000
  assert found.wall == run(2, 5).wall
  assert len(found.trained) == STEPS * latencies.GROUPS


@pytest.mark.parametrize('bound', [1, 2])
def test_discarding_what_is_old_trains_on_shorter_episodes(bound):
  result = latencies.discarding(bound, steps=STEPS, update=15.0, seed=0)
  assert result.dropped > 0 and result.p_value < 0.05
  assert max(result.staleness) <= bound


def test_the_table_has_a_line_for_each_rule_and_update():
  lines = list(latencies.table([15.0, 30.0], steps=20, seeds=1))
  rules = len(latencies.OURS) + len(latencies.DISCARDS)
  assert len(lines) == 2 + 2 * rules
  assert all(line.count('|') == 10 for line in lines)
