"""Tests for agentrl.text.token_bytes."""

import copy
import json
import sys
import unicodedata

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.text import token_bytes, tokenizer

WORDS = tokenizer.train_bpe(
    ['the cat sat on the mat', 'naïve \N{SNOWMAN}'], 330
)
SPEC = json.loads(WORDS._backend.to_str())
STRIP = {'type': 'Strip', 'strip_left': True, 'strip_right': True}


def changed(**changes):
  return copy.deepcopy(SPEC) | changes


@given(st.text() | st.text('the cat sat on') | st.just('<|im_end|>' * 40))
@settings(max_examples=200)
def test_no_token_stands_for_more(text):
  for allow_special in (False, True):
    count = len(WORDS.encode(text, allow_special=allow_special))
    assert WORDS.bound.least_tokens(text) <= count


def test_the_bound_is_that_of_the_longest_token():
  assert WORDS.bound == token_bytes.Bound(len('<|im_start|>'))
  spec = changed(added_tokens=[])
  names = [name for name in SPEC['model']['vocab'] if '<|' not in name]
  spec['model']['vocab'] = dict.fromkeys(names, 0)
  assert token_bytes.bound(spec).most == max(map(len, names)) < 12


def test_bytes_that_the_vocabulary_lacks_count_as_nothing(smollm):
  assert 16 <= smollm.bound.most <= 200
  assert smollm.bound.lost == b'\x04\x06\x13\x14\x16\x1d\xf1\xf2'
  for lost in ('\x04', '\x1d'):
    assert not smollm.encode(lost * 99)
    assert smollm.bound.least_tokens(lost * 99) == 0
  for kept in map(chr, range(256)):
    if kept.encode()[0] not in smollm.bound.lost:
      assert smollm.encode(kept)


def test_the_bound_of_normal_forms_is_one():
  for code in range(sys.maxunicode + 1):
    if not 0xD800 <= code < 0xE000:
      letter = chr(code)
      whole = len(unicodedata.normalize('NFC', letter).encode())
      apart = unicodedata.normalize('NFD', letter).encode()
      most = max(len(letter.encode()), len(apart))
      assert most <= token_bytes._NFC * whole
  nfc = changed(normalizer={'type': 'NFC'})
  assert token_bytes.bound(nfc).most == 4 * WORDS.bound.most


def test_fallback_to_bytes_has_a_bound():
  spaces = {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}
  gemma = changed(
      normalizer={'type': 'Sequence', 'normalizers': [spaces]},
      pre_tokenizer={
          'type': 'Split',
          'pattern': {'String': ' '},
          'behavior': 'MergedWithPrevious',
          'invert': False,
      },
  )
  assert token_bytes.bound(gemma) is None  # a letter may have no token
  gemma['model']['byte_fallback'] = True
  gemma['model']['vocab'] = {f'<0x{i:02X}>': i for i in range(256)}
  gemma['model']['vocab'] |= {'▁' * 8: 256}
  assert token_bytes.bound(gemma) == token_bytes.Bound(24)


@pytest.mark.parametrize(
    'changes',
    [
        {'model': SPEC['model'] | {'type': 'WordPiece'}},
        {'normalizer': STRIP},
        {'normalizer': {'type': 'Sequence', 'normalizers': [STRIP]}},
        {
            'normalizer': {
                'type': 'Replace',
                'pattern': {'Regex': ' +'},
                'content': ' ',
            }
        },
        {'pre_tokenizer': {'type': 'WhitespaceSplit'}},
        {'pre_tokenizer': None},
        {'added_tokens': [SPEC['added_tokens'][0] | {'rstrip': True}]},
        {'model': SPEC['model'] | {'vocab': {'a': 0}, 'unk_token': 'a'}},
    ],
)
def test_what_may_swallow_text_has_no_bound(changes):
  assert token_bytes.bound(changed(**changes)) is None


def test_numbers_that_are_no_ids_decode_to_nothing():
  ids = WORDS.encode('the cat')
  for number in (-1, WORDS.vocab_size, 2**32, 10**30):
    assert WORDS.decode([number, *ids, number]) == 'the cat'


def test_long_texts_encode_like_short_ones():
  text = 'the cat sat on the mat, naïve <|im_end|> ' * 2000
  assert len(text) > tokenizer.LONG
  for allow_special in (False, True):
    whole = WORDS.encode(text, allow_special=allow_special)
    backend = WORDS._backend if allow_special else WORDS._plain
    assert whole == backend.encode(text, add_special_tokens=False).ids
