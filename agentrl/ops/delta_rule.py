"""The gated delta rule: attention whose memory is one matrix (arXiv:2412.06464).

A head's memory S, `[K, V]`, holds values by their keys. Each token lets it fade
by a factor a, corrects what it has for the token's key k by a part b of the
error, and reads it with the query q:

    S' = a S + b k (v - k (a S))^T,    o = q S'.

`recur` does one token. `scan` does rows in chunks, in which the corrections are
one triangular system (the WY form of arXiv:2406.06484), so that a row is a few
products of matrices a chunk instead of as many steps as it has tokens.

All of these take, for H heads of values:

- queries, keys: `[B, T, H, K]` of any dtype; they are normalised here.
- values: `[B, T, H, V]`.
- log_decay: `[B, T, H]` float32, log a, at most 0.
- rate: `[B, T, H]`, b, from 0 to 1.
"""

import jax
import jax.numpy as jnp
import jax.scipy

# Tokens of a chunk: the triangular system grows with its square, the number of
# steps falls with it.
_CHUNK = 64
_EPS = 1e-6
# A memory adds up thousands of tokens: products of few bits would drift.
_EXACT = jax.lax.Precision.HIGHEST


def _unit(x: jax.Array) -> jax.Array:
  x = x.astype(jnp.float32)
  return x * jax.lax.rsqrt(jnp.sum(x * x, axis=-1, keepdims=True) + _EPS)


def recur(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    log_decay: jax.Array,
    rate: jax.Array,
    memory: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """One token of each row.

  Args:
    queries: of one token, without the axis T, as all that follow: `[B, H, K]`.
    keys: as queries.
    values: `[B, H, V]`.
    log_decay: `[B, H]`.
    rate: `[B, H]`.
    memory: `[B, H, K, V]` float32.

  Returns:
    `[B, H, V]` float32, and the memory after the token.
  """
  queries = _unit(queries) * queries.shape[-1] ** -0.5
  keys = _unit(keys)
  memory = memory * jnp.exp(log_decay)[..., None, None]
  # Sums and not products of matrices, of which these have but one row.
  known = jnp.sum(memory * keys[..., None], axis=-2)
  error = (values.astype(jnp.float32) - known) * rate[..., None]
  memory = memory + keys[..., None] * error[..., None, :]
  return jnp.sum(memory * queries[..., None], axis=-2), memory


def scan(
    queries: jax.Array,
    keys: jax.Array,
    values: jax.Array,
    log_decay: jax.Array,
    rate: jax.Array,
    segment_ids: jax.Array,
    memory: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
  """All tokens of rows, each segment by itself.

  Args:
    queries: see the module.
    keys: see the module.
    values: see the module.
    log_decay: see the module.
    rate: see the module.
    segment_ids: `[B, T]` int; tokens of a segment lie side by side, and those of
      0 (padding) leave the memory as it is.
    memory: `[B, H, K, V]` float32 with which each segment of a row begins; None:
      empty.

  Returns:
    `[B, T, H, V]` float32, and the memory after each row's last segment.
  """
  batch, length, heads, size = keys.shape
  width = values.shape[-1]
  real = segment_ids != 0
  before = jnp.concatenate([segment_ids[:, :1], segment_ids[:, :-1]], axis=1)
  starts = real & (segment_ids != before)
  chunk = min(_CHUNK, length)
  pad = -length % chunk

  def chunked(x):
    """`[N, B, H, C, ...]` chunks of `[B, T, H, ...]`, in float32."""
    x = jnp.pad(x, [(0, 0), (0, pad)] + [(0, 0)] * (x.ndim - 2))
    x = x.reshape(batch, -1, chunk, *x.shape[2:]).astype(jnp.float32)
    return jnp.moveaxis(jnp.moveaxis(x, 3, 2), 1, 0)

  keys = _unit(keys)
  scaled = _unit(queries) * size**-0.5
  rate = jnp.where(real[..., None], rate, 0.0)
  log_decay = jnp.where(real[..., None], log_decay, 0.0)
  parts = (scaled, keys, values * rate[..., None], keys * rate[..., None])
  initial = memory
  empty = jnp.zeros((batch, heads, size, width), jnp.float32)
  index = jnp.arange(chunk)

  def step(memory, inputs):
    queries, keys, values, corrections, log_decay, starts = inputs
    # Of each token: how many segments began before it in this chunk, and the
    # log of what is left, when it comes, of what its segment began with here.
    began = jnp.cumsum(starts, axis=-1)
    first = jax.lax.cummax(jnp.where(starts > 0, index, -1), axis=2)
    faded = jnp.cumsum(log_decay, axis=-1)
    skipped = jnp.take_along_axis(faded - log_decay, jnp.maximum(first, 0), -1)
    left = jnp.exp(faded - jnp.where(first < 0, 0.0, skipped))
    goes_on = (began == 0)[..., None]
    same = began[..., :, None] == began[..., None, :]
    earlier = index[:, None] >= index
    between = faded[..., :, None] - faded[..., None, :]
    fading = jnp.exp(jnp.where(same & earlier, between, -jnp.inf))

    def recalled(x):
      """The content of the memories for `[B, H, C, K]`."""
      x = x * left[..., None]
      old = _matmul(x, memory)
      if initial is None:
        return jnp.where(goes_on, old, 0.0)
      return jnp.where(goes_on, old, _matmul(x, initial))

    system = _matmul(corrections, keys.mT) * fading
    errors = jax.scipy.linalg.solve_triangular(
        jnp.tril(system, -1) + jnp.eye(chunk),
        values - recalled(corrections),
        lower=True,
        unit_diagonal=True,
    )
    scores = _matmul(queries, keys.mT) * fading
    out = recalled(queries) + _matmul(scores, errors)
    last = jnp.where(goes_on[..., -1:, :], memory, 0.0)
    if initial is not None:
      last = jnp.where(goes_on[..., -1:, :], memory, initial)
    memory = last * left[..., -1, None, None] + _matmul(
        (keys * fading[..., -1, :, None]).mT, errors
    )
    return memory, out

  inputs = tuple(map(chunked, (*parts, log_decay, starts[..., None])))
  last, out = jax.lax.scan(step, empty if memory is None else memory, inputs)
  out = jnp.moveaxis(jnp.moveaxis(out, 0, 1), 2, 3)
  return out.reshape(batch, -1, heads, width)[:, :length], last


def _matmul(a: jax.Array, b: jax.Array) -> jax.Array:
  return jnp.matmul(a, b, precision=_EXACT)
