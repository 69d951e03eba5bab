"""The table of a Llama's tensors: our path and the names of two file formats.

One table serves reading and writing. Files hold one matrix a layer, as torch
does: `[out, in]`. Our tree is the trainer's: kernels `[in, out]`, layers
stacked to `[L, ...]`.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator
from typing import Any

import jax
import numpy as np

from agentrl.errors import WeightsError
from agentrl.models import transformer
from agentrl.models.transformer import TransformerConfig

Params = Any


@dataclasses.dataclass(frozen=True)
class Tensor:
  """Where one parameter lives. In the names, `{i}` stands for the layer."""

  path: tuple[str, ...]
  hf: str
  gguf: str
  transposed: bool = False  # files have [out, in], we have [in, out]

  @property
  def stacked(self) -> bool:
    return self.path[0] == 'layers'


def _norm(path, hf, gguf):
  return Tensor(
      ('layers', path, 'scale'),
      f'model.layers.{{i}}.{hf}.weight',
      f'blk.{{i}}.{gguf}.weight',
  )


def _kernel(block, name, hf, gguf):
  return Tensor(
      ('layers', block, name, 'kernel'),
      f'model.layers.{{i}}.{hf}.weight',
      f'blk.{{i}}.{gguf}.weight',
      transposed=True,
  )


EMBED = Tensor(('embed',), 'model.embed_tokens.weight', 'token_embd.weight')
LM_HEAD = Tensor(('lm_head',), 'lm_head.weight', 'output.weight', True)
TENSORS = (
    EMBED,
    _norm('attention_norm', 'input_layernorm', 'attn_norm'),
    _kernel('attention', 'q', 'self_attn.q_proj', 'attn_q'),
    _kernel('attention', 'k', 'self_attn.k_proj', 'attn_k'),
    _kernel('attention', 'v', 'self_attn.v_proj', 'attn_v'),
    _kernel('attention', 'o', 'self_attn.o_proj', 'attn_output'),
    _norm('mlp_norm', 'post_attention_layernorm', 'ffn_norm'),
    _kernel('mlp', 'gate', 'mlp.gate_proj', 'ffn_gate'),
    _kernel('mlp', 'up', 'mlp.up_proj', 'ffn_up'),
    _kernel('mlp', 'down', 'mlp.down_proj', 'ffn_down'),
    Tensor(('final_norm', 'scale'), 'model.norm.weight', 'output_norm.weight'),
    LM_HEAD,
)


def table(config: TransformerConfig) -> tuple[Tensor, ...]:
  """The tensors of a model; a tied one has no output head of its own."""
  return tuple(
      t for t in TENSORS if t is not LM_HEAD or not config.tie_embeddings
  )


def file_names(
    config: TransformerConfig, name_of: Callable[[Tensor], str]
) -> Iterator[tuple[Tensor, int | None, str]]:
  """Yields each tensor of a file: its row, its layer or None, its name."""
  for tensor in table(config):
    layers = range(config.num_layers) if tensor.stacked else (None,)
    for layer in layers:
      yield tensor, layer, name_of(tensor).format(i=layer)


def assemble(
    config: TransformerConfig,
    name_of: Callable[[Tensor], str],
    present: Collection[str],
    read: Callable[[str], np.ndarray],
    *,
    dtype: Any,
    source: str,
) -> Params:
  """Builds trainer parameters out of a file's tensors.

  Args:
    config: shape of the model.
    name_of: which column of the table names the file's tensors.
    present: names of all tensors that the file has.
    read: gives the array of a name, in the file's orientation.
    dtype: of the result.
    source: the file or directory, for messages.

  Returns:
    The trainer's tree, of NumPy arrays.

  Raises:
    WeightsError: a tensor is missing, unknown or of another shape.
  """
  rows = list(file_names(config, name_of))
  _check_names({name for _, _, name in rows}, set(present), source)
  params = _zeros(config, dtype)
  for tensor, layer, name in rows:
    target = _at(params, tensor.path)
    target = target if layer is None else target[layer]
    value = read(name)
    wanted = target.T.shape if tensor.transposed else target.shape
    if value.shape != wanted:
      raise WeightsError(
          f'{name!r} of {source} has shape {list(value.shape)}; its'
          f' configuration asks for {list(wanted)}.'
      )
    target[...] = value.T if tensor.transposed else value
  return params


def disassemble(
    config: TransformerConfig, params: Params
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields Hugging Face's (name, array) of trainer parameters."""
  for tensor, layer, name in file_names(config, lambda t: t.hf):
    value = np.asarray(_at(params, tensor.path))
    value = value if layer is None else value[layer]
    value = value.T if tensor.transposed else value
    yield name, np.ascontiguousarray(value)


def _check_names(expected: set[str], present: set[str], source: str) -> None:
  for kind, names in (
      ('lacks', expected - present),
      ('has unknown', present - expected),
  ):
    if names:
      some = ', '.join(sorted(names)[:3])
      raise WeightsError(
          f'{source} {kind} {len(names)} tensors of this architecture, among'
          f' them {some}; is its configuration of another model?'
      )


def _zeros(config: TransformerConfig, dtype: Any) -> Params:
  """An empty tree whose shapes are the module's own."""
  module = transformer.Transformer(config, scan_layers=True)
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  return jax.tree.map(lambda leaf: np.zeros(leaf.shape, dtype), shapes)


def _at(params: Params, path: tuple[str, ...]) -> Any:
  for name in path:
    params = params[name]
  return params
