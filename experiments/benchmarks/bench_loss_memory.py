"""Compares the memory of the chunked loss with that of the naive one.

    python -m experiments.benchmarks.bench_loss_memory

Log-probabilities of one row of tokens with their gradients for the states and
the unembedding, compiled and never run: the bytes are the compiler's own. Prints
one JSON line per case.
"""

import functools
import json

import jax
import jax.numpy as jnp
from absl import app, flags

from agentrl.ops import logprob

_VOCAB = flags.DEFINE_integer('vocab', 151_936, 'Rows of the unembedding.')
_LENGTH = flags.DEFINE_integer('length', 8_192, 'Tokens of the row.')
_WIDTH = flags.DEFINE_integer('width', 896, 'Width of the states.')


def naive_logprobs(hidden, unembed, tokens, positions):
  """Without the entropy, whose gradient takes as much again."""
  logprobs, _ = naive(hidden, unembed, tokens, positions)
  return logprobs, jnp.zeros_like(logprobs)


def naive(hidden, unembed, tokens, positions):
  """The same outputs from logits of all tokens at once."""
  targets = jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)))
  logprobs, entropy = logprob.from_logits(unembed(hidden), targets)
  shift = functools.partial(logprob.shift_right, positions=positions)
  return shift(logprobs), shift(entropy)


CASES = {
    'chunked': logprob.from_hidden,
    'naive': naive,
    'naive, no entropy': naive_logprobs,
}


def temporary_bytes(
    score, *, vocab: int, length: int, width: int, dtype=jnp.float32
) -> int:
  """What a loss and its gradients take beside their inputs and outputs."""

  def loss(hidden, kernel, tokens, positions):
    def unembed(states):
      # As models.transformer does for a tied head.
      return jnp.dot(states, kernel.T, preferred_element_type=jnp.float32)

    logprobs, entropy = score(hidden, unembed, tokens, positions)
    return -jnp.sum(logprobs) - jnp.sum(entropy)

  shape = jax.ShapeDtypeStruct
  ids = shape((1, length), jnp.int32)
  compiled = (
      jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
      .lower(
          shape((1, length, width), dtype),
          shape((vocab, width), dtype),
          ids,
          ids,
      )
      .compile()
  )
  return compiled.memory_analysis().temp_size_in_bytes


def main(argv):
  del argv
  sizes = dict(vocab=_VOCAB.value, length=_LENGTH.value, width=_WIDTH.value)
  device = jax.devices()[0].device_kind
  for dtype in ('float32', 'bfloat16'):
    least = None
    for case, score in CASES.items():
      size = temporary_bytes(score, **sizes, dtype=dtype)
      least = least or size
      record = dict(case=case, dtype=dtype, **sizes, device=device)
      record |= dict(gigabytes=size / 1e9, times_chunked=size / least)
      print(json.dumps(record))


if __name__ == '__main__':
  app.run(main)
