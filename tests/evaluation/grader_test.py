"""Tests for agentrl.evaluation.grader, with models that a test writes."""

import asyncio
import json
import pathlib

import pytest
from hypothesis import given, strategies as st

from agentrl import plugins
from agentrl.errors import ConfigError, EngineError
from agentrl.evaluation import grader, judge
from agentrl.evaluation.grader import Grader, read_score
from agentrl.inference.options import ChatOptions
from agentrl.types import Message
from tests import fakes


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
  """The user's cache of this test."""
  monkeypatch.setenv('AGENTRL_CACHE', str(tmp_path))
  return tmp_path


@pytest.mark.parametrize(
    'text, score',
    [
        ('Score: 7', 0.7),
        ('It went well.\n\n**Score: 10**', 1.0),
        ('score: 0/10.\n', 0.0),
    ],
)
def test_scores(text, score):
  assert read_score(text) == score


@pytest.mark.parametrize(
    'text',
    ['', '7', 'Score: 11', 'Score: -1', 'Score: 3\nScore: 4', 'Score: 3\nOk.'],
)
def test_a_score_that_cannot_be_read_is_an_error_and_no_reward(text):
  with pytest.raises(EngineError, match='The grader must end with'):
    read_score(text)


@given(st.text(max_size=80))
def test_no_other_text_is_a_score(text):
  if 'score' not in text.lower():
    with pytest.raises(EngineError):
      read_score(text)


EPISODE = fakes.make_episode(
    (0.0, 1.0), prompt=(Message('system', 'Walk.'), Message('user', 'Go on.'))
)


def grades(said, episodes=(EPISODE,), rubric='Was it short?', **options):
  """Grades of episodes, or what failed, and the requests that were made."""
  chat = fakes.FakeChat(then=said)

  async def main():
    async with chat:
      values = dict(url=chat.url, model='m', backoff_s=0.0, temperature=0.0)
      grade = Grader(ChatOptions(**(values | options)), rubric)
      return [await grade(episode) for episode in episodes]

  return asyncio.run(main()), chat.requests


def test_a_conversation_is_asked_about_once():
  found, requests = grades('Short.\nScore: 6', [EPISODE, EPISODE])
  assert found == [0.6, 0.6]
  [request] = requests
  [message] = request['messages']
  assert 'Was it short?' in message['content']
  *_, line = message['content'].splitlines()
  assert [x['role'] for x in json.loads(line)] == [
      'system', 'user', 'assistant', 'user', 'assistant', 'user'
  ]  # fmt: skip


def test_what_cannot_be_read_is_not_kept(folder):
  with pytest.raises(EngineError):
    grades('Good!')
  assert not list((folder / 'grades').iterdir())
  with pytest.raises(EngineError):
    grades(500, attempts=2)


def test_the_reward_is_made_from_the_file_that_the_variable_names(
    tmp_path, monkeypatch
):
  what = 'agentrl.evaluation.grader:reward'
  monkeypatch.delenv(judge.VARIABLE, raising=False)
  with pytest.raises(ConfigError, match='AGENTRL_JUDGE is not set'):
    plugins.function(what, {}, 'rollout.reward=')
  file = tmp_path / 'judge.json'
  monkeypatch.setenv(judge.VARIABLE, str(file))
  values = {'url': 'http://127.0.0.1:1/v1', 'model': 'm', 'rubric': 'Polite?'}
  file.write_text(json.dumps(values))
  assert plugins.function(what, {}, 'rollout.reward=')
  file.write_text(json.dumps(values | {'rubric': ''}))
  with pytest.raises(ConfigError, match='rubric must be a text'):
    grader.from_environment()
  with pytest.raises(ConfigError, match='unknown fields rubric'):
    judge.from_environment()


def test_cached_grades_are_of_what_was_asked(folder):
  grades('Score: 6')
  found, requests = grades('Score: 2', rubric='Was it polite?')
  assert found == [0.2] and len(requests) == 1
  assert len(list(pathlib.Path(folder, 'grades').iterdir())) == 2
