"""Every advantage and every loss is the same over 1 and 8 devices.

Both of data and fsdp split rows.
"""

import functools

import numpy as np
import pytest

from agentrl.algos import dpo, policy
from agentrl.algos.online import ONLINE
from agentrl.training import state as state_lib
from tests import tiny, variants
from tests.parallel.eight_devices import ALONE, flat, make_mesh

pytestmark = pytest.mark.usefixtures('quick_compilation')

SEED = 9
DPO = {
    'sigmoid': {},
    'length_normalised': dict(length_normalised=True, beta=5.0),
    'ipo': dict(loss='ipo'),
    'imitating': dict(nll_coef=1.0),
}


def advantages_on(mesh, name):
  batch = variants.random_batch(SEED, failures=0.2)
  out = variants.advantages(name, state_lib.place(batch, mesh))
  return out.advantages, out.returns


def loss_on(mesh, name):
  """Loss, metrics and the gradient in what the networks say."""
  batch = variants.loss_batch(name, SEED, failures=0.2)
  rng = np.random.default_rng(SEED)
  mask = batch.completion_mask
  outputs = policy.Outputs(
      np.where(mask, batch.old_logprobs, 0)
      + rng.normal(scale=0.2, size=mask.shape).astype(np.float32),
      rng.exponential(size=mask.shape).astype(np.float32),
      np.asarray(variants.random_values(batch)),
  )
  algorithm, hyperparams = variants.LOSSES[name]
  return tiny.outputs_grad(
      variants.bound(ONLINE[algorithm], **hyperparams),
      state_lib.place(outputs, mesh),
      state_lib.place(batch, mesh),
      tiny.denominators(batch, kl_coef=0.1),
  )


def dpo_on(mesh, name):
  """As `loss_on`, of eight pairs: their two rows may be on two devices."""
  batch = tiny.random_batch(SEED, num_groups=8, group_size=2)
  rng = np.random.default_rng(SEED)
  reference, logprobs, entropy = -rng.exponential(
      size=(3, *batch.tokens.shape)
  ).astype(np.float32)
  batch = batch.replace(ref_logprobs=reference)
  return tiny.outputs_grad(
      functools.partial(dpo.loss, hyperparams=dpo.Hyperparams(**DPO[name])),
      state_lib.place(policy.Outputs(logprobs, entropy), mesh),
      state_lib.place(batch, mesh),
      tiny.denominators(batch),
  )


@pytest.mark.parametrize(
    'run, name',
    [
        pytest.param(run, name, id=f'{run.__name__}-{name}')
        for run, names in (
            (advantages_on, variants.ADVANTAGES),
            (loss_on, variants.LOSSES),
            (dpo_on, DPO),
        )
        for name in names
    ],
)
def test_eight_devices_agree_with_one(run, name):
  expected = flat(run(make_mesh(ALONE), name))
  actual = flat(run(make_mesh('4x2x1x1'), name))
  assert actual.keys() == expected.keys()
  assert any(np.abs(value).max() > 0.01 for value in expected.values())
  for key, value in expected.items():
    assert np.isfinite(value).all(), key
    # Float32 sums in another order.
    np.testing.assert_allclose(
        actual[key], value, rtol=1e-5, atol=1e-6, err_msg=key
    )
