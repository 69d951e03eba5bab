r"""Makes the same update on meshes of simulated devices; writes what came out.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 \
        python -m tests.parallel.simulated_devices OUT.npz CASE...

A case is `DATAxFSDPxTENSORxSEQUENCE/CRITIC/MICROBATCHES`, or the mesh and what
else is asked of it: `copies`, `chunks`, `sent`, `prefixes`, `work` or `adapter`. It
is a process of its own: XLA fixes the number of devices when it starts, and the other
tests should see the one that they were written for.
"""

import dataclasses
import functools
import math
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from agentrl.algos import grpo, ppo
from agentrl.data import collate
from agentrl.models import (
    lora as lora_lib,
    mesh_logprob,
    transformer,
    value_head,
)
from agentrl.parallel import distributed, mesh as mesh_lib, sharding
from agentrl.planning import hlo
from agentrl.training import (
    optim,
    programs as programs_lib,
    ranks,
    state as state_lib,
)
from agentrl.training.weight_sync import push as weight_sync
from tests import tiny

# Eight heads, so that eight devices can share them; two key heads, so that they
# are split over two devices and copied to four and eight.
CONFIG = dataclasses.replace(tiny.CONFIG, num_heads=8)
MODULE = transformer.Transformer(CONFIG, scan_layers=True)
# 32 packed rows make as many microbatches on one device as on eight.
PACKED_ROWS = 32
# So many that their kernel is larger than anything else that is sent.
VOCAB = 4096


def parse(case):
  """`(mesh, critic, microbatches)` of a case's name."""
  shape, critic, microbatches = case.split('/')
  return make_mesh(shape), critic, int(microbatches)


def make_mesh(shape):
  sizes = [int(size) for size in shape.split('x')]
  return mesh_lib.make_mesh(
      dict(zip(mesh_lib.AXES, sizes, strict=True)),
      jax.devices()[: math.prod(sizes)],
  )


@functools.cache
def init_params():
  init = jax.jit(functools.partial(transformer.init_params, MODULE))
  return jax.tree.map(np.asarray, init(jax.random.key(0)))


def make_learner(mesh, critic):
  """State, steps, and how the state is sharded."""
  tx = optim.make_optimizer(**tiny.OPTIMIZER)
  params, loss = init_params(), tiny.bound(grpo)
  if critic == 'none':
    critic = None
  else:
    tx = optim.with_critic(tx, optim.make_optimizer(**tiny.OPTIMIZER))
    critic, loss = value_head.init(critic, MODULE, params), tiny.bound(ppo)
    # A head of zeros, as it starts, would give its trunk no gradient.
    rng = np.random.default_rng(3)
    critic['head'] = jax.tree.map(
        lambda x: rng.normal(size=x.shape).astype(np.float32), critic['head']
    )
  state = state_lib.create(params, tx, mesh, critic=critic)
  programs = programs_lib.compile_programs(MODULE, loss, tx, state)
  return state, programs


@functools.cache
def random_batch():
  batch = tiny.random_batch(0, num_groups=31, failures=0.1)
  rng = np.random.default_rng(1)
  shape = batch.tokens.shape
  return batch.replace(
      # A group's own advantages cancel: the loss would be nothing but rounding.
      advantages=rng.normal(1.0, size=shape).astype(np.float32),
      values=rng.normal(size=shape).astype(np.float32),
      returns=rng.normal(size=shape).astype(np.float32),
  )


def update_on(mesh, critic, microbatches):
  """Gradient, log-probabilities, metrics and state of one update."""
  batch = random_batch()
  rows = np.arange(len(batch.tokens))
  state, programs = make_learner(mesh, critic)
  pieces = collate.microbatches(
      batch,
      rows,
      max_tokens=tiny.ROW * PACKED_ROWS // microbatches,
      multiple=mesh_lib.batch_size(mesh),
  )
  assert len(pieces) == microbatches, len(pieces)
  grads, parts = programs.zeros(), []
  logprobs = np.zeros(batch.tokens.shape, np.float32)
  for piece, places in pieces:
    grads, metrics, values = programs.accumulate(
        state.networks,
        grads,
        state_lib.place(piece, mesh),
        programs_lib.denominators(batch, rows),
    )
    parts.append(metrics)
    collate.unpack(distributed.to_host(values), places, logprobs)
  # Copies: the next call donates them.
  grads_now = jax.tree.map(distributed.to_host, grads)
  out = dict(grads=grads_now, logprobs=logprobs)
  state, metrics = programs.apply(state, grads)
  out |= dict(
      state=state,
      metrics=programs_lib.merge(parts) | programs_lib.merge([metrics]),
      shard=np.array(state.params['embed'].addressable_shards[0].data.shape),
  )
  return out


def copies_on(mesh):
  """What leaves the mesh: scores, and the engine's parameters."""
  batch = random_batch()
  state, programs = make_learner(mesh, 'none')
  scores = programs_lib.score(
      programs, state.networks, batch, max_tokens=tiny.ROW * PACKED_ROWS
  )
  copy = weight_sync.engine_layout(state.params)
  assert {len(x.devices()) for x in jax.tree.leaves(copy)} == {1}
  return dict(logprobs=scores.logprobs, copy=copy)


def adapter_on(mesh):
  """One update of an adapter and a critic's, and the merged copy."""
  lora = lora_lib.Lora(rank=2, alpha=2.0)
  rng = np.random.default_rng(4)
  adapter = jax.tree.map(
      lambda x: rng.normal(0, 0.1, x.shape).astype(np.float32),
      lora_lib.init(lora, init_params(), jax.random.key(0)),
  )
  critic = value_head.init('own', MODULE, adapter)
  critic['head'] = jax.tree.map(
      lambda x: rng.normal(size=x.shape).astype(np.float32), critic['head']
  )
  tx = optim.make_optimizer(**tiny.OPTIMIZER)
  tx = optim.with_critic(tx, optim.make_optimizer(**tiny.OPTIMIZER))
  state = state_lib.create(adapter, tx, mesh, critic=critic)
  base = init_params()
  base = jax.tree.map(
      sharding.put_array, base, state_lib.infer_shardings(base, mesh)
  )
  base = lora_lib.Base(base, lora.scale)
  loss = tiny.bound(ppo)
  programs = programs_lib.compile_programs(MODULE, loss, tx, state, base=base)
  batch, shards = random_batch(), state.params['layers']['mlp']['up']
  split = [shards[x].addressable_shards[0].data.size for x in 'ab']
  copy = weight_sync.engine_layout(state.params, base=base)
  rows = np.arange(len(batch.tokens))
  state, metrics, *_ = programs_lib.update(
      programs, state, batch, rows, max_tokens=tiny.ROW * PACKED_ROWS
  )
  out = dict(state=state, metrics=metrics, copy=copy)
  return out, np.array(split) * mesh.devices.size


def output_kernel(*, tied, vocab, dtype=jnp.float32):
  """A decoder, and `{name: kernel}`: all that it needs for logits."""
  config = dataclasses.replace(CONFIG, tie_embeddings=tied, vocab_size=vocab)
  module = transformer.Transformer(config, scan_layers=True, dtype=dtype)
  kernel = np.random.default_rng(5).normal(size=(vocab, config.hidden_size))
  kernel = kernel.astype(np.float32)
  return module, {'embed': kernel} if tied else {'lm_head': kernel.T}


def chunks_on(mesh):
  """Log-probabilities in many pieces along T, with their gradients."""
  batch = random_batch()
  rows = batch.tokens[:8], batch.positions[:8]
  rng = np.random.default_rng(2)
  hidden = rng.normal(size=(*rows[0].shape, 16)).astype(np.float32)

  def run(tied):
    module, params = output_kernel(tied=tied, vocab=32)

    def total(hidden, params, tokens, positions):
      logprobs, entropy = mesh_logprob.from_hidden(
          hidden,
          module,
          params,
          tokens,
          positions,
          temperature=0.7,
          chunk=3,  # divides no shard
      )
      return jnp.sum(jnp.sin(logprobs) + entropy), (logprobs, entropy)

    grad = jax.value_and_grad(total, argnums=(0, 1), has_aux=True)
    grad = jax.jit(sharding.on_mesh(grad, mesh))
    placed = sharding.infer_shardings(params, mesh, sharding.DECODER_RULES)
    params = jax.tree.map(sharding.put_array, params, placed)
    return grad(hidden, params, *state_lib.place(rows, mesh))

  return dict(tied=run(True), untied=run(False))


def sent_on(mesh):
  """Count and bytes of what a gradient of four pieces sends, by kind."""
  shape = (8, 8 * mesh.shape[mesh_lib.SEQUENCE])

  def compile_for(*, tied, dtype=jnp.float32, frozen=False):
    module, params = output_kernel(tied=tied, vocab=VOCAB, dtype=dtype)

    def total(hidden, params, tokens):
      return jnp.sum(
          mesh_logprob.from_hidden(
              hidden, module, params, tokens, tokens, chunk=2
          )[0]
      )

    placed = sharding.infer_shardings(params, mesh, sharding.DECODER_RULES)
    rows = NamedSharding(mesh, sharding.TOKENS)
    grad = jax.grad(total, argnums=0 if frozen else (0, 1))
    lowered = jax.jit(
        sharding.on_mesh(grad, mesh),
        out_shardings=rows if frozen else (rows, placed),
    ).lower(
        jax.ShapeDtypeStruct((*shape, 16), dtype, sharding=rows),
        sharding.with_shardings(params, placed),
        jax.ShapeDtypeStruct(shape, jnp.int32, sharding=rows),
    )
    work = hlo.work(lowered.compile().as_text())
    return {
        f'{c.kind}/{c.devices}': np.array([c.count, c.bytes])
        for c in work.collectives
    }

  return dict(
      tied=compile_for(tied=True),
      untied=compile_for(tied=False),
      narrow=compile_for(tied=False, dtype=jnp.bfloat16),
      frozen=compile_for(tied=False, frozen=True),
  )


def prefixes_on(mesh):
  """An update and the scores of groups that share prompts.

  A mesh of one device does not share them: what it gives is the truth.
  """
  groups = tiny.random_groups(4, num_groups=5, group_size=8, failures=0.1)
  groups[:2] = map(tiny.without_openings, groups[:2])
  rng = np.random.default_rng(4)
  batch = tiny.make_batch(
      [tiny.with_prompt(g, rng.integers(32, size=60)) for g in groups],
      width=192,
  )
  rows, critic = np.arange(40), 'own'
  batch = batch.replace(
      advantages=rng.normal(1.0, size=(40, 192)).astype(np.float32),
      values=rng.normal(size=(40, 192)).astype(np.float32),
      returns=rng.normal(size=(40, 192)).astype(np.float32),
  )
  if mesh.size == 1:
    batch = batch.replace(group_ids=rows.astype(np.int32))
  state, programs = make_learner(mesh, critic)
  limit = dict(max_tokens=1024)
  scores = programs_lib.score(programs, state.networks, batch, **limit)
  state, metrics, *_ = programs_lib.update(
      programs, state, batch, rows, **limit
  )
  assert (metrics['train/shared'] > 0.4) == (mesh.size > 1)
  read = batch.completion_mask
  return dict(
      state=state,
      scores=[np.where(read, x, 0) for x in scores[:2]],
      metrics={k: v for k, v in metrics.items() if 'policy' in k},
  )


def work_on(mesh):
  """Floating point operations of each device for a gradient."""
  state, programs = make_learner(mesh, 'none')
  batch = random_batch()
  rows = np.arange(len(batch.tokens))
  [(piece, _)] = collate.microbatches(
      batch, rows, max_tokens=tiny.ROW * PACKED_ROWS
  )
  args = (state_lib.place(piece, mesh), programs_lib.denominators(batch, rows))
  lowered = programs.accumulate.lower(state.networks, programs.zeros(), *args)
  return np.array(lowered.compile().cost_analysis()['flops'])


def flat(prefix, tree):
  """Arrays by `prefix/path`."""
  return {
      f'{prefix}/{jax.tree_util.keystr(path, simple=True, separator="/")}': (
          distributed.to_host(leaf)
      )
      for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
  }


def main(path, cases):
  jax.config.update('jax_disable_most_optimizations', True)
  ranks.join(os.environ, 'train', ready=True)
  assert jax.device_count() == 8
  arrays = {}
  for case_name in cases:
    match case_name.split('/'):
      case [shape, 'copies']:
        arrays |= flat(f'{shape}/copies', copies_on(make_mesh(shape)))
      case [shape, 'adapter']:
        out, split = adapter_on(make_mesh(shape))
        arrays |= flat(f'{shape}/adapter', out)
        arrays[f'{shape}/adapter/split'] = split
      case [shape, 'work']:
        arrays[f'{case_name}/flops'] = work_on(make_mesh(shape))
      case [shape, 'prefixes']:
        arrays |= flat(case_name, prefixes_on(make_mesh(shape)))
      case [shape, 'chunks']:
        arrays |= flat(f'{shape}/chunks', chunks_on(make_mesh(shape)))
      case [shape, 'sent']:
        arrays |= flat(case_name, sent_on(make_mesh(shape)))
      case _:
        arrays |= flat(case_name, update_on(*parse(case_name)))
  if distributed.is_first():
    np.savez(path, **arrays)


if __name__ == '__main__':
  main(sys.argv[1], sys.argv[2:])
