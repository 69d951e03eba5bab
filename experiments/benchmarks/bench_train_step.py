"""Times one optimiser update: forward, backward, AdamW.

    python -m experiments.benchmarks.bench_train_step --model=tiny-4m
    python -m experiments.benchmarks.bench_train_step --model=smollm2-135m \
        --batch=4 --repeats=3

Prints one JSON line a model. `gemm_share` is the model's FLOPs (6 per parameter
and token, plus attention) over what a matrix product reached in this run.
"""

import json
import statistics

import jax
import numpy as np
from absl import app, flags

from agentrl.algos import sft
from agentrl.batch import TokenBatch
from agentrl.models import transformer, variants
from agentrl.models.transformer import Transformer
from agentrl.parallel import mesh as mesh_lib
from agentrl.training import optim, state as state_lib, step
from experiments.benchmarks import reference_rates

_MODEL = flags.DEFINE_string('model', 'tiny-4m', 'A name of models.variants.')
_BATCH = flags.DEFINE_integer('batch', 16, 'Rows.')
_LENGTH = flags.DEFINE_integer('length', 512, 'Tokens a row.')
_REPEATS = flags.DEFINE_integer('repeats', 5, 'Timed updates.')


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


def flops(config: transformer.TransformerConfig, rows: int, length: int):
  """Forward and backward FLOPs of an update, causal attention counted half."""
  dense = 6 * config.num_params * rows * length
  width = config.num_heads * config.head_dim
  attention = 6 * config.num_layers * rows * length**2 * width
  return dense + attention


def main(argv):
  del argv
  rows, length = _BATCH.value, _LENGTH.value
  config = variants.get(_MODEL.value)
  module = Transformer(config, scan_layers=True)
  mesh = mesh_lib.make_mesh(dict(data=1, fsdp=-1, tensor=1, sequence=1))
  tx = optim.make_optimizer(1e-5)
  params = transformer.init_params(module, jax.random.key(0))
  state, shardings = state_lib.create(params, tx, mesh)
  del params
  steps = step.make_steps(module, sft.loss, tx, mesh, state, shardings)
  batch = make_batch(rows, length, config.vocab_size)

  def update():
    nonlocal state
    state, _ = step.update(
        steps, state, batch, np.arange(rows), max_tokens=rows * length
    )
    return state

  before = reference_rates.sgemm_gflops()
  times = reference_rates.timings_s(update, repeats=_REPEATS.value)
  gemm = (before + reference_rates.sgemm_gflops()) / 2
  tokens = rows * length
  median = statistics.median(times)
  print(
      json.dumps(
          dict(
              case=f'train_step {_MODEL.value}',
              shape=[rows, length],
              device=jax.devices()[0].device_kind,
              median_s=round(median, 3),
              tokens_per_s=round(tokens / median, 1),
              tokens_per_s_range=[
                  round(tokens / max(times), 1),
                  round(tokens / min(times), 1),
              ],
              sgemm_gflops=round(gemm, 1),
              gemm_share=round(
                  flops(config, rows, length) / median / 1e9 / gemm, 3
              ),
          )
      )
  )


if __name__ == '__main__':
  app.run(main)
