r"""Times attention over packed rows, forward and backward, by each implementation.

On a GPU, which no one has done yet:

    for length in 4096 16384 32768; do for segments in 1 8; do
      python -m experiments.benchmarks.bench_attention --model=qwen2.5-1.5b \
          --batch=$((32768 / length)) --length=$length --segments=$segments
    done; done

Prints one JSON line. What the compiler sets aside beside inputs and results is
`temporary_mib`, `tflops` counts the triangles of the segments, and `errors` are
distances from float32 arithmetic on the same numbers, of the result and of the
gradients of queries, keys and values, as shares of their norms, for one head and
2,048 tokens.
"""

import functools
import json
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from agentrl.models import variants
from agentrl.models.mesh_attention import IMPLEMENTATIONS
from experiments.benchmarks import peers

_MODEL = flags.DEFINE_string('model', 'qwen2.5-1.5b', 'A name of variants.')
_BATCH = flags.DEFINE_integer('batch', 1, 'Rows.')
_LENGTH = flags.DEFINE_integer('length', 4096, 'Tokens a row.')
_SEGMENTS = flags.DEFINE_integer('segments', 1, 'Episodes a row.')
_DTYPE = flags.DEFINE_enum(
    'dtype', 'bfloat16', ['float32', 'bfloat16'], 'Of queries, keys and values.'
)
_REPEATS = flags.DEFINE_integer('repeats', 20, 'Timed calls.')
_IMPLEMENTATIONS = flags.DEFINE_list(
    'implementations', list(IMPLEMENTATIONS), 'Which take turns.'
)


def with_gradients(name, arrays, segment_ids):
  """The result and its gradients by `[queries, keys, values]`."""
  *inputs, grad = arrays
  attend = functools.partial(
      IMPLEMENTATIONS[name].causal, segment_ids=segment_ids
  )
  out, vjp = jax.vjp(attend, *inputs)
  return out, *vjp(grad)


def make_arrays(rows, length, heads, kv_heads, dim):
  """Queries, keys, values and a cotangent, of unit normals."""
  rng = np.random.default_rng(0)
  shape = lambda heads: (rows, length, heads, dim)
  shapes = shape(heads), shape(kv_heads), shape(kv_heads), shape(heads)
  draw = functools.partial(rng.standard_normal, dtype=np.float32)
  return [jnp.asarray(draw(shape), _DTYPE.value) for shape in shapes]


def segment_ids_of(rows, length, segments):
  ids = 1 + np.arange(length) * segments // length
  return jnp.asarray(np.tile(ids, (rows, 1)), jnp.int32)


def errors(name, dim):
  """Of one head in one row, as shares of the exact arrays' norms."""
  arrays = make_arrays(1, 2048, 1, 1, dim)
  segment_ids = segment_ids_of(1, 2048, _SEGMENTS.value)
  with jax.default_matmul_precision('highest'):
    exact = jax.jit(functools.partial(with_gradients, 'reference'))(
        [x.astype(jnp.float32) for x in arrays], segment_ids
    )
  found = jax.jit(functools.partial(with_gradients, name))(arrays, segment_ids)
  return [
      float(jnp.linalg.norm(a.astype(jnp.float32) - b) / jnp.linalg.norm(b))
      for a, b in zip(found, exact, strict=True)
  ]


def main(argv):
  del argv
  c = variants.get(_MODEL.value)
  rows, length, segments = _BATCH.value, _LENGTH.value, _SEGMENTS.value
  arrays = make_arrays(rows, length, c.num_heads, c.num_kv_heads, c.head_dim)
  segment_ids = segment_ids_of(rows, length, segments)
  programs = {
      name: (
          jax.jit(functools.partial(with_gradients, name))
          .lower(arrays, segment_ids)
          .compile()
      )
      for name in _IMPLEMENTATIONS.value
  }

  def run(program):
    start = time.perf_counter()
    jax.block_until_ready(program(arrays, segment_ids))
    return dict(seconds=time.perf_counter() - start)

  sides = {
      name: functools.partial(run, program)
      for name, program in programs.items()
  }
  for side in sides.values():
    side()  # warms up
  runs = peers.alternate(sides, _REPEATS.value)
  # Two products forward and four backward, for half of each segment's square;
  # what is computed again does not count.
  work = 6 * rows * c.num_heads * c.head_dim * length**2 / segments
  result = dict(
      case=f'attention {_MODEL.value}',
      shape=[rows, length, c.num_heads, c.num_kv_heads, c.head_dim],
      segments=segments,
      device=jax.devices()[0].device_kind,
      dtype=_DTYPE.value,
  )
  for name, program in programs.items():
    seconds = [run['seconds'] for run in runs[name]]
    memory = program.memory_analysis().temp_size_in_bytes
    result[name] = dict(
        seconds=peers.spread(seconds),
        tflops=work / statistics.median(seconds) / 1e12,
        temporary_mib=memory / (1 << 20),
        errors=errors(name, c.head_dim),
    )
  print(json.dumps(result))


if __name__ == '__main__':
  app.run(main)
