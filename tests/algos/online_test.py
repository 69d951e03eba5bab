"""Properties that every online algorithm shares.

Each is asked of each entry of `ONLINE`, and of the variants that are choices
of their hyperparameters.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.algos.online import ONLINE
from agentrl.data import collate
from agentrl.types import HORIZON, TERMINATED, Group
from tests import fakes, tiny, variants

SEEDS = st.integers(0, 2**32 - 1)
WHITENED = ('reinforce_pp', 'ppo', 'ppo_turn_level')
# Those in which no teacher decides.
REWARDED = [
    name
    for name, (algorithm, _) in variants.ADVANTAGES.items()
    if not ONLINE[algorithm].Hyperparams.TEACHER
]

each_advantage = pytest.mark.parametrize('name', variants.ADVANTAGES)
each_loss = pytest.mark.parametrize('name', variants.LOSSES)


def test_every_algorithm_is_asked():
  for table in (variants.ADVANTAGES, variants.LOSSES):
    assert {algorithm for algorithm, _ in table.values()} == set(ONLINE)


@each_loss
def test_gradient_is_zero_exactly_where_the_mask_is_zero(name):
  batch = variants.loss_batch(name, 1, failures=0.2)
  logits = tiny.random_logits(batch, 1)
  mask = batch.completion_mask & batch.valid[:, None]
  assert not batch.valid.all() and batch.valid.any()
  # What the network says of the value elsewhere is nobody's business.
  values = jnp.where(mask, variants.random_values(batch), jnp.nan)
  (loss, metrics), (grad, value_grad) = variants.value_and_grad(
      name, batch, logits, values=values
  )
  # The state at t speaks of token t + 1: logits and mask differ by one.
  size = np.abs(np.asarray(grad)).sum(axis=-1)
  learnt = np.pad(mask[:, 1:], ((0, 0), (0, 1)))
  np.testing.assert_array_equal(size[~learnt], 0)
  assert (size[learnt] > 0).all()
  assert np.isfinite(size).all() and np.isfinite(loss)
  assert all(np.isfinite(value) for value in metrics.values())
  if not ONLINE[variants.LOSSES[name][0]].Hyperparams.CRITIC:
    np.testing.assert_array_equal(value_grad, 0)
    return
  taught = mask
  if 'turn_level' in name:  # a turn's first token has its value
    taught = mask & ~np.pad(mask[:, :-1], ((0, 0), (1, 0)))
  np.testing.assert_array_equal(np.asarray(value_grad)[~taught], 0)
  # A clipped value has no gradient, so not every one of them.
  assert (np.asarray(value_grad)[taught] != 0).mean() > 0.3


@each_loss
@pytest.mark.parametrize('pieces', [1, 2, 4])
def test_microbatches_sum_to_the_whole_minibatch(name, pieces):
  batch = variants.loss_batch(name, 2, failures=0.2)
  denominators = tiny.denominators(batch, kl_coef=0.1)
  logits, values = tiny.random_logits(batch, 2), variants.random_values(batch)
  (expected, whole), (grad, value_grad) = variants.value_and_grad(
      name, batch, logits, denominators=denominators, values=values
  )
  total, parts = 0.0, []
  summed, value_summed = np.zeros(logits.shape), np.zeros(values.shape)
  for rows in np.array_split(np.arange(len(batch.valid)), pieces):
    for piece, places in collate.microbatches(batch, rows, max_tokens=1 << 20):
      # One shape for all, so that there is one program to compile.
      packed = tiny.pad(piece, len(batch.tokens), variants.WIDTH)
      cut = lambda x, places=places: _pack(np.asarray(x), places)
      (loss, metrics), grads = variants.value_and_grad(
          name,
          packed,
          cut(logits),
          denominators=denominators,
          values=cut(values),
      )
      total += loss
      parts.append(metrics)
      for p in places:
        here = p.packed_row, slice(p.start, p.start + p.length)
        summed[p.row, : p.length] += np.asarray(grads[0])[here]
        value_summed[p.row, : p.length] += np.asarray(grads[1])[here]
  # Terms of size 1 / tokens cancel, in the sum and in its gradient.
  np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(summed, grad, rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(value_summed, value_grad, rtol=1e-4, atol=1e-6)
  for key in whole:
    join = max if key.endswith('_max') else sum
    np.testing.assert_allclose(
        join(part[key] for part in parts),
        whole[key],
        rtol=1e-4,
        atol=1e-5,
        err_msg=key,
    )


def _pack(x, places):
  out = np.zeros_like(x)
  for p in places:
    out[p.packed_row, p.start : p.start + p.length] = x[p.row, : p.length]
  return jnp.asarray(out)


@each_loss
def test_the_loss_does_not_see_failed_episodes(name):
  batch = variants.loss_batch(name, 3, failures=0.3)
  logits = tiny.random_logits(batch, 3)
  assert 0 < (~batch.valid).sum() < len(batch.valid)
  clean = variants.value_and_grad(name, batch, logits)
  dirty = variants.value_and_grad(name, scramble(batch, ~batch.valid), logits)
  jax.tree.map(np.testing.assert_array_equal, dirty, clean)


@each_loss
def test_order_and_padding_do_not_change_the_loss(name):
  batch = variants.loss_batch(name, 4)
  logits, values = tiny.random_logits(batch, 4), variants.random_values(batch)
  (expected, _), (grad, _) = variants.value_and_grad(
      name, batch, logits, values=values
  )
  order = np.random.default_rng(4).permutation(len(batch.valid))
  moved = permute(batch, order)
  (actual, _), (moved_grad, _) = variants.value_and_grad(
      name, moved, logits[order], values=values[order]
  )
  np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(moved_grad, grad[order], rtol=1e-4, atol=1e-6)


def scramble(batch, rows):
  """Other numbers in these rows, which count nowhere: `rows` is `[E]` bool."""
  rng = np.random.default_rng(0)

  def other(x):
    if x is None or not np.issubdtype(x.dtype, np.floating):
      return x
    junk = rng.choice(np.float32([np.nan, np.inf, 1e9, -3]), size=x.shape)
    return np.where(rows.reshape(-1, *[1] * (x.ndim - 1)), junk, x)

  fields = {f.name: getattr(batch, f.name) for f in dataclasses.fields(batch)}
  changed = {name: other(x) for name, x in fields.items()}
  changed['truncated'] = batch.truncated ^ rows
  return batch.replace(**changed)


def permute(batch, order):
  """The same episodes in another order."""
  rows = {
      f.name: None if x is None else x[order]
      for f in dataclasses.fields(batch)
      for x in [getattr(batch, f.name)]
  }
  used = rows['segment_ids'] > 0
  numbers = np.arange(1, len(order) + 1)[:, None]
  return batch.replace(**rows | dict(segment_ids=np.where(used, numbers, 0)))


@each_advantage
@given(seed=SEEDS)
@settings(max_examples=10)
def test_splitting_an_episode_changes_no_return_and_no_advantage(name, seed):
  groups = tiny.random_groups(seed)
  rng = np.random.default_rng(seed)
  split = [tiny.with_segments(group, rng) for group in groups]
  before, after = (
      variants.advantages(name, variants.make_batch(g, seed))
      for g in (groups, split)
  )
  np.testing.assert_array_equal(after.episode_return, before.episode_return)
  for field in ('advantages', 'returns'):
    if getattr(before, field) is None:
      continue
    np.testing.assert_allclose(
        getattr(after, field)[after.completion_mask],
        getattr(before, field)[before.completion_mask],
        rtol=1e-5,
        atol=1e-6,
    )
  assert not np.asarray(after.advantages)[~after.completion_mask].any()


@each_advantage
@given(seed=SEEDS)
@settings(max_examples=10)
def test_inserting_observation_tokens_changes_no_advantage(name, seed):
  groups = tiny.random_groups(seed)
  rng = np.random.default_rng(seed)
  longer = [tiny.with_longer_observations(group, rng) for group in groups]
  before, after = (
      variants.advantages(name, variants.make_batch(g, seed))
      for g in (groups, longer)
  )
  assert (after.segment_ids > 0).sum() > (before.segment_ids > 0).sum()
  for field in ('advantages', 'returns'):
    if getattr(before, field) is None:
      continue
    # Bit for bit but for a sum over the batch, whose terms lie elsewhere.
    old, new = (getattr(b, field)[b.completion_mask] for b in (before, after))
    np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)
  np.testing.assert_array_equal(after.advantages[~after.completion_mask], 0)


@each_advantage
@given(seed=SEEDS)
@settings(max_examples=10)
def test_order_changes_no_advantage(name, seed):
  batch = variants.random_batch(seed, failures=0.2)
  order = np.random.default_rng(seed).permutation(len(batch.valid))
  before, after = (
      variants.advantages(name, b).advantages
      for b in (batch, permute(batch, order))
  )
  np.testing.assert_allclose(after, before[order], rtol=1e-3, atol=1e-4)


@each_advantage
def test_padding_changes_no_advantage(name):
  batch = variants.random_batch(6)
  padded = tiny.pad(batch, len(batch.valid) + 4, variants.WIDTH + 64)
  rows = {}
  for field in dataclasses.fields(batch):
    x = getattr(padded, field.name)
    if x is not None and x.ndim == 1:
      # A padding episode is an invalid one of no tokens.
      junk = np.ones(4, x.dtype) * (0 if field.name == 'valid' else 1)
      rows[field.name] = np.append(x, junk.astype(x.dtype))
  padded = padded.replace(**rows)
  before, after = (
      variants.advantages(name, b).advantages for b in (batch, padded)
  )
  np.testing.assert_allclose(
      after[: len(before), : variants.WIDTH], before, rtol=1e-4, atol=1e-5
  )
  np.testing.assert_array_equal(after[len(before) :], 0)
  np.testing.assert_array_equal(after[:, variants.WIDTH :], 0)


@each_advantage
@given(seed=SEEDS)
@settings(max_examples=10)
def test_failed_episodes_change_no_advantage(name, seed):
  batch = variants.random_batch(seed, failures=0.3)
  failed = ~batch.valid
  clean = variants.advantages(name, batch).advantages
  np.testing.assert_array_equal(clean[failed], 0)
  assert np.isfinite(clean).all()
  dirty = variants.advantages(name, scramble(batch, failed)).advantages
  np.testing.assert_array_equal(dirty, clean)
  # Nor would they be missed.
  gone = batch.replace(
      completion_mask=batch.completion_mask & batch.valid[:, None],
      segment_ids=np.where(failed[:, None], 0, batch.segment_ids),
      turn_ids=np.where(failed[:, None], -1, batch.turn_ids),
      anchor_ids=np.where(failed[:, None], -1, batch.anchor_ids),
  )
  np.testing.assert_allclose(
      variants.advantages(name, gone).advantages, clean, rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize(
    'name',
    [
        n
        for n, (a, _) in variants.ADVANTAGES.items()
        if ONLINE[a].Hyperparams.GROUPS
    ],
)
def test_a_group_that_can_teach_nothing_has_advantage_zero(name):
  # Equal returns; one valid episode; and two that do differ.
  groups = [
      fakes.make_group(0.3, 0.3, 0.3),
      fakes.make_group(5.0, None),
      fakes.make_group(1.0, 0.0),
  ]
  batch = variants.advantages(name, variants.make_batch(groups))
  np.testing.assert_array_equal(batch.advantages[:5], 0)
  mask = batch.completion_mask[5:]
  assert (batch.advantages[5][mask[0]] > 0).all()
  assert (batch.advantages[6][mask[1]] < 0).all()


@pytest.mark.parametrize('name', ['reinforce_pp_baseline', 'grpo', 'rloo'])
def test_a_collection_of_ties_has_advantage_zero(name):
  batch = variants.make_batch(
      [fakes.make_group(0.3, 0.3, 0.3), fakes.make_group(0.7, 0.7)]
  )
  np.testing.assert_array_equal(variants.advantages(name, batch).advantages, 0)


@pytest.mark.parametrize('weight', [0.0, 0.25, 1.0])
@each_advantage
def test_negative_advantages_have_their_weight(name, weight):
  algorithm, values = variants.ADVANTAGES[name]
  batch = variants.random_batch(3)
  plain = np.asarray(variants.advantages(name, batch).advantages)
  made = tiny.advantages(
      ONLINE[algorithm], batch, **values, negative_weight=weight
  )
  wanted = np.where(plain < 0, weight * plain, plain)
  assert (plain < 0).any() and (plain > 0).any()
  np.testing.assert_allclose(made.advantages, wanted, rtol=1e-5, atol=1e-6)


@each_advantage
def test_an_empty_collection_is_harmless(name):
  batch = variants.random_batch(7)
  nobody = scramble(batch, np.ones(len(batch.valid), bool))
  nobody = nobody.replace(valid=np.zeros_like(batch.valid))
  np.testing.assert_array_equal(variants.advantages(name, nobody).advantages, 0)


def episode_ending_in_an_observation(reward, stop_reason=TERMINATED):
  """Turns of 2, 1 and 3 tokens; the last observation follows the reward."""
  spans = [(4, False), (2, True), (3, False), (1, True), (2, False)]
  spans += [(3, True), (5, False)]
  mask = tuple(sampled for count, sampled in spans for _ in range(count))
  return fakes.make_episode(
      stop_reason=stop_reason,
      turns=tuple(
          fakes.make_turn(r, completion_tokens=n)
          for r, n in [(0.0, 2), (0.0, 1), (reward, 3)]
      ),
      tokens=tuple(range(len(mask))),
      completion_mask=mask,
      sampler_logprobs=tuple(-0.5 * sampled for sampled in mask),
  )


def episodes_ending_in_observations():
  """Episode 0 earns 1 at its end, episode 1 nothing; values are 0."""
  episodes = tuple(episode_ending_in_an_observation(r) for r in (1.0, 0.0))
  assert not any(episode.completion_mask[-1] for episode in episodes)
  batch = variants.make_batch([Group(0, 0, episodes)])
  return batch.replace(values=np.zeros_like(batch.values))


@pytest.mark.parametrize(
    'name, hyperparams, decay',
    [
        ('ppo', dict(gamma=0.9, lam=0.8, whiten=False), 0.72),
        ('ppo', dict(gamma=1.0, lam=1.0, whiten=False), 1.0),
        ('reinforce_pp', dict(gamma=0.9), 0.9),
        ('reinforce_pp', dict(gamma=1.0), 1.0),
    ],
)
def test_the_last_reward_reaches_every_sampled_token(name, hyperparams, decay):
  # Regression: the original AgentGym-RL put the reward on an episode's last
  # token. Where that is the end of an observation, which the mask zeroes, the
  # scan dropped it and no token ever heard of it.
  batch = episodes_ending_in_observations()
  out = tiny.advantages(ONLINE[name], batch, **hyperparams)
  heard = out.advantages if name == 'ppo' else out.returns
  mask = batch.completion_mask[0]
  # Six sampled tokens: the first is five decisions before the reward.
  np.testing.assert_allclose(
      heard[0][mask], decay ** np.arange(5, -1, -1), rtol=1e-5
  )
  np.testing.assert_array_equal(heard[1], 0)


@pytest.mark.parametrize('name', REWARDED)
def test_success_at_the_end_raises_every_sampled_token(name):
  batch = episodes_ending_in_observations()
  out = variants.advantages(name, batch).advantages
  good, bad = (out[row][batch.completion_mask[row]] for row in range(2))
  assert (good > bad).all()
  # Of a discounted success the mean of both episodes takes the early tokens.
  assert name in WHITENED or (good > 0).all()


@pytest.mark.parametrize('turn_level', [False, True])
def test_truncation_bootstraps_and_termination_does_not(turn_level):
  episodes = tuple(
      episode_ending_in_an_observation(0.0, reason)
      for reason in (TERMINATED, HORIZON)
  )
  batch = variants.make_batch([Group(0, 0, episodes)])
  assert batch.truncated.tolist() == [False, True]
  batch = batch.replace(
      values=np.zeros_like(batch.values), bootstrap_value=np.float32([7, 7])
  )
  out = tiny.advantages(
      ONLINE['ppo'],
      batch,
      turn_level=turn_level,
      whiten=False,
      gamma=0.5,
      lam=0.5,
  )
  mask = batch.completion_mask
  np.testing.assert_array_equal(out.advantages[0], 0)
  np.testing.assert_array_equal(out.returns[0], 0)
  # The bootstrap counts as the value after the last decision: of 6 tokens, or
  # of 3 turns of 2, 1 and 3 tokens. Each step back has gamma lam = 1 / 4.
  left = np.array([2, 2, 1, 0, 0, 0]) if turn_level else np.arange(5, -1, -1)
  np.testing.assert_allclose(out.advantages[1][mask[1]], 3.5 * 0.25**left)
  np.testing.assert_allclose(out.returns[1][mask[1]], 3.5 * 0.25**left)


def test_a_cut_that_is_part_of_the_task_is_a_failure():
  episodes = tuple(
      episode_ending_in_an_observation(0.0, reason)
      for reason in (TERMINATED, HORIZON)
  )
  batch = variants.make_batch([Group(0, 0, episodes)])
  batch = batch.replace(values=np.repeat(batch.values[:1], 2, axis=0))
  out = tiny.advantages(ONLINE['ppo'], batch, bootstrap=False, whiten=False)
  mask = batch.completion_mask
  assert (out.advantages[0] == out.advantages[1]).all()
  np.testing.assert_allclose(out.returns[mask], 0, atol=1e-6)


def test_critic_free_algorithms_ask_for_no_values():
  batch = tiny.random_batch(8)
  assert batch.values is None and batch.bootstrap_value is None
  for module in ONLINE.values():
    if module.Hyperparams.TEACHER:
      batch = batch.replace(
          old_logprobs=batch.sampler_logprobs - 1,
          teacher_logprobs=batch.sampler_logprobs,
      )
    if not module.Hyperparams.CRITIC:
      assert tiny.advantages(module, batch).advantages.any()
