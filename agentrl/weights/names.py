"""The table of a decoder's tensors: our path and the names of two file formats.

One table serves reading and writing; a model's config selects its rows. Files
hold one matrix a layer (and an expert), as torch does: `[out, in]`; some
families' hold several of ours in one, one below the other, and so do GGUF files a
layer's experts; Qwen3-Next's have the rows of each head of keys together. Our tree
is the trainer's: kernels `[in, out]`, layers stacked to `[L, ...]`, experts to
`[L, E, ...]`.
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models import transformer
from agentrl.models.config import ATTENTION, CONV, LINEAR, TransformerConfig
from agentrl.models.stacks import Layer, Run
from agentrl.weights import families, traits
from agentrl.weights.gguf import architectures
from agentrl.weights.shards import Entry

Params = Any


@dataclasses.dataclass(frozen=True)
class Tensor:
  """The names of one parameter.

  Attributes:
    path: in our tree.
    hf: name in safetensors; `{i}` stands for the layer, `{e}` for the expert.
    gguf: name in GGUF, the same for all experts of a layer.
    transposed: files have [out, in], we have [in, out].
    grouped: sizes of the parts of which the matrix is made, one below the other,
      for one of the groups that their rows are together in in the file; ():
      it lies there as it is.
    run: of its layers, see `stacks`; None if it is of the model.
    place: of its layers in each period of the run.
  """

  path: tuple[str, ...]
  hf: str
  gguf: str
  transposed: bool = False
  grouped: tuple[int, ...] = ()
  run: Run | None = None
  place: int = 0

  @property
  def layers(self) -> range:
    """Numbers of the layers that it is stacked of."""
    assert self.run is not None  # it is of layers
    return range(self.run.first + self.place, self.run.stop, self.run.period)

  @property
  def per_expert(self) -> bool:
    return '{e}' in self.hf

  @property
  def path_in_layer(self) -> tuple[str, ...]:
    """The end of the path, below a layer's own tree."""
    if self.run is None:
      return self.path
    return self.path[len(self.run.path(self.place)) :]

  def of_layers(self, run: Run, place: int) -> 'Tensor':
    """The row of the layers of one place of a run's period."""
    path = run.path(place) + self.path
    return dataclasses.replace(self, path=path, run=run, place=place)


class Piece(NamedTuple):
  """A parameter's place in a tensor of a file.

  Attributes:
    tensor: its row of the table.
    place: in our parameter: `()`, `(i,)` or `(i, expert)`, see `Tensor.layers`.
    start: its first row in the file's tensor, along the first axis there.
    shape: in the file.
  """

  tensor: Tensor
  place: tuple[int, ...]
  start: int
  shape: tuple[int, ...]

  @property
  def rows(self) -> slice:
    return slice(self.start, self.start + self.shape[0])


def _vector(path, hf, gguf):
  return Tensor(path, f'model.layers.{{i}}.{hf}', f'blk.{{i}}.{gguf}')


def _norm(path, hf, gguf):
  return _vector((*path, 'scale'), f'{hf}.weight', f'{gguf}.weight')


def _kernel(block, name, hf, gguf, leaf=('kernel',)):
  row = _norm((block, name), hf, gguf)
  return dataclasses.replace(row, path=(block, name, *leaf), transposed=True)


def _names(config: TransformerConfig) -> dict[str, str]:
  """Names of our modules in a layer of the config's files."""
  own = families.FAMILIES[config.family].tensors
  return traits.TENSORS | dict(own)


def _attention(config: TransformerConfig, layer: Layer) -> Iterator[Tensor]:
  names, gguf = _names(config), architectures.tensors(config.family)
  for name in 'q' + 'k' * layer.own_keys + 'v' * layer.own_values:
    yield _kernel('attention', name, names[name], gguf[name])
    if config.qkv_bias:
      bias = ('attention', name, 'bias')
      yield _vector(bias, f'{names[name]}.bias', f'{gguf[name]}.bias')
    if config.qk_norm and name != 'v':
      norm = f'{name}_norm'
      yield _norm(('attention', norm), names[norm], gguf[norm])
  yield _kernel('attention', 'o', names['o'], gguf['o'])
  if config.attention_sinks:
    sinks = ('attention', 'sinks')
    yield _vector(sinks, 'self_attn.sinks', f'{gguf["sinks"]}.weight')
  if config.o_bias:
    o_bias = ('attention', 'o', 'bias')
    yield _vector(o_bias, f'{names["o"]}.bias', f'{gguf["o"]}.bias')


def _linear_attention(
    config: TransformerConfig, layer: Layer
) -> Iterator[Tensor]:
  del layer
  hf, gguf = 'linear_attn', architectures.tensors(config.family)
  names, keys = _names(config), config.linear_key_dim
  heads = config.linear_value_heads // config.linear_key_heads
  values = heads * config.linear_value_dim
  # Rows of one head of keys.
  groups = {
      'in_qkv': (keys, keys, values),
      'in_z': (values,),
      'in_b': (heads,),
      'in_a': (heads,),
  }
  uses = collections.Counter(names[ours] for ours in groups)
  for name in ('qkv', 'z', 'b', 'a'):
    ours = f'in_{name}'
    row = _kernel('attention', ours, names[ours], gguf[ours])
    parts = groups[ours] if uses[names[ours]] > 1 else ()
    yield dataclasses.replace(row, grouped=parts)
  yield _kernel('attention', 'out', f'{hf}.out_proj', gguf['out'])
  conv = ('attention', 'conv')
  yield _vector(conv, f'{hf}.conv1d.weight', f'{gguf["conv"]}.weight')
  yield _vector(('attention', 'a_log'), f'{hf}.A_log', gguf['a_log'])
  dt_bias = ('attention', 'dt_bias')
  yield _vector(dt_bias, f'{hf}.dt_bias', f'{gguf["dt_bias"]}.bias')
  yield _norm(('attention', 'norm'), f'{hf}.norm', gguf['norm'])


def _convolution(config: TransformerConfig, layer: Layer) -> Iterator[Tensor]:
  del layer
  gguf = architectures.tensors(config.family)
  yield _kernel('attention', 'in_bcx', 'conv.in_proj', gguf['in_bcx'])
  conv = ('attention', 'conv')
  yield _vector(conv, 'conv.conv.weight', f'{gguf["conv"]}.weight')
  yield _kernel('attention', 'out', 'conv.out_proj', gguf['out'])


_MIXERS: dict[str, Callable[[TransformerConfig, Layer], Iterator[Tensor]]] = {
    ATTENTION: _attention,
    LINEAR: _linear_attention,
    CONV: _convolution,
}


def _shared_expert(config: TransformerConfig) -> Iterator[Tensor]:
  hf, gguf = 'mlp.shared_expert', architectures.tensors(config.family)
  yield _kernel('mlp', 'shared_gate', f'{hf}_gate', gguf['shared_gate'])
  for name in ('gate', 'up', 'down'):
    leaf, theirs = (name, 'kernel'), gguf[f'shared_{name}_proj']
    yield _kernel('mlp', 'shared', f'{hf}.{name}_proj', theirs, leaf=leaf)


def _mlp(config: TransformerConfig) -> Iterator[Tensor]:
  names, gguf = _names(config), architectures.tensors(config.family)
  if config.num_experts:
    yield _kernel('mlp', 'router', names['router'], gguf['router'])
    if config.mlp_bias:
      router = ('mlp', 'router', 'bias')
      yield _vector(router, f'{names["router"]}.bias', f'{gguf["router"]}.bias')
  if config.shared_expert_size:
    yield from _shared_expert(config)
  if config.glu_limit is not None:
    # All experts in one tensor, which lies as ours.
    for name in ('gate_up', 'down'):
      ours, hf = f'experts_{name}', f'mlp.experts.{name}_proj'
      yield _vector(('mlp', ours), hf, f'{gguf[ours]}.weight')
      if config.mlp_bias:
        bias = ('mlp', f'{ours}_bias')
        yield _vector(bias, f'{hf}_bias', f'{gguf[ours]}.bias')
    return
  for name in ('gate', 'up', 'down'):
    if config.num_experts:
      hf, experts = f'mlp.experts.{{e}}.{name}_proj', f'experts_{name}'
      yield _kernel('mlp', experts, hf, gguf[experts], leaf=())
    else:
      yield _kernel('mlp', name, names[name], gguf[name])
      if config.mlp_bias:
        path = ('mlp', name, 'bias')
        yield _vector(path, f'{names[name]}.bias', f'{gguf[name]}.bias')


def _norms(config: TransformerConfig) -> Iterator[Tensor]:
  names, gguf = _names(config), architectures.tensors(config.family)
  modules: tuple[str, ...] = ()
  if config.pre_norms:
    modules += ('attention_norm', 'mlp_norm')
  if config.post_norms:
    modules += ('attention_post_norm', 'mlp_post_norm')
  for name in modules:
    yield _norm((name,), names[name], gguf[name])


def _inputs(config: TransformerConfig) -> Iterator[Tensor]:
  """Tensors of a layer's inputs beside its state, and the scalar of its result."""
  if config.layer_inputs:
    yield _kernel('inputs', 'state', 'per_layer_input_gate', 'inp_gate')
    yield _kernel('inputs', 'result', 'per_layer_projection', 'proj')
    norm = ('inputs', 'post_norm')
    yield _norm(norm, 'post_per_layer_input_norm', 'post_norm')
  if config.layer_scalars:
    yield _vector(('scalar',), 'layer_scalar', 'layer_output_scale.weight')


# Of the model, if its layers have inputs beside their states.
_TOKEN_INPUTS = (
    Tensor(
        ('token_inputs', 'embed'),
        'model.embed_tokens_per_layer.weight',
        'per_layer_token_embd.weight',
    ),
    Tensor(
        ('token_inputs', 'projection', 'kernel'),
        'model.per_layer_model_projection.weight',
        'per_layer_model_proj.weight',
        True,
    ),
    Tensor(
        ('token_inputs', 'norm', 'scale'),
        'model.per_layer_projection_norm.weight',
        'per_layer_proj_norm.weight',
    ),
)
EMBED = Tensor(('embed',), 'model.embed_tokens.weight', 'token_embd.weight')
LM_HEAD = Tensor(('lm_head',), 'lm_head.weight', 'output.weight', True)


def table(config: TransformerConfig) -> tuple[Tensor, ...]:
  """The tensors of a model; a tied one has no output head of its own."""
  layers: list[Tensor] = []
  for run in config.runs:
    for place, layer in enumerate(run.layers):
      rows = (
          *_norms(config),
          *_MIXERS[layer.mixer](config, layer),
          *_mlp(config),
          *_inputs(config),
      )
      layers += [row.of_layers(run, place) for row in rows]
  inputs = _TOKEN_INPUTS if config.layer_inputs else ()
  head = () if config.tie_embeddings else (LM_HEAD,)
  final = Tensor(
      ('final_norm', 'scale'),
      hf=f'model.{_names(config)["final_norm"]}.weight',
      gguf=f'{architectures.tensors(config.family)["final_norm"]}.weight',
  )
  return (
      EMBED,
      *inputs,
      *layers,
      final,
      *head,
  )


def unread(config: TransformerConfig) -> list[str]:
  """Beginnings of names that files have beside the table's, for nothing.

  Published ones have keys and values of layers that read those of others.
  """
  names = _names(config)
  return [
      f'model.layers.{i}.{names[name]}.'
      for i, layer in enumerate(config.layers)
      if not layer.own_keys
      for name in ('k', 'v', 'k_norm')
  ]


def file_names(
    config: TransformerConfig, name_of: Callable[[Tensor], str]
) -> Iterator[tuple[Tensor, tuple[int, ...], str]]:
  """Yields each tensor of a file: its row, its index, its name.

  The index is its place in our parameter: `()`, `(i,)` or `(i, expert)`, see
  `Tensor.layers`.
  """
  for tensor in table(config):
    sizes: tuple[int, ...] = ()
    if tensor.run is not None:
      sizes = (len(tensor.layers),)
    sizes += (config.num_experts,) if tensor.per_expert else ()
    for index in itertools.product(*map(range, sizes)):
      places = dict(zip('ie', index, strict=False))
      if index:
        places['i'] = tensor.layers[index[0]]
      yield tensor, index, name_of(tensor).format(**places)


def pieces(
    config: TransformerConfig,
    name_of: Callable[[Tensor], str],
    expected: Params,
) -> dict[str, list[Piece]]:
  """The tensors of a file, each with the parameters that it holds.

  Args:
    config: shape of the model.
    name_of: the column of the table with this format's names.
    expected: the trainer's tree; only shapes are read.
  """
  found: dict[str, list[Piece]] = {}
  for tensor, index, name in file_names(config, name_of):
    shape = at(expected, tensor.path).shape[len(index) :]
    shape = shape[::-1] if tensor.transposed else shape
    before = found.setdefault(name, [])
    start = before[-1].rows.stop if before else 0
    before.append(Piece(tensor, index, start, shape))
  return found


def assemble(
    config: TransformerConfig,
    name_of: Callable[[Tensor], str],
    present: Collection[str],
    read: Callable[[str], np.ndarray],
    *,
    shape_of: Callable[[str], Sequence[int]],
    dtype: Any,
    source: str,
) -> Params:
  """Trainer parameters, built from a file's tensors.

  Args:
    config: shape of the model.
    name_of: the column of the table with this format's names.
    present: names of all tensors that the file has.
    read: name -> array, in the file's orientation.
    shape_of: name -> shape of that array.
    dtype: of the result.
    source: the file or directory, for messages.

  Returns:
    The trainer's tree, of NumPy arrays.

  Raises:
    WeightsError: a tensor is missing, unknown or of another shape.
  """
  expected = shapes(config, dtype)
  stored = pieces(config, name_of, expected)
  check_names(set(stored), set(present), source)
  # All are checked before memory is taken: a config may ask for any amount of
  # it, tensors that are present fit into the file.
  for name, held in stored.items():
    check_shape(name, shape_of(name), held, source)
  params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), expected)
  for name, held in stored.items():
    whole = read(name)
    order = file_order([piece.tensor for piece in held], held[-1].rows.stop)
    whole = whole if order is None else whole[order]
    for piece in held:
      value = whole[piece.rows]
      value = value.T if piece.tensor.transposed else value
      at(params, piece.tensor.path)[piece.place] = value
  return params


def disassemble(
    config: TransformerConfig, params: Params, *, dtype: Any = None
) -> list[Entry]:
  """The tensors of trainer parameters for a Hugging Face file.

  Args:
    config: shape of the model.
    params: the trainer's layout.
    dtype: in the file; None keeps the type of each array.
  """
  entries = []
  for name, held in pieces(config, lambda t: t.hf, params).items():
    leaves = tuple(at(params, piece.tensor.path) for piece in held)
    tensor, place, *_ = held[0]
    kind = np.dtype(dtype or leaves[0].dtype)
    order = file_order([piece.tensor for piece in held], held[-1].rows.stop)
    entries.append(Entry(name, leaves, place, tensor.transposed, kind, order))
  return entries


def file_order(tensors: Sequence[Tensor], rows: int) -> np.ndarray | None:
  """Numbers of the rows of a file's tensor in the order of ours.

  Args:
    tensors: the rows of the table that it holds.
    rows: of the file's tensor.

  Returns:
    `[rows]` int; None if it holds ours one below the other.
  """
  parts = [size for tensor in tensors for size in tensor.grouped]
  if not parts:
    return None
  groups = np.arange(rows).reshape(-1, sum(parts))
  split = np.split(groups, np.cumsum(parts)[:-1], axis=1)
  return np.concatenate([part.ravel() for part in split])


def check_names(expected: set[str], present: set[str], source: str) -> None:
  """Raises WeightsError if a file lacks a tensor or has an unknown one."""
  for kind, names in (
      ('lacks', expected - present),
      ('has unknown', present - expected),
  ):
    if names:
      # Names in a file may hold any character.
      some = ', '.join(
          name if name.isprintable() else ascii(name)
          for name in sorted(names)[:3]
      )
      raise WeightsError(
          f'{source} {kind} {len(names)} tensors of this architecture, among'
          f' them {some}; is its configuration of another model?'
      )


def check_shape(
    name: str, shape: Sequence[int], held: Sequence[Piece], source: str
) -> None:
  """Raises WeightsError unless a file's tensor has the shape of its pieces."""
  expected = [held[-1].rows.stop, *held[0].shape[1:]]
  if list(shape) != expected:
    raise WeightsError(
        f'{name!r} of {source} has shape {list(shape)}; its configuration asks'
        f' for {expected}.'
    )


def shapes(config: TransformerConfig, dtype: Any) -> Params:
  """The module's own shapes, a tree of `jax.ShapeDtypeStruct`."""
  return jax.tree.map(
      lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype), _initial(config)
  )


@functools.cache
def _initial(config: TransformerConfig) -> Params:
  """`shapes` of parameters as they are drawn; traced once, for all types."""
  module = transformer.Transformer(config, scan_layers=True)
  return jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )


def at(params: Params, path: tuple[str, ...]) -> Any:
  """The value at a path of a tree."""
  for name in path:
    params = params[name]
  return params
