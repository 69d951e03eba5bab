"""Tests for agentrl.evaluation.workdirs.metric_lines, with the writer of real runs."""

import math

import hypothesis
import numpy as np
from hypothesis import strategies as st

from agentrl import metrics
from agentrl.evaluation.workdirs.metric_lines import MetricLines


def dump(path):
  """All that a fresh reader finds."""
  lines = MetricLines(path)
  lines.refresh()
  return content(lines)


def content(lines):
  columns = {name: lines.column(name) for name in sorted(lines.names)}
  return (
      len(lines),
      lines.broken,
      {
          name: (c.rows.tolist(), c.values.tolist())
          for name, c in columns.items()
      },
  )


def test_columns_have_the_lines_that_have_the_metric(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  path.write_text(
      '{"step": 0, "a": 1.5, "name": "x"}\n{"step": 1}\n'
      '{"step": 2, "a": NaN, "b": true}\n'
  )
  lines = MetricLines(path)
  assert lines.refresh() and not lines.refresh()
  assert len(lines) == 3 and lines.names == ['step', 'a', 'b']
  rows, values = lines.column('a')
  assert rows.tolist() == [0, 2] and values[0] == 1.5 and math.isnan(values[1])
  assert [len(x) for x in lines.column('nothing')] == [0, 0]


def test_a_torn_line_is_read_when_it_is_whole(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  path.write_text('{"step": 0}\n{"st')
  lines = MetricLines(path)
  lines.refresh()
  assert content(lines) == (1, 0, {'step': ([0], [0.0])})
  with path.open('a') as file:
    file.write('ep": 1}\nnot JSON\n[]\n{"step": 2}\n')
  lines.refresh()
  assert content(lines) == (3, 2, {'step': ([0, 1, 2], [0.0, 1.0, 2.0])})


def test_a_missing_file_has_no_lines_until_it_is_there(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  lines = MetricLines(path)
  assert not lines.refresh() and len(lines) == 0
  path.write_text('{"step": 0}\n')
  assert lines.refresh() and len(lines) == 1
  path.unlink()
  assert lines.refresh() and content(lines) == (0, 0, {})


# What a run does to its file: a step, an evaluation after it, a kill that cuts
# a line, a resume.
STEPS = st.lists(
    st.one_of(
        st.sampled_from(['write', 'amend', 'tear']),
        st.integers(0, 6).map(lambda step: ('resume', step)),
    ),
    max_size=14,
)


@hypothesis.given(STEPS)
@hypothesis.settings(max_examples=12)
def test_reading_on_is_reading_anew(tmp_path_factory, steps):
  folder = tmp_path_factory.mktemp('run')
  path = folder / 'metrics.jsonl'
  lines = MetricLines(path)
  writer, step = None, 0

  def open_at(start):
    metrics.discard_from(path, start)
    return metrics.Writer(folder, total=99, start=start)

  for number, action in enumerate(steps):
    writer = writer or open_at(step)
    if action == 'write':
      writer.write(step, {'loss': float(number)})
      step += 1
    elif action == 'amend' and path.read_text().endswith('\n'):
      writer.amend({'eval/success': float(number)})
    else:
      writer.close()
      writer = None
      if action == 'tear':
        with path.open('a') as file:
          file.write('{"step": 9')
      elif isinstance(action, tuple):
        step = min(step, action[1])
    lines.refresh()
    assert content(lines) == dump(path)
  if writer:
    writer.close()


def test_a_hundred_thousand_lines_are_read_once(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  path.write_text(
      ''.join(f'{{"step": {i}, "loss": 0.25}}\n' for i in range(100_000))
  )
  lines = MetricLines(path)
  lines.refresh()
  assert len(lines) == 100_000
  with path.open('a') as file:
    file.write('{"step": 100000}\n')
  # All but the end could be unreadable by now.
  with path.open('r+b') as file:
    file.write(b'\0' * 1_000_000)
  lines.refresh()
  assert len(lines) == 100_001 and lines.broken == 0
  assert np.array_equal(lines.column('step').values, np.arange(100_001))
