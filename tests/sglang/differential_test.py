"""The engine answers as a real SGLang server does, request by request.

    python -m pytest -n 0 -s -m sglang tests/sglang/differential_test.py

prints the table. A server that is named by $AGENTRL_SGLANG_URL must have its
model where this machine can read it, and serve nobody else meanwhile.
"""

import asyncio
import contextlib

import aiohttp
import jax.numpy as jnp
import pytest

from agentrl.engine.options import EngineOptions
from agentrl.engine.server import Engine
from agentrl.models import transformer
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.weights import hf
from tests import tiny
from tests.sglang import cases, differential, shapes
from tests.sglang.shapes import Difference

# What none of these sample is a program that none of these compile.
HOSTILE = ('field', 'body', 'raw', 'headers', 'route', 'no route')


@contextlib.contextmanager
def serving(directory):
  """An engine of an exported model; gives its URL, vocabulary and end id."""
  config, params = hf.load(directory, dtype=jnp.float32)
  tokenizer = tokenizer_lib.load(directory)
  engine = Engine(
      config,
      transformer.unstack_layers(params),
      tokenizer,
      EngineOptions(
          eos_ids=tokenizer.eos_ids,
          model_path=str(directory),
          max_running=16,
          max_len=config.max_positions,
          slots=24,
      ),
  )
  try:
    yield engine.start(), config.vocab_size, tokenizer.eos_ids[0]
  finally:
    engine.stop()


async def model_path(url):
  async with aiohttp.ClientSession() as session:
    async with session.get(f'{url}/model_info') as reply:
      return (await reply.json())['model_path']


@pytest.mark.sglang
def test_the_engine_answers_as_a_server_does(real_url, monkeypatch):
  tiny.slow_decode(monkeypatch)  # nearer to the server's speed on a CPU
  with serving(asyncio.run(model_path(real_url))) as (url, vocab, eos):
    report = asyncio.run(
        differential.compare(url, real_url, vocab=vocab, eos=eos)
    )
  print(report.table())
  assert (
      report.healthy and not report.unlisted and not report.stale
  ), report.table()


@pytest.fixture(scope='module')
def engine(exported):
  with serving(exported[0]) as served:
    yield served


def statuses(engine, chosen):
  """Statuses of the replies of each case, from the engine alone."""
  url, vocab, eos = engine

  async def main():
    async with aiohttp.ClientSession() as session:
      side = differential.Side(session, url)
      numbers = await side.numbers(vocab, eos)
      return {
          name: [reply['status'] for reply in await side.play(steps, numbers)]
          for name, steps in chosen.items()
      }

  return asyncio.run(main())


def test_what_ends_a_server_is_refused(engine):
  found = statuses(engine, {k: [step] for k, step in cases.DEADLY.items()})
  assert found == {name: [400] for name in cases.DEADLY}


def test_hostile_requests_leave_no_500(engine):
  chosen = {
      name: steps
      for name, steps in cases.all_cases().items()
      if name.startswith(HOSTILE)
  }
  assert len(chosen) > 150
  found = statuses(engine, chosen)
  bad = {
      name: each
      for name, each in found.items()
      if any(type(status) is not int or status >= 500 for status in each)
  }
  assert not bad


def test_differences_are_told_where_they_are():
  mine = [{'status': 200, 'reply': {'a': 1, 'b': ['2 x', '<int>']}}]
  theirs = [{'status': 200, 'reply': {'a': 2, 'b': ['2 x', '<int>'], 'c': 3}}]
  assert shapes.differences('x', mine, theirs) == [
      Difference('x', '0.reply.a', '1', '2'),
      Difference('x', '0.reply.c', '"missing"', '3'),
  ]
  assert shapes.differences('x', mine, mine) == []


def test_an_entry_means_what_its_patterns_fit():
  found = Difference('param: n 0', '0.reply.a', '1', '"missing"')
  any_place = {'at': ['*']}
  assert found.fits('param: *', any_place)
  assert found.fits('param: n 0', {'at': ['*.b', '*.a'], 'engine': '1'})
  assert not found.fits('param: n 1', any_place)
  assert not found.fits('param: *', {'at': ['*.b']})
  assert not found.fits('param: *', any_place | {'engine': '"missing"'})


def test_shapes_keep_types_and_meaning_and_leave_values_out():
  reply = {
      'text': 'abc',
      'output_ids': [4, 5],
      'meta_info': {
          'finish_reason': {'type': 'length', 'length': 2},
          'completion_tokens': 2,
          'e2e_latency': 0.25,
      },
  }
  assert shapes.shape(reply) == {
      'text': '<str>',
      'output_ids': ['2 x', '<int>'],
      'meta_info': {
          'finish_reason': {'type': 'length', 'length': 2},
          'completion_tokens': 2,
          'e2e_latency': '<float>',
      },
  }
  loose = shapes.shape(reply, loose=True)
  assert loose['output_ids'] == ['some', '<int>']
  assert loose['meta_info']['completion_tokens'] == '<int>'
