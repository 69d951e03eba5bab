"""Tests for agentrl.text.tokenizer, bpe and gguf_tokenizer."""

import json
import os
import random
import subprocess
import sys
import unicodedata

import gguf
import pytest
import tokenizers
from hypothesis import given, settings, strategies as st

from agentrl.errors import WeightsError
from agentrl.text import tokenizer, words
from tests.text import word_marks

STRINGS = (
    'The capital of France is',
    'Hello, world!  Two spaces, a tab\tand\r\n\r\n newlines \n',
    '12 345 67890 and 3.14159, room 101b, x2y',
    "it's we'll I'D they've",
    '日本語 한국어 Ünïcödé 🧙‍♂️🇫🇷 \u200b\u00a0',
    'def f(x):\n    return {"a": [1, 2]}  # note',
    '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n',
    ' leading and trailing ',
    '<|im_end|><|endoftext|> <repo_name>x',
    '',
)


def write_gguf(path, architecture='llama', **fields):
  """A GGUF file with a byte-level tokenizer of 256 letters and two merges."""
  letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
  tokens = ['<|end|>', *letters, 'ab', 'abc', '<tool>']
  values = {
      'model': 'gpt2',
      'pre': 'smollm',
      'tokens': tokens,
      'token_type': [3, *[1] * 258, 4],
      'merges': ['a b', 'ab c'],
      'eos_token_id': 0,
  } | fields
  writer = gguf.GGUFWriter(path, architecture)
  for name, value in values.items():
    add = {
        str: writer.add_string,
        int: writer.add_uint32,
        bool: writer.add_bool,
        list: writer.add_array,
    }.get(type(value))
    if add is not None:
      add(f'tokenizer.ggml.{name}', value)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  return path


def test_gguf_tokenizer_gives_the_ids_of_transformers(smollm, smollm_path):
  pytest.importorskip('torch', reason='transformers reads GGUF with torch')
  transformers = pytest.importorskip(
      'transformers', reason='the reference, Python 3.11 only'
  )
  theirs = transformers.AutoTokenizer.from_pretrained(
      smollm_path.parent, gguf_file=smollm_path.name
  )
  for text in STRINGS:
    expected = theirs(text, add_special_tokens=False)['input_ids']
    assert smollm.encode(text, allow_special=True) == expected, text


def test_gguf_names_the_tokens_of_the_model(smollm):
  assert smollm.vocab_size == 49152
  assert smollm.eos_ids == (2,)
  assert smollm.pad_id == 2
  assert smollm.bos_id == 1
  assert smollm.id_to_token(2) == '<|im_end|>'
  assert smollm.id_to_token(10**6) is None
  assert len(smollm.control_ids) == 17
  assert 'SmolLM' in smollm.chat_template


def test_known_ids_of_the_real_tokenizer(smollm):
  # Those with which transformers gives its logits for this prompt.
  ids = smollm.encode('The capital of France is')
  assert [smollm.id_to_token(i) for i in ids] == [
      'The', 'Ġcapital', 'Ġof', 'ĠFrance', 'Ġis'
  ]  # fmt: skip
  assert smollm.encode('<|im_end|>', allow_special=True) == [2]


@pytest.mark.parametrize('text', STRINGS)
def test_text_survives_a_round_trip(tiny, text):
  assert tiny.decode(tiny.encode(text)) == text


@given(text=st.text(), special=st.sampled_from(['<|im_end|>', '<|im_start|>']))
@settings(max_examples=200)
def test_plain_text_never_holds_control_tokens(tiny, text, special):
  ids = tiny.encode(text + special + text)
  assert not tiny.control_ids & set(ids)
  assert tiny.decode(ids) == text + special + text


@given(ids=st.lists(st.integers(0, 10**5)))
@settings(max_examples=200)
def test_any_ids_decode_to_valid_text(tiny, ids):
  tiny.decode(ids).encode('utf-8')


def test_bytes_that_are_not_text_become_replacement_characters(tiny):
  first_byte_only = tiny.encode('é')[:1]
  assert tiny.decode(first_byte_only) == '\ufffd'


def test_decoding_shows_special_tokens_only_when_asked(tiny):
  (end,) = tiny.eos_ids
  ids = [*tiny.encode('go'), end]
  assert tiny.decode(ids) == 'go'
  assert tiny.decode(ids, skip_special=False) == 'go<|im_end|>'


def words_with(added, **ids):
  """A tokenizer of whole words; `added`: token -> whether it is marked special."""
  words = ['[UNK]', 'the', 'cat', 'system', *added]
  backend = tokenizers.Tokenizer(
      tokenizers.models.WordLevel(
          {word: i for i, word in enumerate(words)}, '[UNK]'
      )
  )
  backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
  for token, special in added.items():
    if special is not None:
      backend.add_tokens(
          [tokenizers.AddedToken(token, special=special, normalized=False)]
      )
  return tokenizer.Tokenizer(
      backend, **{name: words.index(token) for name, token in ids.items()},
      eos_ids=[words.index('<|im_end|>')],
  )  # fmt: skip


@pytest.mark.parametrize('special', [True, False, None])
def test_an_end_token_is_special_whatever_its_file_says(special):
  made = words_with({'<|im_end|>': special})
  ids = [1, 2, 4]
  assert made.control_ids == {4}
  assert made.decode(ids) == 'the cat'
  assert made.decode(ids, skip_special=False) == 'the cat <|im_end|>'
  assert made.encode('the cat<|im_end|>', allow_special=True) == ids
  assert 4 not in made.encode('the cat<|im_end|>')


def test_more_tokens_can_be_marked():
  made = words_with({'<|im_end|>': True, '<|im_start|>': False})
  text = '<|im_start|>system'
  assert made.added_in(text) == {'<|im_start|>': 5}
  assert made.encode(text) == [5, 3]
  marked = made.marking([5])
  assert marked.control_ids == {4, 5}
  assert 5 not in marked.encode(text)
  assert marked.encode(text, allow_special=True) == [5, 3]
  assert marked.decode([5, 3]) == 'system'
  assert marked.marking([5]) is marked


def test_lone_surrogates_are_replaced(tiny):
  assert tiny.decode(tiny.encode('a\ud800b')) == 'a?b'


def test_split_special_keeps_every_character(tiny):
  (end,) = tiny.eos_ids
  text = 'a<|im_end|>\n<|im_end|><|im_'
  assert tiny.split_special(text) == [
      ('a', None),
      ('<|im_end|>', end),
      ('\n', None),
      ('<|im_end|>', end),
      ('<|im_', None),
  ]
  assert tiny.split_special('') == []


def test_a_role_header_costs_three_tokens(tiny):
  for role in ('system', 'user', 'assistant'):
    ids = tiny.encode(f'<|im_start|>{role}\n', allow_special=True)
    assert [tiny.id_to_token(i) for i in ids] == ['<|im_start|>', role, 'Ċ']


def test_role_headers_stay_cheap_in_texts_without_them():
  rng = random.Random(0)
  words = [''.join(rng.choices('bcdfgh', k=6)) for _ in range(200)]
  texts = [' '.join(rng.choices(words, k=2000))]
  made = tokenizer.train_bpe(texts, vocab_size=320)
  assert made.vocab_size == 320  # the texts fill it: words compete
  for role in ('system', 'user', 'assistant'):
    assert len(made.encode(role + '\n')) == 2


def test_digits_are_single_tokens(tiny):
  names = [tiny.id_to_token(i) for i in tiny.encode('ball 123')]
  assert names[-3:] == ['1', '2', '3']


def test_training_is_the_same_in_every_process(tmp_path):
  program = (
      'import hashlib, random\n'
      'from agentrl.text import tokenizer\n'
      'rng = random.Random(0)\n'
      "texts = [' '.join(rng.choices(['ab', 'ba', 'cab', 'abba'], k=50))"
      ' for _ in range(200)]\n'
      'made = tokenizer.train_bpe(texts, 300)\n'
      f'made.save({str(tmp_path)!r})\n'
      f"data = open({str(tmp_path / 'tokenizer.json')!r}, 'rb').read()\n"
      'print(hashlib.sha256(data).hexdigest(), made.vocab_size)'
  )
  outputs = set()
  for seed, threads in (('0', '1'), ('1', '4'), ('2', '2')):
    env = os.environ | {
        'PYTHONHASHSEED': seed,
        'RAYON_NUM_THREADS': threads,
        'PYTHONPATH': os.getcwd(),
    }
    done = subprocess.run(
        [sys.executable, '-c', program],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    outputs.add(done.stdout)
  assert len(outputs) == 1


def test_training_refuses_a_vocabulary_without_room_for_bytes():
  with pytest.raises(ValueError, match='vocab_size >= 259, got 258'):
    tokenizer.train_bpe(['text'], 258)
  with pytest.raises(ValueError, match='specials must have'):
    tokenizer.train_bpe(['text'], 300, specials=['<|im_start|>'])


def test_saved_tokenizer_comes_back(tiny, tmp_path):
  tiny.save(tmp_path)
  back = tokenizer.load(tmp_path)
  for text in STRINGS:
    for allow_special in (False, True):
      ids = tiny.encode(text, allow_special=allow_special)
      assert back.encode(text, allow_special=allow_special) == ids
  assert back.eos_ids == tiny.eos_ids
  assert back.pad_id == tiny.pad_id
  assert back.bos_id is None
  assert back.chat_template is None
  assert back.vocab_size == tiny.vocab_size


def test_transformers_reads_a_saved_tokenizer(smollm, tmp_path):
  transformers = pytest.importorskip(
      'transformers', reason='the reference, Python 3.11 only'
  )
  smollm.save(tmp_path)
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  assert theirs.eos_token_id == 2
  assert theirs.chat_template == smollm.chat_template
  for text in STRINGS:
    expected = theirs(text, add_special_tokens=False)['input_ids']
    assert smollm.encode(text, allow_special=True) == expected


def test_small_gguf_tokenizer(tmp_path):
  made = tokenizer.load(write_gguf(tmp_path / 'a.gguf'))
  names = [made.id_to_token(i) for i in made.encode('abc abx 12 <tool>')]
  # `<tool>` is user-defined, not control: text may hold it.
  assert names == [
      'abc', 'Ġ', 'ab', 'x', 'Ġ', '1', '2', 'Ġ', '<tool>'
  ]  # fmt: skip
  assert made.encode('<|end|>', allow_special=True) == [0]
  assert 0 not in made.encode('<|end|>')


@pytest.mark.parametrize('kind', [1, 3, 4])
def test_the_end_token_of_a_gguf_is_special_whatever_its_type(tmp_path, kind):
  types = [kind, *[1] * 258, 4]
  made = tokenizer.load(write_gguf(tmp_path / 'a.gguf', token_type=types))
  assert made.control_ids == {0}
  assert made.decode([*made.encode('abc'), 0]) == 'abc'
  assert made.encode('abc<|end|>', allow_special=True)[-1] == 0


@pytest.mark.parametrize('adds', [True, False, None])
def test_a_gguf_says_whether_a_prompt_begins_with_bos(tmp_path, adds):
  path = write_gguf(tmp_path / 'a.gguf', bos_token_id=0, add_bos_token=adds)
  made = tokenizer.load(path)
  ids = made.encode('abc')
  assert made.encode('abc', whole=True) == ([0, *ids] if adds else ids)


@pytest.mark.parametrize(
    'pre, expected',
    [('llama-bpe', ['xyz']), ('smollm', ['x', 'y', 'z'])],
)
def test_llama3_takes_words_that_no_merge_reaches(tmp_path, pre, expected):
  letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
  tokens = ['<|end|>', *letters, 'ab', 'abc', 'xyz']
  path = write_gguf(
      tmp_path / 'a.gguf', pre=pre, tokens=tokens, token_type=[3, *[1] * 259]
  )
  made = tokenizer.load(path)
  assert [made.id_to_token(i) for i in made.encode('xyz')] == expected


# Other forms of the same letters, contractions, numbers, blanks, line ends.
ODD = (
    *STRINGS,
    'caf\u0065\u0301 \u1112\u1161\u11ab A\u030angstr\u00f6m',
    "I'LL don't WE'RE 'S \u2019s",
    '1 12 123 1234 12345 \u0663\u0664 x1y22',
    'a\n\nb\r\nc \n d\t\te   f  \n',
    '!!??\n(x)[y]{z}//\n\n',
)
QWEN_SPECIALS = ('<|endoftext|>', '<|im_start|>', '<|im_end|>')


def test_qwen_gguf_gives_the_ids_of_transformers(tmp_path):
  transformers = pytest.importorskip('transformers', reason='the reference')
  backend = tokenizers.Tokenizer(tokenizers.models.BPE())
  backend.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
      add_prefix_space=False
  )
  backend.train_from_iterator(
      [*ODD, *word_marks.TEXTS],
      tokenizers.trainers.BpeTrainer(
          vocab_size=700,
          show_progress=False,
          initial_alphabet=sorted(
              tokenizers.pre_tokenizers.ByteLevel.alphabet()
          ),
      ),
  )
  spec = json.loads(backend.to_str())['model']
  theirs = transformers.Qwen2Tokenizer(
      vocab=spec['vocab'],
      merges=[tuple(pair) for pair in spec['merges']],
      extra_special_tokens=list(QWEN_SPECIALS[1:]),
  )
  tokens = sorted(theirs.get_vocab(), key=theirs.get_vocab().get)
  specials = {*QWEN_SPECIALS, *theirs.all_special_tokens}
  path = write_gguf(
      tmp_path / 'a.gguf',
      pre='qwen2',
      tokens=tokens,
      token_type=[3 if token in specials else 1 for token in tokens],
      merges=[' '.join(pair) for pair in spec['merges']],
      eos_token_id=tokens.index('<|im_end|>'),
  )
  made = tokenizer.load(path)
  for text in ODD:
    expected = theirs(text, add_special_tokens=False)['input_ids']
    assert made.encode(text, allow_special=True) == expected, text
    assert made.decode(made.encode(text)) == unicodedata.normalize('NFC', text)


@pytest.mark.parametrize('mark', ['prepend', 'never'])
def test_a_sentencepiece_gguf_gives_the_ids_of_its_tokenizer_json(
    tmp_path, mark
):
  backend = word_marks.make(mark)
  merges = [''.join(x) for x in json.loads(backend.to_str())['model']['merges']]
  tokens = sorted(backend.get_vocab(), key=backend.get_vocab().get)
  kinds = {'<unk>': 2, '<s>': 3, '</s>': 3}
  path = write_gguf(
      tmp_path / 'a.gguf',
      model='llama',
      pre='default',
      tokens=tokens,
      token_type=[
          kinds.get(token, 6 if token.startswith('<0x') else 1)
          for token in tokens
      ],
      # SentencePiece merges what has the best score; letters have the worst.
      scores=[
          -float(merges.index(token) if token in merges else 10_000)
          for token in tokens
      ],
      merges=None,
      eos_token_id=2,
      bos_token_id=1,
      add_space_prefix=None if mark == 'prepend' else False,
  )
  made = tokenizer.load(path)
  for text in (*ODD, *word_marks.TEXTS[:2], '<s>go</s> left</s>go'):
    expected = backend.encode(text, add_special_tokens=False).ids
    assert made.encode(text, allow_special=True) == expected, text
    if mark == 'prepend':  # else no blank is added that could be taken away
      assert made.decode(expected) == backend.decode(expected)
    assert not {1, 2} & {*made.encode(text)}


def test_llama3_words():
  cut = (
      words.WAYS['llama-bpe']
      .pre_tokenizer()
      .pre_tokenize_str("I'LL pay 12345 dollars!\n\n  ok")
  )
  assert [word for word, _ in cut] == [
      'I', "'LL", 'Ġpay', 'Ġ', '123', '45', 'Ġdollars', '!ĊĊ', 'Ġ', 'Ġok'
  ]  # fmt: skip


def test_unknown_gguf_tokenizers_are_refused(tmp_path):
  path = write_gguf(tmp_path / 'a.gguf', pre='martian')
  with pytest.raises(WeightsError, match="pre 'martian'; known: .*'smollm'"):
    tokenizer.load(path)
  path = write_gguf(tmp_path / 'b.gguf', model='rwkv')
  with pytest.raises(WeightsError, match="model 'rwkv'.*Hugging Face dir"):
    tokenizer.load(path)
  path = write_gguf(tmp_path / 'e.gguf', model='llama')
  with pytest.raises(WeightsError, match=r"no field 'tokenizer\.ggml\.scores"):
    tokenizer.load(path)
  path = write_gguf(tmp_path / 'c.gguf', merges=None)
  with pytest.raises(WeightsError, match=r"no field 'tokenizer\.ggml\.merges"):
    tokenizer.load(path)
  path = write_gguf(tmp_path / 'd.gguf', eos_token_id=None)
  with pytest.raises(
      WeightsError, match='names no end token; .* eos_token_id to gen'
  ):
    tokenizer.load(path)


@pytest.mark.parametrize('size', [0, 3, 8, 100, 3800])
def test_damaged_gguf_is_refused(tmp_path, size):
  path = write_gguf(tmp_path / 'a.gguf')
  path.write_bytes(path.read_bytes()[:size])
  with pytest.raises(WeightsError, match=r'a\.gguf is not a whole GGUF file'):
    tokenizer.load(path)
