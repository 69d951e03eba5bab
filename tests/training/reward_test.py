"""Tests for agentrl.training.reward."""

import numpy as np
import pytest

from agentrl.training import reward
from tests import tiny


def test_a_long_episode_loses_return_on_its_last_sampled_token():
  batch = tiny.random_batch(12)
  lengths = (batch.segment_ids > 0).sum(axis=1)
  longest = int(lengths.max())
  shaped, metrics = reward.punish_length(batch, buffer=10, max_context=longest)
  expected = np.clip((longest - 10 - lengths) / 10, -1, 0)
  np.testing.assert_allclose(
      shaped.episode_return - batch.episode_return, expected, atol=1e-6
  )
  changed = shaped.rewards != batch.rewards
  assert batch.completion_mask[changed].all()
  assert metrics['reward/overlong_penalty'] == pytest.approx(expected.mean())
  assert expected.min() == -1


def test_a_kl_in_the_reward_falls_on_sampled_tokens_alone():
  batch = tiny.random_batch(13)
  rng = np.random.default_rng(13)
  noise = rng.normal(scale=0.2, size=batch.tokens.shape).astype('f4')
  batch = batch.replace(
      old_logprobs=batch.sampler_logprobs,
      ref_logprobs=batch.sampler_logprobs + noise,
  )
  shaped, metrics = reward.charge_kl(batch, coef=0.5, estimator='k1')
  expected = batch.rewards + 0.5 * noise * batch.completion_mask
  np.testing.assert_allclose(shaped.rewards, expected, atol=1e-6)
  assert metrics['reward/kl'] == pytest.approx(
      -noise[batch.completion_mask].mean(), abs=1e-6
  )
