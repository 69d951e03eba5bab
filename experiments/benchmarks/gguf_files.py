"""Models as llama.cpp reads them: any Llama here, in float32 or 8 bits."""

import json
import pathlib
from typing import Any

import gguf
import numpy as np

from agentrl.models.config import TransformerConfig
from agentrl.weights import names

_TYPES = {
    'f32': (gguf.GGMLQuantizationType.F32, gguf.LlamaFileType.ALL_F32),
    'q8_0': (gguf.GGMLQuantizationType.Q8_0, gguf.LlamaFileType.MOSTLY_Q8_0),
}


def write(
    path: pathlib.Path,
    config: TransformerConfig,
    params: Any,
    tokenizer_json: pathlib.Path,
    *,
    kind: str,
) -> None:
  """Writes a GGUF file.

  Args:
    path: of the file.
    config: of a Llama without scaled rotary embeddings.
    params: the trainer's layout.
    tokenizer_json: its byte-level BPE, in the format of `tokenizers`.
    kind: of the matrices: 'f32' or 'q8_0'.

  Raises:
    ValueError: llama.cpp would compute another network of these tensors.
  """
  if config.family != 'llama' or config.rope_scaling is not None:
    raise ValueError(
        f'Only Llamas without rotary scaling are written, not {config}.'
    )
  matrices, file_type = _TYPES[kind]
  writer = gguf.GGUFWriter(path, 'llama')
  writer.add_file_type(file_type)
  writer.add_block_count(config.num_layers)
  writer.add_context_length(config.max_positions)
  writer.add_embedding_length(config.hidden_size)
  writer.add_feed_forward_length(config.intermediate_size)
  writer.add_head_count(config.num_heads)
  writer.add_head_count_kv(config.num_kv_heads)
  writer.add_key_length(config.head_dim)
  writer.add_value_length(config.head_dim)
  writer.add_rope_dimension_count(config.head_dim)
  writer.add_rope_freq_base(config.rope_theta)
  writer.add_layer_norm_rms_eps(config.rms_norm_eps)
  writer.add_vocab_size(config.vocab_size)
  _add_tokenizer(writer, tokenizer_json, config.vocab_size)
  heads = {'attn_q': config.num_heads, 'attn_k': config.num_kv_heads}
  for tensor, index, name in names.file_names(config, lambda t: t.gguf):
    value = np.asarray(names.at(params, tensor.path)[index], np.float32)
    value = value.T if tensor.transposed else value
    if (part := name.split('.')[-2]) in heads:
      value = _permute(value, heads[part])
    value = np.ascontiguousarray(value)
    if value.ndim > 1:
      packed = gguf.quants.quantize(value, matrices)
      writer.add_tensor(name, packed, raw_dtype=matrices)
    else:
      writer.add_tensor(name, value)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()


def _permute(weight: np.ndarray, heads: int) -> np.ndarray:
  """The order of query and key rows that llama.cpp rotates, `[heads * D, in]`."""
  rows, columns = weight.shape
  halves = weight.reshape(heads, 2, rows // heads // 2, columns)
  return halves.swapaxes(1, 2).reshape(rows, columns)


def _add_tokenizer(
    writer: gguf.GGUFWriter, path: pathlib.Path, vocab_size: int
) -> None:
  """Every row of the embedding needs a token, and a server an end."""
  described = json.loads(path.read_text(encoding='utf-8'))
  special = {
      token['id']: token['content'] for token in described['added_tokens']
  }
  texts = {i: text for text, i in described['model']['vocab'].items()} | special
  tokens = [texts.get(i, f'<unused_{i}>') for i in range(vocab_size)]
  types = [
      gguf.TokenType.CONTROL
      if i in special
      else gguf.TokenType.NORMAL
      if i in texts
      else gguf.TokenType.UNUSED
      for i in range(vocab_size)
  ]
  merges = [
      merge if isinstance(merge, str) else ' '.join(merge)
      for merge in described['model']['merges']
  ]
  writer.add_tokenizer_model('gpt2')
  writer.add_tokenizer_pre('smollm')
  writer.add_token_list(tokens)
  writer.add_token_types(types)
  writer.add_token_merges(merges)
  writer.add_eos_token_id(min(special))
  writer.add_add_bos_token(False)
