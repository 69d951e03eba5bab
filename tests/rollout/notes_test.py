"""Tests for agentrl.rollout.contexts.notes, and of episodes with notes."""

import pytest

from agentrl.data import collate
from agentrl.rollout.contexts import base, notes
from agentrl.rollout.contexts.base import EpisodeView
from agentrl.rollout.options import ContextOptions
from agentrl.types import Group, Message
from tests import fakes
from tests.rollout import scripts

PROMPT = (Message('user', 'Walk 9 steps.'),)
NOTES = ContextOptions(kind='notes', window=1, notes_tokens=12)


def note(action):
  return fakes.make_turn(
      kind='note', completion=action, action=action, observation=notes.NOTED
  )


def act(number):
  return fakes.make_turn(completion=f'c{number}', observation=f'o{number}')


def test_notes_are_added_to_and_replaced():
  assert notes.read([]) == ''
  turns = [note('note: a door'), act(0), note('Note:  a key ')]
  assert notes.read(turns) == 'a door\na key'
  assert notes.read([*turns, note('rewrite: all done')]) == 'all done'


def test_notes_open_the_segments_that_follow():
  policy = notes.notes(1, 12)
  assert policy.next_segment(EpisodeView(PROMPT, [act(0)], 1)).opening is None
  turns = [note('note: a door'), act(0), act(1)]
  opening = policy.next_segment(EpisodeView(PROMPT, turns, 1)).opening('')
  assert opening == (
      Message(
          'user',
          f'Walk 9 steps.\n\n{base.LEFT_OUT} Your notes:\na door',
      ),
      Message('assistant', 'c1'),
      Message('user', 'o1'),
  )
  # An edit is answered in the segment in which it stands.
  turns.append(note('note: a key'))
  assert policy.next_segment(EpisodeView(PROMPT, turns, 1)).opening is None
  without = policy.next_segment(
      EpisodeView(PROMPT, [act(0), act(1)], 1)
  ).opening('')
  assert 'notes' not in without[0].content


@pytest.mark.parametrize(
    ('turns', 'action', 'error'),
    [
        ([], 'note: thirteen chars', 'would have 14 tokens, and may have 12'),
        ([note('note: 0123456')], 'note: now', 'act before you edit'),
        ([note('note: 0123456'), act(0)], 'note: more!', 'write rewrite:'),
    ],
)
def test_commands_that_are_refused(turns, action, error):
  assert error in notes.notes(1, 12).command(turns, action, len).error


def test_an_episode_with_notes(chat):
  agent = scripts.make_agent(chat, context=NOTES)
  policy = scripts.scripted(
      agent, 'note: 0 to go', 'go', 'go', 'note: ' + 'too long ' * 9,
      'rewrite: new', 'go',
  )  # fmt: skip
  env = fakes.FakeEnv()
  episode = scripts.play(agent, policy, env=env, max_completion_tokens=120)
  assert episode.success and env.actions == ['go'] * 6
  assert scripts.kinds(episode) == [
      'note', 'act', 'act', 'act', 'note', *['act'] * 4
  ]  # fmt: skip
  assert 'your notes would have' in episode.turns[3].parse_error
  assert episode.turns[3].observation.startswith('Your reply was not')
  scripts.check(episode, policy)
  seen = scripts.prompts(chat, policy)
  assert notes.NOTED in seen[1] and 'Your notes' not in seen[1]
  assert 'Your notes:\n0 to go' in seen[3]
  assert 'Your notes:\nnew' in seen[6] and '0 to go' not in seen[6]
  batch = collate.collate([Group(0, 0, (episode,))])
  assert batch.completion_mask.sum() == sum(
      turn.completion_tokens for turn in episode.turns
  )


def test_a_policy_that_only_notes_comes_to_an_end(chat):
  agent = scripts.make_agent(chat, context=NOTES)
  policy = scripts.scripted(agent, 'rewrite: x')
  episode = scripts.play(agent, policy, horizon=4)
  assert episode.stop_reason == 'horizon'
  assert scripts.kinds(episode) == ['note', 'act'] * 4
