"""Tests for agentrl.evaluation.report."""

import io

import pytest
import rich.console

from agentrl.evaluation import report

SUMMARY = dict(
    mean=0.25,
    low=0.1,
    high=0.5,
    n=16,
    subtasks={
        'GoTo [x]': dict(mean=0.5, low=0.2, high=0.8, n=8),
        'Pickup': dict(mean=None, low=None, high=None, n=0),
    },
)


def shown(encoding='utf-8', **settings):
  raw = io.BytesIO()
  file = io.TextIOWrapper(raw, encoding=encoding)
  console = rich.console.Console(file=file, width=40, **settings)
  report.show(console, 'babyai', SUMMARY)
  file.flush()
  return raw.getvalue().decode()


@pytest.mark.parametrize('encoding', ['utf-8', 'ascii'])
def test_a_pipe_gets_a_line_a_fact(encoding):
  assert shown(encoding).splitlines() == [
      (
          'babyai, GoTo [x]: success 0.500, 95% interval [0.200, 0.800], 8'
          ' held-out tasks'
      ),
      'babyai, Pickup: no valid episode',
      (
          'babyai, all: success 0.250, 95% interval [0.100, 0.500], 16 held-out'
          ' tasks'
      ),
  ]


def test_a_terminal_gets_a_table():
  said = shown(force_terminal=True)
  assert 'Success on babyai' in said and '0.250' in said
