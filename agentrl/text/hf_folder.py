"""Reads the tokenizer of a Hugging Face folder, as `Tokenizer`'s arguments.

`tokenizers` reads a tokenizer.json. transformers is asked only for a folder
without one: it takes seconds to import, and where it finds a tokenizer.json it
may replace the steps written there by those of the class that
tokenizer_config.json names (transformers 5.23: under `Qwen2Tokenizer`, a
pre-tokenizer that splits digits becomes Qwen2's own and NFC is added; under
`LlamaTokenizer`, word marks are those of its `legacy`, which it does not save).
"""

import json
import pathlib
import reprlib
from typing import Any, TypeGuard

import tokenizers

from agentrl import shipped
from agentrl.errors import WeightsError

TOKENIZER = 'tokenizer.json'
TEMPLATE = 'chat_template.jinja'
SETTINGS = 'tokenizer_config.json'
GENERATION = 'generation_config.json'
# Files from before tokenizer.json: byte-level BPE (with merges.txt) and
# SentencePiece.
_VOCABULARY, _SENTENCEPIECE = 'vocab.json', 'tokenizer.model'
_CONVERT = (
    'make one with transformers:'
    ' AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)'
)
_MOST_IDS = 2**24  # many times those of the largest vocabularies


def read(directory: pathlib.Path) -> dict[str, Any]:
  """Arguments of `tokenizer.Tokenizer` for a folder.

  tokenizer_config.json names the tokens; generation_config.json, or else
  config.json, may list more end ids; chat_template.jinja, or else
  tokenizer_config.json, has the template.

  Raises:
    WeightsError: a file is missing, damaged or names an unknown token.
  """
  backend = _read_backend(directory)
  if not backend.get_vocab_size():
    raise WeightsError(f'The tokenizer of {directory} has no vocabulary.')
  settings = _read_json(directory / SETTINGS)

  def id_of(name: str) -> int | None:
    token = settings.get(name)
    token = token.get('content') if isinstance(token, dict) else token
    if token is None:
      return None
    is_text = isinstance(token, str)
    token_id = backend.token_to_id(token) if is_text else None
    if token_id is None:
      raise WeightsError(
          f'{name} of {directory / SETTINGS} is {reprlib.repr(token)}, which'
          ' is not in the vocabulary.'
      )
    return token_id

  eos_ids = [i for i in [id_of('eos_token')] if i is not None]
  listed = _read_json(directory / GENERATION).get(
      'eos_token_id', _read_json(directory / 'config.json').get('eos_token_id')
  )
  if listed is not None:
    listed = listed if isinstance(listed, list) else [listed]
    if not all(map(is_id, listed)):
      raise WeightsError(
          f'eos_token_id of {directory} is {reprlib.repr(listed)}; it must be'
          ' an id, or a list of them.'
      )
    eos_ids += listed
  template, template_path = _chat_template(directory, settings)
  return dict(
      backend=backend,
      eos_ids=eos_ids,
      bos_id=id_of('bos_token'),
      pad_id=id_of('pad_token'),
      chat_template=template,
      source=str(directory),
      template_path=str(template_path),
  )


def is_id(value: Any) -> TypeGuard[int]:
  """True for a value of a file that can be a token's id."""
  return type(value) is int and 0 <= value < _MOST_IDS


def _read_backend(directory: pathlib.Path) -> tokenizers.Tokenizer:
  path = directory / TOKENIZER
  if not path.is_file():
    return _convert(directory)
  _check_ids(_read_json(path), path)
  try:
    return tokenizers.Tokenizer.from_str(path.read_text(encoding='utf-8'))
  except Exception as error:  # tokenizers raises nothing narrower
    raise WeightsError(
        f'{path} is not a tokenizer: {_reason(error)}.'
    ) from error


def _convert(directory: pathlib.Path) -> tokenizers.Tokenizer:
  """The tokenizer of older files, converted by transformers.

  Code in the folder is not run, and the hub is not asked.
  """
  older = [
      name
      for name in (_VOCABULARY, _SENTENCEPIECE)
      if (directory / name).is_file()
  ]
  if not older:
    raise WeightsError(f'{directory} has no {TOKENIZER}; {_CONVERT}.')
  vocabulary = directory / _VOCABULARY
  _check_ids({'model': {'vocab': _read_json(vocabulary)}}, vocabulary)
  try:
    if older[0] == _SENTENCEPIECE:
      _check_bpe(directory / _SENTENCEPIECE)
    import transformers  # optional, and seconds where torch is installed

    wrapper = transformers.AutoTokenizer.from_pretrained(
        directory, local_files_only=True, trust_remote_code=False
    )
    # Written and read, since a damaged file may make one that cannot be read.
    return tokenizers.Tokenizer.from_str(wrapper.backend_tokenizer.to_str())
  # Missing packages, and whatever their parts raise for damaged files.
  except Exception as error:
    raise WeightsError(
        f'{directory} has no {TOKENIZER}, and its {older[0]} could not be'
        f' converted: {_reason(error)}. Install the packages of'
        f' {shipped.requirements("transformers")} if they are missing, or'
        f' elsewhere {_CONVERT}.'
    ) from error


def _check_bpe(path: pathlib.Path) -> None:
  """Raises ValueError unless a SentencePiece model is BPE, as Llama's and Gemma's.

  transformers 5.23 reads a unigram model as BPE under `LlamaTokenizer`, and so
  into other ids.
  """
  from sentencepiece import sentencepiece_model_pb2

  messages: Any = sentencepiece_model_pb2  # protobuf makes them at import
  model = messages.ModelProto.FromString(path.read_bytes())
  kind = model.trainer_spec.model_type
  if kind != model.trainer_spec.BPE:
    kind = model.trainer_spec.ModelType.Name(kind)
    raise ValueError(f'its model is of type {kind}; only BPE is supported')


def _reason(error: Exception) -> str:
  """An error's text, which may quote a file, in one line."""
  return ascii(str(error)[:300].strip().rstrip('.'))[1:-1]


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
    if not is_id(i):
      raise WeightsError(
          f'{path} has a token of id {reprlib.repr(i)}; ids are whole numbers'
          f' below {_MOST_IDS}.'
      )


def _chat_template(
    directory: pathlib.Path, settings: dict
) -> tuple[str | None, pathlib.Path]:
  """The template or None, and the file that has it or would.

  Raises:
    WeightsError: it is not a text.
  """
  path = directory / TEMPLATE
  if path.is_file():
    try:
      return path.read_text(encoding='utf-8'), path
    except (OSError, ValueError) as error:
      raise WeightsError(f'{path} cannot be read: {error}.') from error
  path = directory / SETTINGS
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
    content = json.loads(path.read_text(encoding='utf-8'))
  except (OSError, ValueError, RecursionError) as error:
    raise WeightsError(f'{path} is not JSON: {error}.') from error
  if not isinstance(content, dict):
    raise WeightsError(
        f'{path} has {reprlib.repr(content)}, which is no JSON object.'
    )
  return content
