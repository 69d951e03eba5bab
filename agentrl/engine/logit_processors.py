"""Logit processors: penalties, biases and minimum lengths.

The arithmetic is SGLang's. With z a logit, c how often the request sampled the
token so far (its prompt does not count) and [c > 0] 1 where that is not 0:

    z <- z - frequency_penalty c - presence_penalty [c > 0]
    z <- z repetition_penalty if z < 0 else z / repetition_penalty, where c > 0
    z <- z + logit_bias

and up to `min_new_tokens` sampled tokens the ids that would end the request are
impossible. All this precedes the temperature; log-probabilities are those of
the resulting distribution.

`[B, vocabulary]` arrays exist only in dispatches in which some row needs them:
ordinary ones run another program, without them.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.engine.request import MAX_BIAS, SamplingParams
from agentrl.engine.sampling import Array


class LogitParams(NamedTuple):
  """Logit parameters of one row, on the host."""

  params: SamplingParams
  end_ids: Sequence[int]  # impossible up to min_new_tokens
  output: Sequence[int]  # sampled so far


class LogitArrays(NamedTuple, Generic[Array]):
  """Logit parameters of all rows of a dispatch."""

  counts: Array  # [B, V] float32, how often each id was sampled
  frequency: Array  # [B] float32, 0 is off
  presence: Array  # [B] float32, 0 is off
  repetition: Array  # [B] float32, 1 is off
  bias: Array  # [B, V] float32
  ends: Array  # [B, V] bool
  without_end: Array  # [B] int32, steps for which `ends` are impossible


def are_used(params: SamplingParams) -> bool:
  """True if `params` change any logit."""
  return bool(
      params.frequency_penalty
      or params.presence_penalty
      or params.repetition_penalty != 1
      or params.min_new_tokens
      or params.logit_bias
  )


def make_arrays(
    rows: Sequence[LogitParams | None], batch: int, vocab: int
) -> LogitArrays[np.ndarray]:
  """The arrays of a dispatch; rows of None stay as they are."""
  column = lambda kind, value=0: np.full(batch, value, kind)
  table = lambda kind: np.zeros((batch, vocab), kind)
  out = LogitArrays(
      counts=table(np.float32),
      frequency=column(np.float32),
      presence=column(np.float32),
      repetition=column(np.float32, 1),
      bias=table(np.float32),
      ends=table(bool),
      without_end=column(np.int32),
  )
  for i, row in enumerate(rows):
    if row is None:
      continue
    params = row.params
    np.add.at(out.counts[i], np.asarray(row.output, np.int64), 1)
    out.frequency[i] = params.frequency_penalty
    out.presence[i] = params.presence_penalty
    # A denormal number would count as 0 on the device.
    least = np.finfo(np.float32).tiny
    out.repetition[i] = max(params.repetition_penalty, least)
    for token, bias in params.logit_bias:
      out.bias[i, token] = bias
    out.ends[i, list(row.end_ids)] = True
    out.without_end[i] = params.min_new_tokens - len(row.output)
  return out


def apply(
    logits: jax.Array,
    arrays: LogitArrays[jax.Array],
    counts: jax.Array,
    step: jax.Array,
) -> jax.Array:
  """`[B, V]` logits to sample from, up to a constant a row.

  Args:
    logits: `[B, V]` float32, the model's.
    arrays: of the dispatch.
    counts: `[B, V]` float32, those of the dispatch's beginning and `count` of
      what it sampled since.
    step: scalar int32, tokens that the dispatch has sampled.
  """
  column = lambda x: x[:, None]
  sampled = counts > 0
  less = logits - column(arrays.frequency) * counts
  less = less - jnp.where(sampled, column(arrays.presence), 0.0)
  repetition = column(arrays.repetition)
  scaled = jnp.where(less < 0, less * repetition, less / repetition)
  # Division by next to nothing must not give an infinity.
  scaled = jnp.clip(scaled, -MAX_BIAS, MAX_BIAS)
  out = jnp.where(sampled, scaled, logits) + arrays.bias
  early = column(step < arrays.without_end)
  out = jnp.where(early & arrays.ends, -jnp.inf, out)
  # The softmax to come does not mind a shift, and finds a maximum of 0 whatever
  # the rounding of a huge bias over a small temperature. Rows that ask for
  # nothing stay as they are, to the bit.
  changed = jnp.any(out != logits, axis=-1, keepdims=True)
  return jnp.where(changed, out - out.max(axis=-1, keepdims=True), logits)


def count(counts: jax.Array, ids: jax.Array) -> jax.Array:
  """`[B, V]` counts with one more of each row's `[B]` id."""
  return counts.at[jnp.arange(ids.shape[0]), ids].add(1.0)
