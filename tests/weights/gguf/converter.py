"""GGUF files of transformers' models, laid out as llama.cpp's converter does it.

Written from the facts of llama.cpp's conversion/ folder, apart from our reader: the
tensors' names are those of the gguf package's own map of transformers' names.
"""

import math

import gguf
import numpy as np

ARCHITECTURES = {
    'mistral': 'llama',
    'ministral3': 'mistral3',
    'qwen3_moe': 'qwen3moe',
    'qwen3_5_text': 'qwen35',
    'qwen3_5_moe_text': 'qwen35moe',
    'qwen3_next': 'qwen3next',
    'gemma3_text': 'gemma3',
    'gemma4_text': 'gemma4',
    'gemma4_unified_text': 'gemma4',
    'olmo3': 'olmo2',
    'hunyuan_v1_dense': 'hunyuan-dense',
    'gpt_oss': 'gpt-oss',
}
_ONE_ADDED = ('gemma3', 'qwen35', 'qwen35moe', 'qwen3next')
_PAIRED = ('llama', 'mistral3', 'smollm3', 'granite')


def architecture(config):
  """The architecture as which a config of transformers is written."""
  return ARCHITECTURES.get(config.model_type, config.model_type)


def write(
    path,
    model,
    *,
    kinds=lambda name, shape: None,
    drop=(),
    add=None,
    **changes,
):
  """Writes a model.

  Args:
    path: of the new file.
    model: of transformers.
    kinds: name and shape -> a quantisation of the gguf package, or None.
    drop: tensors to leave out.
    add: tensors to put in.
    **changes: fields of the metadata, without the architecture, that get another
      value; None leaves one out.
  """
  config = model.config
  name = architecture(config)
  writer = gguf.GGUFWriter(path, name)
  for field, value in (_metadata(config, name) | changes).items():
    if value is not None:
      _add(writer, f'{name}.{field}', value)
  writer.add_token_list([f'{i}' for i in range(config.vocab_size)])
  for tensor, value in _tensors(model, name):
    if tensor not in drop:
      value = np.ascontiguousarray(value)
      kind = kinds(tensor, value.shape)
      if kind is not None:
        value = gguf.quants.quantize(value, kind)
      writer.add_tensor(tensor, value, raw_dtype=kind)
  for tensor, value in (add or {}).items():
    writer.add_tensor(tensor, value)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return path


def _add(writer, field, value):
  if isinstance(value, bool):
    writer.add_bool(field, value)
  elif isinstance(value, int):
    writer.add_uint32(field, value)
  elif isinstance(value, float):
    writer.add_float32(field, value)
  elif isinstance(value, str):
    writer.add_string(field, value)
  else:
    writer.add_array(field, value)


def _head_dim(config):
  size = getattr(config, 'head_dim', None)
  return size or config.hidden_size // config.num_attention_heads


def _of_kinds(config, field):
  """A field of sliding layers, and of full ones, of which the last is one."""
  settings = config.to_dict()
  own = settings.get('per_layer_config') or {}
  last = own.get(str(config.num_hidden_layers - 1), {})
  return settings[field], last.get(field, settings[field])


def _ropes(config):
  """The rotary parameters of full layers and of sliding ones."""
  rope = config.rope_parameters
  if 'full_attention' in rope:
    return rope['full_attention'], rope.get('sliding_attention', {})
  return rope, {}


def _metadata(config, name):
  """The fields that all converters write, and those of each."""
  rope, local = _ropes(config)
  fields = {
      'block_count': config.num_hidden_layers,
      'context_length': config.max_position_embeddings,
      'embedding_length': config.hidden_size,
      'feed_forward_length': _inner_size(config),
      'attention.head_count': config.num_attention_heads,
      'attention.layer_norm_rms_epsilon': (
          getattr(config, 'norm_eps', None) or config.rms_norm_eps
      ),
      'rope.freq_base': float(rope['rope_theta']),
      'vocab_size': config.vocab_size,
  }
  if local:
    fields['rope.freq_base_swa'] = float(local['rope_theta'])
  if name == 'gemma4':
    return fields | _gemma4(config)
  fields['attention.head_count_kv'] = config.num_key_value_heads
  if getattr(config, 'head_dim', None) and name != 'granite':
    fields['attention.key_length'] = config.head_dim
    fields['attention.value_length'] = config.head_dim
  if name in _PAIRED:
    fields['rope.dimension_count'] = _head_dim(config)
  kind = rope.get('rope_type')
  if kind in ('linear', 'yarn'):
    fields['rope.scaling.type'] = kind
    fields['rope.scaling.factor'] = float(rope['factor'])
  if kind == 'yarn':
    original = rope['original_max_position_embeddings']
    fields['rope.scaling.original_context_length'] = original
    for theirs, field in (
        ('attention_factor', 'yarn_attn_factor'),
        ('beta_fast', 'yarn_beta_fast'),
        ('beta_slow', 'yarn_beta_slow'),
    ):
      if rope.get(theirs) is not None:
        fields[f'rope.scaling.{field}'] = float(rope[theirs])
  own = _OWN.get(config.model_type)
  return fields | (own(config, rope) if own else {})


def _experts(config):
  count = getattr(config, 'num_local_experts', None) or config.num_experts
  return {
      'expert_count': count,
      'expert_used_count': config.num_experts_per_tok,
      'expert_feed_forward_length': getattr(
          config, 'moe_intermediate_size', config.intermediate_size
      ),
  }


def _phi3(config, rope):
  original = config.original_max_position_embeddings
  part = rope.get('partial_rotary_factor', 1.0)
  size = int(part * config.hidden_size) // config.num_attention_heads
  fields = {
      'rope.scaling.original_context_length': original,
      'rope.dimension_count': size,
      'attention.sliding_window': config.sliding_window or 0,
  }
  scale = config.max_position_embeddings / original
  if 'long_factor' in rope:
    grown = math.log(max(scale, 1)) / math.log(original)
    fields['rope.scaling.attn_factor'] = math.sqrt(1 + grown)
  return fields


def _hunyuan(config, rope):
  size = config.head_dim
  fields = {}
  if rope.get('rope_type') == 'dynamic' and rope.get('alpha'):
    base = rope['rope_theta'] * rope['alpha'] ** (size / (size - 2))
    fields |= {
        'rope.freq_base': base,
        'rope.scaling.type': 'none',
        'rope.scaling.factor': 1.0,
        'rope.scaling.original_context_length': 256 * 1024,
        'context_length': 256 * 1024,
    }
  return fields


def _linear_fields(config, rope):
  heads = config.linear_num_value_heads
  return {
      'ssm.conv_kernel': config.linear_conv_kernel_dim,
      'ssm.state_size': config.linear_key_head_dim,
      'ssm.group_count': config.linear_num_key_heads,
      'ssm.time_step_rank': heads,
      'ssm.inner_size': config.linear_value_head_dim * heads,
      # The first layer of full attention begins the next period.
      'full_attention_interval': 1 + config.layer_types.index('full_attention'),
      'rope.dimension_count': int(
          config.head_dim * rope['partial_rotary_factor']
      ),
  }


def _next(config, rope):
  fields = _linear_fields(config, rope) | _experts(config)
  size = config.shared_expert_intermediate_size
  return fields | {'expert_shared_feed_forward_length': size}


def _gemma4(config):
  slides = [kind == 'sliding_attention' for kind in config.layer_types]
  size, full_size = _of_kinds(config, 'head_dim')
  heads, full_heads = _of_kinds(config, 'num_key_value_heads')
  shared = config.num_kv_shared_layers
  fields = {
      'attention.key_length': full_size,
      'attention.value_length': full_size,
      'attention.key_length_swa': size,
      'attention.value_length_swa': size,
      'attention.shared_kv_layers': shared,
      'attention.sliding_window': config.sliding_window,
      'attention.sliding_window_pattern': slides,
      'embedding_length_per_layer_input': (
          getattr(config, 'hidden_size_per_layer_input', None) or 0
      ),
      'rope.dimension_count': full_size,
      'rope.dimension_count_swa': size,
  }
  if config.final_logit_softcapping:
    cap = float(config.final_logit_softcapping)
    fields['final_logit_softcapping'] = cap
  if config.use_double_wide_mlp:
    inner, count = config.intermediate_size, config.num_hidden_layers
    fields['feed_forward_length'] = [inner] * (count - shared) + [
        2 * inner
    ] * shared
  fields['attention.head_count_kv'] = heads
  if heads != full_heads:
    each = [heads if x else full_heads for x in slides]
    fields['attention.head_count_kv'] = each
  return fields


def _inner_size(config):
  """That of LFM2's MLPs is computed of the one that the file of a model has."""
  if not getattr(config, 'block_auto_adjust_ff_dim', False):
    return config.intermediate_size
  size = int(
      config.block_ffn_dim_multiplier * (2 * config.intermediate_size // 3)
  )
  unit = config.block_multiple_of
  return unit * ((size + unit - 1) // unit)


_SECTIONS = {'rope.dimension_sections': [11, 11, 10, 0]}
_OWN = {
    'lfm2': lambda config, rope: {
        'shortconv.l_cache': config.conv_L_cache,
        'attention.head_count_kv': [
            config.num_key_value_heads if kind == 'full_attention' else 0
            for kind in config.layer_types
        ],
    },
    'qwen3_5_text': (
        lambda config, rope: _linear_fields(config, rope) | _SECTIONS
    ),
    'qwen3_5_moe_text': lambda config, rope: _next(config, rope) | _SECTIONS,
    'qwen3_next': _next,
    'ministral3': lambda config, rope: {
        'rope.scaling.yarn_log_multiplier': rope['mscale_all_dim'],
        'attention.temperature_scale': rope['llama_4_scaling_beta'],
    },
    'qwen3_moe': lambda config, rope: _experts(config),
    'granite': lambda config, rope: {
        'attention.scale': float(config.attention_multiplier),
        'embedding_scale': float(config.embedding_multiplier),
        'residual_scale': float(config.residual_multiplier),
        'logit_scale': float(config.logits_scaling),
    },
    'gemma3_text': lambda config, rope: {
        'attention.sliding_window': config.sliding_window
    },
    'olmo3': lambda config, rope: {
        'attention.sliding_window': config.sliding_window,
        'attention.sliding_window_pattern': [
            kind == 'sliding_attention' for kind in config.layer_types
        ],
    },
    'glm4': lambda config, rope: {
        'rope.dimension_count': int(
            config.head_dim * rope['partial_rotary_factor']
        )
    },
    'phi3': _phi3,
    'hunyuan_v1_dense': _hunyuan,
    'gpt_oss': (
        lambda config, rope: _experts(config)
        | {'attention.sliding_window': config.sliding_window}
    ),
}


def pair(rows, heads):
  """llama.cpp's order of query and key rows, one row at a time.

  Row i of a head goes to place 2i, row i + D/2 to place 2i + 1.
  """
  size = len(rows) // heads
  out = np.empty_like(rows)
  for head in range(heads):
    for i in range(size // 2):
      out[head * size + 2 * i] = rows[head * size + i]
      out[head * size + 2 * i + 1] = rows[head * size + size // 2 + i]
  return out


def tile(rows, config, size):
  """llama.cpp's order of heads of values, one at a time.

  Head j of those that share key head i goes to place j * keys + i.
  """
  keys = config.linear_num_key_heads
  shared = config.linear_num_value_heads // keys
  out = np.empty_like(rows)
  for i in range(keys):
    for j in range(shared):
      old, new = i * shared + j, j * keys + i
      out[new * size : (new + 1) * size] = rows[old * size : (old + 1) * size]
  return out


def unpack(rows, config):
  """Qwen3-Next's two tensors of one, a head of keys at a time."""
  keys, size = config.linear_num_key_heads, config.linear_key_head_dim
  values = config.linear_num_value_heads // keys * config.linear_value_head_dim
  parts = ([], [], [], [])  # queries, keys, values, gates
  start = 0
  for _ in range(keys):
    for part, length in zip(parts, (size, size, values, values), strict=True):
      part.append(rows[start : start + length])
      start += length
  assert start == len(rows)
  return np.concatenate(parts[0] + parts[1] + parts[2]), np.concatenate(
      parts[3]
  )


def _linear_in_order(theirs, value):
  """A tensor of a layer of linear attention whose heads keep their order."""
  if '.conv1d.' in theirs:
    return theirs, value[:, 0]
  if theirs.endswith('.A_log'):
    return theirs, -np.exp(value)
  return theirs.replace('.dt_bias', '.dt_proj.bias'), value


def _linear(theirs, value, config):
  """A tensor of a layer of linear attention, with its name."""
  size = config.linear_value_head_dim
  behind = 2 * config.linear_num_key_heads * config.linear_key_head_dim
  if '.in_proj_qkv.' in theirs or '.conv1d.' in theirs:
    rows = value.reshape(len(value), -1)  # the convolution has three axes
    values = tile(rows[behind:], config, size)
    return theirs, np.concatenate([rows[:behind], values])
  if '.in_proj_z.' in theirs:
    return theirs, tile(value, config, size)
  if '.in_proj_b.' in theirs or '.in_proj_a.' in theirs:
    return theirs, tile(value, config, 1)
  if '.out_proj.' in theirs:
    return theirs, tile(value.T, config, size).T
  if theirs.endswith('.A_log'):
    return theirs, -np.exp(tile(value, config, 1))
  if theirs.endswith('.dt_bias'):
    renamed = theirs.replace('.dt_bias', '.dt_proj.bias')
    return renamed, tile(value, config, 1)
  return theirs, value  # the norm


def _tensors(model, name):
  """Yields name and value of each tensor of the file."""
  config = model.config
  kind = gguf.MODEL_ARCH[name.upper().replace('-', '_')]
  table = gguf.get_tensor_name_map(kind, config.num_hidden_layers)

  def named(theirs):
    found = table.get_name(theirs, try_suffixes=('.weight', '.bias'))
    assert found is not None, theirs
    return found

  state = {
      theirs: value.detach().numpy()
      for theirs, value in model.state_dict().items()
  }
  if config.tie_word_embeddings:
    del state['lm_head.weight']
  for theirs, value in state.items():
    if name in _PAIRED and '.q_proj.' in theirs:
      value = pair(value, config.num_attention_heads)
    elif name in _PAIRED and '.k_proj.' in theirs:
      value = pair(value, config.num_key_value_heads)
    elif '.in_proj_qkvz.' in theirs:
      stem = named(theirs).replace('ssm_in', '{}')
      for part, rows in zip(
          ('attn_qkv', 'attn_gate'), unpack(value, config), strict=True
      ):
        yield stem.format(part), rows
      continue
    elif '.linear_attn.' in theirs and name == 'qwen3next':
      theirs, value = _linear_in_order(theirs, value)
    elif '.linear_attn.' in theirs:
      theirs, value = _linear(theirs, value, config)
    elif '.conv.conv.' in theirs:
      value = value[:, 0]
    elif name in _ONE_ADDED and theirs.endswith('norm.weight'):
      value = value + 1
    if theirs.endswith('layer_scalar'):
      theirs += '.weight'
    if name == 'gpt-oss' and 'sinks' in theirs:
      theirs += '.weight'
    if '.experts.' not in theirs:
      yield named(theirs), value
      continue
    # One tensor a layer and kind; gate and up are two.
    end = '.bias' if theirs.endswith('_bias') else '.weight'
    stem = theirs.removesuffix('_bias').removesuffix('.weight')
    if name == 'gpt-oss' and end == '.weight':
      value = value.swapaxes(1, 2)
    if not stem.endswith('gate_up_proj'):
      yield named(stem + end), value
      continue
    half = value.shape[1] // 2
    gate, up = value[:, :half], value[:, half:]
    if name == 'gpt-oss':
      gate, up = value[:, ::2], value[:, 1::2]
    yield named(stem.replace('gate_up', 'gate') + end), gate
    yield named(stem.replace('gate_up', 'up') + end), up
  rope, _ = _ropes(config)
  if name == 'gemma4':
    _, size = _of_kinds(config, 'head_dim')
    turned = int(size * rope['partial_rotary_factor'] / 2)
    divisors = [1.0] * turned + [1e30] * (size // 2 - turned)
    yield 'rope_freqs.weight', np.array(divisors, np.float32)
  if 'long_factor' in rope:
    for length in ('long', 'short'):
      factors = np.array(rope[f'{length}_factor'], np.float32)
      yield f'rope_factors_{length}.weight', factors
