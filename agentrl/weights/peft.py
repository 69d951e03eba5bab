"""LoRA adapters in peft's format: adapter_config.json and safetensors.

peft, transformers and inference servers read it. Names derive from those of
the base model's tensors: A of `model.layers.0.self_attn.q_proj.weight` is
`base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`, `[rank, in]`,
and B is its `lora_B.weight`, `[out, rank]`.
"""

import collections
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import safetensors.numpy

from agentrl.errors import WeightsError
from agentrl.models.config import TransformerConfig
from agentrl.models.lora import BLOCKS, Adapter
from agentrl.models.options import LORA_TARGETS, Lora
from agentrl.parallel import distributed
from agentrl.weights import bounds, hf, names

CONFIG = 'adapter_config.json'
WEIGHTS = 'adapter_model.safetensors'
# peft options that are not implemented -> their value in what we write, the only
# one accepted beside null, false and empty ones. The same goes for fields that
# are not listed here at all: whatever they ask for may change what the matrices
# mean, as those of DoRA, aLoRA, QALoRA or KaSA do.
_UNSUPPORTED = {
    'bias': 'none',
    'fan_in_fan_out': False,
    'use_dora': False,
    'lora_bias': False,
    'rank_pattern': {},
    'alpha_pattern': {},
    'modules_to_save': None,
    'layers_to_transform': None,
    'layer_replication': None,
}
_READ = ('peft_type', 'r', 'lora_alpha', 'use_rslora', 'target_modules')
# Without a say in what trained matrices compute, or parameters of an option
# that is off.
_WITHOUT_EFFECT = (
    'auto_mapping',
    'base_model_name_or_path',
    'eva_config',
    'inference_mode',
    'layers_pattern',
    'lora_dropout',
    'megatron_config',
    'megatron_core',
    'peft_version',
    'qalora_group_size',
    'revision',
    'runtime_config',
)
# These draw the matrices and leave the base alone. PiSSA, OLoRA, CorDA, LoftQ
# and LoRA-GA begin by changing the base, which their adapters then add to.
_INITS = (None, True, False, 'gaussian', 'eva', 'orthogonal')
_MERGE = (
    'merge the adapter with peft (merge_and_unload) and load the whole model'
)


def save_adapter(
    directory: str | pathlib.Path,
    config: TransformerConfig,
    adapter: Adapter,
    lora: Lora,
    *,
    base: str,
    dtype: Any = np.float32,
    companions: Iterable[Callable[[pathlib.Path], None]] = (),
) -> None:
  """Writes an adapter, beside `directory` first and then renamed into place.

  Args:
    directory: must not exist, or be empty.
    config: shape of the decoder.
    adapter: its low-rank matrices, on the host or on devices.
    lora: options of the adapter.
    base: name or path of the model that it belongs to.
    dtype: of the file.
    companions: write more files into the same folder.

  Raises:
    WeightsError: the directory has content, or the disk refuses; or files of
      the family have no matrix of its own for a target.
  """
  directory = pathlib.Path(directory)
  fields = {
      'peft_type': 'LORA',
      'task_type': 'CAUSAL_LM',
      'base_model_name_or_path': base,
      'inference_mode': True,
      'r': lora.rank,
      'lora_alpha': lora.alpha,
      'use_rslora': lora.rslora,
      'target_modules': modules(config, lora),
      'lora_dropout': 0.0,
      **_UNSUPPORTED,
  }
  rows = list(_names(config, lora))
  leaves = {
      path: distributed.to_host(names.at(adapter, path))
      for path in dict.fromkeys(path for _, path, _ in rows)
  }
  tensors = {
      name: np.ascontiguousarray(leaves[path][index].T).astype(dtype)
      for name, path, index in rows
  }
  with hf.new_directory(directory) as partial:
    text = json.dumps(fields, indent=2) + '\n'
    (partial / CONFIG).write_text(text, encoding='utf-8')
    safetensors.numpy.save_file(tensors, partial / WEIGHTS, {'format': 'pt'})
    for write in companions:
      write(partial)


def base_of(directory: str | pathlib.Path) -> str | None:
  """The model that a folder's adapter adds to; None: it holds none alone.

  Raises:
    WeightsError: the adapter does not name one.
  """
  directory = pathlib.Path(directory)
  path = directory / CONFIG
  if not path.is_file() or (directory / 'config.json').exists():
    return None
  base = hf.read_json(path).get('base_model_name_or_path')
  if not isinstance(base, str) or not base:
    raise WeightsError(
        f'{path} does not say to which model its adapter belongs: write'
        ' base_model_name_or_path into it.'
    )
  return base


def load_adapter(
    directory: str | pathlib.Path, config: TransformerConfig
) -> tuple[Lora, Adapter]:
  """Reads an adapter of a decoder.

  Returns:
    Its options, and float32 NumPy arrays in the trainer's layout.

  Raises:
    WeightsError: a file is missing or damaged, belongs to another decoder, or
      asks for an option that `models.lora` does not have.
  """
  directory = pathlib.Path(directory)
  lora = _read_config(directory, config)
  try:
    stored = safetensors.numpy.load_file(directory / WEIGHTS)
  except (safetensors.SafetensorError, OSError) as error:
    raise WeightsError(
        f'{directory / WEIGHTS} is not a whole safetensors file:'
        f' {bounds.one_line(error)}.'
    ) from error
  rows = list(_names(config, lora))
  source = str(directory)
  names.check_names({name for name, _, _ in rows}, set(stored), source)
  shapes = names.shapes(config, np.float32)
  stacks: dict[tuple[str, ...], list[np.ndarray]] = {}
  for name, path, _ in rows:
    _, size, features = names.at(shapes, (*path[:-1], 'kernel')).shape
    expected = dict(a=(lora.rank, size), b=(features, lora.rank))[path[-1]]
    if stored[name].shape != expected:
      raise WeightsError(
          f'{name!r} of {source} has shape {list(stored[name].shape)}; the'
          f' model and its {CONFIG} ask for {list(expected)}.'
      )
    stacks.setdefault(path, []).append(stored[name].T)
  adapter: dict[str, Any] = {}
  for path, layers in stacks.items():
    place = adapter
    for name in path[:-1]:
      place = place.setdefault(name, {})
    place[path[-1]] = np.stack(layers).astype(np.float32)
  return lora, adapter


def _read_config(directory: pathlib.Path, config: TransformerConfig) -> Lora:
  path = directory / CONFIG
  fields = hf.read_json(path)
  if fields.get('peft_type') != 'LORA':
    raise WeightsError(f'{path} does not describe a LoRA adapter.')
  _check_options(fields, path)
  kept = Lora(targets=tuple(_separate(config)))
  ours = _modules(config, kept)
  listed = fields.get('target_modules')
  # One of peft's names means all modules that end in it.
  meant = lambda x: [
      name for name, module in ours.items() if f'.{module}'.endswith(f'.{x}')
  ]
  if (
      not isinstance(listed, list)
      or not listed
      or any(not isinstance(x, str) or not meant(x) for x in listed)
  ):
    raise WeightsError(
        f'{path} has target_modules={bounds.short(listed)}; known:'
        f' {", ".join(ours.values())}.'
    )
  targets = {name for module in listed for name in meant(module)}
  rank, alpha = fields.get('r'), fields.get('lora_alpha')
  if not bounds.is_whole(rank) or rank < 1:
    raise WeightsError(
        f'{path} has r={bounds.short(rank)}; it must be at least 1.'
    )
  if not bounds.is_real(alpha):
    raise WeightsError(
        f'{path} has lora_alpha={bounds.short(alpha)}; it must be a number.'
    )
  return Lora(
      rank=rank,
      alpha=float(alpha),
      targets=tuple(name for name in LORA_TARGETS if name in targets),
      rslora=bool(fields.get('use_rslora')),
  )


def _check_options(fields: dict[str, Any], path: pathlib.Path) -> None:
  """Refuses a config that may give the matrices another meaning than ours."""
  for name, value in fields.items():
    if name in (*_READ, *_WITHOUT_EFFECT):
      continue
    if name == 'init_lora_weights':
      if value not in _INITS:
        raise WeightsError(
            f'{path} has init_lora_weights={bounds.short(value)}, which adds to'
            " a base that it changed; save it with peft's"
            ' path_initial_model_for_weight_conversion, or'
            f' {_MERGE}.'
        )
    elif name == 'task_type':
      if value not in (None, 'CAUSAL_LM'):
        raise WeightsError(
            f'{path} has task_type={bounds.short(value)}: not an adapter of a'
            ' language model (CAUSAL_LM).'
        )
    elif value and value != _UNSUPPORTED.get(name):
      kind = 'supported' if name in _UNSUPPORTED else 'known here'
      raise WeightsError(
          f'{path} has {name}={bounds.short(value)}, which is not {kind} and'
          f' may change what the matrices mean; {_MERGE}.'
      )
  rslora = fields.get('use_rslora')
  if rslora not in (None, True, False):
    raise WeightsError(
        f'{path} has use_rslora={bounds.short(rslora)}; it must be true or'
        ' false.'
    )


def _separate(config: TransformerConfig) -> list[str]:
  """Targets of which the family's files have a matrix for each."""
  table = names.table(config)
  place = lambda x: (x.hf, x.run, x.place)
  uses = collections.Counter(map(place, table))
  single = {x.path_in_layer for x in table if uses[place(x)] == 1}
  return [
      name for name in LORA_TARGETS if (BLOCKS[name], name, 'kernel') in single
  ]


def _tensors(config: TransformerConfig, lora: Lora) -> list[names.Tensor]:
  """The rows of the targets' kernels.

  Raises:
    WeightsError: the family's files keep several targets in one matrix, whose
      adapter would be another.
  """
  paths = {(BLOCKS[name], name, 'kernel') for name in lora.targets}
  found = [x for x in names.table(config) if x.path_in_layer in paths]
  separate = _separate(config)
  shared = [x.path[-2] for x in found if x.path[-2] not in separate]
  if shared:
    raise WeightsError(
        f'Files of family {config.family!r} have one matrix for several of'
        f' {", ".join(shared)}, so that adapters of these cannot be written:'
        ' export the merged model (export.adapter=False), push merged weights'
        ' (sampler.push_lora=False), or train with'
        f' model.lora.targets={tuple(separate)}.'
    )
  return found


def modules(config: TransformerConfig, lora: Lora) -> list[str]:
  """The targets as files and servers name them, as `q_proj`.

  Raises:
    WeightsError: as `save_adapter`.
  """
  return sorted(_modules(config, lora).values())


def _modules(config: TransformerConfig, lora: Lora) -> dict[str, str]:
  """Target -> the end of its module's name, long enough to mean no other."""
  last = lambda tensor: tensor.hf.split('.')[-2]
  meanings = collections.defaultdict(set)
  for tensor in names.table(config):
    if tensor.path[-1] == 'kernel':
      meanings[last(tensor)].add(tensor.path_in_layer)
  return {
      tensor.path[-2]: (
          last(tensor)
          if len(meanings[last(tensor)]) == 1
          else '.'.join(tensor.hf.split('.')[-3:-1])
      )
      for tensor in _tensors(config, lora)
  }


def _names(
    config: TransformerConfig, lora: Lora
) -> Iterator[tuple[str, tuple[str, ...], int]]:
  """Yields each tensor of a file: its name, its path in our tree, its index there."""
  for tensor in _tensors(config, lora):
    for leaf, theirs in (('a', 'lora_A'), ('b', 'lora_B')):
      path = (*tensor.path[:-1], leaf)
      name = tensor.hf.replace('.weight', f'.{theirs}.weight')
      for index, layer in enumerate(tensor.layers):
        yield f'base_model.model.{name.format(i=layer)}', path, index
