"""Tests for agentrl.text.hf_folder: tokenizers of Hugging Face folders."""

import json
import socket
import sys

import pytest
import tokenizers

from agentrl.errors import WeightsError
from agentrl.text import tokenizer
from tests.text import conftest
from tests.text.tokenizer_test import STRINGS


def save_with(tiny, directory, name, **fields):
  """Saves `tiny` and changes fields of one of its JSON files."""
  tiny.save(directory)
  path = directory / name
  value = json.loads(path.read_text()) if path.exists() else {}
  path.write_text(json.dumps(value | fields))


def test_all_end_tokens_are_read(tiny, tmp_path):
  start = tiny.token_to_id('<|im_start|>')
  (end,) = tiny.eos_ids
  save_with(tiny, tmp_path, 'generation_config.json', eos_token_id=[start, end])
  assert tokenizer.load(tmp_path).eos_ids == (end, start)

  (tmp_path / 'generation_config.json').unlink()
  save_with(tiny, tmp_path, 'generation_config.json', eos_token_id=start)
  assert tokenizer.load(tmp_path).eos_ids == (end, start)

  (tmp_path / 'generation_config.json').unlink()
  (tmp_path / 'config.json').write_text(json.dumps({'eos_token_id': start}))
  assert tokenizer.load(tmp_path).eos_ids == (end, start)


def test_tokens_and_templates_may_have_older_forms(tiny, tmp_path):
  save_with(
      tiny,
      tmp_path,
      'tokenizer_config.json',
      eos_token={'content': '<|im_end|>', 'lstrip': False},
      chat_template=[
          {'name': 'tool_use', 'template': 'no'},
          {'name': 'default', 'template': 'yes'},
      ],
  )
  assert tokenizer.load(tmp_path).chat_template == 'yes'
  (tmp_path / 'chat_template.jinja').write_text('file')
  assert tokenizer.load(tmp_path).chat_template == 'file'


def test_truncation_and_padding_of_the_file_are_switched_off(tiny, tmp_path):
  tiny.save(tmp_path)
  backend = tokenizers.Tokenizer.from_file(str(tmp_path / 'tokenizer.json'))
  backend.enable_truncation(4)
  backend.enable_padding(length=16)
  backend.save(str(tmp_path / 'tokenizer.json'))
  text = 'a long text with many more than four tokens'
  back = tokenizer.load(tmp_path)
  for allow_special in (False, True):
    assert back.encode(text, allow_special=allow_special) == tiny.encode(text)


def test_missing_files_are_named(tiny, tmp_path):
  with pytest.raises(WeightsError, match=r'has no tokenizer\.json; make one'):
    tokenizer.load(tmp_path)
  with pytest.raises(WeightsError, match=r'No tokenizer at .*nowhere: give'):
    tokenizer.load(tmp_path / 'nowhere')
  with pytest.raises(WeightsError, match=r'missing\.gguf'):
    tokenizer.load(tmp_path / 'missing.gguf')


def test_damaged_files_are_named(tiny, tmp_path):
  save_with(tiny, tmp_path, 'tokenizer_config.json', eos_token='<nope>')
  with pytest.raises(WeightsError, match=r"eos_token of .* '<nope>', which is"):
    tokenizer.load(tmp_path)
  (tmp_path / 'tokenizer_config.json').write_text('{}')
  (tmp_path / 'generation_config.json').unlink()
  with pytest.raises(WeightsError, match='names no end token; add eos_token'):
    tokenizer.load(tmp_path)
  (tmp_path / 'config.json').write_text('{"eos_token_id": 99999}')
  with pytest.raises(WeightsError, match='end id 99999 is not in the vocab'):
    tokenizer.load(tmp_path)
  (tmp_path / 'tokenizer_config.json').write_text('{')
  with pytest.raises(WeightsError, match=r'tokenizer_config\.json is not JSON'):
    tokenizer.load(tmp_path)
  (tmp_path / 'tokenizer.json').write_text('{"model": 3}')
  with pytest.raises(WeightsError, match=r'tokenizer\.json is not a tokenizer'):
    tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    'name, text, said',
    [
        ('generation_config.json', '{"eos_token_id": [[1]]}', r'is \[\[1\]\]'),
        ('generation_config.json', '{"eos_token_id": "1"}', r"is \['1'\]"),
        ('generation_config.json', '{"eos_token_id": true}', r'is \[True\]'),
        (
            'generation_config.json',
            f'{{"eos_token_id": {10**400}}}',
            'must be an id',
        ),
        ('generation_config.json', '[1]', r'generation.* no JSON object'),
        ('generation_config.json', '[' * 99999, 'generation.* is not JSON'),
        ('tokenizer_config.json', '{"eos_token": 3}', 'eos_token of .* is 3'),
        ('tokenizer_config.json', '{"eos_token": {"a": 1}}', 'no end token'),
        (
            'tokenizer_config.json',
            '{"eos_token": "<|im_end|>", "chat_template": 3}',
            'chat_template of .*tokenizer_config.json is 3, which is no text',
        ),
        (
            'tokenizer_config.json',
            (
                '{"eos_token": "<|im_end|>", "chat_template":'
                ' [1, {"name": "default", "template": {}}]}'
            ),
            'chat_template of .* is {}, which is no text',
        ),
    ],
)
def test_hostile_files_are_one_line(tiny, tmp_path, name, text, said):
  tiny.save(tmp_path)
  (tmp_path / 'generation_config.json').unlink()
  (tmp_path / name).write_text(text)
  with pytest.raises(WeightsError, match=said) as found:
    tokenizer.load(tmp_path)
  assert '\n' not in str(found.value)


def write_older(made, directory, **settings):
  """Writes the vocab.json and merges.txt of `made`, as Qwen2 ships them."""
  made.save(directory)
  spec = json.loads((directory / 'tokenizer.json').read_text())
  (directory / 'tokenizer.json').unlink()
  model = spec['model']
  (directory / 'vocab.json').write_text(json.dumps(model['vocab']))
  merges = [
      pair if isinstance(pair, str) else ' '.join(pair)
      for pair in model['merges']
  ]
  (directory / 'merges.txt').write_text(
      '\n'.join(['#version: 0.2', *merges, ''])
  )
  added = {str(token.pop('id')): token for token in spec['added_tokens']}
  path = directory / 'tokenizer_config.json'
  settings = (
      dict(tokenizer_class='Qwen2Tokenizer', added_tokens_decoder=added)
      | settings
  )
  path.write_text(json.dumps(json.loads(path.read_text()) | settings))
  return directory


@pytest.fixture(name='transformers')
def _transformers(monkeypatch):
  """The library, where nothing can be reached."""
  found = pytest.importorskip('transformers')

  def refuse(*args):
    raise AssertionError(f'{args} was asked')

  for name in ('connect', 'connect_ex'):
    monkeypatch.setattr(socket.socket, name, refuse)
  monkeypatch.setattr(socket, 'getaddrinfo', refuse)
  return found


def assert_same_ids(made, theirs, texts=STRINGS):
  for text in texts:
    expected = theirs(text, add_special_tokens=False)['input_ids']
    assert made.encode(text, allow_special=True) == expected, text


def test_a_vocabulary_with_merges_gives_the_ids_of_transformers(
    transformers, tiny, tmp_path
):
  directory = write_older(tiny, tmp_path)
  made = tokenizer.load(directory)
  theirs = transformers.AutoTokenizer.from_pretrained(directory)
  assert_same_ids(made, theirs)
  (end,) = tiny.eos_ids
  assert made.eos_ids == (end,) == (theirs.eos_token_id,)
  assert made.pad_id == tiny.pad_id == theirs.pad_token_id
  assert made.control_ids >= tiny.control_ids
  assert not made.control_ids & {*made.encode('<|im_end|>')}
  # It is saved with a tokenizer.json.
  made.save(tmp_path / 'saved')
  assert_same_ids(tokenizer.load(tmp_path / 'saved'), theirs)


def write_sentencepiece(directory, kind):
  """Trains a SentencePiece model with Llama 2's options; gives its reader."""
  sentencepiece = pytest.importorskip('sentencepiece')
  (directory / 'texts').write_text('\n'.join(conftest.TEXTS))
  sentencepiece.SentencePieceTrainer.train(
      input=str(directory / 'texts'),
      model_prefix=str(directory / 'tokenizer'),
      model_type=kind,
      vocab_size=330,
      hard_vocab_limit=False,
      byte_fallback=True,
      normalization_rule_name='identity',
      remove_extra_whitespaces=False,
      minloglevel=2,
  )
  settings = dict(
      tokenizer_class='LlamaTokenizer', bos_token='<s>', eos_token='</s>'
  )
  (directory / 'tokenizer_config.json').write_text(json.dumps(settings))
  return sentencepiece.SentencePieceProcessor(
      model_file=str(directory / 'tokenizer.model')
  )


def test_a_sentencepiece_model_gives_the_ids_of_transformers_and_its_own(
    transformers, tmp_path
):
  own = write_sentencepiece(tmp_path, 'bpe')
  made = tokenizer.load(tmp_path)
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  assert_same_ids(made, theirs)
  assert made.eos_ids == (own.eos_id(),) and made.bos_id == own.bos_id()
  # SentencePiece itself begins a text that begins with a blank with two.
  for text in (text for text in STRINGS if not text.startswith(' ')):
    assert made.encode(text) == own.encode(text), text


def test_a_unigram_model_is_refused(transformers, tmp_path):
  # transformers would read it as BPE.
  write_sentencepiece(tmp_path, 'unigram')
  with pytest.raises(
      WeightsError, match='tokenizer.model could not .* type UNIGRAM; only BPE'
  ):
    tokenizer.load(tmp_path)


def test_transformers_is_not_asked_for_a_tokenizer_json(tiny, tmp_path):
  # Under this class it would put Qwen2's pre-tokenizer in place of the file's.
  save_with(
      tiny, tmp_path, 'tokenizer_config.json', tokenizer_class='Qwen2Tokenizer'
  )
  back = tokenizer.load(tmp_path)
  for text in STRINGS:
    assert back.encode(text) == tiny.encode(text)


@pytest.mark.parametrize(
    'name, text, said',
    [
        ('vocab.json', '{', r'vocab\.json is not JSON'),
        ('vocab.json', '[1]', r'vocab\.json has \[1\], which is no JSON obj'),
        ('vocab.json', '{"a": 1099511627776}', 'ids are whole numbers below'),
        ('vocab.json', '{"a": 0}', 'its vocab.json could not be converted'),
        ('merges.txt', 'a', 'could not be converted: .*, or elsewhere make one'),
        ('tokenizer_config.json', '{}', 'could not be converted: Couldn'),
        (
            'tokenizer_config.json',
            '{"auto_map": {"AutoTokenizer": ["tokenization_x.X", null]}}',
            'could not be converted: .* contains custom code',
        ),
    ],
)  # fmt: skip
def test_damaged_older_files_are_one_line(
    transformers, tiny, tmp_path, name, text, said
):
  write_older(tiny, tmp_path)
  (tmp_path / 'config.json').unlink(missing_ok=True)
  (tmp_path / name).write_text(text)
  with pytest.raises(WeightsError, match=said) as found:
    tokenizer.load(tmp_path)
  assert str(tmp_path) in str(found.value) and '\n' not in str(found.value)


def test_what_converts_older_files_is_named_where_it_is_missing(
    monkeypatch, tiny, tmp_path
):
  write_older(tiny, tmp_path)
  monkeypatch.setitem(sys.modules, 'transformers', None)
  with pytest.raises(
      WeightsError, match=r'Install the packages of .*transformers\.txt if'
  ):
    tokenizer.load(tmp_path)
