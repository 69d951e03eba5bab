"""Programs for a GPU that is not there."""

import jax
import pytest

# jax 0.12 wants a card, or the name of one, to lower Triton's kernels for it.
needs_lowering = pytest.mark.skipif(
    jax.__version_info__ >= (0, 12), reason='jax 0.12 needs a GPU for this'
)


def lowered(function, *shapes):
  """StableHLO of `function` for CUDA, with Triton's kernels inside."""
  traced = jax.jit(function).trace(*shapes)
  return traced.lower(lowering_platforms=('cuda',)).as_text()
