"""Tests for agentrl.metrics."""

import io
import json
import math
import pathlib
import subprocess
import sys
import time

import pytest
import rich.console
from tensorboard.backend.event_processing.event_accumulator import (
    EventAccumulator,
)

from agentrl import metrics

ROOT = pathlib.Path(__file__).parents[1]


def make_writer(directory, output=None, **settings):
  console = rich.console.Console(file=output or io.StringIO(), width=200)
  return metrics.Writer(
      directory,
      **{'total': 4, 'console': console, 'tensorboard': False, **settings},
  )


def lines(path):
  return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_line_a_step_with_step_and_time(tmp_path):
  writer = make_writer(tmp_path)
  before = time.time()
  for step in range(3):
    writer.write(step, {'rollout/return_mean': step / 2})
  # Every line is on disk before the next step begins.
  written = lines(tmp_path / 'metrics.jsonl')
  writer.close()
  assert [line['step'] for line in written] == [0, 1, 2]
  assert [line['rollout/return_mean'] for line in written] == [0, 0.5, 1]
  assert all(before <= line['time'] <= time.time() for line in written)


def test_a_second_writer_appends(tmp_path):
  for step in range(2):
    writer = make_writer(tmp_path, start=step)
    writer.write(step, {})
    writer.close()
  assert [x['step'] for x in lines(tmp_path / 'metrics.jsonl')] == [0, 1]


def test_numbers_that_are_not_finite_are_written_and_read(tmp_path):
  writer = make_writer(tmp_path, tensorboard=True)
  writer.write(0, {'train/a': math.nan, 'train/b': math.inf})
  writer.close()
  (line,) = lines(tmp_path / 'metrics.jsonl')
  assert math.isnan(line['train/a']) and line['train/b'] == math.inf


def test_what_is_measured_after_a_step_joins_its_line(tmp_path):
  writer = make_writer(tmp_path, tensorboard=True)
  for step in range(2):
    writer.write(step, {'train/loss': 1.0})
    writer.amend({'eval/success': step / 2, 'eval/time': math.nan})
  before = lines(tmp_path / 'metrics.jsonl')
  writer.write(2, {'train/loss': 0.5})
  writer.close()
  after = lines(tmp_path / 'metrics.jsonl')
  assert [line['step'] for line in after] == [0, 1, 2]
  assert [line['train/loss'] for line in after] == [1.0, 1.0, 0.5]
  assert [line.get('eval/success') for line in after] == [0.0, 0.5, None]
  assert str(after[:2]) == str(before)
  events = EventAccumulator(str(tmp_path / 'tensorboard')).Reload()
  scalars = events.Scalars('eval/success')
  assert [(x.step, x.value) for x in scalars] == [(0, 0.0), (1, 0.5)]
  # The run's last evaluation, by a process that made no step.
  writer = make_writer(tmp_path, start=3, total=3)
  writer.amend({'eval/success': 1.0})
  writer.close()
  assert lines(tmp_path / 'metrics.jsonl')[-1]['eval/success'] == 1.0
  assert len(lines(tmp_path / 'metrics.jsonl')) == 3


def test_a_line_that_is_gone_is_made_anew(tmp_path):
  writer = make_writer(tmp_path, start=3, total=3)
  writer.amend({'eval/success': 1.0})
  writer.close()
  line = {'step': 2, 'eval/success': 1.0}
  assert lines(tmp_path / 'metrics.jsonl') == [line]


def test_tensorboard_gets_the_same_numbers_under_the_prefix(tmp_path):
  writer = make_writer(tmp_path, tensorboard=True, prefix='warmstart/')
  writer.write(0, {'train/loss': 2.0})
  writer.write(1, {'train/loss': 1.5})
  writer.close()
  events = EventAccumulator(str(tmp_path / 'tensorboard')).Reload()
  scalars = events.Scalars('warmstart/train/loss')
  assert [(x.step, x.value) for x in scalars] == [(0, 2.0), (1, 1.5)]


def test_the_progress_line_shows_step_chosen_metrics_and_time_left(tmp_path):
  output = io.StringIO()
  writer = make_writer(
      tmp_path, output, total=3, start=1, shown=('a/success', 'a/missing')
  )
  writer.write(1, {'a/success': 0.25, 'a/hidden': 3.0})
  writer.write(2, {'a/success': 0.5})
  writer.close()
  first, last = output.getvalue().splitlines()
  assert first.startswith('2/3  success 0.25  ETA 0:0')
  assert last == '3/3  success 0.5  ETA 0:00'


def test_discard_moves_later_and_broken_lines(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  kept = ['{"step": 0, "x": 1.5}', '{"step": 1}']
  moved = ['{"step": 2}', '{"step": 3}', '{"ste']
  path.write_text('\n'.join(kept + moved))  # the last has no line end
  assert metrics.discard_from(path, 2) == 3
  assert path.read_text().splitlines() == kept
  discarded = tmp_path / 'metrics.jsonl.discarded'
  assert discarded.read_text().splitlines() == moved
  # A second kill and resume: the file of discarded lines grows.
  path.write_text('\n'.join([*kept, '{"step": 2}', '']))
  assert metrics.discard_from(path, 2) == 1
  assert discarded.read_text().splitlines() == [*moved, '{"step": 2}']
  left = {path.name for path in tmp_path.iterdir()}
  assert left == {'metrics.jsonl', 'metrics.jsonl.discarded'}


@pytest.mark.parametrize('line', ['7', '"step"', '{"time": 1}', '[]', '\0\0'])
def test_a_line_without_a_step_is_broken(tmp_path, line):
  path = tmp_path / 'metrics.jsonl'
  path.write_text(f'{{"step": 0}}\n{line}\n')
  assert metrics.discard_from(path, 5) == 1
  assert lines(path) == [{'step': 0}]


def test_nothing_to_discard_touches_nothing(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  assert metrics.discard_from(path, 0) == 0
  path.write_text('{"step": 0}\n')
  assert metrics.discard_from(path, 1) == 0
  assert [p.name for p in tmp_path.iterdir()] == ['metrics.jsonl']


@pytest.mark.parametrize(
    'seconds, text',
    [(0, '0:00'), (9.4, '0:09'), (75, '1:15'), (59.6, '1:00'),
     (3599.5, '1:00:00'), (3700, '1:01:40'), (100 * 3600, '100:00:00')],
)  # fmt: skip
def test_durations(seconds, text):
  assert metrics.duration(seconds) == text


def test_a_bar_is_silent_where_there_is_no_terminal():
  output = io.StringIO()
  with metrics.progress(rich.console.Console(file=output)) as bar:
    task = bar.add_task('collecting', total=2)
    bar.advance(task)
  assert output.getvalue() == ''


def test_torch_is_not_waited_for(tmp_path):
  pytest.importorskip('torch')
  program = (
      'import pathlib, sys; from agentrl import metrics;'
      f' metrics.Writer(pathlib.Path({str(tmp_path)!r}), total=1).close();'
      ' assert "torch" not in sys.modules; import torch'
  )
  subprocess.run([sys.executable, '-c', program], check=True, cwd=ROOT)
