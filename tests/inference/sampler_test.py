"""Tests for agentrl.inference.sampler, against a real server on loopback."""

import asyncio
import json

import aiohttp
import pytest
from aiohttp import web

from agentrl.errors import ConfigError, EngineError
from agentrl.inference.replicas import Replicas
from agentrl.inference.sampler import Sampler
from tests import fakes

# For what takes no second where nothing else runs.
PATIENCE_S = 120


def with_sampler(engines, body, **settings):
  """Runs `body(sampler)` against `engines`."""

  async def main():
    async with aiohttp.ClientSession() as session:
      for engine in engines:
        await engine.__aenter__()
      try:
        sampler = Sampler(
            session,
            [engine.url for engine in engines],
            **{'temperature': 1.0, 'backoff_s': 0.01, **settings},
        )
        return await asyncio.wait_for(body(sampler), PATIENCE_S)
      finally:
        for engine in engines:
          await engine.__aexit__()

  return asyncio.run(main())


def generate(sampler, ids=(1, 2, 3), **request):
  return sampler.generate(ids, **{'max_new_tokens': 8, 'seed': 7, **request})


def test_request_states_everything_that_shapes_a_sample():
  engine = fakes.FakeEngine()
  with_sampler(
      [engine],
      lambda s: generate(s, stop_token_ids=(2,), rid='e/0', routing_key='e'),
      temperature=0.7,
      api_key='secret',
  )
  assert engine.requests == [{
      'input_ids': [1, 2, 3],
      'rid': 'e/0.0.',
      'return_logprob': True,
      # A server's defaults come from the model's files, so nothing is left out.
      'sampling_params': {
          'temperature': 0.7,
          'top_p': 1.0,
          'top_k': -1,
          'max_new_tokens': 8,
          'sampling_seed': 7,
          'stop_token_ids': [2],
      },
  }]
  assert engine.headers[0]['X-SMG-Routing-Key'] == 'e'
  assert engine.headers[0]['Authorization'] == 'Bearer secret'


def test_completion_takes_ids_and_logprobs_from_the_triples():
  reply = fakes.generate_reply([5, 6, 2], prompt_tokens=3, cached_tokens=1)
  reply['output_ids'] = [5, 6]  # trimmed at the stop; the triples are not
  completion = with_sampler([fakes.FakeEngine([reply])], generate)
  assert completion.tokens == (5, 6, 2)
  assert completion.logprobs == (-0.25, -0.5, -0.75)
  assert completion.finish_reason == 'stop'
  assert completion.weight_version == 'default'
  assert (completion.prompt_tokens, completion.cached_tokens) == (3, 1)
  assert completion.latency_s > 0


def test_server_error_is_repeated_with_the_same_seed():
  engine = fakes.FakeEngine([web.Response(status=500, text='boom')])
  completion = with_sampler([engine], lambda s: generate(s, rid='e/0'))
  assert list(completion.tokens) == fakes.pseudo_sample([1, 2, 3], 7, 8)
  first, second = engine.requests
  assert (first.pop('rid'), second.pop('rid')) == (
      'e/0.0.',
      'e/0.1.',
  )
  assert first == second


def test_the_reply_to_another_request_is_none():
  engine = fakes.FakeEngine([fakes.generate_reply([5], id='e/9.0.')])
  completion = with_sampler([engine], lambda s: generate(s, rid='e/0'))
  assert list(completion.tokens) == fakes.pseudo_sample([1, 2, 3], 7, 8)
  others = [fakes.generate_reply([5], id='e/9.0.') for _ in range(4)]
  with pytest.raises(EngineError, match=r"'e/0.3.' with the reply to 'e/9.0.'"):
    with_sampler([fakes.FakeEngine(others)], lambda s: generate(s, rid='e/0'))
  scores = scored((None, 1), (-0.5, 2))
  scores['meta_info']['id'] = 'other'
  engine = fakes.FakeEngine([scores, scored((None, 1), (-0.7, 2))])
  found = with_sampler([engine], lambda s: s.score([1, 2], start=1, rid='t'))
  assert found == (-0.7,)


def test_abort_is_repeated():
  aborted = fakes.generate_reply(
      [5], finish={'type': 'abort', 'message': 'weights', 'status_code': None}
  )
  engine = fakes.FakeEngine([aborted])
  completion = with_sampler([engine], generate)
  assert list(completion.tokens) == fakes.pseudo_sample([1, 2, 3], 7, 8)


def test_an_abort_in_the_queue_is_repeated():
  # As SGLang 0.5.23 says it: without counts.
  finish = {'type': 'abort', 'message': 'Abort in waiting queue'}
  queued = fakes.generate_reply([], finish=finish)
  for name in ('prompt_tokens', 'completion_tokens', 'cached_tokens'):
    del queued['meta_info'][name]
  engine = fakes.FakeEngine([queued])

  async def body(sampler):
    return await generate(sampler), dict(sampler.counts)

  completion, counts = with_sampler([engine], body)
  assert completion.tokens and counts['aborts'] == 1


def test_aborted_tokens_are_counted_and_thrown_away():
  finish = {'type': 'abort', 'message': 'weights', 'status_code': None}
  engine = fakes.FakeEngine([fakes.generate_reply([5, 6], finish=finish)])

  async def body(sampler):
    return await generate(sampler), dict(sampler.counts)

  completion, counts = with_sampler([engine], body)
  assert list(completion.tokens) == fakes.pseudo_sample([1, 2, 3], 7, 8)
  assert counts == dict(requests=2, retries=1, aborts=1, aborted_tokens=2)


def test_a_partial_completion_is_for_who_asks_for_it():
  finish = {'type': 'abort', 'message': 'weights', 'status_code': None}
  script = [
      fakes.generate_reply([], finish=finish),  # it was still waiting
      fakes.generate_reply([5, 6], finish=finish),
  ]
  engine = fakes.FakeEngine(script)
  completion = with_sampler([engine], lambda s: generate(s, partial=True))
  assert completion.tokens == (5, 6)
  assert completion.finish_reason == 'abort'
  assert len(engine.requests) == 2


def test_slow_server_times_out_and_is_asked_again():
  async def hang(request):
    await asyncio.Event().wait()

  engine = fakes.FakeEngine([hang])
  completion = with_sampler([engine], generate, timeout_s=1.0)
  assert list(completion.tokens) == fakes.pseudo_sample([1, 2, 3], 7, 8)
  assert len(engine.requests) > 1


def test_last_failure_is_quoted():
  script = [web.Response(status=503, text=f'full {i}') for i in range(3)]
  with pytest.raises(EngineError, match='/generate gave 503: full 1') as info:
    with_sampler([fakes.FakeEngine(script)], generate, max_attempts=2)
  assert info.value.retryable


@pytest.mark.parametrize(
    'body',
    [
        {'error': 'too long: 9'},
        {'error': {'message': 'too long: 9'}},
        {'object': 'error', 'message': 'too long: 9', 'code': 400},
    ],
)
def test_refusal_is_not_repeated_and_keeps_the_servers_words(body):
  engine = fakes.FakeEngine([web.json_response(body, status=400)])
  with pytest.raises(EngineError, match='gave 400: too long: 9$') as info:
    with_sampler([engine], generate)
  assert len(engine.requests) == 1
  assert not info.value.retryable


def test_html_answer_is_named_as_no_sglang_server():
  engine = fakes.FakeEngine(
      [web.Response(text='<h1>It works</h1>', content_type='text/html')]
  )
  with pytest.raises(EngineError, match='is an SGLang server there.*It works'):
    with_sampler([engine], generate)
  assert len(engine.requests) == 1


@pytest.mark.parametrize(
    'logprob, said',
    [
        (None, 'for id 6 at index 1'),
        (float('nan'), 'a number that is none'),
        (float('-inf'), 'a number that is none'),
    ],
)
def test_logprob_that_is_no_number_is_an_error(logprob, said):
  reply = fakes.generate_reply([5, 6])
  reply['meta_info']['output_token_logprobs'][1][0] = logprob
  bad = lambda: web.Response(text=json.dumps(reply))
  engine = fakes.FakeEngine([bad(), bad()])
  with pytest.raises(EngineError, match=said):
    with_sampler([engine], generate, max_attempts=2)
  assert len(engine.requests) == 2  # another server may be well


@pytest.mark.parametrize(
    'damage, message',
    [
        (lambda r: r['meta_info'].pop('output_token_logprobs'), 'contract'),
        (lambda r: r['meta_info'].update(completion_tokens=3), 'counted 3'),
        (lambda r: r['meta_info'].update(finish_reason=None), 'contract'),
        (
            lambda r: r['meta_info'].update(finish_reason={'type': 'tired'}),
            "finish reason 'tired'",
        ),
        (
            lambda r: r['meta_info'].update(
                output_token_logprobs=[], completion_tokens=0
            ),
            'at least 1',
        ),
    ],
)
def test_reply_outside_the_contract_is_an_error(damage, message):
  reply = fakes.generate_reply([5, 6])
  damage(reply)
  with pytest.raises(EngineError, match=message):
    with_sampler([fakes.FakeEngine([reply])], generate)


def test_batch_reply_to_a_single_request_is_an_error():
  engine = fakes.FakeEngine([web.json_response([fakes.generate_reply([5])])])
  with pytest.raises(EngineError, match='outside its contract'):
    with_sampler([engine], generate)


def test_cancelling_ends_the_request_at_the_server():
  async def body(sampler):
    request = asyncio.create_task(generate(sampler))
    await started.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
      await request
    await dropped.wait()

  started, dropped = asyncio.Event(), asyncio.Event()

  async def hang(request):
    started.set()
    try:
      await asyncio.Event().wait()
    finally:
      dropped.set()  # this server cancels a handler whose client has gone

  engine = fakes.FakeEngine([hang])
  with_sampler([engine], body)
  assert len(engine.requests) == 1


def test_one_routing_key_stays_on_one_replica():
  engines = [fakes.FakeEngine() for _ in range(3)]

  async def body(sampler):
    for turn in range(4):
      for key in 'abcdefgh':
        await generate(sampler, routing_key=key, rid=f'{key}/{turn}')

  with_sampler(engines, body)
  seen = [{r['rid'][0] for r in engine.requests} for engine in engines]
  assert sum(len(keys) for keys in seen) == 8  # no key on two replicas
  assert sum(len(engine.requests) for engine in engines) == 32
  assert all(seen)


def test_requests_without_a_key_are_spread_evenly():
  engines = [fakes.FakeEngine() for _ in range(2)]

  async def body(sampler):
    await asyncio.gather(*(generate(sampler) for _ in range(6)))

  with_sampler(engines, body)
  assert [len(engine.requests) for engine in engines] == [3, 3]


def test_dead_replica_is_covered_by_the_next():
  async def main():
    async with (
        aiohttp.ClientSession() as session,
        fakes.FakeEngine() as engine,
    ):
      urls = ['http://127.0.0.1:9', engine.url]
      sampler = Sampler(session, urls, temperature=1.0, backoff_s=0.01)
      for _ in range(4):
        await generate(sampler)
      return len(engine.requests)

  assert asyncio.run(main()) == 4


def test_new_episodes_go_where_the_fewest_requests_are():
  started, release = asyncio.Event(), asyncio.Event()

  async def hang(request):
    started.set()
    await release.wait()
    return fakes.generate_reply([5])

  # The first is busy with one long request; three episodes come meanwhile.
  engines = [fakes.FakeEngine([hang]), fakes.FakeEngine()]

  async def body(sampler):
    long = asyncio.create_task(generate(sampler, routing_key='long'))
    await started.wait()
    for key in 'abc':
      await generate(sampler, routing_key=key)
    release.set()
    await long

  with_sampler(engines, body)
  assert [len(engine.requests) for engine in engines] == [1, 3]


def test_an_episode_moves_when_its_replica_fails_and_stays_there():
  boom = lambda: web.Response(status=500, text='boom')
  engines = [fakes.FakeEngine([boom()]), fakes.FakeEngine()]

  async def body(sampler):
    for _ in range(3):
      await generate(sampler, routing_key='a')

  with_sampler(engines, body)
  assert [len(engine.requests) for engine in engines] == [1, 3]


def test_held_replicas_make_a_request_wait_without_a_try():
  async def main():
    async with aiohttp.ClientSession() as session, fakes.FakeEngine() as engine:
      replicas = Replicas([engine.url])
      replicas.hold(engine.url)
      sampler = Sampler(
          session,
          [engine.url],
          temperature=1.0,
          max_attempts=1,
          replicas=replicas,
      )
      request = asyncio.create_task(generate(sampler))
      await asyncio.sleep(0.3)
      assert not request.done() and not engine.requests
      replicas.release(engine.url)
      await asyncio.wait_for(request, PATIENCE_S)
      replicas.lose(engine.url, 'it died 3 times.')
      with pytest.raises(EngineError, match='left: it died 3 times') as info:
        await generate(sampler)
      assert not info.value.retryable

  asyncio.run(main())


def test_nobody_there_is_one_clear_error():
  async def main():
    async with aiohttp.ClientSession() as session:
      sampler = Sampler(
          session,
          ['http://127.0.0.1:9'],
          temperature=1.0,
          max_attempts=2,
          backoff_s=0.01,
      )
      with pytest.raises(EngineError, match='127.0.0.1:9/generate failed'):
        await generate(sampler)
      with pytest.raises(
          EngineError, match='not ready within 0.3 s; last: GET'
      ):
        await sampler.wait_ready(0.3)

  asyncio.run(main())


@pytest.mark.parametrize('urls', [[], ['localhost:30000']])
def test_unusable_urls_are_refused(urls):
  with pytest.raises(ConfigError, match='URL'):
    Sampler(None, urls, temperature=1.0)


def test_a_greedy_top_k_is_refused():
  with pytest.raises(ConfigError, match='temperature=0 is greedy too'):
    Sampler(None, ['http://a'], temperature=0.7, top_k=1)


@pytest.mark.parametrize(
    'ids, said',
    [
        ((), 'no token'),
        ((1, 32), 'id 32 at index 1, outside the vocabulary of 32'),
        ((-1,), 'id -1 at index 0'),
    ],
)
def test_no_prompt_that_ends_a_server_is_ever_sent(ids, said):
  engine = fakes.FakeEngine()
  with pytest.raises(ValueError, match=said):
    with_sampler([engine], lambda s: generate(s, ids), vocab_size=32)
  assert not engine.requests


def scored(*triples, finish='length'):
  """A reply to a request that samples nothing."""
  return {
      'output_ids': [],
      'meta_info': {
          'finish_reason': {'type': finish},
          'input_token_logprobs': [[*triple, None] for triple in triples],
          'output_token_logprobs': [],
      },
  }


def test_scores_are_asked_for_from_the_id_before_them():
  engine = fakes.FakeEngine([scored((None, 6), (-0.5, 7), (-1.5, 8))])
  logprobs = with_sampler(
      [engine],
      lambda s: s.score([5, 6, 7, 8], start=2, rid='t'),
      temperature=0.3,  # which is the sampler's alone
  )
  assert logprobs == (-0.5, -1.5)
  assert engine.requests == [{
      'input_ids': [5, 6, 7, 8],
      'rid': 't.0.',
      'return_logprob': True,
      'logprob_start_len': 1,
      'sampling_params': {'max_new_tokens': 0, 'temperature': 1.0},
  }]


def test_scoring_is_repeated_as_sampling_is():
  good = scored((None, 1), (-0.5, 2))
  engine = fakes.FakeEngine(
      [web.Response(status=503), scored(finish='abort'), good]
  )
  found = with_sampler([engine], lambda s: s.score([1, 2], start=1))
  assert found == (-0.5,) and len(engine.requests) == 3


@pytest.mark.parametrize(
    'reply, message',
    [
        (scored((None, 1), (-0.5, 9)), 'others were asked for'),
        (scored((None, 1)), 'others were asked for'),
        (scored((None, 1), (None, 2)), 'log-probability'),
        (scored((None, 1), (0.5, 2)), 'log-probability'),
        ({'meta_info': {'finish_reason': {'type': 'stop'}}}, 'its contract'),
    ],
)
def test_scores_outside_the_contract_are_an_error(reply, message):
  with pytest.raises(EngineError, match=message):
    engine = fakes.FakeEngine([reply] * 4)
    with_sampler([engine], lambda s: s.score([1, 2], start=1))


@pytest.mark.parametrize('start', [0, 2])
def test_a_request_that_scores_nothing_is_refused(start):
  with pytest.raises(ValueError, match='nothing to score'):
    with_sampler([fakes.FakeEngine()], lambda s: s.score([1, 2], start=start))


def test_a_server_names_its_ids_of_a_text():
  engine = fakes.FakeEngine([scored((None, 4), (-1.0, 5))])
  assert with_sampler([engine], lambda s: s.tokenize('a b')) == [4, 5]
  assert engine.requests[0]['text'] == 'a b'
