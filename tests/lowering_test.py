"""The programs of a trainer and an engine lower for a GPU, where there is none.

XLA's compiler for it is not asked; but what jax has no rule for there, or a
custom call that only a CPU has, is found.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from agentrl.data import collate
from agentrl.engine import decode, padding
from agentrl.models import lora, transformer
from agentrl.ops import attention
from agentrl.ops.aggregate import Denominators
from agentrl.training import (
    optim,
    options,
    programs as programs_lib,
    state as state_lib,
)
from tests import tiny

# Of no other test: traces of functions are kept, and these are those of a GPU.
CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=48)
MODULE = transformer.Transformer(
    CONFIG, scan_layers=True, remat='dots', dtype=jnp.bfloat16
)
ROWS, LENGTH, SLOTS = 4, 64, 8


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch):
  """Choices by platform are those of a GPU."""
  monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')


def lower(function, *args, **static):
  """The function's StableHLO for CUDA."""
  exported = export.export(function, platforms=['cuda'])(*args, **static)
  assert exported.platforms == ('cuda',)
  return exported.mlir_module()


def microbatch():
  """Rows of several episodes that share prompts."""
  rng = np.random.default_rng(0)
  groups = [
      tiny.with_prompt(group, rng.integers(CONFIG.vocab_size, size=20))
      for group in tiny.random_groups(0)
  ]
  batch = collate.collate(groups)
  batch = batch.replace(advantages=batch.rewards)
  [(piece, _)] = collate.microbatches(
      batch,
      np.arange(len(batch.tokens)),
      max_tokens=4096,
      share_prefixes=True,
  )
  assert piece.prefix is not None
  return state_lib.place(piece, tiny.one_device())


def learner(rank=0, optimizer='adamw'):
  params, base = tiny.random_params(CONFIG), None
  if rank:
    adapter = lora.Lora(rank=rank)
    base = lora.Base(params, adapter.scale)
    params = lora.init(adapter, params, jax.random.key(0))
  tx = optim.make_optimizer(1e-3, name=optimizer)
  state = state_lib.create(params, tx, tiny.one_device())
  programs = programs_lib.compile_programs(
      MODULE, tiny.bound(), tx, state, base=base
  )
  return state, programs


@pytest.mark.parametrize('rank', [0, 4])
def test_the_gradient_of_a_microbatch_lowers(rank):
  state, programs = learner(rank)
  batch = microbatch()
  text = lower(
      programs.accumulate,
      state.networks,
      programs.zeros(),
      batch,
      Denominators(*np.ones(4, np.float32)),
  )
  assert 'bf16' in text and 'dot_general' in text
  lower(programs.score, state.networks, batch)


@pytest.mark.parametrize('optimizer', options.OPTIMIZERS)
def test_an_optimizer_lowers(optimizer):
  state, programs = learner(optimizer=optimizer)
  lower(programs.apply, state, programs.zeros())


def engine_caches():
  module = transformer.Transformer(CONFIG, dtype=jnp.bfloat16)
  cache, scratch = (
      transformer.init_cache(CONFIG, rows, LENGTH, jnp.bfloat16)
      for rows in (SLOTS, ROWS)
  )
  params = transformer.unstack_layers(tiny.random_params(CONFIG))
  return decode.compile_for(module), params, cache, scratch


def test_decoding_lowers():
  programs, params, cache, scratch = engine_caches()
  rows = padding.decode_rows(
      [], ROWS, CONFIG.vocab_size, adjusted=True, unused=SLOTS
  )
  text = lower(
      programs.decode,
      params,
      cache,
      scratch,
      rows,
      np.int32(decode.MAX_STEPS),
      np.int32(1),
      truncated=True,
      tops=True,
  )
  assert 'stablehlo.while' in text


def test_filling_and_scoring_lower():
  programs, params, cache, scratch = engine_caches()
  chunk = padding.chunk([], 16, ROWS, unused=SLOTS)
  lower(programs.prefill, params, cache, scratch, chunk)
  targets = np.zeros((ROWS, 16), np.int32)
  lower(programs.score, params, cache, scratch, chunk, targets, tops=True)
  lower(
      programs.copy, cache, *padding.copies([], ROWS, unused=SLOTS), length=32
  )


@pytest.mark.parametrize('window', [None, 128])
def test_attention_and_its_gradient_lower(window):
  def total(queries, keys, values, segment_ids):
    out = attention.causal(
        queries, keys, values, segment_ids, window=window and jnp.int32(window)
    )
    return jnp.sum(out.astype(jnp.float32))

  like = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.bfloat16)
  kv = like((2, 2048, 2, 64))
  ids = jax.ShapeDtypeStruct((2, 2048), jnp.int32)
  gradient = jax.jit(jax.grad(total, argnums=(0, 1, 2)))
  lower(gradient, like((2, 2048, 8, 64)), kv, kv, ids)
