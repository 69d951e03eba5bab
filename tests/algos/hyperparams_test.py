"""Each hyperparameter of each online algorithm changes what is learnt.

A new one fails here until it has a line in `variants.CHANGES` or, where it says
how a collection is used, in `variants.USES`, which training/rl_test.py asks.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from agentrl.algos import policy
from agentrl.algos.hyperparams import Online
from agentrl.algos.online import ONLINE
from tests import tiny, variants

CASES = [
    (algorithm, field.name)
    for algorithm, module in ONLINE.items()
    for field in dataclasses.fields(module.Hyperparams)
    if field.name not in set(variants.USES) - set(variants.CHANGES)
    # The critic's network and its optimizer: value_head_test, optim_test.
    if not dataclasses.is_dataclass(field.type)
]


def test_only_what_all_algorithms_have_says_how_a_collection_is_used():
  assert set(variants.USES) <= {f.name for f in dataclasses.fields(Online)}


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
def learn(algorithm, hyperparams):
  """Advantages, targets, and the loss with its gradients."""
  hyperparams = dict(hyperparams)
  batch = variants.estimate(algorithm, hyperparams, collection())
  if batch.returns is None:  # of one shape, to share the loss's program
    batch = batch.replace(returns=np.zeros_like(batch.advantages))
  entropy = np.random.default_rng(1).exponential(size=batch.tokens.shape)
  outputs = policy.Outputs(
      batch.sampler_logprobs,
      entropy.astype(np.float32),
      np.asarray(variants.random_values(batch)),
  )
  loss = variants.bound(ONLINE[algorithm], **hyperparams)
  (loss, _), grad = tiny.outputs_grad(
      loss, outputs, batch, tiny.denominators(batch, kl_coef=0.1)
  )
  return jax.tree.map(np.asarray, (batch.advantages, batch.returns, loss, grad))


@pytest.mark.parametrize('algorithm, name', CASES)
def test_every_hyperparameter_acts(algorithm, name):
  base, value = variants.CHANGES[name]
  assert getattr(ONLINE[algorithm].Hyperparams(**base), name) != value
  before, after = (
      jax.tree.leaves(learn(algorithm, tuple(sorted(chosen.items()))))
      for chosen in (base, base | {name: value})
  )
  mask = collection().completion_mask
  for x in after:
    assert np.isfinite(x[mask] if x.ndim else x).all()
  # More than rounding, in an advantage, a target, the loss or a gradient.
  assert not all(
      np.allclose(a, b, rtol=1e-3, atol=1e-7, equal_nan=True)
      for a, b in zip(before, after, strict=True)
  )
