"""Tests for records of task files, and for bad ones."""

import copy
import pathlib

import pytest

from agentrl.envs.webarena.public import form
from agentrl.errors import ConfigError
from tests.envs.webarena.public import records

PATH = pathlib.Path('tasks.json')
ANSWER = dict(
    eval_types=['string_match'], reference_answers={'exact_match': 'books'}
)
PAGE = {'url': 'last', 'locator': '', 'required_contents': {'exact_match': 'x'}}


def read_raw(record):
  return form.read(record, raw=True, path=PATH)


def read_verified(record):
  return form.read(record, raw=False, path=PATH)


def test_the_originals_form():
  task = read_raw({
      **records.raw(7, **ANSWER),
      'start_url': '__REDDIT__ |AND| __MAP__/x',
  })
  assert (task.id, task.template_id, task.raw) == (7, 7, True)
  # A placeholder names a site, too.
  assert task.sites == ('reddit', 'map')
  assert task.addresses == ('__REDDIT__', '__MAP__/x')
  assert task.intent == 'Go there 7' and not task.needs_judge


def test_webarena_verifieds_form():
  task = read_verified(
      records.verified(
          7,
          records.answer(task_type='mutate'),
          records.request('__GITLAB__/x', http_method='POST'),
      )
  )
  assert (task.id, task.template_id, task.raw) == (7, 7, False)
  assert task.sites == ('reddit', 'gitlab') and not task.needs_judge
  assert len(task.evals) == 2


@pytest.mark.parametrize('references', [['Ann'], 'N/A'])
def test_answers_by_meaning_need_a_judge(references):
  record = records.raw(
      eval_types=['string_match'], reference_answers={'fuzzy_match': references}
  )
  assert read_raw(record).needs_judge


def test_a_placeholder_is_enough_to_name_a_site():
  record = {**records.verified(), 'sites': []}
  assert read_verified(record).sites == ('reddit',)


def test_a_host_of_git_is_no_site():
  record = records.raw(
      eval_types=['string_match'],
      reference_answers={'exact_match': 'git clone __SSH_HOST__:a/b'},
  )
  assert read_raw(record).sites == ('reddit',)


def changed(record, path, value):
  """A record with another value, or without one, at a place."""
  record = copy.deepcopy(record)
  *steps, last = path
  inner = record
  for step in steps:
    inner = inner[step]
  if value is KeyError:
    del inner[last]
  else:
    inner[last] = value
  return record


RAW = records.raw(3, **ANSWER)
PAGES = records.raw(3, eval_types=['program_html'], program_html=[PAGE])
URL = records.raw(3, eval_types=['url_match'], reference_url='__REDDIT__/f')
CHECK = ('eval', 'program_html', 0)
ANSWERS = ('eval', 'reference_answers')


@pytest.mark.parametrize(
    'record,path,value,words',  # KeyError: it is left out
    [
        (RAW, ('task_id',), '3', "'3' is no whole number"),
        (RAW, ('task_id',), KeyError, "has no 'task_id'"),
        (RAW, ('start_url',), KeyError, "no 'start_url'; .*verified form"),
        (RAW, ('start_url',), '', "'' is no text"),
        (RAW, ('intent',), None, 'None is no text'),
        (RAW, ('sites',), ['bank'], "unknown site 'bank'; known: shopping, "),
        (RAW, ('start_url',), '__BANK__', "unknown site 'bank'; known"),
        (RAW, ('sites',), 5, 'has another form'),
        (RAW, ('eval',), [], 'has another form'),
        (RAW, ('eval', 'eval_types'), [], 'graded by nothing'),
        (
            RAW,
            ('eval', 'eval_types'),
            ['llm_match'],
            "unknown evaluator 'llm_match'; known: string_match, url_match, ",
        ),
        (RAW, ANSWERS, None, 'no reference answers'),
        (RAW, ANSWERS, {}, 'no reference answers'),
        (RAW, ANSWERS, ['books'], 'has another form'),
        (
            RAW,
            ANSWERS,
            {'like': 'x'},
            "unknown comparison 'like'; known: exact",
        ),
        (RAW, ANSWERS, {'exact_match': ['x']}, 'is no text'),
        (RAW, ANSWERS, {'must_include': 'abc'}, "a list of texts, got 'abc'"),
        (RAW, ANSWERS, {'must_include': []}, 'a list of texts'),
        (RAW, ANSWERS, {'fuzzy_match': [None]}, 'None is no text'),
        (URL, ('eval', 'reference_url'), '', 'is no text'),
        (URL, ('eval', 'url_note'), 'EXACT', "unknown rule 'EXACT'"),
        (PAGES, (*CHECK, 'url'), 'func:boom()', "unknown helper 'func:boom"),
        (PAGES, (*CHECK, 'locator'), 'func:boom()', 'unknown helper'),
        (PAGES, (*CHECK, 'locator'), 'fetch("x")', 'unknown locator'),
        (PAGES, (*CHECK, 'locator'), KeyError, "no 'locator'"),
        (PAGES, (*CHECK, 'required_contents'), {'like': 'x'}, 'unknown requi'),
        (
            PAGES,
            (*CHECK, 'required_contents'),
            {'must_include': 'abc'},
            'a list of texts',
        ),
    ],
)
def test_a_bad_record_of_the_original(record, path, value, words):
  read_raw(record)
  with pytest.raises(ConfigError, match=f'^tasks.json: task .*{words}'):
    read_raw(changed(record, path, value))


VERIFIED = records.verified(
    3,
    records.answer(['5'], 'number'),
    records.request('__REDDIT__/x', post_data={'$.a[0]': '1'}),
)


@pytest.mark.parametrize(
    'path,value,words',
    [
        (('start_urls',), KeyError, "no 'start_urls'; .*raw form"),
        (('start_urls',), [5], '5 is no text'),
        (('sites',), ['bank'], "unknown site 'bank'"),
        (('eval',), [], 'needs one AgentResponseEvaluator'),
        (('eval', 0), VERIFIED['eval'][1], 'needs one AgentResponseEvaluator'),
        (('eval', 1), VERIFIED['eval'][0], 'needs one AgentResponseEvaluator'),
        (('eval', 1, 'evaluator'), 'Judge', "unknown evaluator 'Judge'; known"),
        (
            ('eval', 0, 'expected', 'task_type'),
            'buy',
            "unknown task type 'buy'",
        ),
        (('eval', 0, 'expected', 'status'), '', 'is no text'),
        (('eval', 0, 'results_schema', 'items'), {'format': 'x'}, "format 'x'"),
        (('eval', 1, 'expected', 'url'), [], 'has no address'),
        (
            ('eval', 1, 'expected', 'post_data'),
            {'$.a[*]': 1},
            r'a path of an unknown form',
        ),
        (('eval', 1, 'post_data_schema'), {'type': 'x'}, "unknown format 'x'"),
        (('eval', 1, 'expected'), KeyError, "no 'expected'"),
    ],
)
def test_a_bad_record_of_webarena_verified(path, value, words):
  read_verified(VERIFIED)
  with pytest.raises(ConfigError, match=f'^tasks.json: task 3.*{words}'):
    read_verified(changed(VERIFIED, path, value))


@pytest.mark.parametrize('record', [None, 5, 'x', [], {}])
@pytest.mark.parametrize('raw', [True, False])
def test_what_is_no_record(record, raw):
  with pytest.raises(ConfigError, match=r'^tasks.json: task \? has'):
    form.read(record, raw=raw, path=PATH)


def test_without_any_site_a_task_is_refused():
  record = {**RAW, 'sites': [], 'start_url': 'http://x.test/'}
  with pytest.raises(ConfigError, match='it names no site'):
    read_raw(record)
