"""A bound on the text that a token can stand for, without tokenizing."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tokenizers import pre_tokenizers

# Bytes that NFC turns into one, at most: three characters of Hangul become one
# syllable, the Kelvin sign becomes K. With some room.
_NFC = 4
# Pre-tokenizers that remove no character.
_CUTS = ('ByteLevel', 'Digits', 'Metaspace', 'Punctuation', 'Split')
# Bytes that occur in UTF-8.
_UTF8 = frozenset(range(256)) - {0xC0, 0xC1, *range(0xF5, 256)}


@dataclasses.dataclass(frozen=True)
class Bound:
  """A bound on how few tokens a text can become.

  Attributes:
    most: bytes that one token stands for, at most.
    lost: bytes that the vocabulary lacks; they are dropped.
  """

  most: int
  lost: bytes = b''

  def least_tokens(self, text: str) -> int:
    """A lower bound on the tokens of `text`."""
    size = len(text.encode('utf-8', 'replace').translate(None, self.lost))
    return -(-size // self.most)


def bound(spec: Mapping[str, Any]) -> Bound | None:
  """The bound of a tokenizer; None if no bound is known.

  It is known for BPE over bytes with other steps that keep every character.

  Args:
    spec: a tokenizer.json, decoded.
  """
  model, added = spec['model'], spec['added_tokens']
  factor = _shrinks(spec.get('normalizer'))
  cuts = list(steps(spec.get('pre_tokenizer'), 'pretokenizers'))
  if (
      model.get('type') != 'BPE'
      or factor is None
      or any(cut['type'] not in _CUTS for cut in cuts)
      or any(cut.get('behavior') == 'Removed' for cut in cuts)
      # These swallow any number of blanks beside them.
      or any(token['lstrip'] or token['rstrip'] for token in added)
  ):
    return None
  vocab = model['vocab']
  size: Callable[[str], int]
  if any(cut['type'] == 'ByteLevel' for cut in cuts):
    letters, size = _LETTERS, len  # one a byte
  elif model.get('byte_fallback'):
    letters = {byte: f'<0x{byte:02X}>' for byte in range(256)}
    size = lambda token: len(token.encode())
  else:  # characters that the vocabulary lacks may be dropped
    return None
  lost = bytes(byte for byte in _UTF8 if letters[byte] not in vocab)
  if lost and (factor > 1 or size is not len or model.get('unk_token')):
    return None  # which bytes are lost is known only after tokenizing
  sizes = [*map(size, vocab), *(len(t['content'].encode()) for t in added)]
  return Bound(factor * max(sizes), lost)


def _letters() -> dict[int, str]:
  """GPT-2's letter of each byte: itself if printable, else one from 256 on."""
  letters = {byte: chr(byte) for byte in range(256)}
  others = sorted(
      {*letters.values()} - {*pre_tokenizers.ByteLevel.alphabet()}, key=ord
  )
  return letters | {ord(x): chr(256 + i) for i, x in enumerate(others)}


_LETTERS = _letters()


def steps(step: Any, parts: str) -> Iterable[dict[str, Any]]:
  """Yields the single steps of a normalizer, pre-tokenizer or decoder.

  Args:
    step: as in a tokenizer.json; None has no steps.
    parts: the key under which a `Sequence` keeps its steps.
  """
  if step is None:
    return
  if step['type'] != 'Sequence':
    yield step
    return
  for part in step[parts]:
    yield from steps(part, parts)


def _shrinks(normalizer: Any) -> int | None:
  """The factor by which a text may become shorter; None if unbounded."""
  factor = 1
  for step in steps(normalizer, 'normalizers'):
    if step['type'] == 'NFC':
      factor *= _NFC
    elif step['type'] == 'Replace':
      old = step['pattern'].get('String')
      if old is None or len(step['content'].encode()) < len(old.encode()):
        return None
    elif step['type'] != 'Prepend':
      return None
  return factor
