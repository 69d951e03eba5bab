"""Tests for /generate, over real connections on loopback."""

import asyncio
import re

import numpy as np
import pytest

from agentrl.engine.core import EngineCore
from agentrl.engine.http.generate import Generate
from agentrl.engine.openai import bodies as openai_bodies
from agentrl.engine.request import RequestLimits
from agentrl.text import tokenizer as tokenizer_lib
from tests.engine.talking import GREEDY, WORDS, Letters, once, talk
from tests.text.tokenizer_test import write_gguf
from tests.waiting import until


@pytest.mark.parametrize('method', ['POST', 'PUT'])
def test_generate_answers_one_prompt(engine, model, prompt_of, method):
  prompt = prompt_of(10)
  status, reply = once(
      engine,
      'generate',
      {
          'input_ids': prompt,
          'sampling_params': GREEDY,
          'return_logprob': True,
          'rid': 'mine',
          'return_prompt_token_ids': True,
          'a_key_of_the_future': 1,
      },
      method=method,
  )
  assert status == 200
  assert reply['output_ids'] == model.greedy(prompt, 6)
  assert reply['prompt_token_ids'] == prompt
  assert 'text' not in reply  # no tokenizer
  meta = reply['meta_info']
  triples = meta.pop('output_token_logprobs')
  assert [[token, text] for _, token, text in triples] == [
      [token, None] for token in reply['output_ids']
  ]
  assert all(logprob <= 0 for logprob, _, _ in triples)
  assert meta.pop('e2e_latency') > 0
  assert meta.pop('response_sent_to_client_ts') > 1.7e9
  assert meta == {
      'id': 'mine',
      'finish_reason': {'type': 'length', 'length': 6},
      'prompt_tokens': 10,
      'completion_tokens': 6,
      'cached_tokens': 0,
      'cached_tokens_details': None,
      'dp_rank': None,
      'reasoning_tokens': 0,
      'num_retractions': 0,
      'weight_version': 'default',
      'weight_versions': [{'version': 'default', 'start': 0, 'end': 6}],
      'output_token_logprobs_length': 6,
      'input_token_logprobs': [],
  }


def test_input_logprobs_come_with_their_ids(engine, model, prompt_of):
  prompt = prompt_of(9)
  _, reply = once(
      engine,
      'generate',
      {
          'input_ids': prompt,
          'sampling_params': {'max_new_tokens': 0},
          'return_logprob': True,
          'logprob_start_len': 0,
      },
  )
  triples = reply['meta_info']['input_token_logprobs']
  assert [token for _, token, _ in triples] == prompt
  assert triples[0][0] is None
  table = model.logprobs(prompt)
  np.testing.assert_allclose(
      [logprob for logprob, _, _ in triples[1:]],
      [table[t - 1, prompt[t]] for t in range(1, 9)],
      atol=1e-5,
  )


def test_the_likeliest_tokens_come_as_triples(words_engine):
  ask = {
      'text': ['the cat', 'sat', 'mat'],
      'sampling_params': {'max_new_tokens': 5, 'ignore_eos': True},
      'return_logprob': [True, True, False],
      'logprob_start_len': 0,
      'top_logprobs_num': [3, 0, 3],
      'return_text_in_logprobs': True,
  }
  _, (three, none, unasked) = once(words_engine, 'generate', ask)
  assert 'output_top_logprobs' not in none['meta_info']
  # As SGLang, which looks at nothing of the kind without return_logprob.
  assert 'output_token_logprobs' not in unasked['meta_info']
  assert 'output_top_logprobs' not in unasked['meta_info']
  meta = three['meta_info']
  for side in ('input', 'output'):
    tops = meta[f'{side}_top_logprobs']
    triples = meta[f'{side}_token_logprobs']
    assert len(tops) == len(triples)
    for top, (logprob, token, _) in zip(tops, triples, strict=True):
      if logprob is None:
        assert top is None
        continue
      values = [value for value, _, _ in top]
      assert len(top) == 3 and values == sorted(values, reverse=True)
      for value, other, text in top:
        assert text == WORDS.decode([other], skip_special=False)
        assert other != token or value == pytest.approx(logprob, abs=1e-5)
  assert meta['input_top_logprobs'][0] is None


@pytest.mark.parametrize('streamed', [False, True])
def test_a_name_is_refused_until_its_request_has_ended(engine, streamed):
  ask = {'input_ids': [1], 'sampling_params': GREEDY, 'rid': 'mine'}

  async def body(call):
    engine.call(EngineCore.pause, 'in_place')
    first = asyncio.ensure_future(call('generate', ask | {'rid': 'mine'}))
    await until(lambda: engine.stats()['num_waiting_reqs'])
    among = {'input_ids': [[1], [2]], 'rid': ['new', 'mine']}
    refused = [
        await call('generate', ask | {'stream': streamed}),
        await call('generate', ask | among | {'stream': streamed}),
    ]
    waiting = engine.stats()['num_waiting_reqs']
    # One whose client has left lives until the device is done with it.
    first.cancel()
    await until(lambda: not engine.stats()['num_waiting_reqs'])
    engine.call(EngineCore.resume)
    return (
        refused,
        waiting,
        await call('generate', ask | {'rid': 'new'}),
        (await call('generate', ask)),
    )

  refused, waiting, *later = talk(engine, body)
  for status, reply in refused:
    # As for any value that SGLang refuses: a stream says it in an event.
    assert status == (200 if streamed else 400)
    assert 'Duplicate request ID detected: mine' in str(reply)
  assert waiting == 1  # not even the batch's other prompt was taken
  assert [status for status, _ in later] == [200, 200]


def test_batches_and_copies_answer_in_order(engine, model, prompt_of):
  prompts = [prompt_of(size, seed=size) for size in (12, 3, 7)]
  _, replies = once(
      engine,
      'generate',
      {'input_ids': prompts, 'sampling_params': GREEDY, 'rid': 'b'},
  )
  assert [r['output_ids'] for r in replies] == [
      model.greedy(p, 6) for p in prompts
  ]
  assert [r['meta_info']['id'] for r in replies] == ['b_0', 'b_1', 'b_2']

  params = [{'n': 2, 'max_new_tokens': i, 'sampling_seed': 3} for i in (4, 8)]
  _, replies = once(
      engine,
      'generate',
      {'input_ids': prompts[:2], 'sampling_params': params},
  )
  sizes = [r['meta_info']['completion_tokens'] for r in replies]
  assert sizes == [4, 4, 8, 8]
  # One seed, and yet the copies differ; the first is that of n=1.
  assert replies[2]['output_ids'] != replies[3]['output_ids']
  params = {'max_new_tokens': 8, 'sampling_seed': 3}
  _, alone = once(
      engine, 'generate', {'input_ids': prompts[1], 'sampling_params': params}
  )
  assert alone['output_ids'] == replies[2]['output_ids']


def test_text_goes_in_and_comes_out(make_engine, model):
  engine = make_engine(Letters())
  params = GREEDY | {'ignore_eos': True, 'max_new_tokens': 40}
  _, reply = once(
      engine, 'generate', {'text': 'abc$', 'sampling_params': params}
  )
  ids = Letters().encode('abc$', allow_special=True)
  assert reply['output_ids'] == model.greedy(ids, 40)
  assert reply['meta_info']['prompt_tokens'] == 4
  assert reply['text'] == Letters().decode(reply['output_ids'])
  _, replies = once(
      engine, 'generate', {'text': ['abc$', 'd'], 'sampling_params': params}
  )
  assert replies[0]['text'] == reply['text'] and len(replies) == 2


def test_a_text_is_the_prompt_that_transformers_makes_of_it(tmp_path):
  transformers = pytest.importorskip('transformers', reason='the reference')
  path = write_gguf(tmp_path / 'a.gguf', bos_token_id=0, add_bos_token=True)
  tokenizer = tokenizer_lib.load(path)
  tokenizer.save(tmp_path)
  theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
  limits = RequestLimits(vocab_size=300, max_len=64, has_tokenizer=True)
  route = Generate(
      None, limits, tokenizer, incremental=False, stream_interval=1
  )
  for body in (
      {'text': 'abc <|end|>'},
      openai_bodies.completion({'prompt': 'abc <|end|>'}),
  ):
    [request] = route.parse(body).requests
    assert list(request.tokens) == theirs('abc <|end|>')['input_ids']
    assert request.tokens[0] == 0 != request.tokens[1]
  [request] = route.parse({'input_ids': [5]}).requests
  assert request.tokens == (5,)  # ids are a prompt as they are
  route.close()


def test_the_stop_id_is_in_the_ids_and_not_in_the_text(make_engine):
  engine = make_engine(Letters())
  request = {
      'text': 'abc',
      'sampling_params': {'max_new_tokens': 50, 'sampling_seed': 2},
  }
  _, full = once(engine, 'generate', request)
  stop = full['output_ids'][7]
  size = full['output_ids'].index(stop) + 1
  request['sampling_params']['stop_token_ids'] = [stop]
  _, cut = once(engine, 'generate', request)
  assert cut['output_ids'] == full['output_ids'][:size]
  assert cut['text'] == Letters().decode(full['output_ids'][: size - 1])
  assert cut['meta_info']['finish_reason'] == {'type': 'stop', 'matched': stop}
  request['sampling_params']['no_stop_trim'] = True
  _, kept = once(engine, 'generate', request)
  assert kept['text'] == Letters().decode(cut['output_ids'])


def test_a_stop_string_ends_the_text_before_it(make_engine):
  engine = make_engine(Letters())
  request = {
      'text': 'abc',
      'sampling_params': {
          'max_new_tokens': 100,
          'sampling_seed': 1,
          'ignore_eos': True,
      },
  }
  _, full = once(engine, 'generate', request)
  stop = full['text'][60:62]
  request['sampling_params']['stop'] = ['never', stop]
  _, cut = once(engine, 'generate', request)
  size = len(cut['output_ids'])
  assert cut['meta_info']['finish_reason'] == {'type': 'stop', 'matched': stop}
  assert cut['output_ids'] == full['output_ids'][:size]
  assert cut['text'] == full['text'][: full['text'].index(stop)]
  # The last token was needed: without it the stop string is not there.
  assert stop not in Letters().decode(cut['output_ids'][:-1])
  request['sampling_params']['no_stop_trim'] = True
  _, kept = once(engine, 'generate', request)
  assert kept['text'] == cut['text'] + stop


def test_null_means_the_default(engine):
  nulls = {'temperature': None, 'stop': None, 'regex': None, 'n': None}
  status, reply = once(
      engine,
      'generate',
      {
          'input_ids': [1],
          'sampling_params': nulls | {'max_new_tokens': 2},
          'rid': None,
      },
  )
  assert status == 200 and len(reply['output_ids']) == 2


def test_no_stop_trim_keeps_the_stop_string_and_nothing_after_it(words_engine):
  params = {'max_new_tokens': 60, 'sampling_seed': 5, 'ignore_eos': True}
  ask = {'text': 'the cat', 'sampling_params': params}
  _, full = once(words_engine, 'generate', ask)
  for size in range(1, 60):
    # A token of several characters, of which the first stops.
    text = WORDS.decode(full['output_ids'][:size])
    longer = WORDS.decode(full['output_ids'][: size + 1])
    stop = longer[len(text) : len(text) + 1]
    if stop and stop not in text + '\ufffd' and len(longer) > len(text) + 1:
      break
  else:
    pytest.fail('no such token; choose another seed')
  params |= {'stop': stop, 'no_stop_trim': True}
  _, kept = once(words_engine, 'generate', ask)
  assert kept['text'] == text + stop
  params['no_stop_trim'] = False
  _, cut = once(words_engine, 'generate', ask)
  assert cut['text'] == text and cut['output_ids'] == kept['output_ids']


def test_a_pattern_stops_and_its_match_stays(words_engine):
  params = {'max_new_tokens': 60, 'sampling_seed': 5, 'ignore_eos': True}
  ask = {'text': 'the cat', 'sampling_params': params}
  _, full = once(words_engine, 'generate', ask)
  pattern = '[a-z]{2}'
  match = re.search(pattern, full['text'])
  params['stop_regex'] = pattern
  _, cut = once(words_engine, 'generate', ask)
  reason = {'type': 'stop', 'matched': pattern}
  assert cut['meta_info']['finish_reason'] == reason
  assert cut['text'].startswith(full['text'][: match.end()])
  assert len(cut['output_ids']) < 60
  params['stop_regex'] = r'(a)\1'
  status, reply = once(words_engine, 'generate', ask)
  assert status == 400 and 'references to groups' in reply['error']['message']


def test_triples_have_the_text_when_it_is_asked_for(words_engine):
  ask = {
      'text': 'the<|im_end|>cat',
      'sampling_params': {'max_new_tokens': 5, 'ignore_eos': True},
      'return_logprob': True,
      'logprob_start_len': 0,
      'return_text_in_logprobs': True,
  }
  _, reply = once(words_engine, 'generate', ask)
  meta = reply['meta_info']
  prompt = meta['input_token_logprobs']
  assert ''.join(text for _, _, text in prompt) == 'the<|im_end|>cat'
  assert [text for _, _, text in meta['output_token_logprobs']] == [
      WORDS.decode([token], skip_special=False) for token in reply['output_ids']
  ]
