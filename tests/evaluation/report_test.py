"""Tests for agentrl.evaluation.report."""

import csv
import io
import math

import pytest
import rich.console

from agentrl.evaluation import report
from agentrl.evaluation.results import (
    ALL,
    Attempt,
    Figure,
    PolicyRecord,
    Results,
    Row,
)
from tests.evaluation.rows_test import panel_of


def row(subtask, *, policy='first', **fields):
  figure = Figure(0.25, 0.1, 0.5, 'wilson')
  values = dict(
      env='babyai',
      n=16,
      tasks=8,
      errors=0,
      success=figure,
      success_errors_fail=figure,
      ret=Figure(0.25, None, None, 'conservative'),
      pass_at_k={'1': figure, '2': Figure(0.375, 0.2, 0.6, 'clustered')},
      pass_hat_k={'1': figure, '2': Figure(0.125, 0.0, 0.3, 'clustered')},
      turns=4.5,
      stop_reasons={'terminated': 16},
      detectable=0.4,
  )
  return Row(subtask=subtask, policy=policy, **(values | fields))


NOTHING = dict(
    n=0,
    tasks=0,
    errors=3,
    success=None,
    success_errors_fail=None,
    ret=None,
    pass_at_k={},
    pass_hat_k={},
    turns=None,
    stop_reasons={'env_error': 3},
    detectable=None,
)


def results_of(*policies, rows=None):
  policies = policies or ('first',)
  figure = Figure(0.5, 0.2, 0.8, 'wilson')
  return Results(
      config={},
      policies=tuple(
          PolicyRecord(
              name=name,
              kind='model',
              source=f'runs/{name}|x',
              weight_version='4',
              fingerprint='ab' * 32,
              template='chatml',
              sampler={'temperature': 1.0},
          )
          for name in policies
      ),
      panels=(panel_of(3, env='babyai', options={'style': 'full'}),),
      rows=tuple(
          made
          for name in policies
          for made in rows or (
              row('GoTo [x]', policy=name, success=figure, n=8),
              row('Pickup', policy=name, **NOTHING),
              row(ALL, policy=name, errors=3, progress=figure),
          )
      ),
  )


def shown(results=None, encoding='utf-8', **settings):
  raw = io.BytesIO()
  file = io.TextIOWrapper(raw, encoding=encoding)
  console = rich.console.Console(file=file, width=100, **settings)
  report.show(console, results or results_of())
  file.flush()
  return raw.getvalue().decode()


@pytest.mark.parametrize('encoding', ['utf-8', 'ascii'])
def test_a_pipe_gets_a_line_a_fact(encoding):
  assert shown(encoding=encoding).splitlines() == [
      (
          'babyai, GoTo [x]: success 0.500, 95% interval [0.200, 0.800],'
          ' return 0.250, 4.5 turns, 8 episodes of 8 tasks'
      ),
      'babyai, Pickup: no valid episode, 3 errors',
      (
          'babyai, all: success 0.250, 95% interval [0.100, 0.500], return'
          ' 0.250, progress 0.500, 4.5 turns, 16 episodes of 8 tasks, 3 errors'
      ),
  ]


@pytest.mark.parametrize(
    'count, words', [(0, '0 tasks'), (1, '1 task'), (2, '2 tasks')]
)
def test_one_has_no_plural(count, words):
  assert report.counted(count, 'task') == words


@pytest.mark.parametrize(
    'not_played, words',
    [
        ({}, None),
        ({'context': 1}, '1 task not played (the prompt did not fit the'),
        ({'context': 3}, '3 tasks not played (the prompt did not fit the'),
        ({'context': 3, 'timeout': 1}, ', 1 task not played (timeout)'),
        ({'env_error': 2}, ', 2 tasks not played (env_error)'),
    ],
)
def test_tasks_that_were_not_played_are_said_everywhere(not_played, words):
  found = results_of(rows=(row(ALL, tasks=8, not_played=not_played),))
  summary = dict(mean=0.5, low=0.1, high=0.9, n=8, tasks=8)
  nothing = dict(mean=None, low=None, high=None, n=0, tasks=0)
  texts = [
      shown(found),
      shown(found, force_terminal=True),
      report.markdown(found),
      report.describe('after', summary | {'not_played': not_played}),
      report.describe('after', nothing | {'not_played': not_played}),
  ]
  for text in texts:
    text = ' '.join(text.split())
    assert (words in text) if words else ('not played' not in text)
  total = 8 + sum(not_played.values())
  for text in texts[1:3]:
    assert (f'figures of 8 of {total} tasks' in text) == bool(words)
  [line] = csv.DictReader(io.StringIO(report.as_csv(found)))
  assert line['not_played'] == str(total - 8)


def test_one_of_everything_is_said_in_the_singular():
  panel = panel_of(1, samples=1, horizon=1)
  assert report.panel_words(panel).startswith(
      '1 task of the test split, 1 episode each, at most 1 turn, seed 0'
  )
  chain = report.panel_words(panel_of(2, samples=1, attempts=3))
  assert '2 tasks of the test split, 1 chain of 3 attempts each' in chain
  said = shown(results_of(rows=(row(ALL, n=1, tasks=1, errors=1),)))
  assert said.strip().endswith(', 1 episode of 1 task, 1 error')
  summary = dict(mean=1.0, low=0.2, high=1.0, n=1, tasks=1)
  assert report.describe('after', summary).endswith(', 1 held-out task')
  several = report.describe('after', summary | {'n': 3, 'split': 'train'})
  assert several.endswith(', 3 episodes of 1 training task')


def test_several_policies_have_their_names_in_a_pipe():
  said = shown(results_of('first', 'second')).splitlines()
  assert len(said) == 6
  assert said[2].startswith('first, babyai, all: success 0.250')
  assert said[5].startswith('second, babyai, all: success 0.250')


def test_a_terminal_gets_a_table():
  said = shown(force_terminal=True)
  assert 'Success on babyai' in said
  for text in ('0.500', '0.200 to 0.800', 'Pickup', '95% interval'):
    assert text in said


def test_the_line_of_a_training_runs_evaluation():
  summary = dict(mean=0.25, low=0.1, high=0.5, n=16, tasks=16)
  assert report.describe('after', summary) == (
      'after: success 0.250, 95% interval [0.100, 0.500], 16 held-out tasks'
  )
  several = report.describe('after', summary | {'n': 160})
  assert several.endswith(', 160 episodes of 16 held-out tasks')
  trained_on = report.describe('after', summary | {'split': 'train'})
  assert trained_on.endswith(', 16 training tasks')
  nothing = dict(mean=None, low=None, high=None, n=0)
  assert report.describe('after', nothing) == 'after: no valid episode'


def cells(page):
  """The tables of a page, each a list of lists of cells."""
  found, table = [], []
  for line in page.splitlines():
    if line.startswith('| '):
      escaped = line.strip('| ').replace('\\|', '\0')
      table.append([x.strip().replace('\0', '|') for x in escaped.split('|')])
    elif table:
      found, table = [*found, table], []
  return found


def test_the_page_says_who_on_what_and_how_sure():
  page = report.markdown(results_of())
  policies, rows = cells(page)
  assert policies[2] == [
      'first',
      'model',
      'runs/first|x',
      '4 (SHA-256 abababababab)',
      'chatml',
      'temperature=1.0',
  ]
  for text in (
      '## babyai',
      '3 tasks of the test split, 3 episodes each, at most 9 turns, seed 0',
      "style='full'",
      'Success: reward 1. Panel `00`',
  ):
    assert text in page
  head, _, first, nothing, whole = rows
  line = dict(zip(head, first, strict=True))
  assert line['subtask'] == 'GoTo [x]'
  assert line['success'] == '0.500 [0.200, 0.800]'
  assert line['method'] == 'wilson'
  assert line['errors fail'] == '0.250 [0.100, 0.500]'
  # An interval without bounds, and what nobody reported.
  assert line['return'] == '0.250 [unknown, unknown]'
  assert line['progress'] == '-' and line['tokens in'] == '-'
  assert line['pass@2'] == '0.375 [0.200, 0.600]'
  assert line['pass^2'] == '0.125 [0.000, 0.300]'
  assert line['stops'] == 'terminated 16' and line['detectable'] == '0.400'
  assert dict(zip(head, whole, strict=True))['errors'] == '3'
  line = dict(zip(head, nothing, strict=True))
  assert line['success'] == line['pass@2'] == line['turns'] == '-'
  assert 'cost' not in head


def test_what_no_row_has_is_no_column():
  rows = (row(ALL, pass_at_k={}, pass_hat_k={}, cost=0.5),)
  head = cells(report.markdown(results_of(rows=rows)))[1][0]
  assert 'progress' not in head and 'pass@2' not in head and 'cost' in head


def test_the_csv_has_every_number():
  results = results_of('first', 'second')
  lines = list(csv.DictReader(io.StringIO(report.as_csv(results))))
  assert len(lines) == len(results.rows)
  for line, made in zip(lines, results.rows, strict=True):
    assert (line['policy'], line['subtask']) == (made.policy, made.subtask)
    assert line['stop_terminated'] == str(
        made.stop_reasons.get('terminated', 0)
    )
    if made.success is None:
      assert line['success'] == line['success_low'] == line['turns'] == ''
      continue
    assert float(line['success_high']) == made.success.high
    assert float(line['return']) == made.ret.mean and line['return_low'] == ''
    assert math.isclose(float(line['pass_hat_2']), 0.125)
    assert line['success_method'] == 'wilson'


def test_a_line_has_success_by_attempt():
  summary = dict(mean=0.25, low=0.1, high=0.5, n=16, tasks=8)
  assert report.describe('after', summary).endswith('8 held-out tasks')
  summary |= dict(success_attempt_1=0.125, success_attempt_2=0.375)
  assert report.describe('after', summary).endswith('by attempt 0.125, 0.375')


def test_attempts_are_in_every_form(capsys):
  figure = lambda mean: Figure(mean, 0.1, 0.9, 'wilson')
  attempts = {
      k: Attempt(success=figure(mean), ret=figure(2 * mean))
      for k, mean in (('1', 0.125), ('2', 0.375))
  }
  several = row(ALL, attempts=attempts, pass_at_k={}, pass_hat_k={})
  results = results_of(rows=[several, row('a')])
  text = report.markdown(results)
  assert '| attempt 1 | attempt 2 |' in text and '0.375 [0.100, 0.900]' in text
  [record, other] = csv.DictReader(io.StringIO(report.as_csv(results)))
  assert record['success_attempt_2'] == '0.375'
  assert record['return_attempt_2'] == '0.75'
  assert other['success_attempt_2'] == ''
  report.show(rich.console.Console(force_terminal=False), results)
  assert 'attempt 1 0.125, attempt 2 0.375' in capsys.readouterr().out
