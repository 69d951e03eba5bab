"""Tests of every kind of GGUF tokenizer: ids against Hugging Face's.

The merges of the tests run across words, so that an id tells where text was cut.
"""

import io
import itertools
import json

import pytest
import tokenizers
from hypothesis import given, settings, strategies as st
from tokenizers import (
    AddedToken,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from agentrl.errors import WeightsError
from agentrl.text import tokenizer, words
from tests.text import word_marks
from tests.text.tokenizer_test import ODD, write_gguf

HOSTILE = (
    *ODD,
    "I'LL WE'RE don't O'Neil's \u2019tis 'quoted' '' 'x 'S's'T",
    'HelloWorld parseHTTPResponse XMLHttp2 iPhone McDonald ÉCOLE école ǅ ʰ',
    (
        '0 00 000 0000 1234567 3.14 1,000 x1y2 \u0661\u0662\u0663\u0664'
        ' \u00b2\u00bd \u2167'
    ),
    '我在apple工作1314151天～ ひらがなカタカナ漢字 한국어 テスト。、！',
    '👩‍👩‍👧‍👦🇫🇷 ☃️ 1️⃣ \u200d\u200b\ufeff',
    (
        'e\u0301 o\u0302\u0323 \u0928\u0940\u091a\u0947 ا\u064eل ก\u0e37\u0e48อ'
        ' \u0301x \u0301\u0302'
    ),
    'a  b   c    d\t\te \t f\u00a0g\u3000h \n',
    'a\nb\r\nc\n\n\nd \n \n  e\r\r\n\n',
    '   \n   \n\t\n',
    'def f(x):\n\treturn {"a": [1, -2]} // #!/bin\n/\n\n#include <x>\r\n',
    '!!! ?? ...\n... --->>> <<== $5.00 €7 #tag @me a_b_c __x__ \\n `q` ~^|',
    '!word #tag (x)[y]{z} -flag --flag /path/to C:\\x http://a.b/c?d=e&f',
    '<|end|> <tool> <| end |>',
    'Qzqz Qzqz.Qzqz',
)
_FRAGMENTS = [
    *(
        "'s",
        "'LL",
        ' ',
        '  ',
        '\t',
        '\n',
        '\r\n',
        '/',
        '.',
        '!!',
        '_',
        '#',
        '$',
    ),
    *(
        'a',
        'Ab',
        'ABC',
        'é',
        'e\u0301',
        '\u0301',
        'ǅ',
        'ʰ',
        '1',
        '123',
        '½',
        '٣',
    ),
    *(
        '漢',
        'かな',
        '한',
        '。',
        '👩‍👧',
        '\u00a0',
        '\u200d',
        '\x00',
        'ß',
        'Σ',
        'न\u0940',
    ),
]
TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(_FRAGMENTS), max_size=30).map(''.join),
)
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS = r'\s*[\r\n]+|\s+(?!\S)|\s+'
# From the tokenizer.json of the models in the comments; transformers has the others
# in code.
_SEED_OSS = (
    _CONTRACTIONS
    + r'|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|'
    + _BLANKS
)
_HUNYUAN = (
    r'\p{N}{1,3}',
    '[一-龥\u3040-ゟ゠-ヿ]+',
    '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+'
    r'|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|' + _BLANKS,
)
_GPT4 = (
    _CONTRACTIONS
    + r'|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|'
    + _BLANKS
)
# pre -> expressions (none: GPT-2's), and the other steps of the model's own.
PUBLISHED = {
    'gpt-2': ((), {}),
    'olmo': ((), {'nfc'}),  # GPT-NeoX's
    'smollm': ((), {'digits'}),
    'refact': ((), {'digits'}),  # Granite 3.3
    'starcoder': ((), {'digits'}),
    'glm4': ((_GPT4,), {}),  # GLM-4-0414
    'chatglm-bpe': ((_GPT4,), {}),
    'seed-coder': ((_SEED_OSS,), {}),  # Seed-OSS
    'hunyuan-dense': (_HUNYUAN, {}),  # Hunyuan-4B-Instruct
    'deepseek-v3': (_HUNYUAN, {}),
}
# Of those whose expressions transformers has.
_STEPS = {
    'qwen2': {'nfc'},
    'deepseek-r1-qwen': {'nfc'},
    'qwen35': {'nfc'},
    **dict.fromkeys(
        (
            *('llama-bpe', 'llama3', 'llama-v3', 'smaug-bpe', 'pixtral'),
            *('lfm2', 'tekken'),
        ),
        {'whole'},
    ),
    'dbrx': {},
    'gpt-4o': {},
}


def published(pre):
  """The expressions and the other steps of a kind."""
  if pre in PUBLISHED:
    return PUBLISHED[pre]
  module = pytest.importorskip(
      'transformers.integrations.gguf.gguf_tokenizer_mapping',
      reason='the reference of this expression',
  )
  return (module.GGUF_PRE_TOKENIZER_SPLITS[pre],), _STEPS[pre]


@pytest.fixture(scope='module', name='model')
def _model():
  """Vocabulary and merges learnt across all borders of words."""
  backend = tokenizers.Tokenizer(models.BPE())
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(
      add_prefix_space=False, use_regex=False
  )
  trainer = trainers.BpeTrainer(
      vocab_size=1500,
      min_frequency=1,
      show_progress=False,
      initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
  )
  added = ('Qzqz', 'ĠQzqz', '<|end|>', '<tool>')
  texts = [x for x in HOSTILE if not any(token in x for token in added)]
  nfc = [normalizers.NFC().normalize_str(x) for x in texts]
  backend.train_from_iterator([*texts, *nfc], trainer)
  spec = json.loads(backend.to_str())['model']
  vocab = spec['vocab']
  for token in added:  # no merges reach these
    vocab[token] = len(vocab)
  return vocab, [tuple(pair) for pair in spec['merges']]


def reference(pre, model):
  """The tokenizer as a tokenizer.json describes it."""
  patterns, steps = published(pre)
  vocab, merges = model
  backend = tokenizers.Tokenizer(
      models.BPE(vocab=vocab, merges=merges, ignore_merges='whole' in steps)
  )
  if 'nfc' in steps:
    backend.normalizer = normalizers.NFC()
  cuts = [pre_tokenizers.Digits(individual_digits=True)] * ('digits' in steps)
  cuts += [
      pre_tokenizers.Split(
          tokenizers.Regex(pattern), behavior='isolated', invert=False
      )
      for pattern in patterns
  ]
  cuts.append(
      pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not patterns)
  )
  backend.pre_tokenizer = pre_tokenizers.Sequence(cuts)
  backend.add_special_tokens([AddedToken('<|end|>', normalized=False)])
  backend.add_tokens([AddedToken('<tool>', normalized=False)])
  return backend


def load(path, pre, model):
  """Our tokenizer of a file as llama.cpp's converter writes it."""
  vocab, merges = model
  tokens = sorted(vocab, key=vocab.get)
  kinds = {'<|end|>': 3, '<tool>': 4}
  write_gguf(
      path,
      pre=pre,
      tokens=tokens,
      token_type=[kinds.get(token, 1) for token in tokens],
      merges=[' '.join(pair) for pair in merges],
      eos_token_id=vocab['<|end|>'],
  )
  return tokenizer.load(path)


@pytest.mark.parametrize('pre', words.WAYS)
def test_ids_are_those_of_the_published_tokenizer(pre, model, tmp_path):
  theirs = reference(pre, model)
  ours = load(tmp_path / 'a.gguf', pre, model)
  encode = lambda text: theirs.encode(text, add_special_tokens=False).ids
  for text in HOSTILE:
    assert ours.encode(text, allow_special=True) == encode(text), text
    # As the decoder of a tokenizer.json does, control tokens left out.
    assert len(ours.decode(encode(text))) >= len(text) // 2

  @given(text=TEXTS)
  @settings(max_examples=100, deadline=None)
  def check(text):
    assert ours.encode(text, allow_special=True) == encode(text)

  check()


def test_hostile_texts_tell_every_two_ways_apart(model, tmp_path):
  """Else the test above would pass with one for the other."""
  ids = {}
  for pre, way in words.WAYS.items():
    if way not in ids:
      ours = load(tmp_path / f'{pre}.gguf', pre, model)
      ids[way] = [ours.encode(text) for text in HOSTILE]
  assert len(ids) == 11
  for one, other in itertools.combinations(ids, 2):
    assert ids[one] != ids[other], (one, other)


@pytest.mark.parametrize('pre', ['default', None])
def test_a_file_that_does_not_say_how_it_cuts_is_refused(pre, tmp_path):
  path = write_gguf(tmp_path / 'a.gguf', pre=pre)
  with pytest.raises(
      WeightsError, match='pre .*; known: .*tekken.* the file anew with .*llama'
  ):
    tokenizer.load(path)


# Gemma's: runs of blanks and of line ends, and tags, are tokens of the user's.
_USERS = ['\n\n', '\n\n\n', '▁▁', '▁▁▁', '▁▁▁▁', '<td>', '[multimodal]']
_GEMMA_CONTROL = ['<pad>', '<eos>', '<bos>', '<unk>', '<mask>']


@pytest.fixture(scope='module', name='pieces')
def _pieces():
  """Pieces and scores of a SentencePiece BPE with Gemma's settings."""
  sentencepiece = pytest.importorskip('sentencepiece')
  out = io.BytesIO()
  lines = [line for text in HOSTILE * 3 for line in text.split('\n') if line]
  sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(lines),
      model_writer=out,
      model_type='bpe',
      vocab_size=1000,
      byte_fallback=True,
      add_dummy_prefix=False,
      remove_extra_whitespaces=False,
      normalization_rule_name='identity',
      split_digits=True,
      allow_whitespace_only_pieces=True,
      hard_vocab_limit=False,
      user_defined_symbols=['<mask>', *_USERS],
      pad_id=0, eos_id=1, bos_id=2, unk_id=3,
      pad_piece='<pad>', eos_piece='<eos>', bos_piece='<bos>',
      minloglevel=2,
  )  # fmt: skip
  model = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
  count = model.get_piece_size()
  return [(model.id_to_piece(i), model.get_score(i)) for i in range(count)]


def gemma_of_transformers(pieces):
  """The tokenizer that transformers makes of Gemma's SentencePiece model."""
  transformers = pytest.importorskip('transformers')
  base = pytest.importorskip('transformers.tokenization_utils_base')
  vocab = {piece: i for i, (piece, _) in enumerate(pieces)}
  merges = base.generate_merges(vocab, None)
  theirs = transformers.GemmaTokenizer(vocab=vocab, merges=merges)
  theirs.add_tokens([AddedToken(x, normalized=True) for x in _USERS])
  return theirs, merges


def gemma_file(path, pieces, architecture, **fields):
  """A file as llama.cpp's converter writes it of Gemma's model."""

  def token_type(piece):
    if piece == '<unk>':
      return 2
    if piece in _GEMMA_CONTROL:
      return 3
    if piece in _USERS:
      return 4
    return 6 if piece.startswith('<0x') else 1

  users = {*_USERS, *_GEMMA_CONTROL}
  write_gguf(
      path,
      architecture=architecture,
      # Marks of the user's tokens become blanks.
      tokens=[x.replace('▁', ' ') if x in users else x for x, _ in pieces],
      token_type=[token_type(piece) for piece, _ in pieces],
      scores=[-1000.0 if x in users else score for x, score in pieces],
      eos_token_id=1,
      bos_token_id=2,
      add_space_prefix=False,
      **fields,
  )
  return tokenizer.load(path)


def check_gemma(ours, theirs):
  for text in (*HOSTILE, 'a▁▁b', 'x\n\n\n\n\n  y      z<td> <bos>'):
    expected = theirs(text, add_special_tokens=False)['input_ids']
    assert ours.encode(text, allow_special=True) == expected, text
    assert ours.decode(expected) == theirs.decode(
        expected, skip_special_tokens=True
    )

  @given(text=TEXTS)
  @settings(max_examples=100, deadline=None)
  def check(text):
    expected = theirs(text, add_special_tokens=False)['input_ids']
    assert ours.encode(text, allow_special=True) == expected

  check()


@pytest.mark.parametrize('ordered', [True, False])
def test_gemma_3_gives_the_ids_of_transformers(pieces, tmp_path, ordered):
  theirs, _ = gemma_of_transformers(pieces)
  if not ordered:  # Gemma's scores are not in the order of its merges
    pieces = [(x, -float(i * 7919 % 1009)) for i, (x, _) in enumerate(pieces)]
  ours = gemma_file(
      tmp_path / 'a.gguf',
      pieces,
      'gemma3',
      model='llama',
      pre='default',
      merges=None,
  )
  check_gemma(ours, theirs)


def test_gemma_4_gives_the_ids_of_transformers(pieces, tmp_path):
  theirs, merges = gemma_of_transformers(pieces)
  ours = gemma_file(
      tmp_path / 'a.gguf',
      pieces,
      'gemma4',
      model='gemma4',
      pre=None,
      merges=[' '.join(pair) for pair in merges],
  )
  check_gemma(ours, theirs)


@pytest.mark.parametrize('architecture', ['phi3', 'llama'])
def test_control_tokens_of_phi_3_take_the_blanks_behind_them(
    architecture, tmp_path
):
  """As those of its tokenizer.json, which have rstrip."""
  backend = word_marks.make('prepend', ('<|endoftext|>', '<|user|>', '<|end|>'))
  merges = json.loads(backend.to_str())['model']['merges']
  merges = [''.join(pair) for pair in merges]
  tokens = sorted(backend.get_vocab(), key=backend.get_vocab().get)
  control = tokens[1:6]
  takers = [x for x in control if x not in ('<s>', '<|endoftext|>')]
  backend.add_special_tokens([
      AddedToken(x, normalized=False, rstrip=architecture == 'phi3')
      for x in takers
  ])
  path = write_gguf(
      tmp_path / 'a.gguf',
      architecture=architecture,
      model='llama',
      pre='default',
      tokens=tokens,
      token_type=[
          2 if x == '<unk>' else 3 if x in control else 6 if '<0x' in x else 1
          for x in tokens
      ],
      scores=[
          -float(merges.index(x) if x in merges else 10_000) for x in tokens
      ],
      merges=None,
      eos_token_id=tokens.index('<|end|>'),
  )
  ours = tokenizer.load(path)
  for text in (
      '<s><|user|>\ngo left<|end|>\n<|user|> \n  go',
      '<|endoftext|> \n go<|end|>\t.</s>  x',
      *ODD,
  ):
    expected = backend.encode(text, add_special_tokens=False).ids
    assert ours.encode(text, allow_special=True) == expected, text
  short = ours.encode('<|user|>go', allow_special=True)
  spaced = ours.encode('<|user|> \n go', allow_special=True)
  assert (short == spaced) == (architecture == 'phi3')
