"""A small random Qwen3 whose chat template has the habits of the real one.

The template is written anew from what Qwen3's is documented to do; it renders
what that does for any conversation of system, user and assistant messages. It
has no tools, which agents here do not use.
"""

import tokenizers
from tokenizers import AddedToken

from agentrl.models.config import TransformerConfig
from agentrl.text import bpe, tokenizer as tokenizer_lib
from agentrl.weights import hf
from tests import tiny

TEMPLATE = r"""
{%- macro reasoning_of(text) -%}
    {{- text.split('</think>')[0].rstrip('\n').split('<think>')[-1] }}
{%- endmacro %}
{%- set found = namespace(query=messages | length - 1, open=true) %}
{%- for m in messages | reverse %}
    {%- set wrapped = m.content.startswith('<tool_response>')
        and m.content.endswith('</tool_response>') %}
    {%- if found.open and m.role == 'user' and not wrapped %}
        {%- set found.query = messages | length - loop.index %}
        {%- set found.open = false %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {{- '<|im_start|>' + m.role + '\n' }}
    {%- if m.role == 'assistant' %}
        {%- set thought, answer = '', m.content %}
        {%- if '</think>' in m.content %}
            {%- set thought = reasoning_of(m.content).strip('\n') %}
            {%- set answer = m.content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > found.query and (loop.last or thought) %}
            {{- '<think>\n' + thought + '\n</think>\n\n' }}
            {{- answer.lstrip('\n') }}
        {%- else %}
            {{- answer }}
        {%- endif %}
    {%- else %}
        {{- m.content }}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""

_TEXTS = (
    'turn left, then go to red ball 1; pick up the key\n' * 20,
    '<think>\nThe ball is near, so I turn.\n</think>\n\ngo to red ball 1\n'
    * 20,
)


def tokenizer() -> tokenizer_lib.Tokenizer:
  """With Qwen3's tokens: those of reasoning are added, but not special."""
  specials = ('<|endoftext|>', '<|im_start|>', '<|im_end|>')
  backend: tokenizers.Tokenizer = bpe.train(_TEXTS, 512, specials)
  backend.add_tokens([
      AddedToken(token, special=False, normalized=False)
      for token in ('<think>', '</think>')
  ])
  ids = [backend.token_to_id(token) for token in specials]
  return tokenizer_lib.Tokenizer(
      backend, eos_ids=[ids[2], ids[0]], pad_id=ids[0], chat_template=TEMPLATE
  )


def export(directory, *, seed: int = 0) -> None:
  """Writes the model as files that a run reads."""
  tok = tokenizer()
  config = TransformerConfig(
      family='qwen3',
      vocab_size=tok.vocab_size,
      hidden_size=64,
      intermediate_size=128,
      num_layers=2,
      num_heads=4,
      num_kv_heads=2,
      head_dim=16,
      max_positions=4096,
      qk_norm=True,
  )
  hf.save(
      directory,
      config,
      tiny.random_params(config, seed),
      eos_ids=tok.eos_ids,
      companions=[tok.save],
  )
