"""Tests for agentrl.training.rl.

A deterministic fake plays the episodes: its tokens depend on the step, the
task and, bit for bit, on the parameters that were pushed last.
"""

import dataclasses
import functools
import json
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import schedules
from agentrl.algos import grpo
from agentrl.data.tasks import TaskIterator
from agentrl.errors import CheckpointError, DivergedError, EngineError
from agentrl.rollout.sources import Source, Sources
from agentrl.training import rl
from agentrl.training.policy_update import UpdatePlan
from agentrl.training.rl import LoopState
from agentrl.types import Group
from tests import tiny, variants

HORIZON = schedules.stepwise((1, 2, 3), every=2)
ONE_UPDATE = tiny.plan()
FOUR_UPDATES = tiny.plan(epochs=2, minibatches=2)
WITH_KL = tiny.plan(kl_coef=0.1)


jitted_advantages = jax.jit(grpo.advantages, static_argnames='num_groups')


def fingerprint(params):
  """A number that changes with any bit of the parameters."""
  crc = 0
  for leaf in jax.tree.leaves(params):
    crc = zlib.crc32(np.asarray(leaf).tobytes(), crc)
  return crc


class Run(rl.Hooks):
  """A training run in one process, with a dictionary for its disk.

  Attributes:
    disk: checkpoints by step, newest last; survives the process.
    lines: metrics by step, as `metrics.jsonl` would hold them.
    calls: what the loop asked for, in order.
  """

  def __init__(self, *, disk=None, lines=None, fails=None, num_steps=6,
               save_every=2, plan=ONE_UPDATE, stop_after=None,
               schedule=HORIZON, evaluations=None):  # fmt: skip
    self.disk = {} if disk is None else disk
    self.lines = {} if lines is None else lines
    self.fails = fails or {}
    self.num_steps, self.save_every, self.plan = num_steps, save_every, plan
    self.kl_coef = kl_coef = plan.hyperparams.kl_coef
    self.stop_after = stop_after
    self.calls = []
    self.batches = []
    self.suspects = {}
    self.poisoned = set()  # steps of which row 6 has advantages of NaN
    self.evaluations = evaluations or {}  # metrics by steps done
    tasks = TaskIterator(range(7), seed=3)
    self.sources = Sources([Source(tasks, schedule)], 2)
    if self.disk:
      step = max(self.disk)
      arrays, text = self.disk[step]
      self.state = jax.tree.map(jnp.asarray, arrays['state'])
      self.ref_params = jax.tree.map(jnp.asarray, arrays['ref_params'])
      loop = LoopState(**json.loads(text))
      for late in [s for s in self.lines if s >= step]:
        del self.lines[late]
    else:
      self.state = tiny.new_state()
      self.ref_params = (
          jax.tree.map(jnp.copy, self.state.params) if kl_coef else None
      )
      cursor, horizon = self.sources.cursor(), self.sources.first_horizon()
      loop = LoopState(0, 1, cursor, horizon, self.held_out(0), kl_coef)
    self.sources.restore(loop.tasks)
    self.loop = loop
    self.serving = fingerprint(self.state.params)  # pushed at the start
    if not self.disk:
      self.save(self.state, loop)
      self.calls.clear()

  def go(self):
    self.state, self.loop = rl.train(
        self.state,
        self.loop,
        num_steps=self.num_steps,
        sources=self.sources,
        update=rl.Update(
            tiny.programs(tiny.bound(**self._of_the_loss())),
            self.plan,
            self._advantages,
            learning_rate=lambda update: 0.5 ** float(update),
            ref_params=self.ref_params,
        ),
        hooks=self,
        save_every=self.save_every,
    )
    return self

  def _of_the_loss(self):
    """Hyperparameters of the loss; those of a collection would compile it anew."""
    hyperparams = self.plan.hyperparams
    return dict(kl_coef=hyperparams.kl_coef) if hyperparams.kl_in_loss else {}

  def _called(self, name, step, *details):
    self.calls.append((name, step, *details))
    if (name, step) in self.fails:
      raise self.fails[name, step]

  def collect(self, step, shares, *, policy_version):
    [(_, tasks, horizon)] = shares
    self._called('collect', step, horizon, policy_version)

    def play(ordinal, task_id, replica):
      rng = np.random.default_rng((step, ordinal, replica, self.serving))
      return tiny.random_episode(
          rng, turns=horizon, task_id=task_id, horizon=horizon
      )

    groups = [
        Group(
            task_id, ordinal, tuple(play(ordinal, task_id, r) for r in range(4))
        )
        for ordinal, task_id in tasks
    ]
    return [groups]

  def _advantages(self, batch, *, num_groups):
    batch = jitted_advantages(batch, num_groups=num_groups)
    if len(self.lines) in self.poisoned:
      advantages = batch.advantages.at[6].set(jnp.nan)
      batch = batch.replace(advantages=advantages)
    return batch

  def push(self, params, version):
    self._called('push', version - 2)  # version 1 is pushed before step 0
    self.serving = fingerprint(params)

  def record(self, rl_step):
    self._called('record', rl_step.step)
    self.suspects[rl_step.step] = rl_step.suspects
    assert rl_step.step not in self.lines
    self.lines[rl_step.step] = rl_step.metrics
    self.batches.append(rl_step.batch)

  def evaluate(self, step, version):
    del version
    self._called('evaluate', step)

  def held_out(self, step):
    return self.evaluations.get(step, {})

  def stopped(self):
    return len(self.lines) == self.stop_after

  def save(self, state, loop):
    self._called('save', loop.step)
    arrays = dict(state=state, ref_params=self.ref_params)
    self.disk[loop.step] = (
        jax.tree.map(np.array, arrays),
        json.dumps(dataclasses.asdict(loop)),
    )


def without_time(lines):
  own = ('time/', 'train/compile', 'train/programs')  # of a process
  return {
      step: {k: v for k, v in line.items() if not k.startswith(own)}
      for step, line in lines.items()
  }


def assert_same_run(actual, expected):
  """Equal to the last bit in all but wall time."""
  assert without_time(actual.lines) == without_time(expected.lines)
  tiny.assert_trees_equal(actual.state, expected.state)
  loop, other = (
      dataclasses.asdict(dataclasses.replace(run.loop, stats={}))
      for run in (actual, expected)
  )
  assert loop == other


@functools.cache
def uninterrupted(plan=ONE_UPDATE):
  return Run(plan=plan).go()


def test_calls_come_in_order_with_the_horizon_and_the_version_of_each_step():
  run = uninterrupted()
  expected = []
  for step in range(6):
    expected += [
        # Version 1 is the start; each step pushes one more.
        ('collect', step, (1, 1, 2, 2, 3, 3)[step], step + 1),
        ('push', step),
        ('record', step),
        ('evaluate', step + 1),
    ]
    if step % 2:
      expected.append(('save', step + 1))
  assert run.calls == expected
  assert sorted(run.disk) == [0, 2, 4, 6]
  assert run.loop.step == 6 and run.loop.policy_version == 7
  assert int(run.state.step) == 6


def test_every_step_has_one_line_with_what_it_did():
  lines = uninterrupted().lines
  assert sorted(lines) == list(range(6))
  for step, line in lines.items():
    assert line['policy/version'] == step + 2
    assert line['rollout/horizon'] == (1, 1, 2, 2, 3, 3)[step]
    assert line['train/lr'] == 0.5**step
    assert line['train/updates'] == 1
    assert line['train/grad_norm'] > 0
    assert line['rollout/episodes'] == 8
    assert line['time/step_s'] >= line['time/collect_s'] > 0
    assert all(isinstance(value, float | int) for value in line.values())


def test_the_last_step_is_saved_once_whatever_the_interval():
  run = Run(num_steps=3, save_every=2).go()
  assert [c for c in run.calls if c[0] == 'save'] == [('save', 2), ('save', 3)]


def test_a_finished_run_does_nothing_more():
  run = uninterrupted()
  again = Run(disk=dict(run.disk), lines=dict(run.lines)).go()
  assert again.calls == []
  assert_same_run(again, run)


@pytest.mark.parametrize('plan', [ONE_UPDATE, FOUR_UPDATES])
@pytest.mark.parametrize('killed_at', [('push', 3), ('collect', 5)])
def test_a_killed_run_that_is_resumed_equals_an_uninterrupted_one(
    plan, killed_at
):
  # SIGKILL leaves the disk as it was: the newest regular checkpoint.
  run = Run(plan=plan, fails={killed_at: EngineError('killed')})
  with pytest.raises(EngineError):
    run.go()
  disk = {step: saved for step, saved in run.disk.items() if step <= 2}
  again = Run(disk=disk, lines=dict(run.lines), plan=plan)
  assert again.loop.step == 2
  assert_same_run(again.go(), uninterrupted(plan))


@pytest.mark.parametrize(
    'name, step, saved',
    [
        ('collect', 0, 0),
        ('collect', 1, 1),
        ('collect', 3, 3),
        # The update of step 2 is made: it is not lost with its push.
        ('push', 2, 3),
        ('push', 3, 4),
        # Nor with its evaluation.
        ('evaluate', 3, 3),
        ('evaluate', 4, 4),
        # A step without its line would be missing: back to the checkpoint.
        ('record', 2, 2),
        ('record', 3, 2),
    ],
)
def test_whatever_ends_the_run_a_resume_repeats_it(name, step, saved):
  run = Run(fails={(name, step): EngineError('the engine is down')})
  with pytest.raises(EngineError, match='is down'):
    run.go()
  assert max(run.disk) == saved
  again = Run(disk=run.disk, lines=run.lines)
  assert_same_run(again.go(), uninterrupted())


def test_what_was_not_pushed_is_not_evaluated():
  down = EngineError('one of two servers')
  run = Run(fails={('push', 2): down}, evaluations={3: {'eval/success': 1.0}})
  with pytest.raises(EngineError, match='one of two'):
    run.go()
  # Recorded and saved, and its figures are left to the resume.
  assert run.calls[-3:] == [('push', 2), ('record', 2), ('save', 3)]
  assert 'eval/success' not in json.loads(run.disk[3][1])['stats']


@pytest.mark.parametrize('killed_at', [None, 2, 3, 4, 5])
def test_a_horizon_follows_evaluations_over_a_resume(killed_at):
  metric = schedules.SUCCESS['eval']
  gate = schedules.gated((1, 2, 3), metric, threshold=0.5, window=1)
  shares = {0: (0.4, 0.9), 2: (0.6, 0.1), 4: (0.0, 0.7)}
  evaluations = {
      step: {metric.format(turns=turns): share}
      for step, found in shares.items()
      for turns, share in zip((1, 2), found, strict=True)
      # Of each evaluation what the stage at that time asks for.
      if (step < 4) == (turns == 1)
  }
  how = dict(schedule=gate, evaluations=evaluations, save_every=1)
  run = Run(**how, stop_after=killed_at).go()
  if killed_at is not None:
    run = Run(**how, disk=run.disk, lines=run.lines).go()
  horizons = [run.lines[step]['rollout/horizon'] for step in range(6)]
  assert horizons == [1, 1, 2, 2, 3, 3]


def test_ctrl_c_while_collecting_saves_the_step_before():
  run = Run(fails={('collect', 3): KeyboardInterrupt()})
  with pytest.raises(KeyboardInterrupt):
    run.go()
  assert run.calls[-1] == ('save', 3)
  assert_same_run(Run(disk=run.disk, lines=run.lines).go(), uninterrupted())


def test_a_stop_between_steps_saves_and_returns():
  run = Run(stop_after=3).go()
  assert run.loop.step == 3 and max(run.disk) == 3
  assert_same_run(Run(disk=run.disk, lines=run.lines).go(), uninterrupted())


def test_a_save_that_fails_ends_the_run_and_leaves_the_older_one():
  run = Run(fails={('save', 4): CheckpointError('no space')})
  with pytest.raises(CheckpointError, match='no space'):
    run.go()
  assert sorted(run.disk) == [0, 2]
  assert_same_run(Run(disk=run.disk, lines=run.lines).go(), uninterrupted())


def test_a_save_that_a_second_signal_cuts_short_is_not_begun_again():
  run = Run(fails={('save', 4): KeyboardInterrupt()})
  with pytest.raises(KeyboardInterrupt):
    run.go()
  assert run.calls.count(('save', 4)) == 1 and sorted(run.disk) == [0, 2]
  assert_same_run(Run(disk=run.disk, lines=run.lines).go(), uninterrupted())


def test_a_gradient_that_is_not_finite_changes_nothing_and_is_counted():
  run = Run(num_steps=3, save_every=1)
  run.poisoned = {1}
  run.go()
  after_one, after_two = (run.disk[step][0]['state'] for step in (1, 2))
  assert after_two.step == after_one.step + 1
  tiny.assert_trees_equal(
      (after_one.params, after_one.opt_state),
      (after_two.params, after_two.opt_state),
  )
  # The next update is the second that is applied, and has its rate.
  assert [run.lines[step]['train/lr'] for step in range(3)] == [1, 0.5, 0.5]
  counts = [
      [run.lines[step][f'train/{name}'] for step in range(3)]
      for name in ('skipped', 'skips_in_row', 'updates')
  ]
  assert counts == [[0, 1, 0], [0, 1, 0], [1, 0, 1]]
  # Those of its microbatch, which is one packed row of several.
  assert 6 in run.suspects[1] and len(run.suspects[1]) < 8
  assert not run.suspects[0] and not run.suspects[2]
  assert all(
      np.isfinite(value)
      for step in (0, 2)
      for value in run.lines[step].values()
  )


def test_the_third_in_a_row_ends_the_run_with_a_state_that_is_good():
  run = Run(save_every=10)
  run.poisoned = {2, 3, 4}
  with pytest.raises(DivergedError, match='of 3 updates in a row'):
    run.go()
  assert sorted(run.disk) == [0, 5] and sorted(run.lines) == [0, 1, 2, 3, 4]
  good = Run(num_steps=2, save_every=10).go()
  tiny.assert_trees_equal(run.disk[5][0]['state'].params, good.state.params)

  # The same command again is told so before it plays anything.
  again = Run(disk=run.disk, lines=run.lines)
  with pytest.raises(DivergedError, match='in a row were not finite'):
    again.go()
  assert not again.calls and sorted(run.disk) == [0, 5]


def test_two_in_a_row_do_not_end_it_even_over_a_resume():
  run = Run(num_steps=2, save_every=1)
  run.poisoned = {1}
  run.go()
  again = Run(disk=run.disk, lines=run.lines, num_steps=5)
  again.poisoned = {2, 4}
  again.go()
  in_row = [again.lines[s]['train/skips_in_row'] for s in range(5)]
  assert in_row == [0, 1, 2, 0, 1]


def test_minibatches_are_skipped_one_by_one(monkeypatch):
  def poison(batch, *, num_groups):
    return batch.replace(advantages=batch.completion_mask * np.float32(np.nan))

  run = Run(num_steps=1, plan=FOUR_UPDATES)
  monkeypatch.setattr(run, '_advantages', poison)
  with pytest.raises(DivergedError):
    run.go()
  # Of its four updates no more than three were tried.
  assert run.lines[0]['train/skipped'] == 3
  assert run.lines[0]['train/updates'] == 0


def test_parameters_that_are_not_finite_are_never_saved_or_served():
  run = Run(num_steps=4, save_every=1)
  run.go()
  broken = jax.tree.map(lambda x: x * jnp.nan, run.state.params)
  run.state = run.state.replace(params=broken)
  run.num_steps, served = 6, run.serving
  with pytest.raises(DivergedError, match='are not finite; they are not kept'):
    run.go()
  assert run.serving == served and max(run.disk) == 4 and max(run.lines) == 3


def test_resume_with_a_reference_repeats_too():
  expected = uninterrupted(WITH_KL)
  run = Run(plan=WITH_KL, fails={('collect', 4): EngineError('down')})
  with pytest.raises(EngineError):
    run.go()
  again = Run(plan=WITH_KL, disk=run.disk, lines=run.lines).go()
  assert_same_run(again, expected)


def test_the_reference_is_the_starting_policy_and_stays_it():
  lines = uninterrupted(WITH_KL).lines
  # At step 0 the policy is its own reference; later it has left it.
  assert lines[0]['policy/kl_ref'] == pytest.approx(0, abs=1e-9)
  assert lines[5]['policy/kl_ref'] > 1e-6
  assert 'policy/kl_ref' not in uninterrupted().lines[0]


# What a plan does to a collection.


class Refilling(Run):
  """Every task with an even id gives equal returns."""

  def collect(self, step, shares, *, policy_version):
    [(_, tasks, _)] = shares
    self._called('collect', step, len(tasks))
    ties, other = tiny.tied_and_not()
    groups = [
        dataclasses.replace(
            other if task_id % 2 else ties, task_id=task_id, ordinal=ordinal
        )
        for ordinal, task_id in tasks
    ]
    return [groups]


def test_refill_replaces_tied_groups_and_stops_after_its_rounds():
  plan = tiny.plan(ties='refill', refill_rounds=2)
  run = Refilling(plan=plan, num_steps=3)
  run.go()
  for step in range(3):
    sizes = [c[2] for c in run.calls if c[:2] == ('collect', step)]
    assert sizes[0] == 2 and len(sizes) <= 3
    line, batch = run.lines[step], run.batches[step]
    assert line['rollout/episodes'] == len(batch.valid) == 4 * sum(sizes)
    # All that was collected is on record; what is tied is not learnt from.
    untied = 1 - line['rollout/tied_groups']
    assert line['train/learnt_share'] == pytest.approx(untied)
  assert any(len(b.valid) > 8 for b in run.batches)
  assert run.loop.tasks == run.sources.cursor()


def test_the_coefficient_of_the_kl_is_steered_and_resumed():
  plan = tiny.plan(kl_coef=0.1, kl_target=1e-9, kl_horizon=16)
  run = Run(plan=plan).go()
  coefs = [run.lines[step]['train/kl_coef'] for step in range(6)]
  # The first KL is 0 (below the target), later ones are above it.
  assert coefs[0] == 0.1 and coefs[1] < coefs[0]
  assert coefs[5] > coefs[4]
  disk = {2: run.disk[2]}
  lines = {step: run.lines[step] for step in (0, 1)}
  again = Run(plan=plan, disk=disk, lines=lines).go()
  assert_same_run(again, run)


# As `variants.USES`, of a plan; the size of a microbatch is memory, not
# mathematics: see programs_test.
PLANS = variants.USES | {
    'seed': (dict(minibatches=2), 1),
    'max_context': (dict(overlong_buffer=20), 30),
    'simulated_s': ({}, 0.0),
}


@functools.cache
def learnt_under(plan):
  """Parameters after three steps."""
  return Refilling(plan=plan, num_steps=3, save_every=9).go().state.params


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(n, marks=[pytest.mark.slow] * (n == 'refill_rounds'))
        for n in PLANS
    ],
)
def test_every_field_of_a_plan_acts(name):
  beside, value = PLANS[name]
  plans = tiny.plan(**beside), tiny.plan(**(beside | {name: value}))
  assert plans[0] != plans[1]
  before, after = (jax.tree.leaves(learnt_under(plan)) for plan in plans)
  assert not all(
      np.array_equal(a, b) for a, b in zip(before, after, strict=True)
  )


def test_every_field_of_a_plan_is_asked():
  fields = {field.name for field in dataclasses.fields(UpdatePlan)}
  # Memory, what is compiled ahead and what is measured: none changes what is
  # learnt.
  others = {'hyperparams', 'max_tokens', 'episodes', 'gauges_every'}
  assert fields - others <= set(PLANS)
