"""Hugging Face model directories: config.json and safetensors, without torch."""

import contextlib
import json
import pathlib
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from agentrl.errors import WeightsError
from agentrl.models.transformer import TransformerConfig
from agentrl.weights import names

Params = Any

_CONFIG = 'config.json'
_SINGLE = 'model.safetensors'
_INDEX = 'model.safetensors.index.json'

# Field of config.json -> our field, and Llama's default where it has one.
_REQUIRED = {
    'vocab_size': 'vocab_size',
    'hidden_size': 'hidden_size',
    'intermediate_size': 'intermediate_size',
    'num_hidden_layers': 'num_layers',
    'num_attention_heads': 'num_heads',
}
_OPTIONAL = {
    'rms_norm_eps': ('rms_norm_eps', 1e-6),
    'tie_word_embeddings': ('tie_embeddings', False),
    'max_position_embeddings': ('max_positions', 2048),
}
# Fields that would change the network, and the only values that do not.
_FIXED = {
    'hidden_act': ('silu', None),
    'attention_bias': (False, None),
    'mlp_bias': (False, None),
    'quantization_config': (None,),
}
# Buffers of old files; computed, not learnt.
_IGNORED = ('rotary_emb.inv_freq',)


def load_config(directory: str | pathlib.Path) -> TransformerConfig:
  """Reads the shape of a model from `config.json`.

  Raises:
    WeightsError: the file is missing or damaged, lacks a field, or describes
      a network that `agentrl.models` does not have.
  """
  path = pathlib.Path(directory) / _CONFIG
  fields = _read_json(path)
  if fields.get('model_type') != 'llama':
    raise WeightsError(
        f"model_type of {path} is {fields.get('model_type')!r}; known: 'llama'."
    )
  for name, allowed in _FIXED.items():
    if fields.get(name) not in allowed:
      raise WeightsError(
          f'{name} of {path} is {fields[name]!r}; only {allowed[0]!r} is'
          ' supported.'
      )
  missing = [name for name in _REQUIRED if name not in fields]
  if missing:
    raise WeightsError(f'{path} has no {", ".join(missing)}.')
  values = {ours: fields[name] for name, ours in _REQUIRED.items()}
  for name, (ours, default) in _OPTIONAL.items():
    values[ours] = fields.get(name, default)
  heads = values['num_heads']
  # Both are often absent, or null, where they follow from the others.
  values['num_kv_heads'] = fields.get('num_key_value_heads') or heads
  values['head_dim'] = fields.get('head_dim') or values['hidden_size'] // heads
  values['rope_theta'] = _rope_theta(fields, path)
  try:
    return TransformerConfig(**values)
  except ValueError as error:
    raise WeightsError(f'{path}: {error}') from error


def _rope_theta(fields: Mapping[str, Any], path: pathlib.Path) -> float:
  """The base of plain rotary embeddings; their scaled kinds are refused."""
  rope = dict(fields.get('rope_parameters') or {})  # since transformers 5
  scaling = fields.get('rope_scaling')
  kind = rope.pop('rope_type', 'default')
  theta = rope.pop('rope_theta', fields.get('rope_theta', 10000.0))
  if scaling is not None or kind != 'default' or rope:
    name = 'rope_parameters' if scaling is None else 'rope_scaling'
    raise WeightsError(
        f'{name} of {path} is {fields[name]!r}; only unscaled rotary embeddings'
        ' are supported.'
    )
  return float(theta)


def load(
    directory: str | pathlib.Path, *, dtype: Any = np.float32
) -> tuple[TransformerConfig, Params]:
  """Reads a model.

  Args:
    directory: has config.json and safetensors, in one file or in shards.
    dtype: of the parameters, whatever the file has.

  Returns:
    Its shape, and NumPy parameters in the trainer's layout.

  Raises:
    WeightsError: a file is missing or damaged, or a tensor is missing, unknown
      or of another shape than config.json says.
  """
  directory = pathlib.Path(directory)
  config = load_config(directory)
  with contextlib.ExitStack() as stack:
    files = {}  # tensor -> its open file
    for path in _weight_files(directory):
      try:
        file = stack.enter_context(safetensors.safe_open(path, 'np'))
      except (safetensors.SafetensorError, OSError) as error:
        raise WeightsError(
            f'{path} is not a whole safetensors file: {error}.'
        ) from error
      files |= dict.fromkeys(file.keys(), file)
    read = lambda name: files[name].get_tensor(name)
    present = [name for name in files if not name.endswith(_IGNORED)]
    if config.tie_embeddings and names.LM_HEAD.hf in present:
      _check_tied(read, directory)
      present.remove(names.LM_HEAD.hf)
    params = names.assemble(
        config,
        lambda tensor: tensor.hf,
        present,
        read,
        dtype=dtype,
        source=str(directory),
    )
  return config, params


def _check_tied(read: Callable[[str], np.ndarray], directory) -> None:
  """Some files repeat the tied head; it has to be the same matrix."""
  head, embed = names.LM_HEAD.hf, names.EMBED.hf
  if not np.array_equal(read(head), read(embed)):
    raise WeightsError(
        f'{directory} ties its embeddings, but {head!r} differs from'
        f' {embed!r}; set tie_word_embeddings to false in {_CONFIG}.'
    )


def _weight_files(directory: pathlib.Path) -> list[pathlib.Path]:
  if (directory / _SINGLE).is_file():
    return [directory / _SINGLE]
  index = directory / _INDEX
  if not index.is_file():
    raise WeightsError(
        f'{directory} has no weights: neither {_SINGLE} nor {_INDEX}. Convert'
        ' other formats with transformers: save_pretrained(DIR).'
    )
  shards = sorted(set(_read_json(index)['weight_map'].values()))
  for shard in shards:
    if not (directory / shard).is_file():
      raise WeightsError(f'{directory} lacks {shard!r}, which {_INDEX} lists.')
  return [directory / shard for shard in shards]


def _read_json(path: pathlib.Path) -> dict[str, Any]:
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except FileNotFoundError as error:
    raise WeightsError(f'{path.parent} has no {path.name}.') from error
  except ValueError as error:
    raise WeightsError(f'{path} is not JSON: {error}.') from error


def save(
    directory: str | pathlib.Path,
    config: TransformerConfig,
    params: Params,
    *,
    eos_ids: Sequence[int] = (),
    companions: Sequence[Callable[[pathlib.Path], None]] = (),
) -> None:
  """Writes a model that transformers and SGLang load.

  Everything is written beside `directory` and renamed into place, so whoever
  sees the directory sees a whole model.

  Args:
    directory: must not exist, or be empty.
    config: shape of the model.
    params: the trainer's layout; the file keeps the type of each array.
    eos_ids: for config.json; servers stop on them.
    companions: each writes more into the directory it is given (a tokenizer's
      `save`, say) before the rename.

  Raises:
    WeightsError: the directory has content, or the disk refuses.
  """
  directory = pathlib.Path(directory)
  try:
    if directory.exists() and any(directory.iterdir()):
      raise WeightsError(
          f'{directory} is not empty; remove it or name another.'
      )
    with _renamed_into_place(directory) as partial:
      for write in companions:
        write(partial)
      config_path = partial / _CONFIG
      text = json.dumps(_config_fields(config, params, eos_ids), indent=2)
      config_path.write_text(text + '\n', encoding='utf-8')
      tensors = dict(names.disassemble(config, jax.device_get(params)))
      weights_path = partial / _SINGLE
      safetensors.numpy.save_file(tensors, weights_path, {'format': 'pt'})
      # safetensors leaves its file readable by the owner only.
      shutil.copymode(config_path, weights_path)
  except (OSError, safetensors.SafetensorError) as error:
    raise WeightsError(f'Cannot write {directory}: {error}.') from error


@contextlib.contextmanager
def _renamed_into_place(directory: pathlib.Path) -> Iterator[pathlib.Path]:
  """A new sibling that becomes `directory`, or vanishes if the body fails."""
  partial = directory.with_name(f'.{directory.name}.{uuid.uuid4().hex[:8]}')
  partial.mkdir(parents=True)
  try:
    yield partial
    partial.replace(directory)
  except BaseException:
    shutil.rmtree(partial)
    raise


def _config_fields(
    config: TransformerConfig, params: Params, eos_ids: Sequence[int]
) -> dict[str, Any]:
  required = {name: getattr(config, ours) for name, ours in _REQUIRED.items()}
  optional = {
      name: getattr(config, ours) for name, (ours, _) in _OPTIONAL.items()
  }
  dtype = str(params['embed'].dtype)
  return {
      'architectures': ['LlamaForCausalLM'],
      'model_type': 'llama',
      **required,
      'num_key_value_heads': config.num_kv_heads,
      'head_dim': config.head_dim,
      **optional,
      'hidden_act': 'silu',
      'attention_bias': False,
      'mlp_bias': False,
      # Before and since transformers 5.
      'rope_theta': config.rope_theta,
      'rope_parameters': {
          'rope_type': 'default',
          'rope_theta': config.rope_theta,
      },
      'torch_dtype': dtype,
      'bos_token_id': None,
      'eos_token_id': list(eos_ids) or None,
  }
