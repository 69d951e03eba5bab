"""Each knob of each online algorithm changes what is learnt.

A new field of a `Knobs` fails here until it has a line in `variants.CHANGES`.
Knobs that cannot act are refused: see tests/modes/online_settings_test.py.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from agentrl.algos import ONLINE, policy
from tests import tiny, variants

CASES = [
    (algorithm, field.name)
    for algorithm, module in ONLINE.items()
    for field in dataclasses.fields(module.Knobs)
]


@functools.cache
def collection():
  """Policies far enough apart for every clip and correction to act."""
  batch = variants.random_batch(0)
  mask = batch.completion_mask
  rng = np.random.default_rng(0)
  noisy = lambda: np.where(
      mask,
      batch.sampler_logprobs + rng.normal(scale=0.3, size=mask.shape),
      np.nan,
  ).astype(np.float32)
  return batch.replace(old_logprobs=noisy(), ref_logprobs=noisy())


@functools.cache
def learn(algorithm, knobs):
  """Advantages, targets, and the loss with its gradients."""
  knobs = dict(knobs)
  batch = variants.estimate(algorithm, knobs, collection())
  if batch.returns is None:  # of one shape, to share the loss's program
    batch = batch.replace(returns=np.zeros_like(batch.advantages))
  entropy = np.random.default_rng(1).exponential(size=batch.tokens.shape)
  outputs = policy.Outputs(
      batch.sampler_logprobs,
      entropy.astype(np.float32),
      np.asarray(variants.random_values(batch)),
  )
  loss = variants.bound(ONLINE[algorithm], use_kl=True, **knobs)
  (loss, _), grad = tiny.outputs_grad(
      loss, outputs, batch, tiny.scale(batch, kl_coef=0.1)
  )
  return jax.tree.map(np.asarray, (batch.advantages, batch.returns, loss, grad))


@pytest.mark.parametrize('algorithm, knob', CASES)
def test_every_knob_acts(algorithm, knob):
  base, value = variants.CHANGES[knob]
  knobs = dataclasses.asdict(ONLINE[algorithm].Knobs(**base))
  assert knobs[knob] != value
  before, after = (
      jax.tree.leaves(learn(algorithm, tuple(sorted(k.items()))))
      for k in (base, base | {knob: value})
  )
  mask = collection().completion_mask
  for x in after:
    assert np.isfinite(x[mask] if x.ndim else x).all()
  # More than rounding, in an advantage, a target, the loss or a gradient.
  assert not all(
      np.allclose(a, b, rtol=1e-3, atol=1e-7, equal_nan=True)
      for a, b in zip(before, after, strict=True)
  )
