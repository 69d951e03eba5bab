"""Times one optimizer update: forward, backward, AdamW.

    python -m experiments.benchmarks.bench_train_step --model=tiny-4m
    python -m experiments.benchmarks.bench_train_step --model=smollm2-135m \
        --batch=4 --repeats=3
    python -m experiments.benchmarks.bench_train_step --model=tiny-4m \
        --transformers=torch-env/bin/python --tunix=tunix-env/bin/python

On a GPU, whose memory JAX and torch then share:

    for length in 4096 16384 32768; do for rank in 0 16; do
      XLA_CLIENT_MEM_FRACTION=0.45 \
          python -m experiments.benchmarks.bench_train_step \
          --model=qwen2.5-1.5b --dtype=bfloat16 --remat=full --lora_rank=$rank \
          --batch=$((32768 / length)) --length=$length --matmul=8192 \
          --transformers=torch-env/bin/python
    done; done

Prints one JSON line a model. Transformers makes a plain train step on as many
tokens (with layers computed again if `--remat=full`), tunix that of its GRPO
learner; `peers` says how to get them. They take turns with ours. `gemm_share`, on
one GPU its MFU, is the model's FLOPs (6 per parameter and token, 4 per frozen one,
plus attention; what is computed again does not count) over what a matrix product of
that type reached in this run.
"""

import contextlib
import functools
import json
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from agentrl.algos import sft
from agentrl.batch import TokenBatch
from agentrl.models import lora, transformer, variants
from agentrl.models.config import TransformerConfig
from agentrl.models.lora import Lora
from agentrl.models.transformer import REMAT, Transformer
from agentrl.parallel import mesh as mesh_lib
from agentrl.training import optim, programs as programs_lib, state as state_lib
from experiments.benchmarks import peers, reference_rates

_MODEL = flags.DEFINE_string('model', 'tiny-4m', 'A name of models.variants.')
_BATCH = flags.DEFINE_integer('batch', 16, 'Rows.')
_LENGTH = flags.DEFINE_integer('length', 512, 'Tokens a row.')
_REPEATS = flags.DEFINE_integer('repeats', 5, 'Timed updates.')
_DTYPE = flags.DEFINE_enum(
    'dtype', 'float32', ['float32', 'bfloat16'], 'Of activations.'
)
_REMAT = flags.DEFINE_enum('remat', 'dots', list(REMAT), 'See model.remat.')
_LORA_RANK = flags.DEFINE_integer(
    'lora_rank', 0, 'Of an adapter over a frozen base; 0: all is trained.'
)
_MATMUL = flags.DEFINE_integer('matmul', 1024, 'Size of the matrix product.')


def make_batch(rows: int, length: int, vocab_size: int) -> TokenBatch:
  """Random tokens, all but the first of a row trained on."""
  rng = np.random.default_rng(0)
  shape = (rows, length)
  positions = np.broadcast_to(np.arange(length, dtype=np.int32), shape)
  return TokenBatch(
      tokens=rng.integers(0, vocab_size, shape, dtype=np.int32),
      segment_ids=np.repeat(np.arange(1, rows + 1, dtype=np.int32), length)
      .reshape(shape),
      positions=positions,
      completion_mask=positions > 0,
      turn_ids=np.zeros(shape, np.int32),
      rewards=np.zeros(shape, np.float32),
      group_ids=np.zeros(rows, np.int32),
      valid=np.ones(rows, bool),
      episode_return=np.zeros(rows, np.float32),
      truncated=np.zeros(rows, bool),
  )  # fmt: skip


def flops(
    config: TransformerConfig, rows: int, length: int, *, frozen: bool = False
):
  """Forward and backward FLOPs of an update, causal attention counted half."""
  dense = (4 if frozen else 6) * config.num_params * rows * length
  width = config.num_heads * config.head_dim
  attention = 6 * config.num_layers * rows * length**2 * width
  return dense + attention


def main(argv):
  del argv
  rows, length = _BATCH.value, _LENGTH.value
  config = variants.get(_MODEL.value)
  module = Transformer(
      config,
      scan_layers=True,
      remat=_REMAT.value,
      dtype=jnp.dtype(_DTYPE.value),
  )
  mesh = mesh_lib.make_mesh(dict(data=1, fsdp=-1, tensor=1, sequence=1))
  tx = optim.make_optimizer(1e-5)
  params = transformer.init_params(module, jax.random.key(0))
  base = None
  if _LORA_RANK.value:
    adapter = Lora(rank=_LORA_RANK.value)
    frozen = jax.tree.map(lambda x: x.astype(_DTYPE.value), params)
    base = lora.Base(frozen, adapter.scale)
    params = lora.init(adapter, params, jax.random.key(1))
  state = state_lib.create(params, tx, mesh)
  del params
  batch = make_batch(rows, length, config.vocab_size)
  programs = programs_lib.compile_programs(
      module, sft.loss, tx, state, base=base
  )

  def update():
    nonlocal state
    start = time.perf_counter()
    state = programs_lib.update(
        programs, state, batch, np.arange(rows), max_tokens=rows * length
    ).state
    jax.block_until_ready(state)
    return dict(seconds=time.perf_counter() - start)

  settings = dict(dtype=_DTYPE.value, remat=_REMAT.value == 'full')
  rate = functools.partial(
      reference_rates.matmul_gflops, _MATMUL.value, dtype=_DTYPE.value
  )
  sides = {'ours': update}
  with contextlib.ExitStack() as stack:
    for peer in peers.start(
        stack, _MODEL.value, config, ('transformers', 'tunix')
    ):
      sides[peer.name] = lambda peer=peer: peer.ask(
          'train',
          rows=rows,
          length=length,
          **({} if peer.name == 'tunix' else settings),
      )
    for run in sides.values():
      run()  # compiles
    before = rate()
    runs = peers.alternate(sides, _REPEATS.value)
    gemm = (before + rate()) / 2
  times = {
      name: [run['seconds'] for run in side] for name, side in runs.items()
  }
  tokens = rows * length
  median = statistics.median(times['ours'])
  work = flops(config, rows, length, frozen=base is not None)
  result = dict(
      case=f'train_step {_MODEL.value}',
      shape=[rows, length],
      device=jax.devices()[0].device_kind,
      dtype=_DTYPE.value,
      remat=_REMAT.value,
      lora_rank=_LORA_RANK.value,
      gemm_gflops=round(gemm, 1),
      gemm_share=round(work / median / 1e9 / gemm, 3),
  )
  for name, seconds in times.items():
    result[name] = dict(
        seconds=peers.spread(seconds),
        tokens_per_s=peers.spread([tokens / s for s in seconds]),
        times_as_long=statistics.median(seconds) / median,
    )
  print(json.dumps(result))


if __name__ == '__main__':
  app.run(main)
