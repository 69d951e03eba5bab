"""Tests for agentrl.data.preference."""

import dataclasses
import json

import pytest

from agentrl.data import episodes as episodes_lib, preference
from agentrl.data.preference import Pair
from agentrl.errors import DataError
from agentrl.types import Conversation, Episode, Message
from tests import fakes

RECORD = {
    'id': 'textcraft_7',
    'prompt': [
        {'from': 'human', 'value': 'rules'},
        {'from': 'gpt', 'value': 'OK.'},
        {'from': 'human', 'value': 'Goal: craft x.'},
    ],
    'chosen': [{'from': 'gpt', 'value': 'get 1 x', 'loss': True}],
    'rejected': [
        {'from': 'gpt', 'value': 'hm', 'loss': True},
        {'from': 'human', 'value': 'what?'},
        {'from': 'gpt', 'value': 'inventory', 'loss': False},
    ],
}


def read(path):
  broken = []
  found = list(preference.read(path, on_broken=broken.append))
  return found, [str(error) for error in broken]


def test_pairs_of_another_environment_are_left_out(tmp_path):
  path = tmp_path / 'pairs.json'
  path.write_text(json.dumps([RECORD]))
  broken = []
  found = preference.read(path, on_broken=broken.append, env='babyai')
  assert not list(found)
  assert "environment 'textcraft', not of" in str(broken[0])
  assert len(read(path)[0]) == 1


def played(*returns, task=0, prefix='', **fields):
  """Episodes of one task with these returns."""
  return [
      fakes.make_episode(
          (value,), task_id=task, episode_id=f'{prefix}{task}/{i}', **fields
      )
      for i, value in enumerate(returns)
  ]


def returns(pairs):
  return [(p.better.episode_return, p.worse.episode_return) for p in pairs]


def test_the_best_of_a_task_is_paired_with_its_worst():
  episodes = [*played(0.1, 0.9, 0.8, 0.0), *played(1.0, 0.5, task=1)]
  pairs, without = preference.build(episodes, gap=0.01, threshold=0.7)
  assert returns(pairs) == [(0.9, 0.0), (1.0, 0.5)]
  assert not without
  assert all(p.better.task_id == p.worse.task_id for p in pairs)


def test_more_pairs_of_a_task_share_no_episode():
  pairs, _ = preference.build(
      played(0.1, 0.9, 0.8, 0.0), gap=0.01, threshold=0.7, per_task=9
  )
  assert returns(pairs) == [(0.9, 0.0), (0.8, 0.1)]


@pytest.mark.parametrize(
    'found, reason',
    [
        ((1.0,), 'with fewer than two valid episodes'),
        ((0.6, 0.0), 'whose best return is below 0.7'),
        ((1.0, 1.0), 'whose returns differ by less than 0.01'),
    ],
)
def test_a_task_without_a_pair_is_counted_with_its_reason(found, reason):
  episodes = [*played(*found), *played(*found, task=1)]
  pairs, without = preference.build(episodes, gap=0.01, threshold=0.7)
  assert pairs == [] and without == {reason: 2}


def test_gap_and_threshold_are_reached_by_equality():
  pairs, _ = preference.build(played(0.75, 0.5), gap=0.25, threshold=0.75)
  assert returns(pairs) == [(0.75, 0.5)]


def test_only_valid_episodes_that_began_alike_are_compared():
  failed = fakes.make_episode(stop_reason='env_error', error='down')
  other = dataclasses.replace(
      fakes.make_episode((0.0,)), prompt=(Message('user', 'another start'),)
  )
  episodes = [*played(1.0), failed, other]
  pairs, without = preference.build(episodes, gap=0.01, threshold=0.7)
  assert pairs == [] and sum(without.values()) == 2


def test_a_record_is_two_conversations_whose_prompt_is_not_learnt(tmp_path):
  path = tmp_path / 'pairs.json'
  path.write_text(json.dumps([RECORD]))
  ((better, worse),), broken = read(path)
  assert not broken
  assert (better.env, better.task_id) == ('textcraft', 7)
  assert better.learn == (False, False, False, True)
  assert worse.learn == (False, False, False, True, False, False)
  assert better.messages[:3] == worse.messages[:3]


def test_pairs_and_episodes_may_share_a_file(tmp_path):
  path = tmp_path / 'pairs.jsonl'
  path.write_text(
      json.dumps(RECORD)
      + '\n'
      + episodes_lib.to_line(fakes.make_episode())
      + '\n'
  )
  found, broken = read(path)
  assert [type(x) for x in found] == [Pair, Episode] and not broken


@pytest.mark.parametrize(
    'record, reason',
    [
        (RECORD | {'chosen': []}, "'chosen': its messages are no list, or an"),
        (RECORD | {'rejected': 7}, "'rejected' is neither a text nor a list"),
        (
            {k: v for k, v in RECORD.items() if k != 'rejected'},
            "it has no 'rejected'",
        ),
        ({'messages': RECORD['prompt'] + RECORD['chosen']}, 'alone is no pair'),
    ],
)
def test_a_broken_record_is_named_and_the_others_are_kept(
    tmp_path, record, reason
):
  path = tmp_path / 'pairs.jsonl'
  path.write_text(json.dumps(record) + '\n{"chosen":\n' + json.dumps(RECORD))
  found, (first, second) = read(path)
  assert len(found) == 1 and isinstance(found[0].better, Conversation)
  assert f'{path}, line 1: ' in first and reason in first
  assert f'{path}, line 2: ' in second


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path):
  with pytest.raises(DataError, match='Cannot read .*none.json'):
    read(tmp_path / 'none.json')
