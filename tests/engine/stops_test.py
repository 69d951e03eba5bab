"""Tests for agentrl.engine.stops: strings and patterns, and where they stop."""

import re
import time

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.engine import stops
from agentrl.engine.stops import StopPatterns, StopStrings
from tests.engine.talking import WORDS


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
        ('', '1 to 256 bytes'),
        ('a' * 257, 'got 257'),
        ('a*', 'matches nothing'),
        ('(', 'missing [)]'),
        (r'(a)\1', 'RE2.*references'),
        ('(?=a)b', 'RE2.*lookaround'),
        # These three took for ever under Python's re.
        ('(?x)(a+) +b', 'RE2.*[(][?]x[)]'),
        ('(?x:(a+) +b)', 'RE2.*[(][?]x[)]'),
        ('(?x)(a|aa)\n+b', 'RE2.*[(][?]x[)]'),
        ('((a?b?){1,31}){1,31}c', '6793 instructions'),
        (r'\pL{200}x', 'too large'),
        ('a\ud800', 'is no text'),
    ],
)
def test_patterns_that_cannot_be_served_are_refused(pattern, reason):
  with pytest.raises(ValueError, match=reason) as refused:
    stops.check([pattern])
  assert not pattern or repr(pattern) in str(refused.value) or len(pattern) > 99


def test_all_patterns_of_a_request_share_a_limit():
  pattern = '[ab]{0,400}c'
  stops.check([pattern])
  with pytest.raises(ValueError, match='4000 are allowed'):
    stops.check([pattern] * 6)


@pytest.mark.parametrize(
    'pattern, text',
    [
        (r'</action>', 'a</action>'),
        (r'[\w)*+]+\s*\n', 'a)\n'),
        (r'\(a\)*b', '(a))b'),
        ('(?:yes|no)!', 'no!'),
        # Python's re may take for ever, RE2 does not.
        ('(?:a|the)*b', 'atheb'),
        ('(a|b){2,}', 'xab'),
        ('.*.*.*x', 'cat x'),
        ('a?' * 9 + 'b', 'aab'),
        ('(?P<name>a)b', 'ab'),
        (r'(?i)MAT\z', 'the mat'),
    ],
)
def test_patterns_are_served(pattern, text):
  stops.check([pattern])
  finder = StopPatterns([pattern], WORDS, True)
  assert pattern in [finder.feed(i) for i in WORDS.encode(text)]


def test_a_window_that_moves_on_makes_no_word_boundary():
  finder = StopPatterns([r'\b[abt]'], WORDS, True)
  assert not any(finder.feed(i) for i in WORDS.encode('x' + 'tab' * 999))


@pytest.mark.parametrize(
    'pattern',
    ['(a+)+b', '(a|b)*c', '(a|aa)+c', '[ab]*[ab]*[ab]*c', '(a|b)*a(a|b){200}c'],
)
def test_time_is_linear_in_the_tokens(pattern):
  stops.check([pattern])
  finder = StopPatterns([pattern], WORDS, True)
  ids = WORDS.encode('a' * 2400)
  assert len(ids) > 2000
  start = time.thread_time()  # others may use the processor meanwhile
  for token in ids:
    assert finder.feed(token) is None
  assert (time.thread_time() - start) / len(ids) < 0.02


@given(
    st.lists(st.integers(0, WORDS.vocab_size - 1), max_size=150),
    st.lists(
        st.sampled_from(['a', 'cat', ' sat', 'at o', '\N{SNOWMAN}', 'é c']),
        min_size=1,
        unique=True,
    ),
)
@settings(max_examples=60)
def test_stop_strings_are_found_at_the_first_token_that_completes_one(
    ids, stops
):
  finder = StopStrings(stops, WORDS, True)
  found = next((i for i, t in enumerate(ids) if finder.feed(t)), None)
  expected = next(
      (
          i
          for i in range(len(ids))
          if any(stop in WORDS.decode(ids[: i + 1]) for stop in stops)
      ),
      None,
  )
  assert found == expected


@pytest.mark.parametrize(
    'find, stop', [(StopStrings, 'cat' * 9), (StopPatterns, 'cat{9}')]
)
@pytest.mark.parametrize('kind', ['skipped', 'torn'])
def test_a_window_has_a_bound_whatever_is_sampled(find, stop, kind):
  finder = find([stop], WORDS, True)
  token = WORDS.encode('\N{SNOWMAN}')[0]
  if kind == 'skipped':
    token = WORDS.token_to_id('<|im_start|>')
  for _ in range(5000):
    assert finder.feed(token) is None
  assert len(finder._window._ids) <= 8 * stops.MAX_MATCH
  found = [finder.feed(i) for i in WORDS.encode('cat' * 9 + 'tttttttt')]
  assert any(found)


def test_a_torn_character_counts_once_it_is_whole():
  ids = WORDS.encode('x\N{SNOWMAN}')[1:]
  finder = StopStrings(['\N{SNOWMAN}'], WORDS, True)
  assert len(ids) > 1  # several bytes, several tokens
  assert [finder.feed(i) for i in ids] == [None] * (len(ids) - 1) + [
      '\N{SNOWMAN}'
  ]
