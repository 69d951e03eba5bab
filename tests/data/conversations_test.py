"""Tests for agentrl.data.conversations."""

import json
import sys

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
  assert 'line 3' in message and 'missing required field' in message


def test_records_of_another_environment_are_left_out_and_said(tmp_path):
  path = tmp_path / 'data.jsonl'
  episode = fakes.make_episode((1.0,))  # of 'fake'
  lines = [json.dumps(GOOD), episodes_lib.to_line(episode), json.dumps(PLAIN)]
  path.write_text('\n'.join(lines))
  broken = []
  found = conversations.read(path, on_broken=broken.append, env='babyai')
  assert [x.name for x in found] == [f'{path}, line 3']  # does not say
  first, second = map(str, broken)
  assert "line 1: 'textcraft_12' is of the environment 'textcraft'" in first
  assert "not of this run's env.name='babyai'" in first
  assert "line 2: 'e' is of the environment 'fake'" in second
  assert len(read(path)[0]) == 3


@pytest.mark.parametrize('sep', ['\n', '\n\n', ''])
def test_indented_records_are_read(tmp_path, sep):
  path = tmp_path / 'data.json'
  texts = [json.dumps(record, indent=2) for record in (GOOD, PLAIN)]
  path.write_text(sep.join(texts) + '\n')
  found, broken = read(path)
  assert [len(x.messages) for x in found] == [
      len(GOOD['conversations']),
      len(PLAIN['messages']),
  ]
  assert not broken
  path.write_text(texts[0] + '\n{\n  "broken": \n' + texts[1])
  found, (message,) = read(path)
  assert len(found) == 2 and 'record 1' in message


def test_numbers_and_depths_without_an_end_are_said(tmp_path):
  path = tmp_path / 'data.jsonl'
  item = dict(PLAIN, item_id='babyai_' + '9' * 5000)
  deep = '{"messages": ' + '[' * 99999 + ']' * 99999 + '}'
  path.write_text(f'{json.dumps(item)}\n{deep}\n{{"a": {"9" * 5000}}}')
  (found,), (first, second) = read(path)
  assert (found.env, found.task_id) == ('', 0)
  assert 'recursion' in first and 'line 3' in second


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path):
  with pytest.raises(DataError, match='Cannot read .*none.json'):
    read(tmp_path / 'none.json')


TALK = PLAIN['messages'][1:]


@pytest.mark.parametrize(
    'record, reason',
    [
        ({'messages': TALK, 'weight': 0}, 'the unknown field weight=0'),
        ({'messages': TALK, 'train': False}, 'the unknown field train=False'),
        ({'messages': TALK, 'reward': 0.5}, 'the unknown field reward=0.5'),
        ({'messages': TALK, 'system': 'Obey.'}, "system='Obey.'; write it as"),
        ({'messages': TALK, 'tools': [{'a': 1}]}, 'tools=[{'),
        ({'messages': TALK, 'prompt': 'other'}, "'prompt' that is none of"),
        (
            {'messages': [TALK[0], dict(TALK[1], mask=1)]},
            'message 1 has the unknown field mask=1',
        ),
        (
            {'prompt': 'q', 'completion': 'a', 'loss': 0},
            'the unknown field loss=0',
        ),
        ({'completion': 'a'}, "it has no 'prompt'"),
        (
            {'messages': [TALK[0], dict(TALK[1], weight=0)]},
            "no assistant's message to learn from",
        ),
    ],
)
def test_a_record_that_cannot_be_honoured_is_refused(tmp_path, record, reason):
  path = tmp_path / 'data.jsonl'
  path.write_text(json.dumps(GOOD) + '\n' + json.dumps(record))
  found, (message,) = read(path)
  assert len(found) == 1
  assert message.startswith(f'{path}, line 2: ') and reason in message


@pytest.mark.parametrize(
    'change',
    [
        lambda line: line | {'mask': [0]},
        lambda line: line | {'weight': 0},
        lambda line: line | {'turns': [line['turns'][0] | {'train': False}]},
    ],
)
def test_an_unknown_field_of_an_episode_is_refused(tmp_path, change):
  path = tmp_path / 'data.jsonl'
  line = json.loads(episodes_lib.to_line(fakes.make_episode()))
  path.write_text('\n'.join(map(json.dumps, [GOOD, change(line)])))
  found, (message,) = read(path)
  assert len(found) == 1 and 'the unknown field' in message


@pytest.mark.parametrize(
    'record',
    [
        {'prompt': 'hello', 'completion': 'hi'},
        {'prompt': [TALK[0]], 'completion': [TALK[1]]},
        {'messages': TALK, 'prompt': 'hello', 'id': 3, 'source': 'x'},
        {'messages': TALK, 'tools': [], 'system': None, 'split': 'train'},
    ],
)
def test_common_layouts_say_the_same_conversation(tmp_path, record):
  path = tmp_path / 'data.jsonl'
  path.write_text(json.dumps(record))
  (found,), broken = read(path)
  assert not broken and found.learn == (False, True)
  assert [m.content for m in found.messages] == ['hello', 'hi']


def test_the_answers_of_a_prompt_are_not_learnt(tmp_path):
  path = tmp_path / 'data.jsonl'
  prompt = [*TALK, {'role': 'user', 'content': 'and?'}]
  path.write_text(json.dumps({'prompt': prompt, 'completion': 'bye'}))
  assert read(path)[0][0].learn == (False, False, False, True)


def test_parquet_is_read_row_by_row(tmp_path):
  pyarrow = pytest.importorskip('pyarrow')
  parquet = pytest.importorskip('pyarrow.parquet')
  path = tmp_path / 'data.parquet'
  rows = [
      {'messages': TALK, 'prompt': None},
      {'messages': TALK, 'prompt': 'other'},
      {'messages': [TALK[0], dict(TALK[1], weight=0.0)] + TALK, 'prompt': None},
  ]
  parquet.write_table(pyarrow.Table.from_pylist(rows), path)
  (first, second), (message,) = read(path)
  assert first.learn == (False, True) and first.where == f'{path}, row 0'
  assert second.learn == (False, False, False, True)
  assert message.startswith(f'{path}, row 1: ')
  path.write_bytes(path.read_bytes()[:60])
  with pytest.raises(DataError, match='Cannot read .*data.parquet'):
    read(path)


def test_a_text_of_parquet_that_is_not_utf8_is_refused_with_its_row(tmp_path):
  pyarrow = pytest.importorskip('pyarrow')
  parquet = pytest.importorskip('pyarrow.parquet')
  path = tmp_path / 'data.parquet'
  _, offsets, words = pyarrow.array([b'a', b'\xff']).buffers()
  prompts = pyarrow.StringArray.from_buffers(2, offsets, words)
  table = pyarrow.table({'prompt': prompts, 'completion': ['b', 'c']})
  parquet.write_table(table, path)
  with pytest.raises(DataError, match='a text of row 1 is not UTF-8'):
    read(path)


def test_parquet_without_its_reader_is_refused_with_the_way_out(
    tmp_path, monkeypatch
):
  monkeypatch.setitem(sys.modules, 'pyarrow', None)
  path = tmp_path / 'data.parquet'
  path.write_bytes(b'PAR1')
  with pytest.raises(DataError, match='pip install -r third_party/req.*parq'):
    read(path)
