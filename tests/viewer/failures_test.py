"""Tests for the counts of failures, against the episodes themselves."""

import collections
import dataclasses

import numpy as np
import pytest

from agentrl.envs.babyai import levels
from tests.viewer import runs
from tests.viewer.asking import get, wait_for


def play(rng, name, **values):
  """An episode with random actions, parse errors and a reward or none."""
  turns = []
  for number in range(rng.integers(1, 9)):
    parsed = rng.random() < 0.6
    turns.append(
        runs.turn(
            number,
            action=f'go {rng.integers(2)}' if parsed else '',
            parse_error=None if parsed else f'no action {rng.integers(2)}',
            observation=f'room {rng.integers(2)}',
        )
    )
  rewarded = rng.random() < 0.5
  if rewarded:
    turns[-1] = dataclasses.replace(turns[-1], reward=1.0)
  return runs.episode(
      name,
      made=tuple(turns),
      success=rewarded,
      stop_reason='terminated'
      if rewarded
      else str(rng.choice(['horizon', 'context'])),
      task_id=int(rng.integers(40)),
      **values,
  )


@pytest.fixture(scope='module')
def played():
  """Episodes of two runs by file."""
  rng = np.random.default_rng(0)
  return {
      (run, step): [
          play(rng, f'{run}-{step}-{i}', horizon=3 if step < 20 else 10)
          for i in range(12)
      ]
      for run in 'ab'
      for step in (0, 7, 20, 25)
  }


@pytest.fixture
def url(tmp_path, viewer, played):
  for (run, step), episodes in played.items():
    runs.write(tmp_path, run, f'episodes/train/{step:06d}.jsonl', episodes)
  found = viewer(tmp_path)
  wait_for(96, found, run=['a', 'b'])
  return found


def repeated(episode):
  """Turns whose action answers an observation as an earlier turn did."""
  seen = [episode.prompt[-1].content, *(t.observation for t in episode.turns)]
  answers = [
      (before, turn.action)
      for before, turn in zip(seen, episode.turns, strict=False)
  ]
  return sum(x in answers[:i] for i, x in enumerate(answers))


COLUMN = {
    'stop': lambda e: e.stop_reason,
    'parse_errors': lambda e: min(
        sum(t.parse_error is not None for t in e.turns), 5
    ),
    'repeated': lambda e: min(repeated(e), 5),
    'first_reward': lambda e: next(
        (i + 1 for i, t in enumerate(e.turns) if t.reward > 0), None
    ),
}
ROW = {
    'stage': lambda run, step, e: (
        f'{levels.group_of(e.task_id)}\x1f{e.horizon}'
    ),
    'horizon': lambda run, step, e: e.horizon,
    'run': lambda run, step, e: run,
    'step': lambda run, step, e: step // 3 * 3,  # a tenth of 26 steps
    'env': lambda run, step, e: e.env,
}


@pytest.mark.parametrize('by', ROW)
@pytest.mark.parametrize('failed', [False, True])
def test_counts_are_those_of_the_episodes(url, played, by, failed):
  query = {'failed': '1'} if failed else {}
  found = get(url, 'failures', run=['a', 'b'], by=by, **query)
  for kind, column in COLUMN.items():
    expected = collections.Counter(
        (ROW[by](run, step, e), column(e))
        for (run, step), episodes in played.items()
        for e in episodes
        if not (failed and e.success)
    )
    table = found['tables'][kind]
    counts = {
        (row, name): count
        for row, line in zip(table['rows'], table['counts'], strict=True)
        for name, count in zip(table['columns'], line, strict=True)
        if count
    }
    assert counts == expected
  if by == 'stage':
    rows = [row.split('\x1f') for row in found['tables']['stop']['rows']]
    assert rows == sorted(rows, key=lambda row: (row[0], int(row[1])))
  assert found['found'] == {'env': ['babyai'], 'origin': ['train']}


def test_words_are_ranked_with_their_places(url, played):
  found = get(url, 'failures/words', run='a')
  turns = [
      turn
      for (run, _), episodes in played.items()
      for e in episodes
      for turn in e.turns
      if run == 'a'
  ]
  expected = collections.Counter(t.parse_error for t in turns if t.parse_error)
  assert {x['words'][0]: x['turns'] for x in found['parse_errors']} == expected
  loops = sum(
      repeated(e)
      for (run, _), episodes in played.items()
      for e in episodes
      if run == 'a'
  )
  assert sum(x['turns'] for x in found['loops']) == loops > 0
  counts = [x['turns'] for x in found['loops']]
  assert counts == sorted(counts, reverse=True)
  [first, *_] = found['parse_errors']
  for place in first['places']:
    assert place['run'] == 'a'
    step = int(place['file'][-12:-6])
    turn = played['a', step][place['line']].turns[place['turn']]
    assert turn.parse_error == first['words'][0]


def test_wrong_queries_are_refused(url):
  assert get(url, 'failures', run='a', by='mood')['status'] == 422
  assert get(url, 'failures')['status'] == 422
  assert get(url, 'failures', run="a' OR 1")['episodes'] == 0
