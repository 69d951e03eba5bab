r"""Every advantage and every loss, on rows that simulated devices share.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
        python -m tests.parallel.simulated_algorithms OUT.npz

As `simulated_devices`, but without a network.
"""

import functools
import sys

import jax
import numpy as np

from agentrl.algos import dpo, policy
from agentrl.algos.online import ONLINE
from agentrl.parallel.mesh import make_mesh
from agentrl.training import state as state_lib
from tests import tiny, variants

# Devices along data and fsdp, both of which split rows; the first is alone.
MESHES = ((1, 1), (4, 2))
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


def dpo_on(mesh, **hyperparams):
  """As `loss_on`, of eight pairs: their two rows may be on two devices."""
  batch = tiny.random_batch(SEED, num_groups=8, group_size=2)
  rng = np.random.default_rng(SEED)
  reference, logprobs, entropy = -rng.exponential(
      size=(3, *batch.tokens.shape)
  ).astype(np.float32)
  batch = batch.replace(ref_logprobs=reference)
  return tiny.outputs_grad(
      functools.partial(dpo.loss, hyperparams=dpo.Hyperparams(**hyperparams)),
      state_lib.place(policy.Outputs(logprobs, entropy), mesh),
      state_lib.place(batch, mesh),
      tiny.denominators(batch),
  )


def main(path):
  jax.config.update('jax_disable_most_optimizations', True)
  assert jax.device_count() == 8
  arrays = {}
  for data, fsdp in MESHES:
    mesh = make_mesh(
        dict(data=data, fsdp=fsdp, tensor=1, sequence=1),
        jax.devices()[: data * fsdp],
    )
    found = {
        'advantages': {n: advantages_on(mesh, n) for n in variants.ADVANTAGES},
        'losses': {n: loss_on(mesh, n) for n in variants.LOSSES},
        'dpo': {
            n: dpo_on(mesh, **hyperparams) for n, hyperparams in DPO.items()
        },
    }
    for what, by_name in found.items():
      for name, tree in by_name.items():
        for key, leaf in jax.tree_util.tree_leaves_with_path(tree):
          key = jax.tree_util.keystr(key)
          arrays[f'{data}x{fsdp}/{what}/{name}/{key}'] = np.asarray(leaf)
  np.savez(path, **arrays)


if __name__ == '__main__':
  main(sys.argv[1])
