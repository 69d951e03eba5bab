"""Shapes of layers, and the stacks of equal ones in the trainer's layout.

A decoder is a sequence of runs. In each of them a period of layers repeats, over
whose repetitions the trainer scans: the parameters of one place of the period
are stacked, `[repeats, ...]`. A model whose layers are all alike is one run of a
period of one layer, and its stack is the tree `layers` itself. Elsewhere the tree
of a run has a subtree for each place, `block_0_of_3`, and a run behind the
first is named after its first layer, `layers_from_15`.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Params = Any

_RUN = re.compile(r'layers(?:_from_(\d+))?')
_PLACE = re.compile(r'block_(\d+)_of_(\d+)')
# Weight matrices, which lie the other way round in the engine.
_TURNED = ('kernel', 'lm_head')


class Layer(NamedTuple):
  """Shape of a layer; equal ones have parameters and a program in common.

  Attributes:
    mixer: ATTENTION, LINEAR or CONV, see `config`.
    intermediate_size: of its MLP.
    head_dim: of attention; 0 in other layers, and so is the next.
    num_kv_heads: heads of keys and values.
    kind: FULL or SLIDING where these differ in more than `Traits`, or later
      layers read their keys and values; None: it does not matter which.
    own_keys: whether it has keys and values of its own; False: it reads those
      of the last layer of its kind that has.
    own_values: whether values have a projection; False: they are the keys',
      before norm and rotation.
  """

  mixer: str
  intermediate_size: int
  head_dim: int = 0
  num_kv_heads: int = 0
  kind: str | None = None
  own_keys: bool = True
  own_values: bool = True


class Run(NamedTuple):
  """Consecutive layers in which a period repeats.

  Attributes:
    first: number of the first layer.
    layers: of one period.
    repeats: of the period.
  """

  first: int
  layers: tuple[Layer, ...]
  repeats: int

  @property
  def period(self) -> int:
    return len(self.layers)

  @property
  def stop(self) -> int:
    """Number of the layer behind the last."""
    return self.first + self.period * self.repeats

  @property
  def name(self) -> str:
    """The name of its parameters."""
    return f'layers_from_{self.first}' if self.first else 'layers'

  @property
  def has_places(self) -> bool:
    """True if its tree has a subtree for each place of the period."""
    return self.period > 1 or self.layers[0].kind is not None

  def path(self, place: int) -> tuple[str, ...]:
    """Path of the parameters of a place of the period."""
    if not self.has_places:
      return (self.name,)
    return self.name, place_name(place, self.period)


class Stack(NamedTuple):
  """Parameters of layers that are alike, as the trainer has them.

  Attributes:
    path: of the tree.
    layers: numbers of the layers.
    params: `[len(layers), ...]`, of parameters or an adapter.
  """

  path: tuple[str, ...]
  layers: range
  params: Params


def find_runs(layers: Sequence[Layer]) -> tuple[Run, ...]:
  """The runs of a decoder: of layers with keys of their own, and of others."""
  border = sum(layer.own_keys for layer in layers)
  parts = [(0, layers[:border]), (border, layers[border:])]
  return tuple(_periodic(first, tuple(part)) for first, part in parts if part)


def _periodic(first: int, layers: tuple[Layer, ...]) -> Run:
  """The run of the shortest period of which all layers are repetitions."""
  count = len(layers)
  period = next(
      n
      for n in range(1, count + 1)
      if count % n == 0 and layers == layers[:n] * (count // n)
  )
  return Run(first, layers[:period], count // period)


def place_name(place: int, period: int) -> str:
  """Name of the parameters of a place of a period."""
  return f'block_{place}_of_{period}'


def split(params: Params) -> list[Stack]:
  """The stacks of a tree of the trainer's layout, of parameters or an adapter.

  An adapter has none of places without its targets.
  """
  stacks: list[Stack] = []
  for name, tree in params.items():
    run = _RUN.fullmatch(name)
    if run is None:
      continue
    first = int(run[1] or 0)
    places = [(_PLACE.fullmatch(key), key) for key in tree]
    found: list[tuple[int, int, tuple[str, ...]]]
    found = [(int(m[1]), int(m[2]), (name, key)) for m, key in places if m]
    for place, period, path in found or [(0, 1, (name,))]:
      own = tree if len(path) == 1 else tree[path[1]]
      count = jax.tree.leaves(own)[0].shape[0]
      start = first + place
      layers = range(start, start + count * period, period)
      stacks.append(Stack(path, layers, own))
  return stacks


def unstack(params: Params) -> Params:
  """The engine's layout of trainer parameters; every array is a copy."""
  params = jax.tree_util.tree_map_with_path(
      lambda path, x: jnp.swapaxes(x, -1, -2) if path[-1].key in _TURNED else x,
      params,
  )
  out = {
      name: jax.tree.map(jnp.copy, leaf)
      for name, leaf in params.items()
      if _RUN.fullmatch(name) is None
  }
  for stack in split(params):
    for i, layer in enumerate(stack.layers):
      out[f'layers_{layer}'] = jax.tree.map(lambda x, i=i: x[i], stack.params)
  return out
