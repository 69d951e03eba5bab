"""BPE tokenizers: from GGUF metadata, byte-level or SentencePiece's, or trained.

`agentrl.text.tokenizer` wraps both.
"""

import pathlib
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import gguf
import tokenizers
from tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from agentrl.errors import WeightsError
from agentrl.text import hf_folder

# tokenizer.ggml.model -> its fields with a long list -> type of their entries.
_LISTS = {
    'gpt2': {'ggml.tokens': str, 'ggml.token_type': int, 'ggml.merges': str},
    'llama': {'ggml.tokens': str, 'ggml.token_type': int, 'ggml.scores': float},
}
# Values of tokenizer.ggml.token_type.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4

# How Llama 3 and Qwen2 cut text into words, but for the length of numbers.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r'| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+'
)

# Roles of a chat, so frequent in training texts that each becomes one token.
_ROLES = ('system', 'user', 'assistant')


def _gpt2() -> pre_tokenizers.PreTokenizer:
  return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _smollm() -> pre_tokenizers.PreTokenizer:
  digits = pre_tokenizers.Digits(individual_digits=True)
  return pre_tokenizers.Sequence([digits, _gpt2()])


def _split(digits: str) -> pre_tokenizers.PreTokenizer:
  words = pre_tokenizers.Split(tokenizers.Regex(_WORDS % digits), 'isolated')
  letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
  return pre_tokenizers.Sequence([words, letters])


# tokenizer.ggml.pre -> how text is cut into words before merging.
PRE_TOKENIZERS = {
    'gpt-2': _gpt2,
    'llama-bpe': lambda: _split('{1,3}'),
    'qwen2': lambda: _split(''),
    'smollm': _smollm,
}


def read_gguf(
    path: str | pathlib.Path, reader: gguf.GGUFReader | None = None
) -> dict[str, Any]:
  """Arguments of `tokenizer.Tokenizer` for a GGUF file.

  Args:
    path: the file.
    reader: of the file, if it is open: to open one takes seconds.

  Raises:
    WeightsError: the file is damaged, has no BPE, or an unknown pre-tokenizer.
  """
  try:
    fields = (reader or gguf.GGUFReader(str(path))).fields
  except (OSError, ValueError, IndexError) as error:
    raise WeightsError(f'{path} is not a whole GGUF file: {error}.') from error
  prefix = 'tokenizer.'
  try:
    metadata = {
        name.removeprefix(prefix): field.contents()
        for name, field in fields.items()
        if name.startswith(prefix)
    }
  except ValueError as error:  # text that is not UTF-8
    reason = ascii(str(error)[:300])[1:-1]
    raise WeightsError(f'{path} has a damaged field: {reason}.') from error
  kind: Any = metadata.get('ggml.model')
  pre: Any = metadata.get('ggml.pre')
  is_supported = isinstance(kind, str) and kind in _LISTS
  if kind == 'gpt2':
    is_supported = isinstance(pre, str) and pre in PRE_TOKENIZERS
  if not is_supported:
    kind, pre = reprlib.repr(kind), reprlib.repr(pre)
    raise WeightsError(
        f'{path} has a tokenizer of model {kind}, pre {pre}; known: model'
        f" 'gpt2' with pre {', '.join(map(repr, PRE_TOKENIZERS))}, and model"
        " 'llama'. Use the model's Hugging Face directory instead."
    )
  lists = {}
  for name, entry in _LISTS[kind].items():
    if name not in metadata:
      raise WeightsError(f'{path} has no field {prefix + name!r}.')
    lists[name] = metadata.pop(name)
    if not isinstance(lists[name], list) or not all(
        isinstance(x, entry) for x in lists[name]
    ):
      raise WeightsError(
          f'{prefix}{name} of {path} is no list of {entry.__name__}.'
      )
  tokens, kinds = lists['ggml.tokens'], lists['ggml.token_type']
  if len(tokens) != len(kinds):
    raise WeightsError(
        f'{path} has {len(tokens)} tokens, and types of {len(kinds)}.'
    )
  try:
    if kind == 'gpt2':
      backend = _byte_level(tokens, lists['ggml.merges'], pre)
    else:
      marked = metadata.get('ggml.add_space_prefix', True) is not False
      backend = _sentencepiece(tokens, kinds, lists['ggml.scores'], marked)
  except Exception as error:  # tokenizers raises nothing narrower
    reason = ascii(str(error)[:300])[1:-1]
    raise WeightsError(f'{path} is not a tokenizer: {reason}.') from error
  for token, kind in zip(tokens, kinds, strict=True):
    if kind in (_CONTROL, _USER_DEFINED):
      special = kind == _CONTROL
      added = tokenizers.AddedToken(token, special=special, normalized=False)
      backend.add_tokens([added])
  template = metadata.get('chat_template')
  if not isinstance(template, str | None):
    raise WeightsError(f'tokenizer.chat_template of {path} is no text.')

  def id_of(name: str) -> int | None:
    token_id = metadata.get(f'ggml.{name}_token_id')
    if token_id is not None and not hf_folder.is_id(token_id):
      raise WeightsError(
          f'tokenizer.ggml.{name}_token_id of {path} is'
          f' {reprlib.repr(token_id)}, which is no id.'
      )
    return token_id

  return dict(
      backend=backend,
      eos_ids=[i for i in map(id_of, ('eos', 'eot')) if i is not None],
      bos_id=id_of('bos'),
      pad_id=id_of('padding'),
      chat_template=template,
      source=str(path),
      template_path=str(path),
  )


def _byte_level(
    tokens: Sequence[str], merges: Sequence[str], pre: str
) -> tokenizers.Tokenizer:
  # As the file has them: the library refuses what is no pair.
  pairs: list[Any] = [tuple(merge.split(' ')) for merge in merges]
  model = models.BPE(
      vocab={token: i for i, token in enumerate(tokens)},
      merges=pairs,
      # Llama 3 has words that no chain of merges reaches.
      ignore_merges=pre == 'llama-bpe',
  )
  backend = _assemble(model, PRE_TOKENIZERS[pre]())
  if pre == 'qwen2':
    backend.normalizer = normalizers.NFC()
  return backend


def _sentencepiece(
    tokens: Sequence[str],
    kinds: Sequence[int],
    scores: Sequence[float],
    marked: bool,
) -> tokenizers.Tokenizer:
  """A SentencePiece BPE, as Llama 2's: the pair of the best score is merged first.

  Args:
    tokens: by id.
    kinds: of the tokens.
    scores: of the tokens.
    marked: each text between special tokens begins with a word mark.
  """
  ids = {token: i for i, token in enumerate(tokens)}
  score = {
      token: value
      for token, kind, value in zip(tokens, kinds, scores, strict=True)
      if kind == _NORMAL
  }
  merges = [
      (token[:cut], token[cut:])
      for token in sorted(score, key=score.__getitem__, reverse=True)
      for cut in reversed(range(1, len(token)))  # as transformers has them
      if token[:cut] in score and token[cut:] in score
  ]
  unknown = [
      x for x, kind in zip(tokens, kinds, strict=True) if kind == _UNKNOWN
  ]
  model = models.BPE(
      vocab=ids,
      merges=merges,
      unk_token=unknown[0] if unknown else None,
      fuse_unk=True,
      byte_fallback=True,
  )
  backend = tokenizers.Tokenizer(model)
  mark = '\u2581'
  steps = [normalizers.Prepend(mark)] * marked
  backend.normalizer = normalizers.Sequence(
      [*steps, normalizers.Replace(' ', mark)]
  )
  backend.decoder = decoders.Sequence([
      decoders.Replace(mark, ' '),
      decoders.ByteFallback(),
      decoders.Fuse(),
      *[decoders.Strip(' ', 1, 0)] * marked,
  ])
  return backend


def train(
    texts: Iterable[str], vocab_size: int, specials: Sequence[str]
) -> tokenizers.Tokenizer:
  """Trains a tokenizer that splits digits on `texts`; deterministic.

  Args:
    texts: samples of the policy's inputs and outputs. The names of the chat roles are
      mixed in, about one header per 100 characters, so that each becomes one
      token and a header costs three.
    vocab_size: most ids to use; small texts may need fewer.
    specials: control tokens; they get the ids from 0.

  Raises:
    ValueError: `vocab_size` has no room for the specials and all bytes.
  """
  alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
  needed = len(specials) + len(alphabet)
  if vocab_size < needed:
    raise ValueError(
        f'A byte-level vocabulary with {len(specials)} special tokens needs'
        f' vocab_size >= {needed}, got {vocab_size}.'
    )
  texts = list(texts)
  headers = [role + '\n' for role in _ROLES]
  repeats = 1 + sum(map(len, texts)) // 100
  backend = _assemble(models.BPE(), _smollm())
  trainer = trainers.BpeTrainer(
      vocab_size=vocab_size,
      special_tokens=[
          tokenizers.AddedToken(token, special=True, normalized=False)
          for token in specials
      ],
      initial_alphabet=alphabet,
      show_progress=False,
  )
  backend.train_from_iterator([*texts, *headers * repeats], trainer)
  return backend


def _assemble(model, pre_tokenizer) -> tokenizers.Tokenizer:
  backend = tokenizers.Tokenizer(model)
  backend.pre_tokenizer = pre_tokenizer
  backend.decoder = decoders.ByteLevel()
  return backend
