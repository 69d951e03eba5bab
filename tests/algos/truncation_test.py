"""Episodes that we cut: their return kept, masked, or continued by a critic."""

import jax
import numpy as np
import pytest

from agentrl.algos.online import ONLINE
from agentrl.training import policy_update
from agentrl.types import HORIZON, TERMINATED, Group
from tests import tiny, variants

# The discounts are below 1: a turn-level one shows.
OWN = {'ppo': dict(whiten=False, **variants.DECAY), 'gigpo': dict(gamma=0.9)}


def half_cut():
  """Two groups; in each every other episode is cut at the horizon."""
  rng = np.random.default_rng(3)
  return [
      Group(
          task_id=task,
          ordinal=task,
          episodes=tuple(
              tiny.random_episode(
                  rng,
                  turns=2,
                  stop_reason=HORIZON if replica % 2 else TERMINATED,
                  success=replica == 0,
              )
              for replica in range(4)
          ),
      )
      for task in range(2)
  ]


def gradient(algorithm, **treatment):
  """`[B, T]` size of the loss's gradient, the batch with its advantages."""
  groups, module = half_cut(), ONLINE[algorithm]
  hyperparams = OWN.get(algorithm, {}) | treatment
  batch = variants.make_batch(groups)
  trained = policy_update.learnt_episodes(
      batch, groups, tiny.plan(module, **hyperparams)
  )
  batch = variants.estimate(algorithm, hyperparams, batch)
  logits = tiny.random_logits(batch, 0)
  logprobs = np.asarray(tiny.logprobs_of(logits, batch))
  used = batch.replace(valid=trained, old_logprobs=logprobs)
  # The policy's part: which tokens a critic learns from is the same mask.
  _, (found, _) = tiny.value_and_grad(
      variants.bound(module, **hyperparams),
      used,
      logits,
      tiny.denominators(used),
      variants.random_values(batch),
  )
  return np.abs(np.asarray(found)).sum(axis=-1), jax.device_get(batch)


@pytest.mark.parametrize('algorithm', ONLINE)
def test_a_cut_episode_is_learnt_from_or_masked(algorithm):
  zero = {'bootstrap': False} if algorithm == 'ppo' else {}
  kept, batch = gradient(algorithm, **zero)
  masked, same = gradient(algorithm, truncated='mask', **zero)
  cut = np.asarray(batch.truncated)
  assert cut.sum() == 4 and (kept[cut].sum(axis=1) > 0).all()
  # Nothing of it reaches the loss; it stays part of its group's statistics.
  assert not masked[cut].any() and (masked[~cut].sum(axis=1) > 0).all()
  sampled = batch.completion_mask
  np.testing.assert_array_equal(
      batch.advantages[sampled], same.advantages[sampled]
  )


def test_a_critic_continues_what_was_cut_and_nothing_else():
  _, zero = gradient('ppo', bootstrap=False)
  _, more = gradient('ppo', bootstrap=True)
  cut, decay = zero.truncated, variants.DECAY
  for row in range(len(cut)):
    tokens = np.flatnonzero(zero.completion_mask[row])
    change = more.advantages[row, tokens] - zero.advantages[row, tokens]
    # The value after the cut, discounted over the tokens until there.
    left = np.arange(len(tokens))[::-1]
    factor = decay['gamma'] * (decay['gamma'] * decay['lam']) ** left
    expected = factor * zero.bootstrap_value[row] if cut[row] else 0 * factor
    np.testing.assert_allclose(change, expected, rtol=1e-4, atol=1e-5)
    assert not cut[row] or np.abs(change[-1]) > 1e-3
