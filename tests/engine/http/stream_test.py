"""Tests for streams of /generate, over real connections on loopback."""

import asyncio

import pytest

from agentrl.engine.core import EngineCore
from tests.engine.talking import LONG, Letters, events, once, stream, talk
from tests.waiting import until

ASK = {
    'input_ids': [5, 6, 7],
    'sampling_params': {'max_new_tokens': 40, 'sampling_seed': 3},
    'return_logprob': True,
}


def test_chunks_are_cumulative_and_end_with_the_whole_reply(
    engine, slow_decode
):
  del slow_decode  # who reads slower than it samples gets fewer chunks
  chunks = stream(engine, ASK | {'stream': True})
  _, whole = once(engine, 'generate', ASK)
  assert len(chunks) > 2
  for before, after in zip(chunks, chunks[1:], strict=False):
    size = len(before['output_ids'])
    assert after['output_ids'][:size] == before['output_ids']
    assert before['meta_info']['finish_reason'] is None
    meta = before['meta_info']
    assert meta['completion_tokens'] == size < len(after['output_ids'])
    assert len(meta['output_token_logprobs']) == size
  last = chunks[-1]
  assert last['output_ids'] == whole['output_ids']
  assert last['meta_info']['finish_reason'] == {'type': 'length', 'length': 40}
  assert 'index' not in last and 'text' not in last


def test_deltas_add_up_to_the_whole_reply(make_engine, slow_decode):
  del slow_decode
  engine = make_engine(Letters(), incremental_streaming_output=True)
  chunks = stream(engine, ASK | {'stream': True})
  _, whole = once(engine, 'generate', ASK)
  joined = lambda get: [x for chunk in chunks for x in get(chunk)]
  assert len(chunks) > 2
  assert joined(lambda c: c['output_ids']) == whole['output_ids']
  assert ''.join(c['text'] for c in chunks) == whole['text']
  triples = joined(lambda c: c['meta_info']['output_token_logprobs'])
  # Bitwise: what a stream tells is what was sampled, not computed again.
  assert [t[1] for t in triples] == whole['output_ids']
  assert chunks[-1]['meta_info']['completion_tokens'] == 40


def test_streams_tell_the_likeliest_tokens_once(make_engine, slow_decode):
  del slow_decode
  engine = make_engine(incremental_streaming_output=True)
  ask = ASK | {'top_logprobs_num': 2, 'logprob_start_len': 0}
  chunks = stream(engine, ask | {'stream': True})
  _, whole = once(engine, 'generate', ask)
  metas = [chunk['meta_info'] for chunk in chunks]
  tops = [top for meta in metas for top in meta['output_top_logprobs']]
  expected = whole['meta_info']['output_top_logprobs']
  assert len(chunks) > 2 and len(tops) == 40
  assert [[t[1] for t in top] for top in tops] == [
      [t[1] for t in top] for top in expected
  ]
  assert all(len(meta['input_top_logprobs']) == 3 for meta in metas)


def test_an_interval_makes_fewer_chunks(engine, slow_decode):
  del slow_decode
  params = ASK['sampling_params'] | {'stream_interval': 20}
  ask = ASK | {'stream': True, 'sampling_params': params}
  chunks = stream(engine, ask)
  sizes = [c['meta_info']['completion_tokens'] for c in chunks]
  assert len(sizes) <= 3 and 20 <= sizes[0] < 40 and sizes[-1] == 40


def test_batches_and_copies_carry_their_index(engine, slow_decode):
  del slow_decode
  params = {'n': 2, 'max_new_tokens': 20, 'sampling_seed': 1}
  ask = {'input_ids': [[1, 2], [3]], 'sampling_params': params}
  chunks = stream(engine, ask | {'stream': True})
  last = {chunk['index']: chunk for chunk in chunks}
  _, whole = once(engine, 'generate', ask)
  assert sorted(last) == [0, 1, 2, 3] and len(chunks) > 4
  assert [last[i]['output_ids'] for i in range(4)] == [
      reply['output_ids'] for reply in whole
  ]


def test_text_grows_by_whole_characters_and_stops_before_a_stop(
    words_engine, slow_decode
):
  slow_decode.set()
  params = {'max_new_tokens': 120, 'sampling_seed': 4, 'ignore_eos': True}
  ask = {'text': 'the cat', 'sampling_params': params}
  _, whole = once(words_engine, 'generate', ask)
  # A random model says bytes that are no text; a stop has to be some.
  stop = next(
      text
      for text in (whole['text'][i : i + 3] for i in range(150, 250))
      if '\ufffd' not in text
  )
  params = params | {'stop': stop}
  slow_decode.clear()
  chunks = stream(
      words_engine, ask | {'stream': True, 'sampling_params': params}
  )
  texts = [chunk['text'] for chunk in chunks]
  assert len(set(texts)) > 2
  for before, after in zip(texts, texts[1:], strict=False):
    # Half of a character would be another one later. A byte that no character
    # has stays what it is.
    assert after.startswith(before)
  assert texts[-1] == whole['text'][: whole['text'].index(stop)]
  assert chunks[-1]['meta_info']['finish_reason']['matched'] == stop


def test_a_refused_value_is_an_event_and_a_broken_schema_is_not(engine):
  ask = {'input_ids': [97], 'stream': True}
  (chunk,) = stream(engine, ask)
  error = chunk['error']
  assert '97 is outside the vocabulary' in error.pop('message')
  assert error == {
      'type': 'invalid_request_error',
      'code': 400,
      'retryable': False,
  }
  status, reply = once(
      engine, 'generate', ask | {'sampling_params': {'seed': 1}}
  )
  assert status == 400 and "'seed'" in reply['error']


def test_an_abort_is_the_last_chunk(engine, slow_decode):
  del slow_decode
  ask = {'input_ids': [1], 'sampling_params': LONG, 'rid': 'x', 'stream': True}

  async def main():
    chunks = []
    async for event in events(f'{engine.url}/generate', ask):
      if not chunks:
        engine.call(EngineCore.abort, 'x')
      chunks.append(event)
    return chunks

  *_, last, done = asyncio.run(asyncio.wait_for(main(), 300))
  assert done == '[DONE]'
  assert last['meta_info']['finish_reason']['type'] == 'abort'
  assert 0 < len(last['output_ids']) < 240


@pytest.mark.parametrize('paused', [False, True])
def test_a_reader_that_leaves_takes_its_request_along(
    engine, slow_decode, paused
):
  del slow_decode
  ask = {'input_ids': [1], 'sampling_params': LONG, 'rid': 'a', 'stream': True}
  other = ask | {'rid': 'ab', 'stream': False}

  async def body(call):
    running = asyncio.ensure_future(call('generate', other))
    chunks = events(f'{engine.url}/generate', ask)
    await anext(chunks)
    if paused:
      engine.call(EngineCore.pause, 'in_place')
    await chunks.aclose()
    await until(lambda: engine.stats()['num_running_reqs'] <= 1)
    if paused:
      engine.call(EngineCore.resume)
    return await running

  # Its id begins the other's, which must not go with it.
  _, reply = talk(engine, body)
  assert reply['meta_info']['finish_reason']['type'] == 'length'
  assert (
      engine.call(EngineCore.flush) and engine.stats()['num_free_slots'] == 12
  )


def test_a_full_queue_refuses_a_stream_before_it_begins(make_engine):
  engine = make_engine(max_queued=1)

  async def body(call):
    await call('pause_generation', {'mode': 'in_place'})
    first = asyncio.ensure_future(call('generate', {'input_ids': [1]}))
    await until(lambda: engine.stats()['num_waiting_reqs'])
    refused = await call('generate', {'input_ids': [1], 'stream': True})
    await call('abort_request', {'abort_all': True})
    await first
    return refused

  status, reply = talk(engine, body)
  assert status == 503 and 'max_queued is 1' in reply['error']['message']


def test_chunks_follow_the_contract(engine, contract):
  for chunk in stream(engine, ASK | {'stream': True}):
    reply = contract.GenerateResponse.from_json_value(chunk)
    assert list(reply.output_ids) == chunk['output_ids']
  (chunk,) = stream(engine, {'input_ids': [97], 'stream': True})
  error = contract.GenerateStreamError.from_json_value(chunk).error
  assert error.code == 400 and 'vocabulary' in error.message
