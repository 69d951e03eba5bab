"""Tests for the table of counterparts of the public intent templates."""

import importlib
import pathlib

counterparts = importlib.import_module(
    'experiments.2026-11-webarena.counterparts'
)
FILE = 'experiments/2026-11-webarena/counterparts.md'


def test_the_table_that_is_kept_is_that_of_the_tasks(capsys):
  counterparts.main()
  printed = capsys.readouterr().out
  kept = pathlib.Path(__file__).parents[2] / FILE
  assert kept.read_text() == printed, (
      f'{FILE} is old: python -m experiments.2026-11-webarena.counterparts >'
      f' {FILE}'
  )


def test_most_templates_have_a_counterpart():
  rows = list(counterparts.table())
  assert len(rows) == 156
  # The least that the issue of these sites asks for.
  assert sum(bool(names) for *_, names in rows) >= 0.8 * len(rows)
