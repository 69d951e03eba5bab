"""Tests for agentrl.rollout.teacher, against a real engine on loopback."""

import asyncio
import dataclasses

import aiohttp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.errors import ConfigError, EngineError
from agentrl.inference.sampler import Sampler
from agentrl.rollout.teacher import Teacher
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.types import Message
from tests import fakes, tiny

PATIENCE_S = 120


def ask(url, body, **settings):
  """The result of `body(teacher)`."""

  async def main():
    async with aiohttp.ClientSession() as session:
      sampler = Sampler(session, [url], temperature=1.0, backoff_s=0.01)
      teacher = Teacher(sampler, **{'concurrency': 4, **settings})
      return await asyncio.wait_for(body(teacher), PATIENCE_S)

  return asyncio.run(main())


def oracle(params, tokens):
  """`[T]` log-probability of each token after those before it."""
  ids = jnp.asarray([tokens])
  positions = jnp.arange(len(tokens))[None]
  logits, _ = tiny.run_decoder(tiny.MODULE, params, ids, positions)
  spoken = jax.nn.log_softmax(logits[0])[:-1]
  return np.append(0, spoken[np.arange(len(tokens) - 1), tokens[1:]])


@pytest.fixture(scope='module')
def params():
  return tiny.version_params(1)


@pytest.fixture(scope='module')
def url(params):
  with tiny.serving(params) as found:
    yield found


def episodes(seed):
  return [e for g in tiny.random_groups(seed) for e in g.episodes]


@pytest.mark.parametrize('segments', [False, True])
def test_scores_are_those_of_the_network(url, params, segments):
  rng = np.random.default_rng(0)
  groups = tiny.random_groups(3)
  if segments:
    groups = [tiny.with_segments(group, rng) for group in groups]
  played = [e for g in groups for e in g.episodes]
  width = max(len(e.tokens) for e in played) + 3
  found = ask(url, lambda teacher: teacher.score(played, width))
  assert found.shape == (len(played), width)
  for row, episode in zip(found, played, strict=True):
    expected = np.zeros(width)
    for start, stop in episode.segment_spans:
      scores = oracle(params, episode.tokens[start:stop])
      mask = np.array(episode.completion_mask[start:stop])
      expected[start:stop] = np.where(mask, scores, 0)
    np.testing.assert_allclose(row, expected, atol=1e-4)


def test_a_hint_stands_in_the_teachers_prompt_alone(url, params):
  """Words are ids here: a hint of three ids moves what follows by five."""
  prompt_ids = lambda messages: [
      int(word) for message in messages for word in message.content.split()
  ]
  prompt = (Message('system', '1 2'), Message('user', '3'))
  tokens, mask = (1, 2, 3, 7, 8, 4, 9), (0, 0, 0, 1, 1, 0, 1)
  episode = fakes.make_episode(
      prompt=prompt,
      tokens=tokens,
      completion_mask=tuple(map(bool, mask)),
      sampler_logprobs=(0.0,) * 7,
  )
  [row] = ask(
      url,
      lambda teacher: teacher.score([episode], 7),
      hint='5 6 5',
      prompt_ids=prompt_ids,
  )
  scores = oracle(params, (1, 2, 5, 6, 5, 3, 7, 8, 4, 9))
  np.testing.assert_allclose(row, np.where(mask, scores[3:], 0), atol=2e-5)
  # And the student reads none of it.
  [plain] = ask(url, lambda teacher: teacher.score([episode], 7))
  assert np.abs(plain - row).max() > 1e-4


def test_an_episode_without_a_sampled_token_is_not_asked_about(url):
  episode = fakes.make_episode(
      tokens=(1, 2),
      completion_mask=(False, False),
      sampler_logprobs=(0.0, 0.0),
      turns=(),
  )
  found = ask(url, lambda teacher: teacher.score([episode], 4))
  np.testing.assert_array_equal(found, 0)


def test_a_teacher_that_fails_is_an_error_and_no_score():
  async def main():
    async with fakes.FakeEngine([{'error': 'no'}] * 9) as engine:
      async with aiohttp.ClientSession() as session:
        sampler = Sampler(
            session, [engine.url], temperature=1.0, max_attempts=1
        )
        await Teacher(sampler, concurrency=2).score(episodes(0), 128)

  with pytest.raises(EngineError):
    asyncio.run(main())


TEXTS = ['craft 12 planks, then go there', 'http://shop/a_b 1.50']


def test_a_teacher_of_another_tokenizer_is_refused():
  ours, other = (
      tokenizer_lib.train_bpe(texts, vocab_size=290)
      for texts in (TEXTS, ['quite other words, quite other merges'])
  )
  config = dataclasses.replace(tiny.CONFIG, vocab_size=290)
  with tiny.serving(
      tiny.random_params(config), config, tokenizer=ours
  ) as served:
    ask(served, lambda teacher: teacher.check(ours.encode))
    with pytest.raises(ConfigError, match='has another tokenizer'):
      ask(served, lambda teacher: teacher.check(other.encode))
