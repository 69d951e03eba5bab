"""Conversations of many clients at one time, as they are trained on.

Each is a random tangle: it goes on, goes back, is rewritten, begins anew, over plain
replies and streams of the openai package. Whatever it does, each sampled token must be
in exactly one segment, after what its request said, with the log-probability that the
trainer gives it.
"""

import asyncio
import dataclasses
import json

import aiohttp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import envs
from agentrl.data import collate
from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.inference.sampler import Sampler
from agentrl.models.transformer import Transformer
from agentrl.ops import logprob
from agentrl.rollout import collect
from agentrl.rollout.agent import make_agent
from agentrl.rollout.episode import run_episode
from agentrl.rollout.options import AgentOptions, Limits
from tests import tiny

pytest.importorskip('openai')
pytestmark = pytest.mark.slow
CLIENTS = 32
MOST = 640  # tokens of a segment
PROGRAM = """
import random
import openai

def talk(url, task, seed):
  chance = random.Random(f'{task["n"]}/{seed}')
  client = openai.OpenAI(base_url=url, api_key='x', max_retries=0)
  said = []
  for turn in range(chance.randint(1, 6)):
    what = chance.random()
    if what < 0.15:
      said = [{'role': 'system', 'content': f'anew {turn}'}] * chance.randint(0, 1)
    elif what < 0.3 and said:
      said = said[: chance.randrange(len(said))]
    elif what < 0.4 and said:
      said[-1] = said[-1] | {'content': said[-1]['content'][:3] + '!'}
    if said and said[-1]['role'] == 'user':
      said.pop()
    said.append({'role': 'user', 'content': f'Walk {chance.randint(1, 9)} steps.'})
    how = dict(model='p', messages=said)
    if chance.random() < 0.5:
      reply = client.chat.completions.create(**how).choices[0].message.content
    else:
      reply = ''.join(
          choice.delta.content or ''
          for chunk in client.chat.completions.create(**how, stream=True)
          for choice in chunk.choices
      )
    said.append({'role': 'assistant', 'content': reply or ''})
  return chance.random()
"""


def play(url, tokenizer, folder, count):
  """The episodes of `count` conversations, `CLIENTS` of them at a time."""
  (folder / 'talks.py').write_text(PROGRAM)
  tasks = folder / 'tasks.jsonl'
  tasks.write_text(''.join(json.dumps({'n': n}) + '\n' for n in range(count)))
  options = dict(function=f'{folder / "talks.py"}:talk', tasks=str(tasks))
  agent = make_agent(
      envs.get('program').under(**options),
      tokenizer,
      AgentOptions(format='chat', instructions='compact', template='chatml'),
  )
  limits = Limits(max_completion_tokens=12, max_context=MOST)

  async def main():
    async with (
        server.running('program', options) as env_url,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0)
        ) as session,
    ):
      policy = Sampler(session, [url], temperature=1.0)

      async def one(assignment):
        return await run_episode(
            EnvClient(session, env_url, env_name='program'),
            agent,
            policy,
            episode_id=f'e{assignment.task_id}',
            env_name='program',
            task_id=assignment.task_id,
            split='train',
            seed=assignment.seed,
            policy_version=0,
            horizon=99,
            limits=limits,
        )

      return await collect.collect(
          [(n, n) for n in range(count)],
          1,
          one,
          seed=0,
          concurrency=CLIENTS,
          attempts=1,
          max_failed_share=0.0,
      )

  return asyncio.run(main())


def sampled_runs(tokens, mask):
  """The completions of a segment, as ids."""
  runs, before = [], False
  for token, sampled in zip(tokens, mask, strict=True):
    if sampled and not before:
      runs.append([])
    if sampled:
      runs[-1].append(token)
    before = sampled
  return runs


@pytest.mark.parametrize(
    'count', [40, pytest.param(500, marks=pytest.mark.extra)]
)
def test_every_sampled_token_is_trained_on_once_as_it_was_sampled(
    chat, tmp_path, count
):
  tokenizer = chat.tokenizer
  config = dataclasses.replace(tiny.CONFIG, vocab_size=tokenizer.vocab_size)
  params = tiny.random_params(config)
  with tiny.serving(
      params,
      config,
      tokenizer=tokenizer,
      max_running=CLIENTS,
      slots=2 * CLIENTS,
      max_len=MOST,
  ) as url:
    groups = play(url, tokenizer, tmp_path, count)
  episodes = [episode for group in groups for episode in group.episodes]
  assert len(episodes) == count
  assert all(episode.error is None for episode in episodes)
  assert sum(len(episode.segments) > 1 for episode in episodes) > count / 4
  for episode in episodes:
    sampled = [segment.completion_mask for segment in episode.segments]
    assert sum(map(sum, sampled)) == sum(
        turn.completion_tokens for turn in episode.turns
    )
    said = [
        tokenizer.decode(run)
        for segment in episode.segments
        for run in sampled_runs(segment.tokens, segment.completion_mask)
    ]
    assert sorted(said) == sorted(turn.completion for turn in episode.turns)

  batch = collate.collate(groups)
  module = Transformer(config, scan_layers=True)

  @jax.jit
  def score(tokens, positions, segments):
    hidden = module.apply(
        {'params': params}, tokens, positions, segments
    ).hidden
    logits = module.apply({'params': params}, hidden, method='unembed')
    found, _ = logprob.from_logits(
        logits,
        jnp.pad(tokens[:, 1:], ((0, 0), (0, 1))),
        temperature=1.0,
    )
    return logprob.shift_right(found, positions)

  worst, seen = 0.0, 0
  for first in range(0, len(batch.tokens), 16):
    rows = slice(first, first + 16)
    mask = np.asarray(batch.completion_mask[rows])
    found = np.asarray(
        score(*(
            np.asarray(x[rows])
            for x in (batch.tokens, batch.positions, batch.segment_ids)
        ))
    )
    difference = np.abs(found - np.asarray(batch.sampler_logprobs[rows]))[mask]
    worst, seen = max(worst, difference.max(initial=0)), seen + mask.sum()
  assert seen == sum(
      turn.completion_tokens for episode in episodes for turn in episode.turns
  )
  assert worst < 1e-4, worst
