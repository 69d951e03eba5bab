"""Tests for agentrl.data.preference."""

import dataclasses
import json
import pathlib
import re

import pytest

from agentrl.data import (
    conversations,
    episodes as episodes_lib,
    preference,
)
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
  # 0.09999999999999998 apart
  pairs, _ = preference.build(played(0.3, 0.2), gap=0.1, threshold=0.3)
  assert returns(pairs) == [(0.3, 0.2)]
  parts = fakes.make_episode((0.01, 0.01, 0.15))  # 0.16999999999999998
  for gap, count in ((0.1, 1), (0.2, 0)):
    pairs, without = preference.build(
        [parts, *played(0.0)], gap=gap, threshold=0.17
    )
    assert len(pairs) == count
  assert without == {'whose returns differ by less than 0.2': 1}


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


ASKED = [{'role': 'user', 'content': 'q'}]
YES, NO = ([{'role': 'assistant', 'content': x}] for x in ('yes', 'no'))


@pytest.mark.parametrize(
    'record',
    [
        {'prompt': 'q', 'chosen': 'yes', 'rejected': 'no'},
        {'prompt': 'q', 'chosen': YES, 'rejected': NO},
        {'prompt': ASKED, 'chosen': 'yes', 'rejected': 'no'},
        {'prompt': ASKED, 'chosen': YES[0], 'rejected': NO[0]},
        {'prompt': ASKED[0], 'chosen': YES, 'rejected': 'no'},
        {'prompt': 'q', 'chosen': ASKED + YES, 'rejected': ASKED + NO},
        {'chosen': ASKED + YES, 'rejected': ASKED + NO},
        {'prompt': '', 'chosen': ASKED + YES, 'rejected': ASKED + NO},
        {
            'prompt': 'q',
            'messages': ASKED + YES,
            'chosen': ASKED + YES,
            'rejected': ASKED + NO,
            'score_chosen': 9.0,
            'prompt_id': 'p-1',
        },
        {
            'prompt': [{'role': 'user', 'content': [{'text': 'q'}]}],
            'chosen': [{'from': 'gpt', 'value': 'yes'}],
            'rejected': [{'from': 'gpt', 'value': 'no', 'tool_calls': []}],
        },
    ],
)
def test_common_layouts_say_the_same_pair(tmp_path, record):
  path = tmp_path / 'pairs.jsonl'
  path.write_text(json.dumps(record))
  ((better, worse),), broken = read(path)
  assert not broken
  for side, text in ((better, 'yes'), (worse, 'no')):
    assert side.messages == (Message('user', 'q'), Message('assistant', text))
    assert side.learn == (False, True)
    assert side.where == f'{path}, line 1'


def test_sides_part_at_the_first_answer_that_differs(tmp_path):
  path = tmp_path / 'pairs.jsonl'
  more = [{'role': 'user', 'content': 'and?'}]
  sides = [ASKED + YES + more + x for x in (YES, NO)]
  path.write_text(json.dumps({'chosen': sides[0], 'rejected': sides[1]}))
  ((better, worse),), _ = read(path)
  assert better.learn == worse.learn == (False, False, False, True)


@pytest.mark.parametrize(
    'record, reason',
    [
        ({'chosen': 'yes', 'rejected': 'no'}, "texts, and it has no 'prompt'"),
        ({'prompt': 7, 'chosen': YES, 'rejected': NO}, "'prompt' is neither"),
        (
            {'prompt': 'other', 'chosen': ASKED + YES, 'rejected': ASKED + NO},
            'the two do not both begin with it',
        ),
        (
            {'prompt': 'q', 'chosen': YES, 'rejected': NO, 'messages': ASKED},
            "'messages' that are neither of its sides",
        ),
        (
            {'prompt': 'q', 'chosen': YES, 'rejected': NO, 'margin': 2},
            'the unknown field margin=2',
        ),
        (
            {'prompt': 'q', 'chosen': YES, 'rejected': NO, 'wieght': 0},
            'the unknown field wieght=0',
        ),
        (
            {'prompt': 'q', 'chosen': YES, 'rejected': NO, 'system': 'Obey.'},
            "system='Obey.'; write it as the first message",
        ),
        (
            {'prompt': 'q', 'chosen': YES, 'rejected': [dict(NO[0], mask=1)]},
            "'rejected': message 0 has the unknown field mask=1",
        ),
        (
            {
                'prompt': 'q',
                'chosen': YES,
                'rejected': [{'role': 'tool', 'content': '3'}],
            },
            "'rejected': message 0 is of 'tool'",
        ),
    ],
)
def test_a_pair_that_cannot_be_honoured_is_refused(tmp_path, record, reason):
  path = tmp_path / 'pairs.jsonl'
  path.write_text(json.dumps(RECORD) + '\n' + json.dumps(record))
  found, (message,) = read(path)
  assert len(found) == 1
  assert message.startswith(f'{path}, line 2: ') and reason in message


def side(word, *, asked=1, after=6, learn=True):
  """An episode whose completion is two times the id `word`."""
  found = fakes.make_episode(tokens=(asked, 1, 2, 3, word, word, after))
  turn = dataclasses.replace(found.turns[0], learn=learn)
  return dataclasses.replace(found, turns=(turn,))


def left_out(*pairs):
  names = [f'line {i + 1}' for i in range(len(pairs))]
  return {
      index: tuple(found)
      for index, found in preference.unusable(pairs, names).items()
  }


def test_pairs_that_differ_are_kept():
  assert not left_out(
      (side(7), side(8)),
      (side(7), side(9)),  # another worse one
      (side(9), side(8)),
      (side(8, asked=2), side(7, asked=2)),  # the opposite, of another prompt
  )


@pytest.mark.parametrize(
    'better, worse, kind',
    [
        (side(7), side(7), 'equal sides'),
        (side(7), side(7, after=9), 'equal sides'),  # nobody answers it
        (side(7, asked=2), side(8), 'other prompts'),
        (side(7, asked=2), side(7), 'other prompts'),
        (side(7, learn=False), side(8), 'nothing to learn'),
        (side(7), side(8, learn=False), 'nothing to learn'),
    ],
)
def test_a_pair_that_teaches_nothing_is_left_out(better, worse, kind):
  found = left_out((better, worse), (side(7), side(8)))
  assert [(index, reason[0]) for index, reason in found.items()] == [(0, kind)]


@pytest.mark.parametrize('times', [2, 3])
def test_of_repeated_pairs_the_first_is_kept(times):
  found = left_out((side(9), side(8)), *times * [(side(7), side(8))])
  reason = 'a repetition', 'it is the same as line 2'
  assert found == {2 + i: reason for i in range(times - 1)}


@pytest.mark.parametrize('order', [[0, 1], [1, 0], [0, 1, 0], [1, 1, 0, 0]])
def test_of_pairs_that_contradict_each_other_none_is_kept(order):
  both = (side(7), side(8)), (side(8), side(7))
  pairs = [both[i] for i in order]
  found = left_out(*pairs, (side(7), side(9)))
  assert sorted(found) == list(range(len(pairs)))
  for index, (kind, reason) in found.items():
    opposite = order.index(1 - order[index]) + 1
    assert kind == 'a contradiction'
    assert reason == f'it prefers the opposite of line {opposite}'


def test_the_example_lines_of_the_guide_are_read(tmp_path):
  guide = pathlib.Path(preference.__file__).parents[1] / 'algos' / 'README.md'
  blocks = re.findall(r'```jsonl\n(.*?)```', guide.read_text(), re.DOTALL)
  assert [len(block.splitlines()) for block in blocks] == [3, 4]
  for block, reader in zip(blocks, (conversations, preference), strict=True):
    path = tmp_path / 'lines.jsonl'
    path.write_text(block)
    broken = []
    found = list(reader.read(path, on_broken=broken.append))
    assert not broken and len(found) == len(block.splitlines())
