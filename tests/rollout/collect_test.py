"""Tests for agentrl.rollout.collect."""

import asyncio
import statistics

import pytest
from hypothesis import given, strategies as st

from agentrl.errors import ConfigError, EngineError, EnvError
from agentrl.rollout.collect import collect, is_tied, rollout_metrics
from agentrl.types import Group
from tests import fakes
from tests.waiting import until


def run_collect(tasks, group_size, play, **settings):
  async def main():
    with fakes.no_waiting_tasks():
      return await asyncio.wait_for(
          collect(
              tasks,
              group_size,
              play,
              **{
                  'seed': 3,
                  'concurrency': 4,
                  'retry_wait_s': 0.0,
                  **settings,
              },
          ),
          20,
      )

  return asyncio.run(main())


def record(assignment, **fields):
  values = dict(
      episode_id=f'{assignment.ordinal}/{assignment.replica}',
      task_id=assignment.task_id,
      seed=assignment.seed,
  )
  return fakes.make_episode(**(values | fields))


def failed(assignment, stop_reason='env_error', error='down'):
  return record(assignment, stop_reason=stop_reason, error=error, turns=())


TASKS = [(10, 5), (11, 3), (12, 5)]


def test_order_is_task_then_replica_whatever_ends_first():
  finished = []

  async def play(assignment):
    # The first to start is the last to end.
    later = 5 - 2 * (assignment.ordinal - 10) - assignment.replica
    await until(lambda: len(finished) == later)
    return record(assignment)

  groups = run_collect(
      TASKS,
      2,
      play,
      concurrency=6,
      on_episode=lambda e: finished.append(e.episode_id),
  )
  assert [(g.ordinal, g.task_id) for g in groups] == TASKS
  ids = [e.episode_id for g in groups for e in g.episodes]
  assert ids == ['10/0', '10/1', '11/0', '11/1', '12/0', '12/1']
  assert finished == ids[::-1]


def test_every_episode_has_a_seed_of_its_own_that_comes_back():
  async def play(assignment):
    return record(assignment)

  def seeds_of(seed):
    groups = run_collect(TASKS, 2, play, seed=seed)
    return [e.seed for g in groups for e in g.episodes]

  assert len(set(seeds_of(3))) == 6
  assert seeds_of(3) == seeds_of(3)
  assert not set(seeds_of(3)) & set(seeds_of(4))


def test_straggler_blocks_nobody():
  events = []
  all_others = asyncio.Event()

  async def play(assignment):
    events.append(('start', assignment.ordinal))
    if assignment.ordinal == 0:
      await all_others.wait()  # hangs for ever if the others wait for it
    events.append(('end', assignment.ordinal))
    if sum(kind == 'end' for kind, _ in events) == 7:
      all_others.set()
    return record(assignment)

  run_collect([(i, i) for i in range(8)], 1, play, concurrency=2)
  assert events[0] == ('start', 0)
  assert events[-1] == ('end', 0)


@pytest.mark.parametrize('concurrency', [1, 3, 100])
def test_concurrency_is_bounded_and_used(concurrency):
  live, most = 0, 0

  async def play(assignment):
    nonlocal live, most
    live += 1
    most = max(most, live)
    await asyncio.sleep(0.001)
    live -= 1
    return record(assignment)

  run_collect([(i, i) for i in range(5)], 2, play, concurrency=concurrency)
  assert most == min(concurrency, 10)


def test_infrastructure_failure_is_tried_again_with_the_same_seed():
  seen = []

  async def play(assignment):
    seen.append(assignment)
    return failed(assignment) if len(seen) == 1 else record(assignment)

  [group] = run_collect([(0, 5)], 1, play, attempts=2)
  assert group.episodes[0].valid
  assert seen[0] == seen[1]


def test_failure_that_stays_is_kept_as_invalid():
  async def play(assignment):
    return failed(assignment) if assignment.replica else record(assignment)

  [group] = run_collect([(0, 5)], 2, play, attempts=3)
  assert [e.valid for e in group.episodes] == [True, False]
  assert rollout_metrics([group], 10)['rollout/invalid'] == 1


def test_policys_own_failure_is_not_tried_again():
  seen = []

  async def play(assignment):
    seen.append(assignment)
    return record(assignment, stop_reason='horizon')

  run_collect([(0, 5)], 1, play, attempts=3)
  assert len(seen) == 1


@pytest.mark.parametrize(
    'stop_reason, error_class',
    [
        ('env_error', EnvError),
        ('engine_error', EngineError),
        ('timeout', EngineError),
        ('context', ConfigError),
    ],
)
def test_dead_server_is_one_clear_error(stop_reason, error_class):
  played = []

  async def play(assignment):
    played.append(assignment)
    return failed(assignment, stop_reason, 'POST http://x gave 500')

  with pytest.raises(
      error_class,
      match=(
          f"11 of 20 episodes failed.*first was '0/0' with {stop_reason}: POST"
          ' http://x gave 500'
      ),
  ):
    run_collect([(i, i) for i in range(20)], 1, play, attempts=1)
  assert len(played) < 20  # nobody waits for the rest


def test_failing_half_is_tolerated_by_default():
  async def play(assignment):
    return failed(assignment) if assignment.ordinal % 2 else record(assignment)

  groups = run_collect([(i, i) for i in range(8)], 1, play, attempts=1)
  assert sum(e.valid for g in groups for e in g.episodes) == 4


def test_bug_in_play_comes_out_as_itself_and_stops_the_others():
  closed = []

  async def play(assignment):
    try:
      await asyncio.sleep(0 if assignment.ordinal == 1 else 60)
      raise ZeroDivisionError('a bug')
    finally:
      closed.append(assignment.ordinal)

  with pytest.raises(ZeroDivisionError, match='a bug'):
    run_collect([(i, i) for i in range(3)], 1, play)
  assert sorted(closed) == [0, 1, 2]


def test_cancelling_closes_every_environment():
  live = set()
  all_open = asyncio.Event()

  async def play(assignment):
    async with fakes.FakeEnv(live=live):
      if len(live) == 4:
        all_open.set()
      await asyncio.sleep(60)

  async def main():
    with fakes.no_waiting_tasks():
      task = asyncio.create_task(
          collect([(i, i) for i in range(9)], 1, play, seed=0, concurrency=4)
      )
      await asyncio.wait_for(all_open.wait(), 60)
      task.cancel()
      with pytest.raises(asyncio.CancelledError):
        await task

  asyncio.run(main())
  assert not live


@pytest.mark.parametrize('name', ['group_size', 'concurrency', 'attempts'])
def test_counts_below_one_are_refused(name):
  settings = {'group_size': 1, 'concurrency': 1, 'attempts': 1, name: 0}
  with pytest.raises(ValueError, match=f'{name}=0'):
    asyncio.run(collect(TASKS, play=None, seed=0, **settings))


def test_prompt_that_does_not_fit_is_not_tried_again():
  seen = []

  async def play(assignment):
    seen.append(assignment)
    return failed(assignment, 'context', 'leaves no room')

  [group] = run_collect([(0, 5)], 1, play, attempts=3, max_failed_share=1.0)
  assert len(seen) == 1 and not group.episodes[0].valid


def test_no_tasks_give_no_groups():
  assert run_collect([], 2, None) == []


RETURNS = st.lists(
    st.lists(st.none() | st.sampled_from([0.0, 0.5, 1.0]), min_size=1),
    min_size=1,
    max_size=5,
)


@given(RETURNS)
def test_metrics_count_valid_episodes_only(returns):
  groups = [fakes.make_group(*values) for values in returns]
  metrics = rollout_metrics(groups, 10)
  every = [value for values in returns for value in values]
  valid = [value for value in every if value is not None]
  assert metrics['rollout/episodes'] == len(every)
  assert metrics['rollout/invalid'] == len(every) - len(valid)
  if valid:
    assert metrics['rollout/return_mean'] == pytest.approx(
        statistics.fmean(valid)
    )
    tied = [len({v for v in vs if v is not None}) <= 1 for vs in returns]
    assert metrics['rollout/tied_groups'] == statistics.fmean(tied)
  else:
    assert 'rollout/return_mean' not in metrics


def test_equal_scores_that_are_sums_of_other_parts_are_tied():
  # Whether summed in order or at once, the parts give 0.16999999999999998.
  whole, parts = (0.17,), (0.01, 0.01, 0.15)
  more = (0.18,)
  group = lambda *paths: Group(0, 0, tuple(map(fakes.make_episode, paths)))
  assert is_tied(group(whole, parts)) and not is_tied(group(parts, more))
  assert is_tied(group((0.0,), (0.1, 0.2, -0.3)))


def test_a_perfect_score_in_parts_is_a_return_of_one():
  # One after the other, they sum to 0.9999999999999999.
  assert fakes.make_episode((0.29, 0.35, 0.36)).episode_return == 1.0


@given(RETURNS)
def test_stop_shares_sum_to_one(returns):
  metrics = rollout_metrics([fakes.make_group(*v) for v in returns], 10)
  stops = [v for k, v in metrics.items() if k.startswith('rollout/stop_')]
  assert len(stops) == 6
  assert sum(stops) == pytest.approx(1.0)


def test_metrics_of_a_hand_made_collection():
  turns = (
      fakes.make_turn(prompt_tokens=10, cached_tokens=0, completion_tokens=2),
      fakes.make_turn(
          1.0,
          prompt_tokens=30,
          cached_tokens=20,
          completion_tokens=4,
          parse_error='none',
          finish_reason='length',
      ),
  )
  two_turns = fakes.make_episode(turns=turns, success=True)  # 4 tokens + 3
  one_turn = fakes.make_episode((0.0,), stop_reason='horizon')
  metrics = rollout_metrics([Group(0, 0, (two_turns, one_turn))], 6)
  expected = {
      'rollout/horizon': 6,
      'rollout/horizon_mean': 10,
      'rollout/success': 0.5,
      'rollout/return_mean': 0.5,
      'rollout/turns_mean': 1.5,
      'rollout/completion_tokens_mean': (2 + 4 + 2) / 3,
      'rollout/completion_tokens': 8,
      'rollout/parse_error_share': 1 / 3,
      'rollout/cut_completion_share': 1 / 3,
      'rollout/cached_share': 20 / 44,
      'rollout/stop_terminated': 0.5,
      'rollout/stop_horizon': 0.5,
      'rollout/stop_timeout': 0.0,
      'rollout/tied_groups': 0.0,
      'rollout/invalid': 0,
  }
  assert {k: metrics[k] for k in expected} == pytest.approx(expected)


def test_metrics_that_warn_of_a_collapse():
  go, stop = (fakes.make_turn(action=action) for action in ('go', 'stop'))
  stuck = fakes.make_episode(turns=(go, go, go), **_masked(3))
  moving = fakes.make_episode(
      turns=(go, stop, fakes.make_turn(1.0)), success=True, **_masked(3)
  )
  cut = fakes.make_episode((0.0,), stop_reason='horizon')
  groups = [
      Group(0, 0, (stuck, moving, cut)),  # differ
      Group(1, 1, (cut, cut)),  # all fail
      Group(2, 2, (moving, moving)),  # all succeed
  ]
  metrics = rollout_metrics(groups, 3)
  # Of the later turns of stuck 2 of 2 repeat, of moving 0 of 2, three times.
  assert metrics['rollout/repeated_action_share'] == 2 / 8
  assert metrics['rollout/failed_groups'] == pytest.approx(1 / 3)
  # Of the one group that differs one episode of three is cut.
  assert metrics['rollout/cut_share_untied'] == pytest.approx(1 / 3)
  tied = rollout_metrics(groups[1:], 3)
  assert 'rollout/cut_share_untied' not in tied


def _masked(turns):
  """Token arrays of an episode with so many turns."""
  like = fakes.make_episode((0.0,) * turns)
  return dict(
      tokens=like.tokens,
      completion_mask=like.completion_mask,
      sampler_logprobs=like.sampler_logprobs,
  )
