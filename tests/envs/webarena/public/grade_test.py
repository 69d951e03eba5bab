"""Tests for the score of an episode: what fails is an error, and no zero."""

import asyncio
import pathlib

import pytest

from agentrl.envs.webarena.public import form, grade
from agentrl.errors import EnvError
from tests.envs.webarena.public import records, traces
from tests.envs.webarena.public.pages import Page
from tests.envs.webarena.public.traces import URLS

HOME = traces.entry('GET', f'{URLS["reddit"]}/', {})


def task(*, raw=True, **evals):
  record = records.raw(7, **evals) if raw else records.verified(7)
  return form.read(record, raw=raw, path=pathlib.Path('tasks.json'))


def score(of, *, answer='', page=None, entries=(), judge=None):
  return asyncio.run(
      grade.evaluate(
          of, URLS, answer=answer, page=page, entries=entries, judge=judge
      )
  )


MIXED = dict(
    eval_types=['string_match', 'url_match', 'program_html'],
    reference_answers={'exact_match': 'Ann'},
    reference_url='__REDDIT__/f/books',
    program_html=[{
        'url': 'last',
        'locator': '',
        'required_contents': {'must_include': ['__REDDIT__/f/x']},
    }],
)


def at(path, text=''):
  page = Page(text)
  page.url = URLS['reddit'] + path
  return page


@pytest.mark.parametrize(
    'answer,path,text,wanted',
    [
        ('ann', '/f/books', f'<a href="{URLS["reddit"]}/f/x">', 1),
        ('bob', '/f/books', f'<a href="{URLS["reddit"]}/f/x">', 0),
        ('ann', '/f/book', f'<a href="{URLS["reddit"]}/f/x">', 0),
        ('ann', '/f/books', '', 0),
    ],
)
def test_a_score_is_the_product_of_all(answer, path, text, wanted):
  assert score(task(**MIXED), answer=answer, page=at(path, text)) == wanted


def test_pages_are_not_opened_once_the_score_is_0():
  page = at('/f/books', RuntimeError('must not be read'))
  assert score(task(**MIXED), answer='bob', page=page) == 0


def fails(*question):
  raise OSError('the model is gone')


async def fails_later(*question):
  raise TimeoutError('the model is late')


@pytest.mark.parametrize(
    'judge,words',
    [
        (fails, "OSError.'the model is gone'"),
        (fails_later, "TimeoutError.'the model is late'"),
        (lambda *_: 'yes', "must return True or False, got 'yes'"),
        (lambda: True, 'TypeError'),
        (None, 'needs a judge'),
    ],
)
def test_a_judge_that_fails(judge, words):
  of = task(
      eval_types=['string_match'], reference_answers={'fuzzy_match': ['Ann']}
  )
  with pytest.raises(EnvError, match=f'judge failed on task 7: .*{words}'):
    score(of, answer='Bob', judge=judge)


@pytest.mark.parametrize('kind', ['url_match', 'program_html'])
def test_an_evaluator_that_throws(kind):
  of = task(**{**MIXED, 'eval_types': [kind]})
  with pytest.raises(EnvError, match='Task 7 cannot be graded: AttributeError'):
    score(of, page=object())


@pytest.mark.parametrize(
    'entries,words',
    [
        ([], 'No request was recorded'),
        ([{'request': {}}], 'KeyError'),
        ([5], 'TypeError'),
    ],
)
def test_requests_of_another_form(entries, words):
  record = records.verified(
      7, records.answer(['Ann']), records.request('__REDDIT__/x')
  )
  of = form.read(record, raw=False, path=pathlib.Path('tasks.json'))
  with pytest.raises(EnvError, match=f'Task 7 cannot be graded: .*{words}'):
    score(of, entries=entries)


def test_a_pattern_of_a_task_that_is_none():
  record = records.verified(
      7, records.answer(['Ann']), records.request('^[$', http_method='POST')
  )
  of = form.read(record, raw=False, path=pathlib.Path('tasks.json'))
  entries = [traces.entry('POST', f'{URLS["reddit"]}/', {})]
  with pytest.raises(EnvError, match='Task 7 cannot be graded: '):
    score(of, entries=entries)


@pytest.mark.parametrize(
    'answer,wanted',
    [
        ('{"task_type": "RETRIEVE", "status": "SUCCESS",'
         ' "retrieved_data": ["ann"]}', 1),
        # The policy's own mistakes.
        ('{"task_type": 5, "status": "SUCCESS"}', 0),
        ('[' * 100_000, 0),
        ('', 0),
    ],
)  # fmt: skip
def test_a_verified_task(answer, wanted):
  assert score(task(raw=False), answer=answer, entries=[HOME]) == wanted
