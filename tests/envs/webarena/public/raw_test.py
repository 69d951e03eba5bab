"""Tests for the original's evaluators."""

import asyncio
import threading

import pytest
from hypothesis import given, strategies as st

from agentrl.envs.webarena.public import raw

TEXTS = st.text(st.characters(codec='ascii'), max_size=20)


def answer_score(references, answer, judge=None, reason='there is none'):
  return asyncio.run(
      raw.of_answer(
          references, answer, intent='Who?', reason=reason, judge=judge
      )
  )


@pytest.mark.parametrize(
    'text,cleaned',
    [
        ('  Ann ', 'ann'),
        ("'Ann'", 'ann'),
        ('"Ann"', 'ann'),
        ('"\'Ann\'"', "'ann'"),  # one pair
        ('"Ann', '"ann'),
        ('"Ann\'', '"ann\''),
        ('', ''),
        ('"', ''),
    ],
)
def test_case_spaces_and_a_pair_of_quotes_do_not_count(text, cleaned):
  assert raw.clean(text) == cleaned


@pytest.mark.parametrize(
    'reference,answer,score',
    [
        ('Ann Lee', 'ann lee', 1),
        ('Ann Lee', '"Ann Lee"', 1),
        ('Ann Lee', 'Ann  Lee', 0),
        ('Ann Lee', 'Ann Lee.', 0),
        ('Ann Lee', 'It is Ann Lee', 0),
        ('N/A', 'n/a', 1),
        ('N/A', '', 0),
    ],
)
def test_exact_match(reference, answer, score):
  assert answer_score({'exact_match': reference}, answer) == score


@pytest.mark.parametrize(
    'references,answer,score',
    [
        (['Ann', 'Bob'], 'bob and ann', 1),
        (['Ann', 'Bob'], 'ann', 0),
        (['Ann'], 'Joanna', 1),  # a part of a word is enough,
        (['5'], '15', 0),  # but not for the one reference of one character
        (['5'], '5 stars', 1),
        (['5'], '$5.', 1),
        (['5'], 'there are 5', 1),
        (['5', '7'], '15 and 17', 1),
        (['0'], '0.5', 0),
        (['12'], '312', 1),
    ],
)
def test_must_include(references, answer, score):
  assert answer_score({'must_include': references}, answer) == score


def test_all_comparisons_count():
  references = {'must_include': ['ann'], 'exact_match': 'ann lee'}
  assert answer_score(references, 'Ann Lee') == 1
  assert answer_score(references, 'Lee, Ann') == 0


@given(TEXTS, TEXTS, TEXTS)
def test_what_is_around_a_word_takes_it_not_away(before, text, after):
  # A quote could be one of a pair around it all.
  assert raw.includes(text, f'({before}{text}{after})') or text[:1] in '\'"'


@given(TEXTS)
def test_equal_texts_include_each_other(text):
  assert raw.equal(text, f' {text.upper()} ')
  assert raw.includes(text, text)


# --- judges


def asked(verdict, log):
  def judge(*question):
    log.append(question)
    return verdict

  return judge


@pytest.mark.parametrize('references', [['Ann'], 'N/A'])
def test_without_a_judge_fuzzy_match_is_refused(references):
  with pytest.raises(ValueError, match='needs a judge'):
    answer_score({'fuzzy_match': references}, 'nobody')


@pytest.mark.parametrize(
    'references,verdict,answer,score,questions',
    [
        (
            ['Ann', 'Bob'],
            True,
            'A',
            1,
            [('Who?', x, 'a') for x in ('Ann', 'Bob')],
        ),
        (['Ann'], False, 'A', 0, [('Who?', 'Ann', 'a')]),
        # The literal answer is right, and asks nobody.
        ('N/A', False, ' n/a', 1, []),
        ('N/A', True, 'Nobody', 1, [('Who?', 'there is none', 'nobody')]),
        ('N/A', False, 'Nobody', 0, [('Who?', 'there is none', 'nobody')]),
    ],
)
def test_fuzzy_match(references, verdict, answer, score, questions):
  log = []
  judge = asked(verdict, log)
  assert answer_score({'fuzzy_match': references}, answer, judge) == score
  assert log == questions


def test_a_judge_may_wait_and_holds_nobody_up():
  async def judge(*question):
    await asyncio.sleep(0)
    return question[2] == 'ann'

  def blocking(*question):
    del question
    return threading.current_thread() is not threading.main_thread()

  assert answer_score({'fuzzy_match': ['Ann']}, 'Ann', judge) == 1
  assert answer_score({'fuzzy_match': ['Ann']}, 'Bob', judge) == 0
  assert answer_score({'fuzzy_match': ['Ann']}, 'Bob', blocking) == 1


@pytest.mark.parametrize('verdict', ['no', None, 1, 0.5, ['yes']])
def test_a_verdict_is_true_or_false(verdict):
  with pytest.raises(ValueError, match='must return True or False'):
    answer_score({'fuzzy_match': ['Ann']}, 'Bob', lambda *_: verdict)


# --- addresses


@pytest.mark.parametrize(
    'reference,url,score',
    [
        ('http://x.test/f/books', 'http://x.test/f/books', 1),
        ('http://x.test/f/books', 'http://x.test/f/books/', 1),
        ('http://x.test/f/books/', 'http://x.test/f/books', 1),
        ('http://x.test/f/books', 'http://x.test/f/books?sort=new', 1),
        ('http://x.test/f/books', 'http://x.test/f/books/1/more', 1),
        ('http://x.test/f/books', 'https://x.test/f/books', 1),
        ('http://x.test/f/books', 'http://x.test/f/book', 0),
        ('http://x.test/f/books', 'http://other.test/f/books', 0),
        ('http://x.test/f/books', 'http://o.test/?to=http://x.test/f/books', 0),
        ('http://x.test/f/books', 'chrome-error://chromewebdata/', 0),
        ('http://x.test/f/books', 'about:blank', 0),
        # Each parameter must have its value, in any order.
        ('http://x.test/?a=1&b=2', 'http://x.test/?b=2&a=1&c=3', 1),
        ('http://x.test/?a=1&b=2', 'http://x.test/?a=1', 0),
        ('http://x.test/?a=1', 'http://x.test/?a=2&a=1', 1),
        ('http://x.test/?a=1', 'http://x.test/?a=2', 0),
        ('http://x.test/?q=a%20b', 'http://x.test/?q=a+b', 1),
        # Of several, one path; a value of any.
        ('http://x.test/a |OR| http://x.test/b', 'http://x.test/b', 1),
        ('http://x.test/a |OR| http://x.test/b', 'http://x.test/c', 0),
        (
            'http://x.test/a?n=1 |OR| http://x.test/b?n=2',
            'http://x.test/a?n=2',
            1,
        ),
        ('http://x.test/a?n=1 |OR| http://x.test/b', 'http://x.test/b', 0),
    ],
)
def test_url_match(reference, url, score):
  assert raw.of_url(reference, url) == score


PATHS = st.lists(
    st.text(st.sampled_from('abcz09-_'), min_size=1), max_size=4
).map('/'.join)


@given(PATHS, PATHS, st.booleans())
def test_an_address_is_itself_and_what_is_under_it(path, more, slash):
  reference = f'http://x.test/{path}'
  url = f'{reference}/{more}' + '/' * slash
  assert raw.of_url(reference, url) == 1
  assert raw.of_url(f'http://y.test/ |OR| {reference}', url) == 1
  assert raw.of_url(reference, url.replace('x.test', 'y.test')) == 0


# --- contents


@pytest.mark.parametrize(
    'required,text,score',
    [
        ({'exact_match': 'Closed'}, ' closed ', 1),
        ({'exact_match': 'Closed'}, 'Closed issue', 0),
        ({'exact_match': ''}, '', 1),
        ({'exact_match': 'A & B'}, 'a &amp; b', 1),
        ({'must_include': ['Ann', 'Bob']}, '<p>Bob</p><p>ann</p>', 1),
        ({'must_include': ['Ann', 'Bob']}, '<p>Bob</p>', 0),
        ({'must_include': ['Ann |OR| Bob']}, '<p>Bob</p>', 1),
        ({'must_include': ['Ann |OR| Bob', 'Cy']}, '<p>Bob</p>', 0),
        ({'must_include': ['5']}, '15', 1),  # not by words, as an answer
        ({'must_include': ['it’s']}, 'It&rsquo;s', 1),
        ({'must_include': ['']}, '', 1),
    ],
)
def test_contents(required, text, score):
  assert raw.of_contents(required, text) == score
