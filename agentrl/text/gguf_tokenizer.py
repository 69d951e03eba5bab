"""Tokenizers of GGUF files: BPE over bytes, SentencePiece's, Gemma's.

`agentrl.text.tokenizer` wraps them.
"""

import pathlib
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gguf
import tokenizers
from tokenizers import decoders, models, normalizers, processors

from agentrl.errors import WeightsError
from agentrl.text import bpe, hf_folder, words

_TOKENS, _TYPES = 'ggml.tokens', 'ggml.token_type'
_SCORES, _MERGES = 'ggml.scores', 'ggml.merges'
# Fields with a long list -> type of their entries.
_LISTS = {_TOKENS: str, _TYPES: int, _SCORES: float, _MERGES: str}
# Values of tokenizer.ggml.token_type.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_MARK = '\u2581'  # stands for a blank
# Control tokens of Phi-3's SentencePiece that leave the blanks behind them alone;
# the others take them, which the files do not say (llama.cpp has it in code too).
_PHI3_KEEPS = ('<unk>', '<s>', '<|endoftext|>')
_PREFIX = 'tokenizer.'


def read(
    path: str | pathlib.Path, reader: gguf.GGUFReader | None = None
) -> dict[str, Any]:
  """Arguments of `tokenizer.Tokenizer` for a GGUF file.

  Args:
    path: the file.
    reader: of the file, if it is open: to open one takes seconds.

  Raises:
    WeightsError: the file is damaged, or its tokenizer is of an unknown kind.
  """
  metadata, architecture = _metadata(path, reader)
  kind: Any = metadata.get('ggml.model')
  if not isinstance(kind, str) or kind not in _KINDS:
    raise WeightsError(
        f'{path} has a tokenizer of model {reprlib.repr(kind)}; known:'
        f" {', '.join(map(repr, _KINDS))}. Use the model's Hugging Face"
        ' directory instead.'
    )
  make, needed = _KINDS[kind]
  is_phi3 = architecture == 'phi3' and make is _sentencepiece
  if make is _byte_level:
    _check_pre(metadata.get('ggml.pre'), path)
  lists = {name: _list(metadata, name, path) for name in needed}
  tokens, kinds = lists[_TOKENS], lists[_TYPES]
  for name in needed[1:]:
    if name != _MERGES and len(lists[name]) != len(tokens):
      raise WeightsError(
          f'{path} has {len(tokens)} tokens, and {_PREFIX + name} of'
          f' {len(lists[name])}.'
      )
  is_gemma = isinstance(architecture, str) and architecture.startswith('gemma')
  if is_gemma:
    tokens = lists[_TOKENS] = [_marked(token) for token in tokens]
  try:
    backend = make(metadata, lists, is_gemma)
  except Exception as error:  # tokenizers raises nothing narrower
    reason = ascii(str(error)[:300])[1:-1]
    raise WeightsError(f'{path} is not a tokenizer: {reason}.') from error
  for token, kind in zip(tokens, kinds, strict=True):
    if kind in (_CONTROL, _USER_DEFINED):
      backend.add_tokens([
          tokenizers.AddedToken(
              token,
              special=kind == _CONTROL,
              # A run of blanks is found once it is written with marks.
              normalized=is_gemma and token.startswith(_MARK),
              rstrip=is_phi3 and token not in _PHI3_KEEPS,
          )
      ])
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

  bos_id = id_of('bos')
  adds_bos = metadata.get('ggml.add_bos_token') is True
  if adds_bos and bos_id is not None and bos_id < len(tokens):
    bos = {'id': 'bos', 'ids': [bos_id], 'tokens': [tokens[bos_id]]}
    backend.post_processor = processors.TemplateProcessing(
        single=['bos', '$A'], special_tokens=[bos]
    )
  return dict(
      backend=backend,
      eos_ids=[i for i in map(id_of, ('eos', 'eot')) if i is not None],
      bos_id=bos_id,
      pad_id=id_of('padding'),
      chat_template=template,
      source=str(path),
      template_path=str(path),
  )


def _metadata(
    path: str | pathlib.Path, reader: gguf.GGUFReader | None
) -> tuple[dict[str, Any], Any]:
  """The tokenizer's fields, and the architecture of its model."""
  try:
    fields = (reader or gguf.GGUFReader(str(path))).fields
  except (OSError, ValueError, IndexError) as error:
    raise WeightsError(f'{path} is not a whole GGUF file: {error}.') from error
  try:
    metadata = {
        name.removeprefix(_PREFIX): field.contents()
        for name, field in fields.items()
        if name.startswith(_PREFIX)
    }
    architecture = fields.get('general.architecture')
    return metadata, architecture and architecture.contents()
  except ValueError as error:  # text that is not UTF-8
    reason = ascii(str(error)[:300])[1:-1]
    raise WeightsError(f'{path} has a damaged field: {reason}.') from error


def _check_pre(pre: Any, path: str | pathlib.Path) -> None:
  """Raises WeightsError unless it is known how text is cut into words."""
  if isinstance(pre, str) and pre in words.WAYS:
    return
  known = ', '.join(map(repr, words.WAYS))
  message = (
      f"{path} has a tokenizer of model 'gpt2', pre {reprlib.repr(pre)}; known:"
      f' {known}. '
  )
  if pre in (None, 'default'):
    message += (
        'Its converter did not know how the model cuts text into words: make'
        " the file anew with today's llama.cpp, or use"
    )
  else:
    message += 'Use'
  raise WeightsError(f"{message} the model's Hugging Face directory instead.")


def _list(
    metadata: Mapping[str, Any], name: str, path: str | pathlib.Path
) -> list[Any]:
  """A field with a list whose entries are all of its type."""
  if name not in metadata:
    raise WeightsError(f'{path} has no field {_PREFIX + name!r}.')
  entries, entry = metadata[name], _LISTS[name]
  if not isinstance(entries, list) or not all(
      isinstance(x, entry) for x in entries
  ):
    raise WeightsError(
        f'{_PREFIX}{name} of {path} is no list of {entry.__name__}.'
    )
  return entries


def _marked(token: str) -> str:
  """A run of blanks as Gemma's vocabulary has it; converters take marks out."""
  return _MARK * len(token) if token and not token.strip(' ') else token


def _byte_level(
    metadata: Mapping[str, Any], lists: Mapping[str, list], is_gemma: bool
) -> tokenizers.Tokenizer:
  """A BPE over bytes."""
  del is_gemma
  way = words.WAYS[metadata['ggml.pre']]
  model = models.BPE(
      vocab={token: i for i, token in enumerate(lists[_TOKENS])},
      merges=_pairs(lists[_MERGES]),
      ignore_merges=way.whole,
  )
  backend = bpe.assemble(model, way.pre_tokenizer())
  if way.nfc:
    backend.normalizer = normalizers.NFC()
  return backend


def _pairs(merges: Sequence[str]) -> list[Any]:
  # As the file has them: the library refuses what is no pair.
  return [tuple(merge.split(' ')) for merge in merges]


def _sentencepiece(
    metadata: Mapping[str, Any], lists: Mapping[str, list], is_gemma: bool
) -> tokenizers.Tokenizer:
  """A SentencePiece BPE, as Llama 2's: the pair of the best score is merged first.

  The scores of Gemma are not in the order of its merges, that of its ids is
  (transformers has it so too).
  """
  tokens = lists[_TOKENS]
  score = {
      token: -i if is_gemma else value
      for i, (token, kind, value) in enumerate(
          zip(tokens, lists[_TYPES], lists[_SCORES], strict=True)
      )
      if kind == _NORMAL
  }
  merges = [
      (token[:cut], token[cut:])
      for token in sorted(score, key=score.__getitem__, reverse=True)
      for cut in reversed(range(1, len(token)))  # as transformers has them
      if token[:cut] in score and token[cut:] in score
  ]
  # Each text between special tokens begins with a mark, unless it is said.
  marked = metadata.get('ggml.add_space_prefix', True) is not False
  return _with_marks(lists, merges, begins=marked)


def _marked_merges(
    metadata: Mapping[str, Any], lists: Mapping[str, list], is_gemma: bool
) -> tokenizers.Tokenizer:
  """SentencePiece's letters and the merges of the file, as Gemma 4's."""
  del metadata, is_gemma
  return _with_marks(lists, _pairs(lists[_MERGES]), begins=False)


def _with_marks(
    lists: Mapping[str, list], merges: list[Any], *, begins: bool
) -> tokenizers.Tokenizer:
  """A BPE whose blanks are marks, and whose unknown letters are bytes.

  Args:
    lists: the file's.
    merges: pairs of tokens, the first to be merged first.
    begins: whether a text begins with a mark.
  """
  tokens, kinds = lists[_TOKENS], lists[_TYPES]
  unknown = [
      x for x, kind in zip(tokens, kinds, strict=True) if kind == _UNKNOWN
  ]
  model = models.BPE(
      vocab={token: i for i, token in enumerate(tokens)},
      merges=merges,
      unk_token=unknown[0] if unknown else None,
      fuse_unk=True,
      byte_fallback=True,
  )
  backend = tokenizers.Tokenizer(model)
  steps = [normalizers.Prepend(_MARK)] * begins
  backend.normalizer = normalizers.Sequence(
      [*steps, normalizers.Replace(' ', _MARK)]
  )
  backend.decoder = decoders.Sequence([
      decoders.Replace(_MARK, ' '),
      decoders.ByteFallback(),
      decoders.Fuse(),
      *[decoders.Strip(' ', 1, 0)] * begins,
  ])
  return backend


_Make = Callable[
    [Mapping[str, Any], Mapping[str, list], bool], tokenizers.Tokenizer
]
# tokenizer.ggml.model -> what makes it of metadata, lists and whether the model is a
# Gemma; and its lists, tokens first.
_KINDS: Mapping[str, tuple[_Make, tuple[str, ...]]] = {
    'gpt2': (_byte_level, (_TOKENS, _TYPES, _MERGES)),
    'llama': (_sentencepiece, (_TOKENS, _TYPES, _SCORES)),
    'gemma4': (_marked_merges, (_TOKENS, _TYPES, _MERGES)),
}
