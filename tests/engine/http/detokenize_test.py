"""Tests for agentrl.engine.http.detokenize: text that is never taken back."""

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.engine.http.detokenize import GrowingText
from agentrl.engine.request import Request, SamplingParams
from agentrl.text.tokenizer import Tokenizer
from tests.engine.talking import WORDS
from tests.text import word_marks


def grow(ids, steps, tokenizer=WORDS, **params):
  """The texts after each of `steps`, numbers of ids."""
  request = Request('r', (1,), SamplingParams(**params))
  growing = GrowingText(tokenizer, request)
  return [growing.update(ids[:size]) for size in steps]


@given(
    st.lists(st.integers(0, WORDS.vocab_size - 1), min_size=1, max_size=400),
    st.integers(1, 9),
)
@settings(max_examples=60)
def test_every_chunk_begins_the_next_and_none_tears_a_character(ids, stride):
  steps = [*range(stride, len(ids), stride), len(ids)]
  texts = [*grow(ids, steps), WORDS.decode(ids)]
  for before, after in zip(texts, texts[1:], strict=False):
    assert after.startswith(before)
    assert not before.endswith('\ufffd')
  # Nothing is held back but what may still be half of a character.
  assert texts[-2] == texts[-1].rstrip('\ufffd')


BYTES = Tokenizer(word_marks.make('first'), eos_ids=[2])
LETTERS = [BYTES.token_to_id(f'<0x{byte:02X}>') for byte in range(256)]


@given(
    st.lists(
        st.sampled_from(['go', ' left', '\N{SNOWMAN}', '\n', 'A', None, 2]),
        max_size=200,
    ),
    st.lists(st.sampled_from([0x41, 0xE2, 0x98, 0x83, 0xFF, 0x0A]), max_size=9),
    st.integers(1, 9),
    st.booleans(),
)
@settings(max_examples=100)
def test_bytes_of_an_invalid_run_are_never_taken_back(
    parts, end, stride, skip_special
):
  ids = []
  for part in parts:
    if part is None:  # half a character
      ids += [LETTERS[0xE2], LETTERS[0x98]]
    else:
      ids += [part] if isinstance(part, int) else BYTES.encode(part)
  ids += [LETTERS[byte] for byte in end]
  steps = [*range(stride, len(ids), stride), len(ids)]
  whole = BYTES.decode(ids, skip_special=skip_special)
  texts = [
      *grow(ids, steps, BYTES, skip_special_tokens=skip_special),
      whole,
  ]
  for before, after in zip(texts, texts[1:], strict=False):
    assert after.startswith(before)


def test_bytes_wait_for_the_end_of_their_run():
  go = BYTES.encode('go')
  valid = [LETTERS[byte] for byte in '\N{SNOWMAN}A'.encode()]
  ids = [*go, *valid, *go]
  texts = grow(ids, range(1, len(ids) + 1), BYTES)
  assert set(texts[len(go) - 1 : -len(go)]) == {BYTES.decode(go)}
  assert texts[-1] == BYTES.decode(ids)
  broken = [*go, *valid, LETTERS[0xFF]]
  assert BYTES.decode(broken).endswith('\ufffd' * 5)
  assert BYTES.decode(broken).startswith(grow(broken, [5, 6], BYTES)[-1])


def test_a_character_of_several_tokens_comes_whole():
  ids = WORDS.encode('a\N{SNOWMAN}\N{BLACK STAR}')
  texts = grow(ids, range(1, len(ids) + 1))
  assert len(ids) == 5  # the star was not in the tokenizer's texts
  assert set(texts) == {'a', 'a\N{SNOWMAN}', 'a\N{SNOWMAN}\N{BLACK STAR}'}


@pytest.mark.parametrize(
    'keep, held', [(False, 'the cat'), (True, 'the cat sa')]
)
def test_what_may_become_a_stop_string_waits(keep, held):
  ids = WORDS.encode('the cat sa')
  (text,) = grow(ids, [len(ids)], stop=(' sat', 'x'), no_stop_trim=keep)
  assert text == held
  longer = WORDS.encode('the cat sad')
  (text,) = grow(longer, [len(longer)], stop=(' sat', 'x'))
  assert text == 'the cat sad'
