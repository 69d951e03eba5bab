"""Tests for agentrl.engine.http.detokenize: text that is never taken back."""

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.engine.http.detokenize import GrowingText
from agentrl.engine.request import Request, SamplingParams
from tests.engine.talking import WORDS


def grow(ids, steps, **params):
  """The texts after each of `steps`, numbers of ids."""
  request = Request('r', (1,), SamplingParams(**params))
  growing = GrowingText(WORDS, request)
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
