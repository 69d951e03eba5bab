"""Tests for agentrl.schedules."""

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from agentrl import schedules
from agentrl.config.sections import HorizonOptions
from agentrl.errors import ConfigError
from agentrl.schedules import Horizon
from agentrl.types import Turns

SUCCESS = schedules.SUCCESS['rollout']


def turns_of(horizon, steps, stats=lambda step: {}):
  """Turns at each step, the state carried through JSON as a checkpoint does.

  `stats(step)` are the metrics of the step before.
  """
  state, out = horizon.init(), []
  for step in steps:
    state = json.loads(json.dumps(state))
    state, turns = horizon.update(state, step, stats(step))
    out.append(turns)
  return out


@pytest.mark.parametrize(
    'step, turns',
    [(0, 10), (99, 10), (100, 20), (199, 20), (200, 30), (299, 30),
     (300, 30), (10**6, 30)],
)  # fmt: skip
def test_stepwise_at_every_boundary(step, turns):
  horizon = schedules.stepwise((10, 20, 30), every=100)
  assert turns_of(horizon, [step]) == [turns]


@given(
    stages=st.lists(st.integers(1, 50), min_size=1, max_size=5),
    every=st.integers(1, 7),
    killed_at=st.integers(0, 40),
)
def test_a_resume_neither_advances_twice_nor_stands_still(
    stages, every, killed_at
):
  horizon = schedules.stepwise(stages, every)
  whole = turns_of(horizon, range(40))
  resumed = turns_of(horizon, range(killed_at))
  resumed += turns_of(horizon, range(killed_at, 40))
  assert resumed == whole
  # Slow and obvious: walk through the stages, stay in the last.
  expected = [turns for turns in stages for _ in range(every)]
  expected += [stages[-1]] * 40
  assert whole == expected[:40]


def test_later_changes_of_the_stages_do_not_change_a_schedule():
  stages = [1, 2]
  horizon = schedules.stepwise(stages, every=1)
  stages[0] = 9
  assert turns_of(horizon, [0, 1, 2]) == [1, 2, 2]


def test_fixed_is_the_same_at_every_step():
  assert turns_of(schedules.fixed(7), [0, 1, 500]) == [7, 7, 7]


def test_stepwise_refuses_a_stage_without_steps():
  with pytest.raises(ValueError, match='at least 1 step, got every=0'):
    schedules.stepwise((1, 2), every=0)


def test_linear_goes_through_its_stages():
  horizon = schedules.linear((3, 6, 4), every=30)
  steps = [0, 9, 10, 20, 29, 30, 44, 45, 59, 60, 10**6]
  assert turns_of(horizon, steps) == [3, 3, 4, 5, 5, 6, 5, 5, 4, 4, 4]


@given(
    stages=st.lists(st.integers(1, 50), min_size=1, max_size=4),
    every=st.integers(1, 9),
    step=st.integers(0, 60),
)
def test_linear_stays_between_its_stages_and_never_falls_below_one(
    stages, every, step
):
  [turns] = turns_of(schedules.linear(stages, every), [step])
  stage = min(step // every, len(stages) - 1)
  ends = stages[stage : stage + 2]
  assert 1 <= min(ends) <= turns <= max(ends)
  if step % every == 0:
    assert turns == stages[stage]


def successes(*values):
  """Success of the step before each; None: no valid episode."""

  def stats(step):
    value = values[step - 1] if 0 < step <= len(values) else None
    return {} if value is None else {SUCCESS: value}

  return stats


def test_a_gate_opens_once_the_mean_of_its_window_is_high_enough():
  horizon = schedules.gated((3, 6, 9), SUCCESS, threshold=0.5, window=2)
  stats = successes(0.9, 0.0, 0.9, 0.1, 0.9, 1.0, 1.0)
  # 0.9 and 0.0 are too low, 0.0 and 0.9 also; 0.9 and 0.1 are 0.5. The values
  # before a stage do not count in it, so the next needs two of its own.
  assert turns_of(horizon, range(8), stats) == [3, 3, 3, 3, 6, 6, 9, 9]


def test_a_gate_waits_for_a_full_window_and_skips_steps_without_a_value():
  horizon = schedules.gated((3, 6), SUCCESS, threshold=0.5, window=3)
  stats = successes(1.0, None, 1.0, None, 1.0)
  assert turns_of(horizon, range(7), stats) == [3, 3, 3, 3, 3, 6, 6]


@pytest.mark.parametrize('metric', ['eval', 'eval_small'])
def test_a_gate_of_evaluations_reads_success_within_its_own_turns(metric):
  options = HorizonOptions(
      kind='success', turns=(3, 6, 9), metric=metric, threshold=0.5, window=1
  )
  horizon = schedules.HORIZONS['success'](options)
  # Before the first step, and after the third and the fourth.
  found = {0: (0.4, 0.9), 3: (0.6, 0.9), 4: (0.7, 0.4), 6: (0.7, 0.5)}

  def stats(step):
    within = dict(zip((3, 6), found.get(step, ()), strict=False))
    beside = {SUCCESS: 1.0, f'{metric}/success': 1.0}
    return beside | {
        f'{metric}/success_within_{turns}': share
        for turns, share in within.items()
    }

  assert turns_of(horizon, range(8), stats) == [3, 3, 3, 6, 6, 6, 9, 9]


def test_random_is_a_range_at_every_step():
  horizon = schedules.random((3, 6))
  assert turns_of(horizon, [0, 7]) == [Turns(3, 6)] * 2
  assert horizon.init() is None and horizon.name == 'random(3 to 6)'


def of_tests(options):
  """A schedule of one's own; `every` says what it answers."""
  answers = (0, Turns(0, 3), Turns(3, 2), 2.0, Turns(2, 3.0), 2, Turns(2, 3))
  return Horizon(
      init=lambda: None,
      update=lambda state, step, stats: (state, answers[options.every]),
      name='of tests',
  )


@pytest.mark.parametrize('every', range(7))
def test_an_own_schedule_gives_turns_or_a_range_of_them(every):
  options = HorizonOptions(kind=f'{__name__}:of_tests', every=every)
  horizon = schedules.make(options)
  if every < 5:
    with pytest.raises(ConfigError, match='turns at step 4: a horizon is'):
      horizon.update(None, 4, {})
  else:
    assert horizon.update(None, 4, {})[1] in (2, (2, 3))


def test_a_token_budget_counts_the_tokens_of_its_stage():
  horizon = schedules.token_budget((3, 6, 9), tokens=100)
  spent = [60, 60, 30, 80, 500, 500]
  stats = (
      lambda step: {schedules.SAMPLED_TOKENS: spent[step - 1]} if step else {}
  )
  assert turns_of(horizon, range(7), stats) == [3, 3, 6, 6, 9, 9, 9]


@pytest.mark.parametrize(
    'options',
    [
        HorizonOptions(kind='stepwise', turns=(2, 5), every=4),
        HorizonOptions(kind='linear', turns=(2, 9), every=7),
        HorizonOptions(
            kind='success', turns=(2, 5, 9), threshold=0.4, window=2
        ),
        HorizonOptions(
            kind='saturation', turns=(2, 5, 9), threshold=0.6, window=3
        ),
        HorizonOptions(kind='token_budget', turns=(2, 5, 9), tokens=500.0),
        HorizonOptions(
            kind='success', turns=(2, 5, 9), metric='eval', window=2
        ),
    ],
    ids=lambda options: f'{options.kind}_{options.metric}',
)
@pytest.mark.parametrize('killed_at', [1, 6, 19])
def test_every_schedule_is_exact_on_resume(options, killed_at):
  rng = np.random.default_rng(killed_at)
  held_out = [schedules.SUCCESS['eval'].format(turns=n) for n in (2, 5, 9)]
  names = SUCCESS, *held_out, schedules.CUT_LEARNING, schedules.SAMPLED_TOKENS
  draw = lambda: dict.fromkeys(names, rng.random()) | {names[-1]: 200.0}
  values = [draw() for _ in range(20)]
  stats = lambda step: values[step - 1] if step else {}

  def play(start, stop, state):
    turns = []
    for step in range(start, stop):
      state, now = horizon.update(state, step, stats(step))
      turns.append(now)
    return turns, state

  horizon = schedules.HORIZONS[options.kind](options)
  whole, _ = play(0, 20, horizon.init())
  first, state = play(0, killed_at, horizon.init())
  horizon = schedules.HORIZONS[options.kind](options)  # another process
  rest, _ = play(killed_at, 20, json.loads(json.dumps(state)))
  assert first + rest == whole
  assert set(whole) <= set(range(min(options.turns), max(options.turns) + 1))
  assert whole[0] == options.turns[0] and len(set(whole)) > 1


@pytest.mark.parametrize(
    'make, words',
    [
        (lambda: schedules.linear((1, 2), every=0), 'got every=0'),
        (
            lambda: schedules.gated((1, 2), 'x', threshold=0.5, window=0),
            'got window=0',
        ),
        (lambda: schedules.token_budget((1, 2), 0.0), 'got tokens=0.0'),
    ],
)
def test_schedules_refuse_stages_of_no_length(make, words):
  with pytest.raises(ValueError, match=words):
    make()
