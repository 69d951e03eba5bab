"""Tests for agentrl.training.reward."""

import numpy as np
import pytest

from agentrl.algos import grpo
from agentrl.training import reward, rl
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


@pytest.mark.parametrize('valid', [0, 1])
def test_a_step_without_a_valid_episode_gives_no_mean_of_nothing(valid):
  batch = tiny.random_batch(13)
  batch = batch.replace(
      old_logprobs=batch.sampler_logprobs,
      ref_logprobs=batch.sampler_logprobs - 0.25,
      valid=np.arange(len(batch.valid)) < valid,
  )
  _, charged = reward.charge_kl(batch, coef=0.5, estimator='k1')
  _, punished = reward.punish_length(batch, buffer=10, max_context=20)
  if valid:
    assert charged['reward/kl'] == pytest.approx(0.25, rel=1e-5)
    assert np.isfinite(punished['reward/overlong_penalty'])
  else:
    assert charged == punished == {}


def test_the_coefficient_stands_still_without_a_valid_episode():
  """A mean of nothing was NaN, and made the coefficient NaN for ever."""
  hyperparams = grpo.Hyperparams(kl_coef=0.1, kl_in='reward', kl_target=0.05)
  metrics = {'rollout/episodes': 8.0, 'rollout/invalid': 8.0}
  assert rl._next_kl_coef(0.1, metrics, hyperparams) == 0.1
  moved = rl._next_kl_coef(0.1, metrics | {'reward/kl': 0.2}, hyperparams)
  assert moved == pytest.approx(0.1 * (1 + 0.2 * 8 / 10_000))
