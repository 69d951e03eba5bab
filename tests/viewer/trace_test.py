"""Tests for agentrl.viewer.trace."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from agentrl.data import episodes as episodes_lib
from agentrl.viewer import trace
from agentrl.viewer.trace import Span
from tests.viewer import runs

# Two steps: 2 s of collecting, 3 of updating, 1 of pushing, and 4 between them.
LINES = [
    {
        'step': step,
        'time': 100.0 + 10 * step,
        'time/collect_s': 2.0,
        'time/update_s': 3.0,
        'time/push_s': 1.0,
    }
    for step in range(2)
]


def played(name, began, sampler_s=0.5, env_s=0.25, turns=2):
  """An episode whose turns follow each other at once."""
  made = tuple(
      runs.turn(
          i,
          began=began + i * (sampler_s + env_s),
          sampler_s=sampler_s,
          env_s=env_s,
      )
      for i in range(turns)
  )
  return runs.episode(name, made=made)


def test_parts_of_steps_end_with_their_lines():
  assert list(trace.of_learner(LINES)) == [
      Span('collect', 94, 96, 0),
      Span('update', 96, 99, 0),
      Span('push', 99, 100, 0),
      Span('between', 100, 104, 1),
      Span('collect', 104, 106, 1),
      Span('update', 106, 109, 1),
      Span('push', 109, 110, 1),
  ]


def test_turns_are_two_spans_each():
  assert list(trace.of_episode(played('e', 10.0))) == [
      Span('sampler', 10.0, 10.5, 0),
      Span('environment', 10.5, 10.75, 0),
      Span('sampler', 10.75, 11.25, 1),
      Span('environment', 11.25, 11.5, 1),
  ]
  assert not list(trace.of_episode(runs.episode()))  # of an older version


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 20)),
        min_size=1,
        max_size=30,
    )
)
def test_lanes_do_not_overlap_and_are_as_few_as_can_be(drawn):
  intervals = [(float(a), float(a + n)) for a, n in drawn]
  found = trace.lanes(intervals)
  for lane in set(found):
    own = sorted(x for x, y in zip(intervals, found, strict=True) if y == lane)
    assert all(a[1] <= b[0] for a, b in zip(own, own[1:], strict=False))
  most = max(
      sum(a <= moment < b for a, b in intervals) for moment, _ in intervals
  )
  assert len(set(found)) == max(found) + 1 == most


def test_a_trace_has_the_learner_and_each_turn(tmp_path):
  episodes = [played('a', 95.0), played('b', 95.2), played('c', 99.0)]
  episodes_lib.write(episodes_lib.step_path(tmp_path, 'train', 0), episodes)
  (tmp_path / 'metrics.jsonl').write_text(
      ''.join(json.dumps(line) + '\n' for line in LINES)
  )
  said = subprocess.run(
      [sys.executable, '-m', 'agentrl.viewer.trace', str(tmp_path)],
      capture_output=True,
      text=True,
      check=True,
  )
  events = json.loads(said.stdout)['traceEvents']
  spans = [x for x in events if x['ph'] == 'X']
  assert {x['args']['name'] for x in events if x['ph'] == 'M'} == {
      'learner', 'episodes',
  }  # fmt: skip
  assert len(spans) == 7 + 3 * (1 + 4)
  whole = {x['name']: x for x in spans if x['name'] in 'abc'}
  assert [whole[name]['tid'] for name in 'abc'] == [0, 1, 0]
  assert whole['a']['ts'] == 95_000_000 and whole['a']['dur'] == 1_500_000
  turn = next(x for x in spans if x['cat'] == 'sampler')
  assert turn['args'] == {'turn': 1, 'tokens': 2, 'weight_version': '1'}


def test_a_folder_without_metrics_has_no_trace(tmp_path):
  with pytest.raises(OSError, match='metrics.jsonl'):
    trace.of_run(tmp_path)
