"""PPO where a decision is a turn; tests/ops and online_test ask the rest."""

import numpy as np
import pytest

from agentrl.algos import policy, ppo
from tests import tiny, variants


def turns_of(batch, row):
  """Indices of the tokens of each turn of an episode, in order."""
  ids = batch.turn_ids[row]
  return [np.flatnonzero(ids == k) for k in range(ids.max() + 1)]


@pytest.mark.parametrize('seed', range(3))
def test_turn_level_advantages_match_oracle(seed):
  batch = variants.random_batch(seed)
  size = len(batch.valid)
  batch = batch.replace(
      truncated=np.arange(size) % 2 == 0,
      bootstrap_value=np.linspace(-1, 1, size, dtype=np.float32),
  )
  gamma, lam = 0.9, 0.7
  found = tiny.advantages(
      ppo, batch, gamma=gamma, lam=lam, turn_level=True, whiten=False
  )
  for row in range(size):
    turns = turns_of(batch, row)
    reward = [np.float64(batch.rewards[row, t]).sum() for t in turns]
    value = [np.float64(batch.values[row, t[0]]) for t in turns]
    end = batch.bootstrap_value[row] if batch.truncated[row] else 0.0
    error = [
        r + gamma * after - v
        for r, v, after in zip(reward, value, [*value[1:], end], strict=True)
    ]
    for k, tokens in enumerate(turns):
      expected = sum(
          (gamma * lam) ** i * delta for i, delta in enumerate(error[k:])
      )
      np.testing.assert_allclose(
          found.advantages[row, tokens], expected, rtol=1e-4, atol=1e-5
      )
      # What the critic says before the turn is to become this.
      np.testing.assert_allclose(
          found.returns[row, tokens[0]],
          expected + value[k],
          rtol=1e-4,
          atol=1e-5,
      )


def test_the_critic_learns_one_value_a_turn():
  batch = variants.loss_batch('ppo_turn_level', 1, failures=0.2)
  values = np.asarray(variants.random_values(batch))
  mask = batch.completion_mask
  logprobs = np.where(mask, batch.old_logprobs, 0)
  (_, metrics), _ = tiny.outputs_grad(
      tiny.bound(ppo, turn_level=True, value_clip=None),
      policy.Outputs(logprobs, np.zeros_like(logprobs), values),
      batch,
      tiny.denominators(batch),
  )
  errors = [
      (np.float64(values[row, t[0]]) - batch.returns[row, t[0]]) ** 2 / 2
      for row in np.flatnonzero(batch.valid)
      for t in turns_of(batch, row)
  ]
  np.testing.assert_allclose(metrics['critic/loss'], np.mean(errors), rtol=1e-4)
