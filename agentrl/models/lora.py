"""Low-rank adapters (LoRA, arXiv:2106.09685), trained beside a frozen base.

A projection x W of the decoder becomes x W + scale (x A) B, where W is frozen
and A [in, rank] and B [rank, out] are trained. No gradient of the size of W is
ever made, and the optimizer has no state for it.

An adapter is a tree parallel to the decoder's parameters in the trainer's
layout (`transformer`), with `{'a': [L, in, rank], 'b': [L, rank, out]}` where those have
`{'kernel': [L, in, out]}`. The decoder reads it as the collection 'lora', beside
its 'params'; without one, it is the same program as ever.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from agentrl.models import stacks
from agentrl.models.config import ATTENTION, CONV, LINEAR
from agentrl.models.options import Lora

Params = Any
Adapter = Any

# Where the projections of `LORA_TARGETS` are.
BLOCKS = (
    dict.fromkeys('qkvo', 'attention')
    | dict.fromkeys(('gate', 'up', 'down'), 'mlp')
    | dict.fromkeys(('in_qkv', 'in_z', 'in_bcx', 'out'), 'attention')
)


# Those of the layers of a kind, besides the MLP's.
TARGETS = {
    ATTENTION: tuple('qkvo'),
    LINEAR: ('in_qkv', 'in_z', 'out'),
    CONV: ('in_bcx', 'out'),
}


def targets_of(layer: stacks.Layer) -> tuple[str, ...]:
  """The projections of a layer that mix tokens, and may have an adapter."""
  lacks = 'k' * (not layer.own_keys) + 'v' * (not layer.own_values)
  return tuple(name for name in TARGETS[layer.mixer] if name not in lacks)


def init(lora: Lora, params: Params, key: jax.Array) -> Adapter:
  """A float32 adapter that changes nothing yet: B is 0.

  A is uniform in [-in^-0.5, in^-0.5], as peft draws it.

  Args:
    lora: of rank 1 at least; some layers of the decoder have its targets.
    params: of the decoder, trainer layout; only their shapes are read.
    key: of A.
  """
  adapter: Adapter = {}
  keys = jax.random.split(key, len(lora.projections))
  for stack in stacks.split(params):
    if len(stack.path) > 1:
      fold = lambda k, n=stack.layers[0]: jax.random.fold_in(k, n)
      keys = jax.vmap(fold)(keys)
    for name, key in zip(lora.projections, keys, strict=True):
      block = BLOCKS[name]
      if name not in stack.params[block]:
        continue  # of another kind of layers
      layers, rows, columns = stack.params[block][name]['kernel'].shape
      bound = rows**-0.5
      own = adapter
      for step in (*stack.path, block):
        own = own.setdefault(step, {})
      own[name] = {
          'a': jax.random.uniform(
              key, (layers, rows, lora.rank), minval=-bound, maxval=bound
          ),
          'b': jnp.zeros((layers, lora.rank, columns)),
      }
  return adapter


@struct.dataclass
class Base:
  """The model that adapters add to: frozen, so one copy serves them all."""

  params: Params  # of the decoder, trainer layout
  scale: float = struct.field(pytree_node=False)  # see `Lora`


def variables(params: Params | Adapter, base: Base | None) -> dict[str, Any]:
  """The variables that `module.apply` takes.

  Args:
    params: of the whole decoder or, with a base, an adapter.
    base: of the adapter; None without one.
  """
  if base is None:
    return {'params': params}
  scaled = jax.tree_util.tree_map_with_path(
      lambda path, x: base.scale * x if path[-1].key == 'b' else x, params
  )
  return {'params': base.params, 'lora': scaled}


def merge(adapter: Adapter, base: Base, *, out_first: bool = False) -> Params:
  """The decoder's parameters W + scale A B: base and adapter in one.

  Each array keeps its type, sums are made in float32. Those without an adapter
  are the base's own, not copies.

  Args:
    adapter: of the decoder.
    base: what it adds to.
    out_first: whether the base is in the engine's layout, `[out, in]`, and the
      adapter is one subtree a layer like it.
  """

  def add(params, adapter):
    if 'a' not in adapter:
      rest = {name: add(params[name], part) for name, part in adapter.items()}
      return {**params, **rest}
    a, b = (adapter[name].astype(jnp.float32) for name in 'ab')
    product = jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
    product = product.T if out_first else product
    kernel = params['kernel']
    merged = kernel.astype(jnp.float32) + base.scale * product
    return {**params, 'kernel': merged.astype(kernel.dtype)}

  return add(base.params, adapter)
