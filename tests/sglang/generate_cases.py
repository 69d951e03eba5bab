"""Requests to /generate: good ones, lengths, and bodies that are no JSON."""

import json

from tests.sglang.steps import END, JSON, generate, post


def good():
  scored = {'return_logprob': True}
  for name, step in {
      'PUT': generate() | {'send': 'PUT /generate'},
      'text': generate(text='the cat'),
      'texts': generate(text=['the cat', 'a mat']),
      'one text in a list': generate(text=['the cat']),
      'batch': generate(input_ids=[[5, 6], [7]]),
      'batch of one': generate(input_ids=[[5, 6]]),
      'n 2': generate({'n': 2}),
      'n 2, scored': generate({'n': 2}, **scored),
      'n 2 of a batch': generate({'n': 2}, input_ids=[[5], [6]]),
      'n 2 of a text': generate({'n': 2}, text='the cat'),
      'n 1.0': generate({'n': 1.0}),
      'params for each': (
          generate(input_ids=[[5], [6]])
          | {
              'body': {
                  'input_ids': [[5], [6]],
                  'sampling_params': [
                      {'max_new_tokens': 1, 'ignore_eos': True},
                      {'max_new_tokens': 2, 'ignore_eos': True},
                  ],
              }
          }
      ),
      'scored': generate(**scored),
      'scored, with text': generate(return_text_in_logprobs=True, **scored),
      'scored from 0': generate(logprob_start_len=0, **scored),
      'scored from 1': generate(logprob_start_len=1, **scored),
      'scored from the last': generate(logprob_start_len=2, **scored),
      'scored from the end': generate(logprob_start_len=3, **scored),
      'scored from after the end': generate(logprob_start_len=4, **scored),
      'scored from -1': generate(logprob_start_len=-1, **scored),
      'start without scores': generate(logprob_start_len=0),
      'start without scores, odd': generate(logprob_start_len=9),
      'tops': generate(top_logprobs_num=2, **scored),
      'tops 0': generate(top_logprobs_num=0, **scored),
      'tops of the prompt': generate(
          top_logprobs_num=2, logprob_start_len=0, **scored
      ),
      'tops without scores': generate(top_logprobs_num=2),
      'tops negative': generate(top_logprobs_num=-1, **scored),
      'batch, one scored': generate(
          input_ids=[[5], [6]], return_logprob=[True, False]
      ),
      'batch, lists': generate(
          input_ids=[[5, 6], [6]],
          return_logprob=[True, True],
          logprob_start_len=[0, -1],
          top_logprobs_num=[1, 0],
      ),
      'batch, list with n 2': generate(
          {'n': 2}, input_ids=[[5, 6], [6]], return_logprob=[True, True]
      ),
      'prompt ids': generate(return_prompt_token_ids=True),
      'no new tokens': generate({'max_new_tokens': 0}),
      'one token': generate({'max_new_tokens': 1}),
      'stream': generate(stream=True),
      'stream of a batch': generate(stream=True, input_ids=[[5], [6]]),
      'stream of a batch of one': generate(stream=True, input_ids=[[5]]),
      'stream of n 2': generate({'n': 2}, stream=True),
      'stream, scored': generate(
          stream=True, logprob_start_len=0, top_logprobs_num=1, **scored
      ),
      'stream of no tokens': generate({'max_new_tokens': 0}, stream=True),
      'rid': generate(rid='mine'),
      'rid of a batch': generate(rid='ours', input_ids=[[5], [6]]),
      'rids': generate(rid=['one', 'two'], input_ids=[[5], [6]]),
      'rid with n 2': generate({'n': 2}, rid='theirs'),
      'rid, empty': generate(rid=''),
      'extra_key': generate(extra_key='a'),
      'cache_salt': generate(cache_salt='a', extra_key='b'),
      'salts of a batch': generate(cache_salt=['a', 'b'], input_ids=[[5], [6]]),
      'key that is no field': generate(foo=1),
      'everything null': generate(
          **dict.fromkeys(
              (
                  'text rid return_logprob logprob_start_len top_logprobs_num'
                  ' token_ids_logprob extra_key cache_salt lora_path priority'
                  ' session_id routing_key image_data session_params'
              ).split()
          )
      ),
      'routing_key': generate(routing_key='a'),
      'priority': generate(priority=1),
      'session_id': generate(session_id='a'),
      'duplicate keys': post(
          'generate',
          raw=b'{"rid": 5, "rid": "a", "input_ids": []}',
          headers=JSON,
      ),
  }.items():
    yield f'generate: {name}', step
  # Beside requests that sample, a server tells the log-probability of a token
  # that it does not give: its prefill samples for the whole batch or for none.
  yield 'alone: no new tokens, scored', generate(
      {'max_new_tokens': 0}, logprob_start_len=0, **scored
  )


def lengths():
  for prompt in (-8, -7, -6, -5, -2, -1, 0, 1):
    for new in ('omitted', 'null', 0, 1, 2, 3, 4, 5, 6, 7):
      if prompt > -5 and new not in ('omitted', 0, 1):
        continue
      params = {'temperature': 0, 'ignore_eos': True}
      if new == 'null':
        params['max_new_tokens'] = None
      elif new != 'omitted':
        params['max_new_tokens'] = new
      yield f'length: context {prompt:+d}, {new} new', post(
          'generate',
          {
              'input_ids': {'repeat': 9, 'times': f'<context {prompt:+d}>'},
              'sampling_params': params,
          },
      )
  # Stops at once, so that only the sum of the two counts.
  for new in (-10, -9, -8):
    yield f'length: 9 and context {new:+d} new', generate(
        END | {'max_new_tokens': f'<context {new:+d}>'}, input_ids=[9] * 9
    )


def raw_bodies():
  for name, raw in {
      'empty': b'',
      'half an object': b'{"input_ids": [5',
      'trailing comma': b'{"input_ids": [5],}',
      'list': b'[1, 2]',
      'null': b'null',
      'text': b'"input_ids"',
      'number': b'5',
      'NaN': b'{"input_ids": [NaN]}',
      'Infinity': b'{"input_ids": [5], "foo": Infinity}',
      'NaN for a temperature': (
          b'{"input_ids": [5], "sampling_params": {"temperature": NaN}}'
      ),
      'bad UTF-8': b'{"text": "\xff"}',
      'UTF-16': '{"input_ids": [5]}'.encode('utf-16'),
      'byte order mark': b'\xef\xbb\xbf{"input_ids": [5]}',
      'nested deeply': b'[' * 100_000 + b']' * 100_000,
      'nested deeply in a field': (
          b'{"input_ids": [5], "foo": ' + b'[' * 2000 + b']' * 2000 + b'}'
      ),
      'many digits': b'{"input_ids": [' + b'9' * 5000 + b']}',
      'many digits in a field': (
          b'{"input_ids": [5], "foo": ' + b'9' * 5000 + b'}'
      ),
      'number beyond any float': b'{"input_ids": [5], "foo": 1e999}',
      'two values': b'{"input_ids": [5]} {}',
      'form': b'input_ids=5',
      'single quotes': b"{'input_ids': [5]}",
      'comment': b'{"input_ids": [5] /* a */}',
  }.items():
    yield f'raw: {name}', post('generate', raw=raw, headers=JSON)
  good = json.dumps(generate({'max_new_tokens': 1})['body']).encode()
  for name, headers in {
      'text/plain': {'Content-Type': 'text/plain'},
      'no content type': {},
      'form': {'Content-Type': 'application/x-www-form-urlencoded'},
      'vendor json': {'Content-Type': 'application/vnd.api+json'},
      'other charset': {'Content-Type': 'application/json; charset=latin-1'},
      'upper case': {'Content-Type': 'APPLICATION/JSON'},
      'unknown': {'Content-Type': 'nonsense'},
      'said to be gzip': JSON | {'Content-Encoding': 'gzip'},
      'said to be brotli': JSON | {'Content-Encoding': 'br'},
      'said to be nonsense': JSON | {'Content-Encoding': 'nonsense'},
      'bad accept': JSON | {'Accept': 'text/html'},
      'odd key': JSON | {'Authorization': 'Basic abc'},
  }.items():
    yield f'headers: {name}', post('generate', raw=good, headers=headers)
  for path in ('abort_request', 'pause_generation', 'continue_generation'):
    yield f'headers: {path} as text', post(
        path, raw=b'{}', headers={'Content-Type': 'text/plain'}
    )
