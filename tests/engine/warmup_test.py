"""Tests for what is compiled before an engine says that it is ready."""

import asyncio
import dataclasses
import threading

import jax
import numpy as np
import pytest

from agentrl.engine.model_runner import ModelRunner
from agentrl.engine.options import EngineOptions
from agentrl.engine.server import Engine
from agentrl.errors import EngineError
from agentrl.models import transformer
from agentrl.models.transformer import Transformer
from agentrl.runtime import mappings
from tests.engine.conftest import CONFIG
from tests.engine.talking import PATIENCE_S, WORDS, once, talk
from tests.waiting import until

# Of a module that no other test compiles.
ODD = dataclasses.replace(
    CONFIG, vocab_size=WORDS.vocab_size, intermediate_size=40
)
ASK = {'max_new_tokens': 20, 'sampling_seed': 3, 'ignore_eos': True}
FEATURES = (
    {},
    {'temperature': 0},
    {'top_p': 0.8},
    {'top_k': 5, 'min_p': 0.1},
    {'frequency_penalty': 0.5},
    {'logit_bias': {'7': 2.0}, 'top_k': 9},
    {'min_new_tokens': 3, 'stop': ['zzz'], 'stop_regex': ['z{9}']},
)


def make(**settings):
  params = jax.jit(lambda key: transformer.init_params(Transformer(ODD), key))(
      jax.random.key(4)
  )
  sizes = dict(max_running=16, max_len=256, slots=20)
  return Engine(
      ODD,
      jax.tree.map(lambda x: 3 * x if x.ndim > 1 else x, params),
      WORDS,
      EngineOptions(
          eos_ids=WORDS.eos_ids,
          model_path='odd',
          **(sizes | settings),
      ),
  )


@pytest.fixture(scope='module')
def warm():
  engine = make()
  engine.url = engine.start()
  engine.warm_up().result(PATIENCE_S)
  yield engine
  engine.stop()


def bodies():
  """A body for each feature, with and without log-probabilities."""
  for i, feature in enumerate(FEATURES):
    for more in (
        {},
        {'return_logprob': True},
        {'return_logprob': True, 'top_logprobs_num': 3, 'logprob_start_len': 0},
        {'return_logprob': True, 'logprob_start_len': 0},
    ):
      text = 'the cat sat on ' * (1 + 3 * i)
      yield {'text': text, 'sampling_params': ASK | feature} | more


def test_a_tour_of_all_features_compiles_nothing_after_it(warm):
  before = warm.stats()['num_compiled_programs']
  assert before >= 15
  chat = {'messages': [{'role': 'user', 'content': 'the cat'}]}
  chat |= {'max_tokens': 5, 'logprobs': True, 'top_logprobs': 2}

  async def body(call):
    replies = [await call('generate', ask) for ask in bodies()]
    replies.append(await call('v1/chat/completions', chat))
    replies.append(await call('health_generate'))
    # Waves of prompts of all lengths, and samples of one prompt.
    for count in (2, 5, 16):
      texts = ['sat ' * (1 + 9 * (i % 5)) for i in range(count)]
      many = {'text': texts, 'sampling_params': ASK}
      replies.append(await call('generate', many))
      features = [FEATURES[i % len(FEATURES)] for i in range(count)]
      each = [ASK | feature for feature in features]
      replies.append(await call('generate', many | {'sampling_params': each}))
      copies = {'text': 'on the mat', 'sampling_params': ASK | {'n': count}}
      replies.append(await call('generate', copies))
    return replies

  for status, reply in talk(warm, body):
    assert status == 200, reply
  assert warm.stats()['num_compiled_programs'] == before


def test_programs_that_stand_in_sample_the_same(warm):
  cold = make()
  cold.url = cold.start()
  try:
    # Each is of another variant, which the cold engine compiles.
    every = list(bodies())
    for ask in every[9], every[18], every[19]:
      (_, one), (_, two) = once(warm, 'generate', ask), once(
          cold, 'generate', ask
      )
      assert one['output_ids'] == two['output_ids']
      metas = one['meta_info'], two['meta_info']
      assert metas[0].keys() == metas[1].keys()
      for name in ('output_token_logprobs', 'input_token_logprobs'):
        if name in metas[0]:
          first, second = (
              [triple[0] for triple in meta[name] if triple[0] is not None]
              for meta in metas
          )
          np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)
      name = 'output_top_logprobs'
      assert (name in metas[0]) == ('top_logprobs_num' in ask)
  finally:
    cold.stop()


def test_a_deterministic_engine_has_a_program_for_each_feature():
  engine = make(deterministic=True, max_running=4)
  engine.url = engine.start()
  try:
    engine.warm_up().result(PATIENCE_S)
    before = engine.stats()['num_compiled_programs']
    for ask in (
        {'sampling_params': ASK | {'top_p': 0.5}},
        {'sampling_params': ASK | {'frequency_penalty': 0.5}},
        {'sampling_params': ASK, 'return_logprob': True},
        {
            'sampling_params': ASK,
            'return_logprob': True,
            'logprob_start_len': 0,
            'top_logprobs_num': 2,
        },
    ):
      status, reply = once(engine, 'generate', {'text': 'the cat'} | ask)
      assert status == 200, reply
    assert engine.stats()['num_compiled_programs'] == before
  finally:
    engine.stop()


def test_it_is_not_healthy_until_all_is_compiled(make_engine, monkeypatch):
  compiles, goes_on = threading.Event(), threading.Event()

  def slow(self, interrupted):
    compiles.set()
    assert goes_on.wait(PATIENCE_S)

  monkeypatch.setattr(ModelRunner, 'warm_up', slow)
  engine = make_engine()
  probes = ('health', 'ready', 'ping', 'health_generate')

  async def body(call):
    done = engine.warm_up()
    await until(compiles.is_set)
    before = [(await call(name))[0] for name in probes]
    info, _ = await call('model_info')
    ask = {'input_ids': [1], 'sampling_params': {'max_new_tokens': 1}}
    waiting = asyncio.ensure_future(call('generate', ask))
    goes_on.set()
    await asyncio.wrap_future(done)
    after = [(await call(name))[0] for name in probes]
    return before, info, after, await waiting

  before, info, after, (status, _) = talk(engine, body)
  assert before == [503] * 4 and info == 200
  assert after == [200] * 4 and status == 200


def test_a_stop_does_not_wait_for_programs(make_engine, monkeypatch):
  compiles, asked = threading.Event(), []

  def slow(self, interrupted):
    compiles.set()
    while not interrupted():
      asked.append(True)
      assert len(asked) < 10_000
      threading.Event().wait(0.01)

  monkeypatch.setattr(ModelRunner, 'warm_up', slow)
  engine = make_engine()
  done = engine.warm_up()
  assert compiles.wait(PATIENCE_S)
  engine.stop()
  assert done.result(PATIENCE_S) is None


def test_a_larger_program_serves_where_there_is_no_room_for_another(
    monkeypatch, caplog
):
  params = transformer.init_params(Transformer(ODD), jax.random.key(4))
  runner = ModelRunner(
      Transformer(ODD),
      params,
      slots=5,  # equal modules share programs: no other test has so many
      max_len=256,
      max_rows=4,
  )
  before = runner.num_compiled()
  shapes = runner._kinds['copy'][None]
  shapes.add((4, 256))
  monkeypatch.setattr(mappings, 'crowded', lambda: True)
  for _ in range(2):
    shapes.waste(1, 100, (4, 256), seconds=1e6)
    assert shapes.choose(1, 100) == ((4, 256), True)
  assert runner.num_compiled() == before and runner._finished.empty()
  assert caplog.text.count('vm.max_map_count') == 1
  # One that nothing can stand in for is compiled nonetheless.
  runner.copy([(0, 1, 100)])
  assert runner.num_compiled() == before + 1
  monkeypatch.setattr(mappings, 'crowded', lambda: False)
  runner._kinds['copy'][None]._ordered.clear()
  shapes.waste(1, 100, (4, 256), seconds=1e6)
  shapes.choose(1, 100)
  assert runner._finished.get(timeout=PATIENCE_S) == ('copy', None, (1, 128))
  runner.free()


def test_what_fails_to_compile_is_told(make_engine, monkeypatch):
  def fails(self, interrupted):
    raise RuntimeError('out of memory')

  monkeypatch.setattr(ModelRunner, 'warm_up', fails)
  engine = make_engine()
  with pytest.raises(RuntimeError, match='out of memory'):
    engine.warm_up().result(PATIENCE_S)
  engine.stop()
  with pytest.raises(EngineError, match='does not run'):
    engine.warm_up()
