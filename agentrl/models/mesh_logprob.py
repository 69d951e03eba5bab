"""Log-probabilities of rows that lie on a mesh.

Rows and tokens are split as everywhere, the vocabulary over `tensor`, and the
width of the output kernel over `fsdp`. Left to itself, the compiler gathers the
kernel and reduces its gradient over all devices for every chunk of tokens: for
Qwen2.5-7B on eight devices that is more than half of what a microbatch sends.
Here each device gathers its part of the vocabulary once, adds up its own
tokens' gradient of it over all chunks, and reduces the sum once.

The price is memory: from the first chunk to the last a device holds its part of
the kernel, `D * V / tensor` numbers, and as many float32 of the gradient, where
the compiler alone holds them for a chunk at a time. In plans of eight
devices that is 1.0 GiB more for Qwen2.5-7B (of 17.2) and 1.3 for 32B (of 41.0);
with `tensor=8` it is nothing that shows. A row of one chunk a device is the same
either way.
"""

import functools
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

from agentrl.models import transformer
from agentrl.models.transformer import Transformer
from agentrl.ops import logprob
from agentrl.parallel import sharding
from agentrl.parallel.mesh import BATCH_AXES, SEQUENCE, TENSOR

DATA, FSDP = BATCH_AXES


def from_hidden(
    hidden: jax.Array,
    module: Transformer,
    params: Any,
    tokens: jax.Array,
    positions: jax.Array,
    *,
    first: jax.Array | None = None,
    wanted: jax.Array | None = None,
    temperature: float = 1.0,
    chunk: int | None = None,
) -> logprob.Scores:
  """`ops.logprob.from_hidden`, on the mesh that is traced with if there is one.

  Args:
    hidden: `[B, T, D]` final states; the batch axes divide B, `sequence` T.
    module: the decoder, trainer layout.
    params: of the decoder, of which the output kernel is read; `fsdp` divides
      its D, `tensor` its V.
    tokens: `[B, T]` int ids.
    positions: `[B, T]` int.
    first: `[B, D]` last state of each row's prefix; `sequence` is 1 then.
    wanted: `[B, T]` bool, the tokens whose scores are read; others get 0. None:
      all of them.
    temperature: of the sampler.
    chunk: tokens of a device at a time, see `in_chunks`; static.
  """
  config = module.config
  tied, softcap = config.tie_embeddings, config.logits_softcap
  kernel = params['embed' if tied else 'lm_head']

  def unembed(kernel, hidden):
    kernel = kernel.astype(module.dtype)
    return transformer.unembed(hidden, kernel, tied=tied, softcap=softcap)

  if jax.sharding.get_abstract_mesh().empty:
    return logprob.from_hidden(
        hidden,
        functools.partial(unembed, kernel),
        tokens,
        positions,
        first=first,
        wanted=wanted,
        temperature=temperature,
        chunk=chunk,
    )

  def predict(kernel, states, tokens, wanted):
    whole = _whole(kernel, 1 if tied else 0, module.dtype)

    def score(states, targets):
      return logprob.from_logits(
          unembed(whole, states),
          targets,
          temperature=temperature,
          axis=TENSOR if _split(TENSOR) else None,
      )

    # Where parts of the vocabulary are summed up, all devices take part.
    axes = _split(*BATCH_AXES, SEQUENCE) if _split(TENSOR) else ()
    return logprob.in_chunks(
        score, states, tokens, wanted, chunk=chunk, axes=axes
    )

  rows = P(_split(*BATCH_AXES), _split(SEQUENCE))
  width, vocab = _split(FSDP), _split(TENSOR)
  predict = jax.shard_map(
      predict,
      in_specs=(P(vocab, width) if tied else P(width, vocab), rows, rows, rows),
      out_specs=rows,
  )
  predict = functools.partial(predict, kernel)
  return logprob.of_tokens(predict, hidden, tokens, positions, first, wanted)


def _split(*axes: str) -> tuple[str, ...]:
  """The mesh axes with more than one device; others need no collective."""
  return tuple(axis for axis in axes if sharding.axis_size(axis) > 1)


def _whole(kernel: jax.Array, axis: int, dtype: Any) -> jax.Array:
  """A device's part of the vocabulary, of which it has a part of the width.

  Args:
    kernel: `[D / fsdp, V / tensor]`, or turned round.
    axis: of its width.
    dtype: that it is sent in.
  """
  # Backward, a sum over these axes: of a part, and not in the loop.
  kernel = jax.lax.pcast(kernel, _split(DATA, SEQUENCE), to='varying')
  return _gather(kernel, axis, dtype) if _split(FSDP) else kernel


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _gather(kernel: jax.Array, axis: int, dtype: Any) -> jax.Array:
  """`kernel` whole, rounded to `dtype` on its way.

  It arrives in its own type, because chunks add up its gradient in that.
  """
  whole = jax.lax.all_gather(kernel.astype(dtype), FSDP, axis=axis, tiled=True)
  return whole.astype(kernel.dtype)


def _gather_forward(kernel, axis, dtype):
  return _gather(kernel, axis, dtype), None


def _gather_backward(axis, dtype, saved, grad):
  del dtype, saved
  scatter = functools.partial(jax.lax.psum_scatter, scatter_dimension=axis)
  return (scatter(grad, FSDP, tiled=True),)


_gather.defvjp(_gather_forward, _gather_backward)
