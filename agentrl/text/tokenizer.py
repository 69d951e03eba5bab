"""Text <-> token ids: one class, read from Hugging Face or GGUF files.

Built on the `tokenizers` library, so that neither torch nor transformers is
needed at run time. `train_bpe` makes the small tokenizers of `tiny` policies.
"""

import json
import pathlib
import re
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers
from gguf import GGUFReader

from agentrl.errors import WeightsError
from agentrl.text import bpe, token_bytes

_JSON = 'tokenizer.json'
_TEMPLATE = 'chat_template.jinja'
_SETTINGS = 'tokenizer_config.json'
_MOST_IDS = 2**24  # many times those of the largest vocabularies

# Characters of a text from which on it is encoded as a batch of one: that alone
# lets other threads run. For less the library would warn after every fork.
_LONG = 2**16

# The control tokens of a tokenizer that is trained here: ChatML's.
START, END, PAD = '<|im_start|>', '<|im_end|>', '<|pad|>'


class Tokenizer:
  """A tokenizer that never adds a token and never obeys one in plain text.

  Attributes:
    eos_ids: every id that ends a completion; the first is `eos_token`.
    bos_id: the id that begins a text, or None.
    pad_id: fills up rows; the first end id if the tokenizer has none.
    chat_template: the model's Jinja template, or None.
    template_path: the file that it was read from, or None.
    vocab_size: one more than the largest id: rows an embedding must have.
    control_ids: the special tokens, which `encode` gives only when allowed.
    bound: how few tokens a text can become; None: any number.
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
  ):
    """Wraps `backend`.

    Args:
      backend: changed only in that truncation and padding are switched off.
      eos_ids: at least one id.
      bos_id: an id or None.
      pad_id: an id; None takes the first of `eos_ids`.
      chat_template: Jinja source or None.
      source: where it is from, for messages.
      template_path: of `chat_template`, for messages.

    Raises:
      WeightsError: there is no end id, or an id is not in the vocabulary.
    """
    if not eos_ids:
      raise WeightsError(
          f'{source} names no end token; add eos_token to {_SETTINGS} or'
          ' eos_token_id to generation_config.json.'
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
    self._backend = backend
    self.vocab_size = 1 + max(
        backend.get_vocab(with_added_tokens=True).values()
    )
    added = backend.get_added_tokens_decoder()
    named = {*self.eos_ids, self.bos_id, self.pad_id}
    self.control_ids = frozenset(
        i for i, token in added.items() if token.special or i in named
    )
    spec = json.loads(backend.to_str())
    self.bound = token_bytes.bound(spec)
    self._plain = _without_control(spec, self.control_ids)
    self._control = _control_pattern(added[i] for i in self.control_ids)

  def encode(self, text: str, *, allow_special: bool = False) -> list[int]:
    """Ids of `text`, with nothing added.

    Other threads run meanwhile where the text is long.

    Args:
      text: any string; lone surrogates, which JSON may carry, become '?'.
      allow_special: True gives a special token written in the text its own
        id. False, right for whatever an environment says, spells it out.
    """
    backend = self._backend if allow_special else self._plain
    text = text.encode('utf-8', 'replace').decode('utf-8')
    if len(text) < _LONG:
      return backend.encode(text, add_special_tokens=False).ids
    [encoding] = backend.encode_batch_fast([text], add_special_tokens=False)
    return encoding.ids

  def split_special(self, text: str) -> list[tuple[str, int | None]]:
    """Cuts `text` at its special tokens.

    Returns:
      `(text, None)` for each plain piece that is not empty and `(text, id)` for
      each special token. A token that swallows the blanks beside it (its
      `lstrip` and `rstrip`) has them in its text.
    """
    if self._control is None:
      return [(text, None)] if text else []
    pieces, start = [], 0
    for match in self._control.finditer(text):
      pieces.append((text[start : match.start()], None))
      token = self._backend.token_to_id(match[match.lastgroup])
      pieces.append((match[0], token))
      start = match.end()
    pieces.append((text[start:], None))
    return [(piece, token) for piece, token in pieces if piece]

  def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
    """Text of `ids`, for people and environments: it does not encode back.

    Bytes that are not UTF-8 become U+FFFD. Ids without a token (an embedding
    may have more rows than the tokenizer has tokens) give nothing.
    """
    ids = [i for i in ids if 0 <= i < self.vocab_size]
    return self._backend.decode(ids, skip_special_tokens=skip_special)

  def id_to_token(self, token_id: int) -> str | None:
    """The vocabulary's name of an id, or None."""
    return self._backend.id_to_token(token_id)

  def token_to_id(self, token: str) -> int | None:
    """The id of a vocabulary entry, or None."""
    return self._backend.token_to_id(token)

  def special_tokens(self) -> dict[str, str]:
    """The named tokens, by the names that chat templates use for them."""
    ids = {
        'bos_token': self.bos_id,
        'eos_token': self.eos_ids[0],
        'pad_token': self.pad_id,
    }
    return {
        name: self._backend.id_to_token(token_id)
        for name, token_id in ids.items()
        if token_id is not None
    }

  def talking(self, chat_template: str, eos_ids: Sequence[int]) -> 'Tokenizer':
    """The same tokenizer with another template and other end ids."""
    return Tokenizer(
        self._backend,
        eos_ids=eos_ids,
        bos_id=self.bos_id,
        pad_id=self.pad_id,
        chat_template=chat_template,
    )

  def save(self, directory: str | pathlib.Path) -> None:
    """Writes the files that `from_directory` and transformers read."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    # Its own `save` reports a full disk as a bare Exception.
    text = self._backend.to_str(pretty=True)
    (directory / _JSON).write_text(text, encoding='utf-8')
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
    _write_json(directory / _SETTINGS, settings)
    _write_json(directory / 'generation_config.json', ids)
    if self.chat_template is not None:
      (directory / _TEMPLATE).write_text(self.chat_template, encoding='utf-8')


def _has(backend: tokenizers.Tokenizer, token_id: object) -> bool:
  # Of a file that anybody wrote; others are not asked for in the library.
  return _is_id(token_id) and backend.id_to_token(token_id) is not None


def _without_control(spec, control_ids) -> tokenizers.Tokenizer:
  """That of `spec`, but `control_ids` are spelled out as plain text."""
  for token in spec['added_tokens']:
    # A model's end token need not be marked special; here it is.
    token['special'] = token['id'] in control_ids
  plain = tokenizers.Tokenizer.from_str(json.dumps(spec))
  plain.encode_special_tokens = True  # meaning: encode them as any other text
  return plain


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
    return from_directory(path)
  if path.suffix == '.gguf':
    return from_gguf(path, reader)
  raise WeightsError(
      f'No tokenizer at {path}: give a directory with {_JSON}, or a .gguf file.'
  )


def from_directory(directory: str | pathlib.Path) -> Tokenizer:
  """Reads a Hugging Face directory.

  `tokenizer.json` is the tokenizer; `tokenizer_config.json` names its tokens;
  `generation_config.json`, or else `config.json`, may list more end ids;
  `chat_template.jinja`, or else the configuration, has the template.

  Raises:
    WeightsError: a file is missing, damaged or names an unknown token.
  """
  directory = pathlib.Path(directory)
  path = directory / _JSON
  if not path.is_file():
    raise WeightsError(
        f'{directory} has no {_JSON}; make one with transformers:'
        ' AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR).'
    )
  _check_ids(_read_json(path), path)
  try:
    backend = tokenizers.Tokenizer.from_str(path.read_text(encoding='utf-8'))
  except Exception as error:  # tokenizers raises nothing narrower
    reason = ascii(str(error)[:300])[1:-1]  # it may quote the file
    raise WeightsError(f'{path} is not a tokenizer: {reason}.') from error
  settings = _read_json(directory / _SETTINGS)
  generation = _read_json(directory / 'generation_config.json')
  model = _read_json(directory / 'config.json')

  def named(name: str) -> int | None:
    token = settings.get(name)
    token = token.get('content') if isinstance(token, dict) else token
    if token is None:
      return None
    known = isinstance(token, str)
    token_id = backend.token_to_id(token) if known else None
    if token_id is None:
      raise WeightsError(
          f'{name} of {directory / _SETTINGS} is {reprlib.repr(token)}, which'
          f' is not in {_JSON}.'
      )
    return token_id

  eos = named('eos_token')
  eos_ids = [] if eos is None else [eos]
  listed = generation.get('eos_token_id', model.get('eos_token_id'))
  if listed is not None:
    listed = listed if isinstance(listed, list) else [listed]
    if not all(map(_is_id, listed)):
      raise WeightsError(
          f'eos_token_id of {directory} is {reprlib.repr(listed)}; it must be'
          ' an id, or a list of them.'
      )
    eos_ids += listed
  template, template_path = _chat_template(directory, settings)
  try:
    return Tokenizer(
        backend,
        eos_ids=eos_ids,
        bos_id=named('bos_token'),
        pad_id=named('pad_token'),
        chat_template=template,
        source=str(directory),
        template_path=str(template_path),
    )
  # ValueError: there is no token at all.
  except ValueError as error:
    raise WeightsError(f'{path} has no vocabulary: {error}.') from error


def _is_id(value: Any) -> bool:
  return type(value) is int and 0 <= value < _MOST_IDS


def _check_ids(spec: dict, path: pathlib.Path) -> None:
  """Refuses ids so large that tokenizers would end the process.

  It counts the ids that are left out, in memory.
  """
  model, added = spec.get('model'), spec.get('added_tokens')
  vocab = model.get('vocab') if isinstance(model, dict) else None
  ids = list(vocab.values()) if isinstance(vocab, dict) else []
  if isinstance(added, list):
    ids += [token.get('id') for token in added if isinstance(token, dict)]
  for i in ids:
    if not _is_id(i):
      raise WeightsError(
          f'{path} has a token of id {reprlib.repr(i)}; ids are whole numbers'
          f' below {_MOST_IDS}.'
      )


def _chat_template(
    directory: pathlib.Path, settings: dict
) -> tuple[str | None, pathlib.Path]:
  """The template, if there is one, and the file that has it or would.

  Raises:
    WeightsError: it is no text.
  """
  path = directory / _TEMPLATE
  if path.is_file():
    try:
      return path.read_text(encoding='utf-8'), path
    except (OSError, ValueError) as error:
      raise WeightsError(f'{path} cannot be read: {error}.') from error
  path = directory / _SETTINGS
  template = settings.get('chat_template')
  if isinstance(template, list):  # several, by name
    template = next(
        (
            each.get('template')
            for each in template
            if isinstance(each, dict) and each.get('name') == 'default'
        ),
        None,
    )
  if not isinstance(template, str | None):
    raise WeightsError(
        f'chat_template of {path} is'
        f' {reprlib.repr(template)}, which is no text.'
    )
  return template, path


def _read_json(path: pathlib.Path) -> dict:
  if not path.is_file():
    return {}
  try:
    found = json.loads(path.read_text(encoding='utf-8'))
  except (OSError, ValueError, RecursionError) as error:
    raise WeightsError(f'{path} is not JSON: {error}.') from error
  if not isinstance(found, dict):
    raise WeightsError(
        f'{path} has {reprlib.repr(found)}, which is no JSON object.'
    )
  return found


def from_gguf(
    path: str | pathlib.Path, reader: GGUFReader | None = None
) -> Tokenizer:
  """Builds the tokenizer that a GGUF file describes.

  Raises:
    WeightsError: the file is damaged or its tokenizer is of an unknown kind.
  """
  backend, fields = bpe.read_gguf(path, reader)
  template = fields.get('chat_template')
  if not isinstance(template, str | None):
    raise WeightsError(f'tokenizer.chat_template of {path} is no text.')

  def id_of(name: str) -> int | None:
    token_id = fields.get(f'ggml.{name}_token_id')
    if token_id is not None and not _is_id(token_id):
      raise WeightsError(
          f'tokenizer.ggml.{name}_token_id of {path} is'
          f' {reprlib.repr(token_id)}, which is no id.'
      )
    return token_id

  return Tokenizer(
      backend,
      eos_ids=[i for i in map(id_of, ('eos', 'eot')) if i is not None],
      bos_id=id_of('bos'),
      pad_id=id_of('padding'),
      chat_template=template,
      source=str(path),
      template_path=str(path),
  )


def train_bpe(
    texts: Iterable[str],
    vocab_size: int,
    specials: Sequence[str] = (START, END, PAD),
) -> Tokenizer:
  """Trains a small byte-level BPE for ChatML; deterministic.

  Args:
    texts: what the policy will read and write.
    vocab_size: most ids to use.
    specials: control tokens, `END` and `PAD` among them; ids from 0.

  Raises:
    ValueError: `vocab_size` is too small, or `END` or `PAD` is missing.
  """
  if END not in specials or PAD not in specials:
    raise ValueError(f'specials must have {END!r} and {PAD!r}: {specials}.')
  backend = bpe.train(texts, vocab_size, specials)
  return Tokenizer(
      backend,
      eos_ids=[backend.token_to_id(END)],
      pad_id=backend.token_to_id(PAD),
  )
