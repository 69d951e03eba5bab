"""Tests for webarena-verified's evaluators, rule by rule.

The slow agreement_test compares them with the original on thousands of traces.
"""

import json

import pytest

from agentrl.envs.webarena.public import tasks, verified
from tests.envs.webarena.public import records, traces
from tests.envs.webarena.public.traces import URLS

FORUM = URLS['reddit']
VISIT = {
    'accept': 'text/html',
    'sec-fetch-dest': 'document',
    'sec-fetch-mode': 'navigate',
    'sec-fetch-user': '?1',
}
DONE = {'task_type': 'MUTATE', 'status': 'SUCCESS', 'retrieved_data': None}


def visit(path, **others):
  return traces.entry('GET', f'{FORUM}{path}', VISIT, **others)


def post(path, text, kind='application/json', headers=None, **others):
  data = {'mimeType': kind, 'text': text}
  return traces.entry('POST', f'{FORUM}{path}', headers or {}, data, **others)


HOME = visit('/')


def status(evals, answer, *entries):
  urls = {'reddit': FORUM}
  return verified.evaluate(evals, urls, answer, entries or [HOME]).status


def said(data, **others):
  return {
      'task_type': 'RETRIEVE',
      'status': 'SUCCESS',
      'retrieved_data': data,
      **others,
  }


# --- answers


@pytest.mark.parametrize(
    'answer,found',
    [
        (said(['Ann']), 'success'),
        (said('ann'), 'success'),  # a single value is a list of one
        (said(['Bob']), 'failure'),
        (said(['Ann', 'Ann']), 'failure'),
        (said([]), 'failure'),
        (said(None), 'failure'),
        (said(['^.*$']), 'failure'),
        (said([['Ann', 'Bob']]), 'failure'),
        (said(['Ann'], task_type=' retrieve '), 'success'),
        (said(['Ann'], task_type='MUTATE'), 'failure'),
        (said(['Ann'], status='NOT_FOUND_ERROR'), 'failure'),
        (said(['Ann'], status=''), 'failure'),
        (said(['Ann'], status=5), 'error'),
        (said(['Ann'], extra=1), 'success'),
        ({'status': 'SUCCESS', 'retrieved_data': ['Ann']}, 'failure'),
        (
            {
                'performed_operation': 'RETRIEVE',
                'status': 'SUCCESS',
                'retrieved_data': ['Ann'],
            },
            'success',
        ),
        ('Ann', 'failure'),
        ('', 'failure'),
        ('N/A', 'failure'),
        ('{"task_type"', 'failure'),
        (['Ann'], 'failure'),
        (None, 'failure'),
    ],
)
def test_an_answer(answer, found):
  evals = [records.answer(['Ann'])]
  assert status(evals, answer) == found
  assert status(evals, json.dumps(answer)) == (
      found if not isinstance(answer, str) else 'failure'
  )


@pytest.mark.parametrize(
    'text', ['```json\n{}\n```', 'Here it is:\n```\n{}\n```\nDone.', ' {} ']
)
def test_an_answer_in_a_text(text):
  answer = json.dumps(said(['Ann']))
  assert status([records.answer(['Ann'])], text.replace('{}', answer)) == (
      'success'
  )


def test_the_answer_is_to_blame_for_its_own_errors_alone():
  evals = [records.answer(['Ann'])]
  answer = said(['Ann'], status=5)
  assert verified.evaluate(evals, {}, answer, [HOME]).answer
  bad_task = [records.answer(['many'], 'number')]
  verdict = verified.evaluate(bad_task, {}, said(['5']), [HOME])
  assert (verdict.status, verdict.answer, verdict.score) == ('error', False, 0)
  assert "'many' has no number" in verdict.why
  # Of both, the task.
  assert not verified.evaluate(evals + bad_task, {}, answer, [HOME]).answer


@pytest.mark.parametrize(
    'said_status,found',
    [('NOT_FOUND_ERROR', 'success'), ('SUCCESS', 'failure')],
)
def test_a_task_that_cannot_be_done_is_answered_by_its_status(
    said_status, found
):
  config = records.answer()
  config['expected']['status'] = 'NOT_FOUND_ERROR'
  assert status([config], said(None, status=said_status)) == found


@pytest.mark.parametrize('ordered', [True, False])
def test_order_counts_where_the_task_says_so(ordered):
  evals = [records.answer(['A', 'B'], ordered=ordered)]
  assert status(evals, said(['a', 'b'])) == 'success'
  assert status(evals, said(['b', 'a'])) == (
      'failure' if ordered else 'success'
  )


def test_without_requests_nothing_is_graded():
  verdict = verified.evaluate([records.answer(['A'])], {}, said(['A']), [])
  assert (verdict.status, verdict.answer) == ('error', False)


# --- requests

VOTE = '__REDDIT__/vote'


def asked(config, *entries, task_type='mutate'):
  evals = [records.answer(task_type=task_type), config]
  return status(evals, {**DONE, 'task_type': task_type}, *entries)


@pytest.mark.parametrize(
    'expected,entry,found',
    [
        ({}, post('/vote', ''), 'success'),
        ({}, post('/vote/', ''), 'success'),
        ({}, post('/other', ''), 'failure'),
        ({}, visit('/vote'), 'failure'),
        ({}, post('/vote', '', status=500), 'failure'),
        ({'response_status': 302}, post('/vote', '', status=302), 'success'),
        ({'query_params': {'a': ['1']}}, post('/vote?a=1', ''), 'success'),
        ({'query_params': {'a': ['1']}}, post('/vote?a=2', ''), 'failure'),
        ({'query_params': {'a': ['1']}}, post('/vote', ''), 'failure'),
        ({'query_params': {'a': ['^1.*$']}}, post('/vote?a=12', ''), 'success'),
        ({}, post('/vote?a=2', ''), 'failure'),
        ({'post_data': {'a': 1}}, post('/vote', '{"a": 1, "b": 2}'), 'success'),
        ({'post_data': {'a': 1}}, post('/vote', '{"a": 2}'), 'failure'),
        ({'post_data': {'a': 1}}, post('/vote', ''), 'failure'),
        ({'post_data': {'a': '^x+$'}}, post('/vote', '{"a": "xx"}'), 'success'),
        ({'post_data': {'$.a[0].b': 1}}, post('/vote', '{"a": [{"b": 1}]}'),
         'success'),
        (
            {'response_content': {'n': 5}},
            post('/vote', '', content={
                'mimeType': 'application/json', 'text': '{"n": 5, "m": 1}'}),
            'success',
        ),
        ({'response_content': {'n': 5}}, post('/vote', ''), 'failure'),
        (
            {'response_content': {'n': {'x': 1}}},
            post('/vote', '', content={
                'mimeType': 'application/json',
                'text': '{"n": {"x": 1, "y": 2}}'}),
            'success',  # parts that are not asked for do not count
        ),
        ({'response_cookies': {'c': 'x'}}, post('/vote', '', cookies={'c': 'X'}),
         'success'),
        ({'response_cookies': {'c': 'x'}}, post('/vote', ''), 'failure'),
        (
            {'headers': {'referer': '__REDDIT__/a'}},
            post('/vote', '', headers={'Referer': f'{FORUM}/a'}),
            'success',
        ),
        (
            {'headers': {'referer': '__REDDIT__/a'}},
            post('/vote', '', headers={'Referer': f'{FORUM}/b'}),
            'failure',
        ),
        ({'headers': {'referer': '__REDDIT__/a'}}, post('/vote', ''), 'failure'),
    ],
)  # fmt: skip
def test_a_request(expected, entry, found):
  config = records.request(VOTE, http_method='POST', **expected)
  assert asked(config, HOME, entry) == found


def test_the_last_of_several_counts_unless_any_may():
  right, wrong = post('/vote', '{"a": 1}'), post('/vote', '{"a": 2}')
  expected = dict(http_method='POST', post_data={'a': 1})
  last = records.request(VOTE, **expected)
  assert asked(last, wrong, right) == 'success'
  assert asked(last, right, wrong) == 'failure'
  any_one = records.request(VOTE, config={'last_event_only': False}, **expected)
  assert asked(any_one, right, wrong) == 'success'


def test_a_request_that_must_not_be_made():
  config = records.request(
      VOTE, config={'should_not_exist': True}, http_method='POST'
  )
  assert asked(config, HOME) == 'success'
  assert asked(config, HOME, post('/vote', '')) == 'failure'


@pytest.mark.parametrize(
    'url,last,found',
    [
        ('__REDDIT__/f', visit('/f'), 'success'),
        (['__REDDIT__/g', '__REDDIT__/f'], visit('/f'), 'success'),
        ('^__REDDIT__/.*$', visit('/f'), 'success'),
        ('__REDDIT__/f', visit('/g'), 'failure'),
        # Only what was opened as a page, and no part of it.
        ('__REDDIT__/', visit('/f.css'), 'success'),
        ('__REDDIT__/', traces.entry('GET', f'{FORUM}/api', {}), 'success'),
    ],
)
def test_the_page_that_was_opened_last(url, last, found):
  assert asked(records.request(url), HOME, last, task_type='navigate') == found


def test_parameters_that_do_not_count():
  config = {
      'ignored_query_params': ['a'],
      'ignored_query_params_patterns': ['^_'],
  }
  wanted = records.request('__REDDIT__/f', config=config)
  for path, found in (('/f?a=1&_x=2', 'success'), ('/f?b=1', 'failure')):
    assert asked(wanted, visit(path), task_type='navigate') == found


@pytest.mark.parametrize(
    'config',
    [
        records.request(['__REDDIT__/f']),
        records.request('__GITLAB__/f'),
        records.request(VOTE, post_data={'a': [1]}),
    ],
)
def test_a_task_that_cannot_be_read_is_an_error(config):
  verdict = verified.evaluate(
      [records.answer(task_type='mutate'), config],
      {'reddit': FORUM},
      DONE,
      [HOME],
  )
  assert (verdict.status, verdict.answer) == ('error', False)


def test_right_traces_of_all_tasks_succeed_and_empty_answers_do_not():
  """Over every fifth task; the slow agreement_test has them all."""
  table = tasks.load('verified')
  chosen = [table[i] for i in range(0, 812, 5) if i not in tasks.LEFT_OUT]
  for (_, (task_id, answer, entries)), task in zip(
      traces.jobs(chosen, 1, 0), chosen, strict=True
  ):
    assert task_id == task.id
    urls = {site: URLS[site] for site in task.sites}
    judged = verified.evaluate(task.evals, urls, answer, entries)
    assert judged.status == 'success', (task_id, judged.why)
    for nothing in ('', 'N/A', 'done', {}):
      assert verified.evaluate(task.evals, urls, nothing, entries).score == 0
