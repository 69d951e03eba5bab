"""Tests for agentrl.training.policy_update."""

import dataclasses
import functools
import time
import types

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st

from agentrl.algos import grpo, ppo
from agentrl.data import collate
from agentrl.ops import mismatch
from agentrl.training import policy_update, programs as programs_lib
from agentrl.training.policy_update import Update
from agentrl.training.programs import Updated
from agentrl.training.state import Networks
from tests import fakes, tiny

ONE_UPDATE = tiny.plan()
FOUR_UPDATES = tiny.plan(epochs=2, minibatches=2)


jitted_advantages = jax.jit(grpo.advantages, static_argnames='num_groups')


def score(batch):
  return programs_lib.score(
      tiny.programs(), tiny.new_state().networks, batch, max_tokens=tiny.ROW
  ).logprobs


def update(
    batch,
    plan,
    *,
    state=None,
    programs=None,
    advantages=jitted_advantages,
    rl_step=0,
):
  programs = programs or tiny.programs()
  return policy_update.update_policy(
      state or tiny.new_state(),
      batch,
      Update(programs, plan, advantages, learning_rate=lambda update: 0.0),
      num_groups=2,
      learnt=np.array(batch.valid),
      kl_coef=0.0,
      rl_step=rl_step,
  )


def test_one_update_skips_the_old_logprobs_and_returns_them_still():
  batch = tiny.random_batch(0)
  state, metrics, used, *_ = update(batch, ONE_UPDATE)
  assert metrics['train/old_logprobs_skipped'] == 1
  assert metrics['policy/ratio_max'] == 1
  assert metrics['policy/clip_fraction'] == 0
  before = score(batch)
  np.testing.assert_allclose(used.old_logprobs, before, rtol=1e-5, atol=1e-6)
  assert int(state.step) == 1


def test_gauges_are_measured_at_their_steps_and_change_nothing():
  batch = tiny.random_batch(0)
  plan = dataclasses.replace(ONE_UPDATE, gauges_every=3)
  found = {step: update(batch, plan, rl_step=step) for step in (0, 2, 3)}
  name = 'gauges/mutual_information'
  assert [name in x.metrics for x in found.values()] == [True, False, True]
  plain = update(batch, ONE_UPDATE)
  tiny.assert_trees_equal(found[0].state.params, plain.state.params)
  assert plain.metrics.items() <= found[0].metrics.items()


def test_several_updates_move_the_ratio_away_from_one():
  batch = tiny.random_batch(0)
  state, metrics, *_ = update(batch, FOUR_UPDATES)
  assert int(state.step) == metrics['train/updates'] == 4
  assert metrics['train/old_logprobs_skipped'] == 0
  assert metrics['policy/ratio_max'] > 1.001


def test_old_logprobs_that_are_computed_give_a_ratio_of_one_as_skipped_ones():
  batch = tiny.random_batch(1)
  skipped, *_ = update(batch, ONE_UPDATE)
  old = score(batch)
  state, metrics, *_ = programs_lib.update(
      tiny.programs(),
      tiny.new_state(),
      batch.replace(old_logprobs=old),
      np.arange(8),
      max_tokens=tiny.ROW,
  )
  # Two programs computed the two log-probabilities: equal but for rounding.
  assert metrics['policy/ratio_max'] == pytest.approx(1, abs=1e-5)
  assert metrics['policy/approx_kl'] == pytest.approx(0, abs=1e-6)
  tiny.assert_trees_close(state.params, skipped.params, rtol=1e-3, atol=1e-5)


def test_agreement_with_the_sampler_is_that_of_the_first_update():
  batch = tiny.random_batch(2)
  agrees = score(batch)
  batch = batch.replace(sampler_logprobs=agrees)
  _, metrics, used, *_ = update(batch, FOUR_UPDATES)
  # The later ones are off policy by more than this.
  assert metrics['sampler/logprob_abs_diff_max'] < 1e-5
  assert metrics['policy/ratio_max'] > 1.001
  np.testing.assert_array_equal(used.sampler_logprobs, agrees)


def test_each_row_keeps_the_outputs_of_its_last_update():
  batch = tiny.random_batch(2, failures=0.3)
  _, _, used, _, last = update(batch, FOUR_UPDATES)
  valid = np.array(batch.valid)
  mask = batch.completion_mask & valid[:, None]
  assert 0 < valid.sum() < len(valid)
  assert (
      np.isfinite(last.logprobs[mask]).all() and (last.entropy[mask] >= 0).all()
  )
  # The policy has moved since the old ones, and no pass was made for these.
  assert np.abs(last.logprobs - used.old_logprobs)[mask].max() > 1e-3
  assert np.isnan(last.logprobs[~mask]).all()
  assert np.isnan(last.entropy[~mask]).all()
  assert (last.placements[~valid] == -1).all()
  minibatch, microbatch, row, start, shared = last.placements[valid].T
  assert set(minibatch) == {0, 1}  # of the last epoch
  places = list(zip(minibatch, microbatch, row, start, strict=True))
  assert len(set(places)) == len(places)
  assert (shared >= 0).all()


def test_with_one_update_the_last_outputs_are_the_old_ones():
  batch = tiny.random_batch(0)
  _, metrics, used, _, last = update(batch, ONE_UPDATE)
  mask = np.asarray(batch.completion_mask)
  np.testing.assert_array_equal(last.logprobs[mask], used.old_logprobs[mask])
  assert last.entropy[mask].mean() == pytest.approx(
      metrics['policy/entropy'], rel=1e-5
  )


def test_a_collection_without_a_valid_episode_changes_nothing():
  batch = tiny.random_batch(3, failures=1.0)
  state, metrics, *_ = update(batch, FOUR_UPDATES)
  tiny.assert_trees_equal(state.params, tiny.init_params())
  assert metrics == {
      'train/updates': 0.0,
      'train/skipped': 0.0,
      'train/skips_in_row': 0.0,
      'train/old_logprobs_skipped': 0.0,
      'train/learnt_share': 0.0,
  }


def test_every_epoch_of_every_step_has_an_order_of_its_own(monkeypatch):
  seen = []

  def fake_update(programs, state, batch, rows, **options):
    seen.append(tuple(rows))
    return Updated(state, {'train/grad_norm': 1.0})

  monkeypatch.setattr(programs_lib, 'update', fake_update)
  batch = tiny.random_batch(4)
  for rl_step in (0, 1, 0):
    update(batch, FOUR_UPDATES, rl_step=rl_step)
  epochs = [sum(seen[i : i + 2], ()) for i in range(0, 12, 2)]
  assert all(sorted(epoch) == list(range(8)) for epoch in epochs)
  assert len(set(epochs[:4])) == 4 and epochs[4:] == epochs[:2]


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    count=st.integers(2, 4),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_minibatches_are_of_whole_groups(sizes, count, seed, data):
  groups = np.repeat(np.arange(len(sizes)), sizes)
  groups = np.array(data.draw(st.permutations(groups.tolist())))
  learnt = np.array(data.draw(st.tuples(*[st.booleans()] * len(groups))))
  batch = collate.blank(2).replace(valid=learnt, group_ids=groups)
  plan = tiny.plan(minibatches=count, epochs=2, seed=seed)
  parts = list(policy_update.minibatches(batch, plan, rl_step=3))
  assert len(parts) == 2 * count
  for epoch in parts[:count], parts[count:]:
    assert sorted(np.concatenate(epoch)) == np.flatnonzero(learnt).tolist()
    lengths = [len(part) for part in epoch]
    assert max(lengths) - min(lengths) <= 1
    names = [set(groups[part]) for part in epoch]
    together = len(set().union(*names))
    assert sum(map(len, names)) - together < count  # those where two meet


# Which episodes the loss sees.


@pytest.mark.parametrize('ties, learnt', [('keep', 8), ('mask', 4)])
def test_tied_groups_are_kept_or_masked(ties, learnt):
  groups = tiny.tied_and_not()
  plan = tiny.plan(ties=ties)
  found = policy_update.learnt_episodes(tiny.make_batch(groups), groups, plan)
  assert found.sum() == learnt and found[4:].all()


def test_truncated_episodes_may_be_masked():
  groups = [fakes.make_group(1.0, 0.0)]  # cut at the horizon
  batch = tiny.make_batch(groups)
  plan = tiny.plan(truncated='mask')
  assert policy_update.learnt_episodes(batch, groups, ONE_UPDATE).all()
  assert not policy_update.learnt_episodes(batch, groups, plan).any()


# With a critic.


@functools.cache
def jitted_gae():
  return jax.jit(ppo.advantages, static_argnames='num_groups')


def learn_values(critic, *, updates=30):
  """Repeats PPO on one collection; the critic's loss, first and last."""
  state, programs = tiny.make_learner(tiny.bound(ppo), critic=critic)
  batch = tiny.random_batch(14)
  # The environment ends every episode with a reward of 1.
  width = batch.tokens.shape[1]
  last = width - 1 - np.argmax(batch.completion_mask[:, ::-1], axis=1)
  batch = batch.replace(
      rewards=np.eye(width, dtype=np.float32)[last],
      truncated=np.zeros_like(batch.truncated),
  )
  losses = []
  for _ in range(updates):
    state, metrics, used, *_ = update(
        batch,
        tiny.plan(ppo),
        state=state,
        programs=programs,
        advantages=jitted_gae(),
    )
    losses.append(metrics['critic/loss'])
  return losses, metrics, used


@pytest.mark.parametrize('critic', ['own', 'shared'])
def test_a_critic_learns_the_returns(critic):
  losses, metrics, used = learn_values(critic)
  assert losses[-1] < losses[0] / 4
  assert metrics['critic/grad_norm'] > 0
  assert metrics['train/old_logprobs_skipped'] == 0
  error = np.abs(used.values[used.completion_mask] - 1)
  assert error.mean() < 0.3


def test_values_are_those_of_the_tokens_before():
  state, programs = tiny.make_learner(tiny.bound(ppo), critic='shared')
  critic = jax.tree.map(lambda x: x + 0.1, state.critic)
  networks = Networks(state.params, critic)
  batch = tiny.random_batch(15)
  scores = programs_lib.score(programs, networks, batch, max_tokens=tiny.ROW)
  changed = batch.tokens.copy()
  changed[0, 5:] = (changed[0, 5:] + 1) % tiny.CONFIG.vocab_size
  other = programs_lib.score(
      programs, networks, batch.replace(tokens=changed), max_tokens=tiny.ROW
  )
  # V(tokens[:t]) does not see token t; what comes after it does.
  np.testing.assert_allclose(
      other.values[0, :6], scores.values[0, :6], rtol=1e-5, atol=1e-6
  )
  assert abs(other.values[0, 6] - scores.values[0, 6]) > 1e-5
  n = int((batch.segment_ids[1] > 0).sum())
  np.testing.assert_allclose(
      scores.next_values[1, : n - 1], scores.values[1, 1:n], rtol=1e-5
  )


def test_agreement_is_one_program_whichever_rows_are_learnt_from():
  batch = tiny.random_batch(5)
  old = score(batch)
  old[0] = np.nan  # its update was skipped
  agreement, program = policy_update._agreement, policy_update._mismatch
  rows = np.array([0, 2, 3, 5, 7])
  programs = None
  for left_out in ([2], [2, 5]):
    learnt = np.ones(8, bool)
    learnt[left_out] = False
    seen = [row for row in rows if row and row not in left_out]
    mask = batch.completion_mask[seen]
    expected = mismatch.metrics(
        old[seen], batch.sampler_logprobs[seen], mask, mask.sum()
    )
    fit = types.SimpleNamespace(old=old, seen=rows)
    found = agreement(batch, fit, learnt)
    assert found == pytest.approx(
        {name: float(x) for name, x in expected.items()}, rel=1e-5, abs=1e-7
    )
    programs = programs or program._cache_size()
    assert program._cache_size() == programs


def test_a_simulated_update_waits_and_learns_nothing():
  batch, state = tiny.random_batch(0), tiny.new_state()
  began = time.monotonic()
  plan = dataclasses.replace(FOUR_UPDATES, simulated_s=0.2)
  found = update(batch, plan, state=state)
  assert time.monotonic() - began >= 0.2
  assert found.state is state and found.batch is batch and found.last is None
