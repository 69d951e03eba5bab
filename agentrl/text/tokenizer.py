"""Text <-> token ids: one class, read from Hugging Face or GGUF files.

Built on the `tokenizers` library: transformers is needed only to convert older
files, see `hf_folder`. `train_bpe` makes the small tokenizers of `tiny` policies.
"""

import itertools
import json
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import tokenizers
from gguf import GGUFReader

from agentrl.errors import WeightsError
from agentrl.text import bpe, gguf_tokenizer, hf_folder, token_bytes

# From this length in characters a text is encoded as a batch of one: only that
# lets other threads run. For shorter ones the library would warn after each fork.
LONG = 2**16

# A byte of a character that the vocabulary lacks.
_BYTE = re.compile('<0x[0-9A-Fa-f]{2}>')

# Of an added token that takes no text beside it.
_FLAGS = dict.fromkeys(('single_word', 'lstrip', 'rstrip', 'normalized'), False)

# The control tokens of a tokenizer that is trained here: ChatML's.
START, END, PAD = '<|im_start|>', '<|im_end|>', '<|pad|>'


class Tokenizer:
  """A tokenizer that adds no token and spells control tokens in plain text.

  Attributes:
    eos_ids: every id that ends a completion; the first is `eos_token`.
    bos_id: the id that begins a text, or None.
    pad_id: fills up rows; the first end id for a tokenizer without.
    chat_template: the model's Jinja template, or None.
    template_path: the file that it was read from, or None.
    vocab_size: one more than the largest id: rows an embedding must have.
    control_ids: the special tokens, which `encode` gives only when allowed and
      `decode` leaves out unless it is told to show them.
    bound: on how few tokens a text can become; None: unknown.
  """

  def __init__(
      self,
      backend: tokenizers.Tokenizer,
      *,
      eos_ids: Sequence[int],
      bos_id: int | None = None,
      pad_id: int | None = None,
      chat_template: str | None = None,
      source: str = 'the tokenizer',
      template_path: str | None = None,
      control_ids: Collection[int] = (),
  ):
    """Wraps `backend`.

    Args:
      backend: its truncation and padding are switched off.
      eos_ids: at least one id.
      bos_id: an id or None.
      pad_id: an id; None takes the first of `eos_ids`.
      chat_template: Jinja source or None.
      source: its file or folder, for messages.
      template_path: of `chat_template`, for messages.
      control_ids: tokens that are special although `backend` does not mark
        them; so are `eos_ids`, and the other two where they are added tokens.

    Raises:
      WeightsError: there is no end id, or an id is not in the vocabulary.
    """
    if not eos_ids:
      raise WeightsError(
          f'{source} names no end token; add eos_token to {hf_folder.SETTINGS}'
          f' or eos_token_id to {hf_folder.GENERATION}.'
      )
    for name, token_id in (
        *(('end', i) for i in eos_ids),
        ('begin', bos_id),
        ('padding', pad_id),
    ):
      if token_id is not None and not _has(backend, token_id):
        raise WeightsError(
            f'The {name} id {token_id!r:.40} is not in the vocabulary of'
            f' {source}; the tokenizer and its configuration belong to'
            ' different models.'
        )
    self.eos_ids = tuple(dict.fromkeys(eos_ids))
    self.bos_id = bos_id
    self.pad_id = self.eos_ids[0] if pad_id is None else pad_id
    self.chat_template = chat_template
    self.template_path = template_path
    # A tokenizer.json may ask for either; both would change the transcript.
    backend.no_truncation()
    backend.no_padding()
    spec = json.loads(backend.to_str())
    names = {i: backend.id_to_token(i) for i in (*self.eos_ids, *control_ids)}
    if _mark_special(spec, names, {self.bos_id, self.pad_id}):
      backend = tokenizers.Tokenizer.from_str(json.dumps(spec))
    self._backend = backend
    self.vocab_size = 1 + max(
        backend.get_vocab(with_added_tokens=True).values()
    )
    self._added = backend.get_added_tokens_decoder()
    self.control_ids = frozenset(
        i for i, token in self._added.items() if token.special
    )
    self.bound = token_bytes.bound(spec)
    self._falls_back = any(
        step['type'] == 'ByteFallback'
        for step in token_bytes.steps(spec.get('decoder'), 'decoders')
    )
    self._plain = _spelling(spec)
    self._inside = self._plain
    if _unmark_start(spec):
      self._inside = _spelling(spec)
    self._control = _control_pattern(self._added[i] for i in self.control_ids)

  def encode(
      self,
      text: str,
      *,
      allow_special: bool = False,
      inside: bool = False,
      whole: bool = False,
  ) -> list[int]:
    """Ids of `text`.

    Other threads run meanwhile where the text is long.

    Args:
      text: any string; lone surrogates, which JSON may carry, become '?'.
      allow_special: True gives a special token written in the text its own
        id. False, for text of environments, spells it out.
      inside: True if the text follows a special token within a longer one.
        SentencePiece's word mark, put before the first word of a text by some
        tokenizers, is left out then. Without effect if `allow_special`.
      whole: True if the text is all of a prompt: the tokens that the model's
        files put around one, such as `bos_id`, are added.
    """
    backend = self._inside if inside else self._plain
    if allow_special:
      backend = self._backend
    text = text.encode('utf-8', 'replace').decode('utf-8')
    if len(text) < LONG:
      return backend.encode(text, add_special_tokens=whole).ids
    [encoding] = backend.encode_batch_fast([text], add_special_tokens=whole)
    return encoding.ids

  def continuations(self, ids: Sequence[int]) -> Iterator[str]:
    """Yields texts with which the end of `ids` might be one token.

    Each token of the vocabulary that begins as `ids` end gives its rest.
    """
    if not ids or ids[-1] in self.control_ids:
      return
    joined = ''.join(map(self._name, ids))
    ends = tuple(joined[i:] for i in range(len(joined)))
    decoder = self._backend.decoder
    decode = decoder.decode if decoder else ''.join
    for token in self._backend.get_vocab(with_added_tokens=False):
      if token.startswith(ends):
        for end in ends:
          if token.startswith(end) and token != end:
            # Behind another character: a decoder may strip the first blank.
            yield decode(['.', token[len(end) :]])[1:]

  def split_special(self, text: str) -> list[tuple[str, int | None]]:
    """Cuts `text` at its special tokens.

    Returns:
      `(text, None)` for each plain piece that is not empty and `(text, id)` for
      each special token. A token that takes the blanks beside it (its `lstrip`
      and `rstrip`) has them in its text.
    """
    if self._control is None:
      return [(text, None)] if text else []
    pieces: list[tuple[str, int | None]] = []
    start = 0
    for match in self._control.finditer(text):
      pieces.append((text[start : match.start()], None))
      group = match.lastgroup
      assert group is not None  # every alternative has one
      token = self._backend.token_to_id(match[group])
      pieces.append((match[0], token))
      start = match.end()
    pieces.append((text[start:], None))
    return [(piece, token) for piece, token in pieces if piece]

  def encode_pieces(
      self, pieces: Sequence[tuple[str, bool]], *, inside: bool = False
  ) -> list[int]:
    """Ids of the joined pieces, as of one text.

    Only the pieces that are trusted can give special tokens.

    Args:
      pieces: `(text, trusted)`.
      inside: see `encode`.
    """
    ids: list[int] = []
    run, rstrip = '', False
    for text, trusted in pieces:
      parts = self.split_special(text) if trusted else [(text, None)]
      for part, token_id in parts:
        if token_id is None:
          run += part
          continue
        token = self._added[token_id]
        ids += self._encode_run(run, inside or bool(ids), token.lstrip, rstrip)
        ids.append(token_id)
        run, rstrip = '', token.rstrip
    return ids + self._encode_run(run, inside or bool(ids), False, rstrip)

  def _encode_run(
      self, run: str, inside: bool, rstrip: bool, lstrip: bool
  ) -> list[int]:
    """Ids of a text between special tokens that may take its blanks."""
    run = run.rstrip() if rstrip else run
    run = run.lstrip() if lstrip else run
    return self.encode(run, inside=inside) if run else []

  def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
    """Text of `ids`, for people and environments: it need not encode back.

    Bytes that are not UTF-8 become U+FFFD. Ids without a token (an embedding
    may have more rows than the tokenizer has tokens) are skipped.
    """
    ids = [i for i in ids if 0 <= i < self.vocab_size]
    return self._backend.decode(ids, skip_special_tokens=skip_special)

  def decode_pieces(self, ids: Sequence[int]) -> list[tuple[str, bool]]:
    """Text of `ids`, cut at control tokens: `(text, whether it is one)`."""
    runs = itertools.groupby(ids, key=lambda i: i in self.control_ids)
    return [
        (self.decode(part, skip_special=False), is_control)
        for is_control, run in runs
        for part in ([[i] for i in run] if is_control else [list(run)])
    ]

  def settled(self, ids: Sequence[int], *, skip_special: bool = True) -> int:
    """How many of `ids` decode alike whatever follows.

    All, but for bytes at the end where a vocabulary spells unknown characters in
    bytes: an invalid byte makes U+FFFD of each byte beside it, valid ones too.
    """
    size = len(ids)
    while self._falls_back and size:
      name = self._backend.id_to_token(ids[size - 1]) or ''
      skipped = not name or (skip_special and ids[size - 1] in self.control_ids)
      if not skipped and not _BYTE.fullmatch(name):
        break
      size -= 1
    return size

  def id_to_token(self, token_id: int) -> str | None:
    """The vocabulary's name of an id, or None."""
    return self._backend.id_to_token(token_id)

  def _name(self, token_id: int) -> str:
    """The vocabulary's name of an id that has one."""
    name = self._backend.id_to_token(token_id)
    assert name is not None
    return name

  def token_to_id(self, token: str) -> int | None:
    """The id of a vocabulary entry, or None."""
    return self._backend.token_to_id(token)

  def special_tokens(self) -> dict[str, str]:
    """The named tokens, under the names that chat templates use."""
    ids = {
        'bos_token': self.bos_id,
        'eos_token': self.eos_ids[0],
        'pad_token': self.pad_id,
    }
    return {
        name: self._name(token_id)
        for name, token_id in ids.items()
        if token_id is not None
    }

  def added_in(self, text: str) -> dict[str, int]:
    """The added tokens that `text` spells, with their ids."""
    found = {*self.encode(text, allow_special=True)} & self._added.keys()
    return {self._added[i].content: i for i in found}

  def talking(self, chat_template: str, eos_ids: Sequence[int]) -> 'Tokenizer':
    """A copy of the tokenizer with another template and other end ids."""
    return self._copy(
        eos_ids=eos_ids, chat_template=chat_template, template_path=None
    )

  def marking(self, control_ids: Collection[int]) -> 'Tokenizer':
    """The tokenizer with more control tokens; itself if all are already."""
    if self.control_ids.issuperset(control_ids):
      return self
    return self._copy(control_ids=control_ids)

  def _copy(self, **changes: Any) -> 'Tokenizer':
    own: dict[str, Any] = dict(
        eos_ids=self.eos_ids,
        bos_id=self.bos_id,
        pad_id=self.pad_id,
        chat_template=self.chat_template,
        template_path=self.template_path,
    )
    return Tokenizer(self._backend, **(own | changes))

  def save(self, directory: str | pathlib.Path) -> None:
    """Writes the files that `load` and transformers read."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    # Its own `save` reports a full disk as a bare Exception.
    text = self._backend.to_str(pretty=True)
    (directory / hf_folder.TOKENIZER).write_text(text, encoding='utf-8')
    settings = {
        'tokenizer_class': 'PreTrainedTokenizerFast',
        'clean_up_tokenization_spaces': False,
        **self.special_tokens(),
    }
    ids = {
        'bos_token_id': self.bos_id,
        'eos_token_id': list(self.eos_ids),
        'pad_token_id': self.pad_id,
    }
    ids = {name: value for name, value in ids.items() if value is not None}
    _write_json(directory / hf_folder.SETTINGS, settings)
    _write_json(directory / hf_folder.GENERATION, ids)
    if self.chat_template is not None:
      (directory / hf_folder.TEMPLATE).write_text(
          self.chat_template, encoding='utf-8'
      )


def _has(backend: tokenizers.Tokenizer, token_id: object) -> bool:
  # Checked first: the library raises OverflowError for ids out of a bad file.
  return hf_folder.is_id(token_id) and backend.id_to_token(token_id) is not None


def _mark_special(
    spec, names: dict[int, str | None], others: Collection[int | None]
) -> bool:
  """Marks tokens special, as their file need not do; False if all are.

  Args:
    spec: a tokenizer.json, decoded; it is changed.
    names: id -> the token; one that is no added token becomes one.
    others: ids that are marked where they are added tokens.
  """
  added = spec['added_tokens']
  changed = False
  for token in added:
    if not token['special'] and token['id'] in (*names, *others):
      token['special'] = changed = True
  for token_id in sorted(names.keys() - {token['id'] for token in added}):
    added.append(
        _FLAGS | {'id': token_id, 'content': names[token_id], 'special': True}
    )
    changed = True
  return changed


def _spelling(spec) -> tokenizers.Tokenizer:
  """A tokenizer of `spec` that spells special tokens out as plain text."""
  plain = tokenizers.Tokenizer.from_str(json.dumps(spec))
  plain.encode_special_tokens = True  # meaning: encode them as any other text
  return plain


def _unmark_start(spec) -> bool:
  """Ends the mark that only the start of a text gets; False if there is none."""
  steps = token_bytes.steps(spec.get('pre_tokenizer'), 'pretokenizers')
  matches = [
      step
      for step in steps
      if step['type'] == 'Metaspace' and step.get('prepend_scheme') == 'first'
  ]
  for step in matches:
    step['prepend_scheme'] = 'never'
  return bool(matches)


def _control_pattern(tokens) -> re.Pattern | None:
  """Matches any of `tokens`, the longest first, each in a group of its own."""
  tokens = sorted(tokens, key=lambda t: (-len(t.content), t.content))
  alternatives = (
      (r'\s*' if token.lstrip else '')
      + f'(?P<token{i}>{re.escape(token.content)})'
      + (r'\s*' if token.rstrip else '')
      for i, token in enumerate(tokens)
  )
  return re.compile('|'.join(alternatives)) if tokens else None


def _write_json(path: pathlib.Path, value: dict) -> None:
  path.write_text(json.dumps(value, indent=2) + '\n', encoding='utf-8')


def load(
    path: str | pathlib.Path, reader: GGUFReader | None = None
) -> Tokenizer:
  """Reads the tokenizer of a model directory or of a GGUF file.

  Args:
    path: of either.
    reader: of the GGUF file, if it is open: to open one takes seconds.

  Raises:
    WeightsError: `path` is neither, or a file in it is missing or damaged.
  """
  path = pathlib.Path(path)
  if path.is_dir():
    return Tokenizer(**hf_folder.read(path))
  if path.suffix == '.gguf':
    return Tokenizer(**gguf_tokenizer.read(path, reader))
  raise WeightsError(
      f'No tokenizer at {path}: give a directory with {hf_folder.TOKENIZER}, or'
      ' a .gguf file.'
  )


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    specials: Sequence[str] = (START, END, PAD),
) -> Tokenizer:
  """Trains a small byte-level BPE for ChatML; deterministic.

  Args:
    texts: samples of the policy's inputs and outputs.
    vocab_size: most ids to use.
    specials: control tokens, `END` and `PAD` among them; ids from 0.

  Raises:
    ValueError: `vocab_size` is too small, or `END` or `PAD` is missing.
  """
  if END not in specials or PAD not in specials:
    raise ValueError(f'specials must have {END!r} and {PAD!r}: {specials}.')
  backend = bpe.train(texts, vocab_size, specials)
  end = backend.token_to_id(END)
  assert end is not None  # it is one of the specials
  return Tokenizer(backend, eos_ids=[end], pad_id=backend.token_to_id(PAD))
