"""Tests for agentrl.engine.stops: which patterns are served, where they stop."""

import re
import time

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.engine import stops
from agentrl.engine.stops import StopPatterns
from tests.engine.http import WORDS


@given(
    st.lists(st.integers(0, WORDS.vocab_size - 1), max_size=150),
    st.sampled_from([r'c.t', r's[aeiou]t', r'at\b', r'm.{0,3}t', '[☃é] ?']),
)
@settings(max_examples=60)
def test_a_pattern_stops_at_the_first_token_that_completes_it(ids, pattern):
  finder = StopPatterns([pattern], WORDS, True)
  found = next((i for i, t in enumerate(ids) if finder.feed(t)), None)
  text = lambda i: WORDS.decode(ids[: i + 1]).rstrip('\ufffd')
  expected = next(
      (i for i in range(len(ids)) if re.search(pattern, text(i))), None
  )
  assert found == expected


def test_a_caret_is_the_beginning_of_the_output_only():
  def found(text):
    finder = StopPatterns(['^[^x]'], WORDS, True)
    return any(finder.feed(i) for i in WORDS.encode(text))

  assert found('the cat')
  # Long enough for the window to move on, and to begin with another letter.
  assert not found('x' + 'the cat sat on ' * 100)


def test_a_match_far_into_the_output_is_found():
  finder = StopPatterns([r'mat.{5}the'], WORDS, True)
  ids = WORDS.encode('the cat sat on ' * 40 + 'mat 1234the cat')
  found = [i for i, t in enumerate(ids) if finder.feed(t)]
  assert WORDS.decode(ids[: found[0] + 1]).rstrip().endswith('mat 1234the')


@pytest.mark.parametrize(
    'pattern, reason',
    [
        ('(', 'no regular expression'),
        ('', '1 to 256 bytes'),
        ('a' * 257, 'got 257'),
        ('a*', 'matches nothing'),
        ('(a+)+b', 'repeats a group'),
        ('(?:a|aa)*b', 'repeats a group'),
        ('(a|b){2,}', 'repeats a group'),
        ('.*.*.*x', 'too long'),
        (r'(a)\1', 'too long'),
        ('a?' * 9 + 'b', 'too long'),
    ],
)
def test_patterns_that_cannot_be_served_are_refused(pattern, reason):
  with pytest.raises(ValueError, match=reason):
    stops.check([pattern])


@pytest.mark.parametrize(
    'pattern', [r'</action>', r'[\w)*+]+\s*\n', r'\(a\)*b', '(?:yes|no)!']
)
def test_ordinary_patterns_are_served(pattern):
  stops.check([pattern])


def test_the_worst_pattern_that_is_served_ends():
  stops.check(['[ab]*[ab]*c'])
  finder = StopPatterns(['[ab]*[ab]*c'], WORDS, True)
  start = time.thread_time()  # others may use the processor meanwhile
  ids = WORDS.encode('ab' * 64)
  for token in ids:
    assert finder.feed(token) is None
  assert (time.thread_time() - start) / len(ids) < 0.25
