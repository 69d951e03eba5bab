"""Sharded equals unsharded: one update on meshes of simulated devices."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding

from agentrl.algos import ppo
from agentrl.models import lora as lora_lib, mesh_logprob, transformer
from agentrl.parallel import mesh as mesh_lib, sharding
from agentrl.planning import hlo
from agentrl.serving.weight_sync import push as weight_sync
from agentrl.training import programs as programs_lib, state as state_lib
from tests import tiny
from tests.parallel import learner
from tests.parallel.eight_devices import (
    ALONE,
    assert_same,
    flat,
    make_mesh,
    sent,
)

pytestmark = pytest.mark.usefixtures('quick_compilation')

# Devices along data, fsdp, tensor and sequence; then what each device holds of
# the [32, 16] embedding.
MESHES = {
    '8x1x1x1': (32, 16),
    '1x8x1x1': (32, 2),
    '1x1x8x1': (4, 16),
    '1x1x1x8': (32, 16),
    '2x4x1x1': (32, 4),
    '1x1x4x2': (8, 16),
    '1x2x1x4': (32, 8),
    '2x2x2x1': (16, 8),
    '2x1x2x2': (16, 16),
    '1x2x2x2': (16, 8),
}
GRID = [
    '/'.join(parts)
    for parts in itertools.product(MESHES, ('none', 'own'), '124')
]
# Every axis, any number of microbatches, with and without a critic; the rest
# is slow.
QUICK = ['8x1x1x1/none/4', '2x2x2x1/none/2', '1x2x2x2/own/1']
# Every mesh; either kind of critic with every number of microbatches; all
# combinations are extra.
PAIRS = [
    f'{mesh}/{("none", "own")[i % 2]}/{(1, 2, 4)[i % 3]}'
    for i, mesh in enumerate(MESHES)
]
MARKS = {
    **{case: (pytest.mark.slow, pytest.mark.extra) for case in GRID},
    **{case: pytest.mark.slow for case in PAIRS},
    **{case: () for case in QUICK},
}
LIMIT = dict(max_tokens=tiny.ROW * learner.PACKED_ROWS)


@pytest.mark.parametrize(
    'case', [pytest.param(case, marks=MARKS[case]) for case in GRID]
)
def test_any_mesh_gives_the_same_update(case):
  mesh, critic, _ = case.split('/')
  actual = dict(learner.update_on(case))
  expected = dict(learner.update_on(f'{ALONE}/{critic}/1'))
  assert len(expected) > 40
  assert tuple(actual.pop('shard')) == MESHES[mesh]
  del expected['shard']
  assert_same(actual, expected)


def copies_on(mesh):
  """The arrays that leave the mesh: scores, and the engine's parameters."""
  state, programs = learner.make_learner(mesh)
  scores = programs_lib.score(
      programs, state.networks, learner.random_batch(), **LIMIT
  )
  copy = weight_sync.engine_layout(state.params)
  assert {len(x.devices()) for x in jax.tree.leaves(copy)} == {1}
  return dict(logprobs=scores.logprobs, copy=copy)


def output_kernel(*, tied, vocab, dtype=jnp.float32):
  """A decoder, and `{name: kernel}`: all that it needs for logits."""
  config = dataclasses.replace(
      learner.CONFIG, tie_embeddings=tied, vocab_size=vocab
  )
  module = transformer.Transformer(config, scan_layers=True, dtype=dtype)
  kernel = np.random.default_rng(5).normal(size=(vocab, config.hidden_size))
  kernel = kernel.astype(np.float32)
  return module, {'embed': kernel} if tied else {'lm_head': kernel.T}


def chunks_on(mesh, *, tied):
  """Log-probabilities in many pieces along T, with their gradients."""
  batch = learner.random_batch()
  rows = batch.tokens[:8], batch.positions[:8]
  rng = np.random.default_rng(2)
  hidden = rng.normal(size=(*rows[0].shape, 16)).astype(np.float32)
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
  batch = learner.with_random_estimates(batch, rng)
  rows, limit = np.arange(40), dict(max_tokens=1024)
  if mesh.size == 1:
    batch = batch.replace(group_ids=rows.astype(np.int32))
  state, programs = learner.make_learner(mesh, 'own')
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


TIED = functools.partial(chunks_on, tied=True)
UNTIED = functools.partial(chunks_on, tied=False)


@pytest.mark.parametrize(
    'mesh, run',
    [
        pytest.param('1x2x2x2', copies_on, id='copies'),
        pytest.param('1x2x1x4', TIED, id='chunks-sequence-tied'),
        pytest.param('1x2x1x4', UNTIED, id='chunks-sequence-untied'),
        pytest.param('2x2x2x1', TIED, id='chunks-tensor-tied'),
        pytest.param('2x2x2x1', UNTIED, id='chunks-tensor-untied'),
        pytest.param('2x2x2x1', prefixes_on, id='prefixes'),
    ],
)
def test_any_mesh_gives_the_same_scores_copies_and_pieces(mesh, run):
  assert_same(flat(run(make_mesh(mesh))), flat(run(make_mesh(ALONE))))


def adapter_on(mesh):
  """One update of an adapter and a critic's, the merged copy; sizes on a device."""
  lora = lora_lib.Lora(rank=2, alpha=2.0)
  rng = np.random.default_rng(4)
  base = learner.init_params()
  adapter = jax.tree.map(
      lambda x: rng.normal(0, 0.1, x.shape).astype(np.float32),
      lora_lib.init(lora, base, jax.random.key(0)),
  )
  critic, tx = learner.make_critic('own', adapter), tiny.optimizer('own')
  state = state_lib.create(adapter, tx, mesh, critic=critic)
  base = jax.tree.map(
      sharding.put_array, base, state_lib.infer_shardings(base, mesh)
  )
  base = lora_lib.Base(base, lora.scale)
  programs = programs_lib.compile_programs(
      learner.MODULE, tiny.bound(ppo), tx, state, base=base
  )
  shards = state.params['layers']['mlp']['up']
  sizes = [shards[x].addressable_shards[0].data.size for x in 'ab']
  copy = weight_sync.engine_layout(state.params, base=base)
  batch = learner.random_batch()
  rows = np.arange(len(batch.tokens))
  state, metrics, *_ = programs_lib.update(
      programs, state, batch, rows, **LIMIT
  )
  return dict(state=state, metrics=metrics, copy=copy), np.array(sizes)


def test_any_mesh_gives_the_same_update_of_an_adapter():
  actual, sizes = adapter_on(make_mesh('1x2x2x2'))
  expected, whole = adapter_on(make_mesh(ALONE))
  # A [L, in, rank] is split by `fsdp`, B [L, rank, out] by `tensor`.
  np.testing.assert_array_equal(sizes * 2, whole)
  assert expected['metrics']['critic/grad_norm'] > 1e-3
  assert_same(flat(actual), flat(expected))


@functools.cache
def work_on(shape):
  """Floating point operations of each device for a gradient."""
  mesh = make_mesh(shape)
  state, programs = learner.make_learner(mesh)
  rows, [(piece, _)] = learner.pieces_on(mesh, 1)
  measured = programs_lib.denominators(learner.random_batch(), rows)
  lowered = programs.accumulate.lower(
      state.networks, programs.zeros(), state_lib.place(piece, mesh), measured
  )
  return lowered.compile().cost_analysis()['flops']


@pytest.mark.parametrize('mesh', ['1x1x8x1', '1x1x1x8'])
def test_no_device_does_the_work_of_another(mesh):
  # An eighth each; what many devices repeat (norms, key heads) is little.
  alone = work_on(ALONE)
  assert 0.9 * alone / 8 < work_on(mesh) < 1.25 * alone / 8


# So many that their kernel is larger than anything else that is sent.
VOCAB = 4096


def sent_by_pieces(mesh, *, tied=False, dtype=jnp.float32, frozen=False):
  """Count and bytes of what a gradient of four pieces sends, by kind."""
  shape = (8, 8 * mesh.shape[mesh_lib.SEQUENCE])
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
  return sent(hlo.work(lowered.compile().as_text()))


@pytest.mark.parametrize(
    'kernel',
    [
        pytest.param(dict(tied=True), id='tied'),
        pytest.param({}, id='untied'),
        pytest.param(dict(dtype=jnp.bfloat16), id='narrow'),
        pytest.param(dict(frozen=True), id='frozen'),
    ],
)
@pytest.mark.parametrize('shape', ['1x4x2x1', '2x2x1x2', '8x1x1x1'])
def test_four_pieces_send_the_output_kernel_and_its_gradient_once(
    shape, kernel
):
  mesh = make_mesh(shape)
  data, fsdp, tensor, sequence = mesh.devices.shape
  found = sent_by_pieces(mesh, **kernel)
  # A device's part of the [VOCAB, 16] kernel, float32: in bfloat16 too its
  # gradient is, and a CPU's compiler sends nothing of less.
  part = 4 * VOCAB * 16 // tensor
  expected = {}
  if fsdp > 1:
    expected[f'all-gather/{fsdp}'] = (1, part)
  if 'frozen' not in kernel:
    if fsdp > 1:
      expected[f'reduce-scatter/{fsdp}'] = (1, part)
    if data * sequence > 1:
      expected[f'all-reduce/{data * sequence}'] = (1, part // fsdp)
  # What is left is of tokens: 16 numbers each, and there are 64 on a device.
  rest = {name: found[name] for name in found.keys() - expected.keys()}
  assert {name: found.get(name) for name in expected} == expected
  assert all(size <= 4 * 64 * 16 for _, size in rest.values())


def test_the_update_is_one_that_could_have_differed():
  alone = learner.update_on(f'{ALONE}/own/1')
  assert alone['metrics/train/grad_norm'] > 1e-3
  grads = [x for name, x in alone.items() if name.startswith('grads/')]
  assert len(grads) > 20 and all(np.abs(x).max() > 0 for x in grads)
