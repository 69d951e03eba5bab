"""Tests for agentrl.data.conversations."""

import json

import pytest

from agentrl.data import conversations, episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.types import Conversation, Episode
from tests import fakes

GOOD = {
    'item_id': 'textcraft_12',
    'conversations': [
        {'from': 'human', 'value': 'rules', 'loss': None},
        {'from': 'gpt', 'value': 'OK.', 'loss': False},
        {'from': 'human', 'value': 'Goal: craft x.', 'loss': None},
        {'from': 'gpt', 'value': 'Action: inventory', 'loss': True},
        {'from': 'human', 'value': 'nothing', 'loss': None},
        {'from': 'gpt', 'value': 'Action: get 1 x', 'loss': True},
    ],
}
PLAIN = {
    'messages': [
        {'role': 'system', 'content': 'Be brief.'},
        {'role': 'user', 'content': 'hello'},
        {'role': 'assistant', 'content': 'hi'},
    ]
}


def read(path):
  broken = []
  found = list(conversations.read(path, on_broken=broken.append))
  return found, [str(error) for error in broken]


def test_both_kinds_say_who_speaks_and_what_is_learnt(tmp_path):
  path = tmp_path / 'data.json'
  path.write_text(json.dumps([GOOD, PLAIN]))
  (first, second), broken = read(path)
  assert not broken
  assert (first.env, first.task_id) == ('textcraft', 12)
  assert [m.role for m in first.messages] == 3 * ['user', 'assistant']
  assert first.learn == (False, False, False, True, False, True)
  assert second.messages[0].role == 'system'
  assert second.learn == (False, False, True)


@pytest.mark.parametrize('as_list', [True, False])
def test_a_broken_record_is_named_and_the_others_are_kept(tmp_path, as_list):
  path = tmp_path / 'data.json'
  texts = [json.dumps(GOOD), json.dumps(PLAIN)[:-9], json.dumps(PLAIN)]
  path.write_text(
      '[' + ',\n'.join(texts) + ']' if as_list else '\n'.join(texts)
  )
  found, broken = read(path)
  assert [type(x) for x in found] == [Conversation, Conversation]
  (message,) = broken
  assert str(path) in message
  assert ('record 1' if as_list else 'line 2') in message


def test_a_list_that_breaks_off_keeps_what_came_before(tmp_path):
  path = tmp_path / 'data.json'
  path.write_text(json.dumps([GOOD, PLAIN])[:-30])
  found, broken = read(path)
  assert [x.name for x in found] == ['textcraft_12']
  assert broken and 'record 1' in broken[0]


@pytest.mark.parametrize(
    'record, reason',
    [
        (7, 'a int where'),
        ({'text': 'x'}, 'none of'),
        ({'messages': []}, 'empty'),
        ({'messages': ['x']}, 'message 0 is a str'),
        ({'messages': [{'role': 'tool', 'content': 'x'}]}, "of 'tool'"),
        ({'messages': [{'role': 'user', 'content': None}]}, 'no text but None'),
        ({'messages': [{'role': 'user', 'content': 'x'}]}, 'to learn from'),
        ({'messages': PLAIN['messages'][2:]}, 'does not follow a user'),
        ({'messages': PLAIN['messages'] * 2}, 'is of the system'),
        (
            {'messages': PLAIN['messages'] + PLAIN['messages'][2:]},
            "message 3 is of 'assistant' where the turn is of 'user'",
        ),
        (
            {'conversations': [dict(GOOD['conversations'][3], loss='yes')]},
            "loss='yes'",
        ),
        (
            {
                'messages': [
                    {'role': 'user', 'content': 'x'},
                    {'role': 'assistant', 'content': ''},
                ]
            },
            'empty',
        ),
    ],
)
def test_the_reason_is_said(tmp_path, record, reason):
  path = tmp_path / 'data.jsonl'
  path.write_text(json.dumps(GOOD) + '\n' + json.dumps(record) + '\n')
  found, (message,) = read(path)
  assert len(found) == 1
  assert 'line 2' in message and reason in message


def test_episodes_and_conversations_may_share_a_file(tmp_path):
  path = tmp_path / 'data.jsonl'
  episode = fakes.make_episode((0.0, 1.0))
  path.write_text(
      episodes_lib.to_line(episode)
      + '\n'
      + json.dumps(PLAIN)
      + '\n{"turns": []}\n'
  )
  found, (message,) = read(path)
  assert [type(x) for x in found] == [Episode, Conversation]
  assert found[0] == episode
  assert 'line 3' in message and 'is missing' in message


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path):
  with pytest.raises(DataError, match='Cannot read .*none.json'):
    read(tmp_path / 'none.json')
