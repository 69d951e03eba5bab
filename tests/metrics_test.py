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

from agentrl import metrics, trackers
from agentrl.errors import DataError

ROOT = pathlib.Path(__file__).parents[1]


def make_writer(directory, output=None, **settings):
  console = rich.console.Console(file=output or io.StringIO(), width=200)
  return metrics.Writer(
      directory,
      trackers=[trackers.TensorBoard()],
      **{'total': 4, 'console': console, **settings},
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


def no_constant(name):
  raise AssertionError(f'{name} is not JSON')


def test_numbers_that_are_not_finite_are_null_and_read_as_missing(tmp_path):
  writer = make_writer(tmp_path)
  writer.write(0, {'train/a': math.nan, 'train/b': -math.inf, 'train/c': 1.0})
  writer.amend({'eval/a': math.inf, 'eval/b': 0.5})
  writer.close()
  path = tmp_path / 'metrics.jsonl'
  line = json.loads(path.read_text(), parse_constant=no_constant)
  assert [line[n] for n in ('train/a', 'train/b', 'eval/a')] == [None] * 3
  (found,) = metrics.read(path)
  assert found.keys() == {'step', 'time', 'train/c', 'eval/b'}


def test_files_of_earlier_versions_have_nan_and_are_read(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  path.write_text('{"step": 0, "a": NaN, "b": Infinity, "c": 1.0}\n')
  assert list(metrics.read(path)) == [{'step': 0, 'c': 1.0}]


def test_what_is_measured_after_a_step_joins_its_line(tmp_path):
  writer = make_writer(tmp_path)
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
  writer = make_writer(tmp_path, prefix='warmstart/')
  writer.write(0, {'train/loss': 2.0})
  writer.write(1, {'train/loss': 1.5})
  writer.close()
  assert scalars(tmp_path / 'tensorboard' / 'warmstart') == {
      'warmstart/train/loss': [(0, 2.0), (1, 1.5)]
  }


def scalars(folder):
  """(step, value) by tag, as TensorBoard shows them."""
  events = EventAccumulator(str(folder)).Reload()
  return {
      tag: [(x.step, x.value) for x in events.Scalars(tag)]
      for tag in events.Tags()['scalars']
  }


def test_a_sigkill_loses_no_step_that_was_written(tmp_path):
  program = (
      'import os, pathlib; from agentrl import metrics, trackers;'
      f' writer = metrics.Writer(pathlib.Path({str(tmp_path)!r}), total=9,'
      ' trackers=[trackers.TensorBoard()]);'
      ' [writer.write(i, {"a": i / 2, "b": 1.0}) for i in range(3)];'
      ' os.kill(os.getpid(), 9)'
  )
  done = subprocess.run([sys.executable, '-c', program], cwd=ROOT)
  assert done.returncode == -9
  kept = lines(tmp_path / 'metrics.jsonl')
  assert [line['a'] for line in kept] == [0, 0.5, 1]
  found = scalars(tmp_path / 'tensorboard')
  assert found['a'] == [(0, 0), (1, 0.5), (2, 1)]
  assert found['b'] == [(0, 1), (1, 1), (2, 1)]


def test_tensorboard_agrees_with_the_lines_of_a_run_that_went_on(tmp_path):
  # The warm start's steps stay, whatever the steps after it are.
  warm = make_writer(tmp_path, prefix='warmstart/', filename='warm.jsonl')
  for step in range(4):
    warm.write(step, {'a': 9.0})
  warm.close()
  # Killed after step 3 with a checkpoint after step 1; again after step 2.
  for start, end in ((0, 4), (2, 3), (2, 6)):
    metrics.discard_from(tmp_path / 'metrics.jsonl', start)
    writer = make_writer(tmp_path, start=start, total=6)
    for step in range(start, end):
      writer.write(step, {'a': step + 10.0 * end})
    writer.close()
  expected = [(x['step'], x['a']) for x in lines(tmp_path / 'metrics.jsonl')]
  assert [step for step, _ in expected] == list(range(6))
  assert scalars(tmp_path / 'tensorboard')['a'] == expected
  assert (
      len(scalars(tmp_path / 'tensorboard' / 'warmstart')['warmstart/a']) == 4
  )


@pytest.mark.parametrize('again', [False, True])
def test_a_file_that_was_deleted_under_the_run_is_named(tmp_path, again):
  writer = make_writer(tmp_path)
  writer.write(0, {})
  path = tmp_path / 'metrics.jsonl'
  path.unlink()
  if again:
    path.write_text('')
  with pytest.raises(DataError, match='metrics.jsonl was deleted'):
    writer.write(1, {})
  writer.close()


def test_the_progress_line_shows_step_chosen_metrics_and_time_left(tmp_path):
  output = io.StringIO()
  writer = make_writer(
      tmp_path, output, total=3, start=1, shown=('a/success', 'a/missing')
  )
  writer.write(1, {'a/success': 0.25, 'a/hidden': 3.0})
  writer.write(2, {'a/success': 0.5})
  writer.close()
  said = output.getvalue().splitlines()
  assert said == [
      'Step 2 of 3 compiles its programs first.',
      'step   success   missing       ETA',
      ' 2/3      0.25         -         -',
      ' 3/3       0.5         -      0:00',
  ]


def test_columns_stay_below_their_names_whatever_a_step_has(tmp_path):
  output = io.StringIO()
  shown = ('rollout/success', 'policy/entropy', 'policy/heldout_loss')
  writer = make_writer(tmp_path, output, total=120, shown=shown)
  for step in range(45):
    odd = {'policy/entropy': 1e-10 * step} if step % 3 else {}
    writer.write(step, {'rollout/success': step / 45} | odd)
  writer.close()
  lines = output.getvalue().splitlines()[1:]
  assert len({len(line) for line in lines}) == 1
  heads = [i for i, line in enumerate(lines) if 'heldout_loss' in line]
  assert heads == [0, 21, 42]
  end = lines[0].index('entropy') + len('entropy')
  assert all(line[end - 1] != ' ' and line[end] == ' ' for line in lines)


def test_the_time_left_leaves_the_first_step_out(tmp_path, monkeypatch):
  clock = iter([100.0, 102.0, 106.0])  # after each step: the first took long
  monkeypatch.setattr(metrics.time, 'monotonic', lambda: next(clock))
  output = io.StringIO()
  writer = make_writer(tmp_path, output, total=10)
  for step in range(3):
    writer.write(step, {})
  writer.close()
  said = [line.split() for line in output.getvalue().splitlines()[1:]]
  assert said == [
      ['step', 'ETA'],
      ['1/10', '-'],
      ['2/10', '0:16'],
      ['3/10', '0:21'],
  ]


def test_nothing_compiles_for_a_run_that_is_over(tmp_path):
  output = io.StringIO()
  make_writer(tmp_path, output, total=3, start=3).close()
  assert output.getvalue() == ''


def test_lines_are_whole_on_a_narrow_console(tmp_path, monkeypatch):
  clock = iter([0.0, 9e5])
  monkeypatch.setattr(metrics.time, 'monotonic', lambda: next(clock))
  shown = tuple(
      f'rollout/{name}'
      for name in ('horizon', 'return_mean', 'success', 'entropy', 'grad_norm')
  )
  output = io.StringIO()
  console = rich.console.Console(file=output, width=40)  # and none is cut
  writer = make_writer(
      tmp_path, total=10**5, shown=(*shown, 'time/step_s'), console=console
  )
  values = dict.fromkeys((*shown, 'time/step_s'), -1.2345e-10)
  writer.write(0, {'rollout/horizon': 30})
  writer.write(1, values)
  writer.close()
  *_, last = output.getvalue().splitlines()
  assert last.split()[1:-1] == ['-1.23e-10'] * 6 and last.endswith(':00:00')
  assert len(output.getvalue().splitlines()) == 5


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


@pytest.mark.parametrize('line', [b'{"step": 1, "x": 1\xff}', b'{"step"; 1}'])
def test_a_damaged_line_of_a_step_that_stays_is_named(tmp_path, line):
  path = tmp_path / 'metrics.jsonl'
  data = b'{"step": 0}\n%s\n{"step": 2}\n' % line
  path.write_bytes(data)
  with pytest.raises(DataError, match=f'Line 2 of {path} is damaged'):
    metrics.discard_from(path, 3)
  assert path.read_bytes() == data
  # Where the step is done again anyway, it goes with the others.
  assert metrics.discard_from(path, 1) == 2
  assert path.read_bytes() == b'{"step": 0}\n'


def test_lines_that_are_missing_are_said(tmp_path, caplog):
  path = tmp_path / 'metrics.jsonl'
  path.write_text('{"step": 0}\n{"step": 3}\n')
  assert metrics.discard_from(path, 6) == 0
  assert 'no line of 4 of the 6 steps that were done, such as 1' in caplog.text
  caplog.clear()
  path.write_text('{"step": 0}\n{"step": 1}\n{"step": 2}\n{"st')
  assert metrics.discard_from(path, 2) == 2
  assert not caplog.text


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
      'import pathlib, sys; from agentrl import trackers;'
      f' trackers.TensorBoard().start(pathlib.Path({str(tmp_path)!r}), "", 0);'
      ' assert "torch" not in sys.modules; import torch'
  )
  subprocess.run([sys.executable, '-c', program], check=True, cwd=ROOT)
