"""Tests for agentrl.rollout.reflection: lessons between attempts at one task."""

import asyncio
import dataclasses

import pytest

from agentrl.data import collate, episodes as episodes_lib
from agentrl.rollout import reflection
from agentrl.rollout.collect import collect, rollout_metrics
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import ContextOptions, ReflectOptions
from agentrl.types import Group, Message
from tests import fakes
from tests.rollout import scripts

TWICE = ReflectOptions(attempts=2, tokens=8)
PROMPT = (Message('user', 'Walk 3 steps.'),)


def previous(count=3, **fields):
  turns = tuple(
      fakes.make_turn(completion=f'act-{i}', observation=f'seen-{i}')
      for i in range(count)
  )
  episode = fakes.make_episode((0.0,) * count, stop_reason='horizon')
  return dataclasses.replace(episode, turns=turns, **fields)


def test_an_attempt_is_read_in_words_with_its_outcome():
  asked = reflection.due(TWICE, PROMPT, previous(), lambda *_: True)
  words = asked.words.split('\n\n')
  assert words[:7] == [
      'Your last attempt:', 'act-0', 'seen-0', 'act-1', 'seen-1', 'act-2',
      'seen-2',
  ]  # fmt: skip
  assert words[7] == 'It did not succeed, with return 0.'
  assert (asked.kind, asked.tokens, asked.learn) == ('lesson', 8, True)


@pytest.mark.parametrize('shown', [0, 1, 2, 3])
def test_an_attempt_is_shortened_from_its_beginning(shown):
  whole = previous()

  def fits(messages, tokens):
    assert tokens == 8 and messages[0].content.startswith('Walk 3 steps.')
    return messages[0].content.count('act-') <= shown

  text = reflection.due(TWICE, PROMPT, whole, fits).words
  kept = [i for i in range(3) if f'act-{i}' in text]
  assert kept == list(range(3 - shown, 3))
  assert ('[...]' in text) == (shown < 3)


def test_a_lesson_is_handed_on_and_its_request_is_not():
  lesson = fakes.make_turn(
      kind='lesson', completion='hurry', request='long words'
  )
  whole = previous()
  whole = dataclasses.replace(whole, turns=(lesson, *whole.turns))
  text = reflection.due(TWICE, PROMPT, whole, lambda *_: True).words
  assert 'Your lesson before it: hurry' in text and 'long words' not in text


@pytest.mark.parametrize('learn', [True, False])
def test_an_attempt_with_a_lesson(chat, learn):
  options = dataclasses.replace(TWICE, learn=learn)
  agent = scripts.make_agent(chat, reflect=options)
  first = scripts.play(
      agent, scripts.scripted(agent, 'wait'), steps=3, horizon=2
  )
  policy = scripts.scripted(agent, 'go', 'go')
  episode = scripts.play(agent, policy, steps=3, previous=first)
  assert episode.success and episode.attempt == 1
  assert scripts.kinds(episode) == ['lesson', 'act', 'act', 'act']
  assert len(episode.segments) == 2 and len(episode.acts) == 3
  scripts.check(episode, policy)
  asked, told, *_ = scripts.prompts(chat, policy)
  assert 'Your last attempt:\n\nwait\n\n3 to go.' in asked
  assert 'A lesson from your last attempt: go' in told
  assert 'Your last attempt:\n\n' not in told
  batch = collate.collate([Group(0, 0, (first, episode))])
  # The lesson is part of the episode whose return it earns.
  lesson = episode.sampled_runs[0]
  assert batch.completion_mask[1, slice(*lesson)].all() == learn
  assert batch.episode_return.tolist() == [0.0, 1.0]
  assert episodes_lib.from_line(episodes_lib.to_line(episode)) == episode


def test_a_lesson_stays_in_later_segments(chat):
  agent = scripts.make_agent(
      chat, reflect=TWICE, context=ContextOptions(kind='window', window=1)
  )
  policy = scripts.scripted(agent, 'hurry', 'go')
  episode = scripts.play(agent, policy, steps=4, previous=previous())
  assert episode.success and len(episode.segments) == 4
  scripts.check(episode, policy)
  for text in scripts.prompts(chat, policy)[1:]:
    assert 'A lesson from your last attempt: hurry' in text


def test_a_long_attempt_fits_the_context(chat):
  agent = scripts.make_agent(chat, reflect=TWICE)
  policy = scripts.scripted(agent, 'hurry', 'go')
  episode = scripts.play(agent, policy, previous=previous(200), max_context=900)
  assert episode.success
  opening = len(policy.requests[0]['input_ids'])
  assert 800 < opening + TWICE.tokens <= 900
  assert 'act-199' in episode.turns[0].request


def test_a_context_without_room_for_a_lesson_says_so(chat):
  agent = scripts.make_agent(chat, reflect=TWICE)
  policy = scripts.scripted(agent, 'go')
  episode = scripts.play(agent, policy, previous=previous(), max_context=120)
  assert episode.stop_reason == 'context' and not episode.valid
  assert 'leaves no room in a context of 120' in episode.error


def test_an_expert_learns_its_actions_by_heart(chat):
  agent, env = scripts.make_agent(chat, reflect=TWICE), fakes.FakeEnv()
  episode = scripts.play(
      agent, Expert(env, agent), env=env, steps=2, previous=previous()
  )
  assert episode.success and episode.turns[0].completion == 'go x3'


def play_chains(play, *, chain=3, **settings):
  return asyncio.run(
      collect(
          [(7, 1), (8, 2)], 2, play, seed=3, concurrency=3, chain=chain,
          retry_wait_s=0.0, **settings,
      )
  )  # fmt: skip


def test_chains_are_played_in_sequence_and_recorded_in_rounds():
  open_chains, seen = set(), []

  async def play(assignment):
    place = assignment.ordinal, assignment.replica
    assert place not in open_chains
    open_chains.add(place)
    # The first to start is the last to end.
    await asyncio.sleep(0.02 / (1 + len(seen)))
    open_chains.discard(place)
    seen.append(assignment)
    return fakes.make_episode(
        (float(assignment.attempt),),
        episode_id=f'{assignment.ordinal}/{assignment.replica}',
        attempt=assignment.attempt,
        sample=assignment.replica,
        seed=assignment.seed,
    )

  groups = play_chains(play)
  for group in groups:
    assert [(e.attempt, e.sample) for e in group.episodes] == [
        (attempt, replica) for attempt in range(3) for replica in range(2)
    ]
  for assignment in seen:
    before = assignment.previous
    assert (before is None) == (assignment.attempt == 0)
    if before:
      assert before.attempt == assignment.attempt - 1
      assert before.episode_id == f'{assignment.ordinal}/{assignment.replica}'
  episodes = [e for group in groups for e in group.episodes]
  assert len({episode.seed for episode in episodes}) == len(episodes) == 12
  alone = play_chains(play, chain=1)
  firsts = [e for e in episodes if e.attempt == 0]
  assert [e.seed for g in alone for e in g.episodes] == [e.seed for e in firsts]
  metrics = rollout_metrics(groups, 1)
  assert [metrics[f'rollout/return_attempt_{k}'] for k in (1, 2, 3)] == [
      0,
      1,
      2,
  ]
  assert [metrics[f'rollout/success_attempt_{k}'] for k in (1, 2, 3)] == [
      0,
      1,
      1,
  ]
  assert not any('attempt' in name for name in rollout_metrics(alone, 1))


def test_nothing_is_learnt_from_an_attempt_that_failed():
  given = {}

  async def play(assignment):
    given[assignment.replica, assignment.attempt] = assignment.previous
    failed = (assignment.replica, assignment.attempt) == (0, 0)
    return fakes.make_episode(
        stop_reason='env_error' if failed else 'horizon',
        attempt=assignment.attempt,
    )

  groups = play_chains(play, attempts=2, max_failed_share=1.0)
  assert [e.valid for e in groups[0].episodes] == [False] + [True] * 5
  assert given[0, 1] is None and given[0, 2] is not None
  assert given[1, 1] is not None
