"""Requests for the differential test, by name: good, odd and hostile ones.

A case is a list of steps, each a dictionary:

- `send`: method and path; with `body` (JSON), `raw` (bytes) and `headers`;
- `start`: sends in the background under that name, `join` waits for its reply;
- `first`: waits for the first chunk of a started stream;
- `waits`: a started request must still be without an answer;
- `free`: the reply is not compared;
- `loose`: the counts of the reply depend on speed;
- `idle`: waits until the server has no request.

`<weights>` in a body is the model path of the server; `<context>`, `<vocab>`,
`<eos>` and sums of these with integers are numbers of its model.
"""

import itertools
from typing import Any

Step = dict[str, Any]

PROMPT = [5, 6, 7]
JSON = {'Content-Type': 'application/json'}
# More than either server samples while a few other requests are answered.
LONG = {'max_new_tokens': 900, 'ignore_eos': True}
# Enough for a few requests to be answered meanwhile, by a server on a CPU.
FEW = {'max_new_tokens': 40}
# Ends with the first token, the end id of the model.
END = {'logit_bias': {'<eos>': 1000}, 'ignore_eos': False}
# Cases whose names begin so change what others see, or look at it.
APART = ('control:', 'state:', 'running:', 'paused:', 'idle:', 'cache:')


def post(path: str, body: Any = None, **more: Any) -> Step:
  step = {'send': f'POST /{path}'} | more
  return step if body is None else step | {'body': body}


def get(path: str, **more: Any) -> Step:
  return {'send': f'GET /{path}'} | more


def generate(params: dict | None = None, **body: Any) -> Step:
  """A POST /generate of few greedy tokens; `params` change what is sampled."""
  sampling = {'max_new_tokens': 3, 'temperature': 0, 'ignore_eos': True}
  if 'text' not in body:
    body = {'input_ids': PROMPT} | body
  return post('generate', {'sampling_params': sampling | (params or {})} | body)


# Requests that end a real server's scheduler, and with it the server; the engine
# refuses them with a 400. Nothing here sends them to a server.
DEADLY = {
    'token id of the size of the vocabulary': generate(input_ids=['<vocab>']),
    'empty text': generate(text=''),
    'batch of one empty prompt': generate(input_ids=[[]]),
    'batch with an empty prompt': generate(input_ids=[[], [5]]),
    'logprob_start_len -2': generate(return_logprob=True, logprob_start_len=-2),
    'logprob_start_len in a list for one prompt': generate(
        return_logprob=True, logprob_start_len=[0]
    ),
    'load_format that does not exist': post(
        'update_weights_from_disk',
        {'model_path': '<weights>', 'load_format': 'nonsense'},
    ),
}


def run(name: str, params: dict | None = None, **body: Any) -> Step:
  """Starts a long stream under a name."""
  step = generate(LONG | (params or {}), stream=True, **body)
  return step | {'start': name, 'loose': True}


def all_cases() -> dict[str, list[Step]]:
  """The steps of each case."""
  cases: dict[str, list[Step]] = {}
  for name, steps in itertools.chain(
      _good(),
      _sampling(),
      _fields(),
      _lengths(),
      _raw(),
      _control(),
      _state(),
      _running(),
      _openai(),
  ):
    assert name not in cases, name
    cases[name] = steps if isinstance(steps, list) else [steps]
  return cases


def _good():
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
      'no new tokens, scored': generate(
          {'max_new_tokens': 0}, logprob_start_len=0, **scored
      ),
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


# Name of a sampling parameter -> values at and beyond its limits, or of types
# that it does not have.
_PARAMS = {
    'max_new_tokens': (None, -1, 1.5, 1.0, '3', True, [3], 2**70),
    'temperature': (None, 1e-7, 2, -1, -1e-9, 1e30, '1', True, 10**400, [1]),
    'top_p': (None, 1, 0, 1e-9, 1.5, -0.5, 'a', False),
    'top_k': (None, -1, 1, 10**6, 0, -2, 2.5, 2.0, '5', 2**70),
    'min_p': (None, 0, 1, 1.5, -0.1, 'a'),
    'frequency_penalty': (None, 2, -2, 2.1, 'a'),
    'presence_penalty': (None, -2, -2.1, {}),
    'repetition_penalty': (None, 2, 0, 0.5, -1, 2.1, []),
    'min_new_tokens': (None, 1, 3, 4, -1, 'a', 1.5),
    'n': (None, 0, -1, '2', True),
    'stop': (None, [], 'zzz', ['zzz', 'yyy'], 3, [3], {}, ['a'] * 33),
    'stop_token_ids': (None, [], [5], [80], 5, ['5'], [None], [1.5], [-1]),
    'stop_regex': (None, [], 'zzz+', 3, [3], 'a' * 257, ['a'] * 33),
    'ignore_eos': (None, False, 'yes', 1),
    'skip_special_tokens': (None, False, 'no'),
    'spaces_between_special_tokens': (None, True, 'no'),
    'no_stop_trim': (None, True, 'no'),
    'stream_interval': (None, 2, 'a'),
    'logit_bias': (
        None,
        {},
        {'20': 100},
        {'20': -100.0},
        {'20': 'a'},
        {'cat': 1},
        {'-1': 1},
        {'20': True},
        [20],
        'a',
    ),
    'sampling_seed': (None, 7, -7, 2**63 - 1, 2**63, 1.5, 'a'),
    'regex': (None, ''),
    'json_schema': (None, '', 5),
    'ebnf': (None, 5),
    'structural_tag': (None, 5),
    'custom_params': (None, {}),
    'beam_width': (None, 0, 'a'),
    'choice': (None, [], 'a'),
    'watermark': (None, 'a'),
    'seed': (1,),
    'max_tokens': (1,),
    'Temperature': (1,),
    '': (1,),
}


def _sampling():
  for name, values in _PARAMS.items():
    for value in values:
      label = repr(value)
      label = label if len(label) < 20 else f'{label[:9]}...{label[-6:]}'
      # At temperature 0 a server looks at no top_k.
      more = {'temperature': 1} if name == 'top_k' else {}
      if name == 'max_new_tokens' and value is None:
        more = END  # or it goes on to the end of the context
      yield f'param: {name} {label}', generate(more | {name: value})
  for name, params in {
      'min_new_tokens of null max': (
          END | {'max_new_tokens': None, 'min_new_tokens': 2}
      ),
      'stops at an id': (
          {'max_new_tokens': 9, 'ignore_eos': False} | {'stop_token_ids': [80]}
      ),
      'ignores a stop id too': {'stop_token_ids': [80]},
      'all penalties': {
          'frequency_penalty': 1,
          'presence_penalty': 1,
          'repetition_penalty': 1.5,
      },
      'biased to the end': END,
      'biased to the end, 2 at least': (
          {
              'min_new_tokens': 2,
          }
          | END
      ),
      'stop in a text': {'logit_bias': {'80': 1000}, 'stop': 'n'},
      'stop in a text, kept': {
          'logit_bias': {'80': 1000},
          'stop': ['n'],
          'no_stop_trim': True,
      },
      'pattern in a text': {'logit_bias': {'80': 1000}, 'stop_regex': 'n'},
      'stop, empty': {'stop': ''},
      'stop, one empty': {'stop': ['zzz', '']},
      'pattern, broken': {'stop_regex': '('},
      'pattern, empty': {'stop_regex': ''},
      'two grammars': {'regex': 'a', 'json_schema': '{}'},
  }.items():
    yield f'params: {name}', generate(params)
  for name, given in {
      'a list for one prompt': [{'max_new_tokens': 1}],
      'an empty list for one prompt': [],
      'a number': 3,
      'a text': 'a',
      'a list of numbers': [3],
  }.items():
    body = {'input_ids': PROMPT, 'sampling_params': given}
    yield f'params: {name}', post('generate', body)
  for name, given in {
      'a list too short': [{'max_new_tokens': 1}],
      'a list too long': [{'max_new_tokens': 1}] * 3,
      'an empty list': [],
      'a list with null': [{'max_new_tokens': 1}, None],
      'n that differ': [{'n': 2}, {'n': 1}],
      'n that agree': [{'n': 2, 'max_new_tokens': 1}] * 2,
  }.items():
    body = {'input_ids': [[5], [6]], 'sampling_params': given}
    yield f'params of two prompts: {name}', post('generate', body)


# Top-level field -> odd values.
_FIELDS = {
    'input_ids': (
        'abc',
        5,
        {},
        [],
        [5, 'a'],
        ['a'],
        [5, 1.5],
        [5, None],
        [True],
        [[5], 6],
        [5, [6]],
        [[[5]]],
        [2**63],
        [[5], ['a']],
    ),
    'rid': (5, ['a'], {}, [5]),
    'stream': ('x', 'yes', 1, 2, []),
    'return_logprob': ('x', 'true', 1, 2, [True], [], {}),
    'logprob_start_len': ('x', '1', 0.5, 1.0, {}, True),
    'top_logprobs_num': ('x', '1', 0.5, 1.0, {}, True),
    'token_ids_logprob': ([], 'x', {}),
    'extra_key': (5, '', ['a'], []),
    'cache_salt': (5, '', ['a']),
    'lora_path': (5, '', 'nobody', ['nobody'], [5]),
    'return_text_in_logprobs': ('x', None, 1),
    'return_prompt_token_ids': ('x', None, 1),
    'return_hidden_states': (False, True, 'x'),
    'return_routed_experts': (False, 'x'),
    'return_sampling_mask': (False, 'x'),
    'priority': ('x', 1.5),
    'session_id': (5,),
    'session_params': ({}, 5),
    'routing_key': (5,),
    'image_data': ([],),
    'custom_logit_processor': ('x', 5),
    'custom_labels': ({'a': 5}, 5),
    'log_metrics': (False, 'x'),
    'routed_dp_rank': (0, 1, 'x'),
    'max_thinking_tokens': (1,),
    'bootstrap_host': (5,),
}
# The same for a batch of two.
_BATCH_FIELDS = {
    'rid': (['a', 'a'], ['a'], [5, 6], 5, []),
    'return_logprob': ([True], [True] * 3, [], ['x', True]),
    'logprob_start_len': ([0, 9], [0, None]),
    'top_logprobs_num': ([1, None],),
    'extra_key': (['a'], ['a', None], [5, 6], ['a', 'b']),
    'cache_salt': (['a'], []),
    'lora_path': ([None, None], ['nobody', None]),
}


def _fields():
  for fields, label, more in (
      (_FIELDS, 'field', {}),
      (_BATCH_FIELDS, 'field of a batch', {'input_ids': [[5], [6]]}),
  ):
    for name, values in fields.items():
      for value in values:
        body = {'return_logprob': True} if 'prob' in name else {}
        yield f'{label}: {name} {value!r}', generate(
            **(body | more | {name: value})
        )
  for name, body in {
      'nothing': {},
      'params alone': {'sampling_params': {}},
      'text and ids': {'text': 'the cat', 'input_ids': PROMPT},
      'text and embeds': {'text': 'the cat', 'input_embeds': [[0.5]]},
      'text 5': {'text': 5},
      'text in a list, 5': {'text': [5]},
      'no texts': {'text': []},
      'text in a list of lists': {'text': [['a']]},
      'text null, ids': {'text': None, 'input_ids': PROMPT},
      'control characters': {'text': 'a\0b\x07'},
      'half a surrogate': {'text': '\ud800'},
      'token of the template': {'text': '<|im_start|>user'},
  }.items():
    if 'input_ids' in body or 'text' in body:
      body = {'sampling_params': {'max_new_tokens': 2}} | body
    yield f'body: {name}', post('generate', body)
  for name, params, body in (
      ('temperature', {'temperature': -1}, {}),
      ('unknown param', {'seed': 1}, {}),
      ('field', {}, {'return_logprob': 'x'}),
      ('empty prompt', {}, {'input_ids': []}),
      ('length', {'max_new_tokens': 10**6}, {}),
      ('scored from after the end', {}, {'return_logprob': True}
       | {'logprob_start_len': 9}),
      ('of a batch', {'top_p': 2}, {'input_ids': [[5], [6]]}),
  ):  # fmt: skip
    yield f'stream that is refused: {name}', generate(
        params, stream=True, **body
    )


def _lengths():
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


def _raw():
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
  good = b'{"input_ids": [5], "sampling_params": {"max_new_tokens": 1}}'
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


def _control():
  for path, bodies in {
      'abort_request': (
          {},
          {'rid': ''},
          {'rid': None},
          {'rid': 'nobody'},
          {'rid': 5},
          {'rid': ['a']},
          {'abort_all': 'x'},
          {'abort_all': 'false'},
          {'abort_all': None},
          {'abort_all': True},
          {'rid': 'a', 'abort_all': False, 'foo': 1},
          [],
          'a',
      ),
      'pause_generation': (
          {'mode': 'nap'},
          {'mode': None},
          {'mode': 5},
          {'mode': ['abort']},
          [],
      ),
      'continue_generation': ({}, {'torch_empty_cache': 'x'}, {'foo': 1}, []),
      'update_weights_from_disk': (
          {},
          {'model_path': None},
          {'model_path': 5},
          {'model_path': ''},
          {'model_path': '/no/such/folder'},
          {'model_path': '<weights>', 'load_format': 5},
          {'model_path': '<weights>', 'weight_version': 5},
          {'model_path': '<weights>', 'flush_cache': 'x'},
          {'model_path': '<weights>', 'flush_cache': None},
          {'model_path': '<weights>', 'abort_all_requests': 'x'},
          {'model_path': '<weights>', 'token_step': 'x'},
          {'model_path': '<weights>', 'manifest': 5},
          [],
      ),
      'update_weight_version': (
          {},
          {'new_version': None},
          {'new_version': 5},
          {'new_version': 'v', 'abort_all_requests': 'x'},
          {'new_version': 'v', 'abort_all_requests': None},
          [],
      ),
      'get_weights_by_name': (
          {},
          {'name': 5},
          {'name': ''},
          {'name': 'nobody'},
          {'name': 'model.norm.weight'},
          {'name': 'model.norm.weight', 'truncate_size': 3},
          {'name': 'model.norm.weight', 'truncate_size': 0},
          {'name': 'model.norm.weight', 'truncate_size': -3},
          {'name': 'model.norm.weight', 'truncate_size': 10**6},
          {'name': 'model.norm.weight', 'truncate_size': '3'},
          {'name': 'model.norm.weight', 'truncate_size': 2.5},
          {'name': 'model.norm.weight', 'truncate_size': None},
          {'name': 'model.embed_tokens.weight', 'truncate_size': 2},
          {
              'name': 'model.layers.0.self_attn.q_proj.weight',
              'truncate_size': 2,
          },
          {
              'name': 'model.layers.0.self_attn.k_proj.weight',
              'truncate_size': 2,
          },
          {
              'name': 'model.layers.1.mlp.up_proj.weight',
              'truncate_size': 1,
          },
          {'name': 'lm_head.weight', 'truncate_size': 1},
          [],
      ),
      'load_lora_adapter': (
          {},
          {'lora_name': 'a'},
          {'lora_name': 'a', 'lora_path': '/no/such/folder'},
          {'lora_name': 5, 'lora_path': 'a'},
      ),
      'unload_lora_adapter': ({}, {'lora_name': 'nobody'}, {'lora_name': 5}),
  }.items():
    for body in bodies:
      yield f'control: {path} {body!r}', post(path, body)
    for name, raw in (('nothing', b''), ('half', b'{'), ('nan', b'[NaN]')):
      yield f'control: {path}, raw {name}', post(path, raw=raw, headers=JSON)
  yield 'control: GET get_weights_by_name, body', get(
      'get_weights_by_name',
      body={'name': 'model.norm.weight', 'truncate_size': 3},
  )
  yield 'control: GET get_weights_by_name, query', get(
      'get_weights_by_name?name=model.norm.weight'
  )
  yield 'control: POST get_weights_by_name, query', post(
      'get_weights_by_name?name=model.norm.weight', {}
  )
  for query in ('', '?timeout=0', '?timeout=0.5', '?timeout=-1', '?timeout=x',
                '?timeout=nan', '?timeout=', '?foo=1'):  # fmt: skip
    yield f'control: flush_cache{query}', post(f'flush_cache{query}')
  yield 'control: GET flush_cache', get('flush_cache')
  yield 'control: flush_cache with a body', post('flush_cache', raw=b'{')
  for path in ('encode', 'classify', 'tokenize', 'v1/embeddings', 'v1/score'):
    yield f'no route of ours: {path}', post(path, {'foo': 1})
  for method, path in (
      ('GET', 'generate'),
      ('DELETE', 'generate'),
      ('PATCH', 'generate'),
      ('OPTIONS', 'generate'),
      ('HEAD', 'generate'),
      ('HEAD', 'model_info'),
      ('HEAD', 'health'),
      ('PUT', 'abort_request'),
      ('GET', 'abort_request'),
      ('GET', 'pause_generation'),
      ('GET', 'update_weights_from_disk'),
      ('POST', 'model_info'),
      ('POST', 'v1/models'),
      ('POST', 'health'),
      ('GET', 'nowhere'),
      ('GET', ''),
      ('POST', ''),
      ('GET', 'generate/'),
      ('GET', 'model_info/'),
      ('GET', '%2e%2e/x'),
      ('GET', 'v1/models/nobody'),
      ('GET', 'v1/completions'),
  ):
    yield f'route: {method} /{path}', {'send': f'{method} /{path}'}


def _state():
  for path in (
      'health',
      'health_generate',
      'ready',
      'ping',
      'model_info',
      'get_model_info',
      'server_info',
      'get_server_info',
      'v1/loads',
      'v1/loads?include=core',
      'v1/loads?include=core,queues',
      'v1/loads?include=nonsense',
      'v1/loads?dp_rank=0',
      'v1/loads?dp_rank=5',
      'v1/loads?dp_rank=x',
      'v1/loads?format=prometheus',
      'metrics',
      'v1/models',
  ):
    yield f'state: {path}', get(path)


def _running():
  """Requests beside one that runs. They leave nothing behind.

  Each has ids of its own: a server aborts that of a stream once more, two
  seconds after its end.
  """
  abort = lambda rid: post('abort_request', {'rid': rid})
  end = post('abort_request', {'abort_all': True})
  yield 'running: abort by id', [
      run('a', rid='alpha'), {'first': 'a'}, abort('alpha'), {'join': 'a'},
      {'idle': True},
  ]  # fmt: skip
  yield 'running: abort by prefix', [
      run('a', FEW, rid='prefixed'), {'first': 'a'}, abort('pre'), {'join': 'a'},
  ]  # fmt: skip
  yield 'running: abort by an id that begins another', [
      run('a', rid='zeta'), run('b', rid='zeta1'), {'first': 'a'},
      {'first': 'b'}, abort('zeta'), {'join': 'a'}, {'join': 'b'},
      {'idle': True},
  ]  # fmt: skip
  two = {'input_ids': [[5], [6]]}
  for name, rid in (('its rid', 'beta'), ('one id', 'theta_0')):
    yield f'running: abort a batch by {name}', [
        run('a', FEW, rid=rid.partition('_')[0], **two), {'first': 'a'}, abort(rid), {'join': 'a'},
    ]  # fmt: skip
  for name, rid in (('its rid', 'gamma'), ('one id', 'iota_0')):
    yield f'running: abort n 2 by {name}', [
        run('a', FEW | {'n': 2}, rid=rid.partition('_')[0]), {'first': 'a'}, abort(rid),
        {'join': 'a'},
    ]  # fmt: skip
  yield 'running: abort all', [
      run('a', return_logprob=True), {'first': 'a'}, end, {'join': 'a'},
      {'idle': True},
  ]  # fmt: skip
  yield 'running: the same rid again', [
      run('a', rid='delta'), {'first': 'a'}, generate(rid='delta'),
      generate(rid='delta', stream=True), generate(rid='delta', **two), end,
      {'join': 'a'}, {'idle': True}, generate(rid='delta'),
  ]  # fmt: skip
  yield 'running: a derived rid again', [
      run('a', rid='eps', **two), {'first': 'a'}, generate(rid='eps_1'),
      generate(rid='eps'), end, {'join': 'a'}, {'idle': True},
  ]  # fmt: skip
  yield 'running: probes', [
      run('a'), {'first': 'a'}, get('health'), get('ready'), get('ping'),
      get('v1/loads?include=core'), post('flush_cache'), end, {'join': 'a'},
      {'idle': True},
  ]  # fmt: skip
  yield 'running: a new version', [
      run('a'), {'first': 'a'},
      post('update_weight_version', {'new_version': 'v1'}), {'join': 'a'},
      {'idle': True}, get('model_info'),
  ]  # fmt: skip
  yield 'running: a new version, going on', [
      run('a', FEW), {'first': 'a'},
      post('update_weight_version',
           {'new_version': 'v2', 'abort_all_requests': False}),
      {'join': 'a'}, generate(),
  ]  # fmt: skip
  update = lambda **more: post(
      'update_weights_from_disk', {'model_path': '<weights>'} | more
  )
  yield 'running: an update waits', [
      run('a', FEW), {'first': 'a'},
      update(weight_version='v3'), {'join': 'a'}, get('model_info'),
  ]  # fmt: skip
  yield 'running: an update that aborts', [
      run('a'), {'first': 'a'},
      # By whether its last batch has left, a server says that it did (200), or
      # that it did and could not flush the cache (400).
      update(weight_version='v4', abort_all_requests=True) | {'free': True},
      {'join': 'a'},
      {'idle': True}, get('model_info'),
  ]  # fmt: skip
  yield 'idle: an update', [
      {'idle': True}, update(weight_version='v5'), generate(),
      update(), generate(), get('model_info'),
  ]  # fmt: skip
  go = post('continue_generation', {})
  for mode in ('abort', 'retract', 'in_place'):
    pause = post('pause_generation', {'mode': mode})
    yield f'paused: {mode}', [
        run('a', FEW), {'first': 'a'}, pause,
        get('ready'), get('ping'), get('model_info'),
        generate() | {'start': 'b'}, {'waits': 'b'},
        get('v1/loads?include=core'), post('flush_cache'),
        update(flush_cache=False, weight_version=f'p-{mode}'), go,
        {'join': 'a'}, {'join': 'b'}, get('ready'), {'idle': True},
    ]  # fmt: skip
    yield f'paused: {mode}, and abort all', [
        run('a', FEW), {'first': 'a'}, pause, end, go,
        {'join': 'a'}, {'idle': True},
    ]  # fmt: skip
  yield 'paused: an update that flushes', [
      run('a', FEW), {'first': 'a'},
      post('pause_generation', {'mode': 'retract'}),
      update(weight_version='p-flush'), go, {'join': 'a'}, {'idle': True},
  ]  # fmt: skip
  yield 'paused: in place, an update that flushes', [
      run('a', FEW), {'first': 'a'},
      post('pause_generation', {'mode': 'in_place'}),
      update(weight_version='p-place'), go, {'join': 'a'}, {'idle': True},
  ]  # fmt: skip
  yield 'paused: twice, and twice on', [
      post('pause_generation', {}), post('pause_generation', {}), go, go,
      generate(),
  ]  # fmt: skip
  yield 'cache: what is reported', [
      {'idle': True}, post('flush_cache'),
      *(generate(input_ids=[40 + i for i in range(20)]) for _ in range(2)),
      generate(input_ids=[40 + i for i in range(25)]),
      generate(input_ids=[40 + i for i in range(20)], extra_key='other'),
      generate(input_ids=[40 + i for i in range(20)], return_logprob=True,
               logprob_start_len=8),
  ]  # fmt: skip


def _openai():
  few = {'model': 'default', 'max_tokens': 2, 'temperature': 0}
  user = [{'role': 'user', 'content': 'the cat'}]
  for name, body in {
      'text': {'prompt': 'the cat'},
      'texts': {'prompt': ['the cat', 'a mat']},
      'ids': {'prompt': PROMPT},
      'ids of two': {'prompt': [[5], [6]]},
      'n 2': {'prompt': 'the cat', 'n': 2},
      'logprobs': {'prompt': 'the cat', 'logprobs': 1},
      'logprobs 0': {'prompt': 'the cat', 'logprobs': 0},
      'echo': {'prompt': 'the cat', 'echo': True},
      'echo, logprobs': {'prompt': 'the cat', 'echo': True, 'logprobs': 1},
      'stream': {'prompt': 'the cat', 'stream': True},
      'stream, usage': {
          'prompt': 'the cat',
          'stream': True,
          'stream_options': {'include_usage': True},
      },
      'other model': {'prompt': 'the cat', 'model': 'nobody'},
      'no model': {'prompt': 'the cat', 'model': None},
      'no prompt': {},
      'prompt 5': {'prompt': 5},
      'no tokens': {'prompt': 'the cat', 'max_tokens': 0},
      'tokens x': {'prompt': 'the cat', 'max_tokens': 'x'},
      'too many tokens': {'prompt': 'the cat', 'max_tokens': 10**6},
      'temperature -1': {'prompt': 'the cat', 'temperature': -1},
      'temperature x': {'prompt': 'the cat', 'temperature': 'x'},
      'n 0': {'prompt': 'the cat', 'n': 0},
      'stop': {'prompt': 'the cat', 'stop': 'zzz'},
      'seed': {'prompt': 'the cat', 'seed': 3},
      'unknown key': {'prompt': 'the cat', 'foo': 1},
      'best_of': {'prompt': 'the cat', 'best_of': 2},
      'suffix': {'prompt': 'the cat', 'suffix': 'a'},
      'logit_bias': {'prompt': 'the cat', 'logit_bias': {'20': 100}},
  }.items():
    yield f'completions: {name}', post('v1/completions', few | body)
  for name, body in {
      'user': {'messages': user},
      'max_completion_tokens': {
          'messages': user,
          'max_tokens': None,
          'max_completion_tokens': 3,
      },
      'n 2': {'messages': user, 'n': 2},
      'logprobs': {'messages': user, 'logprobs': True, 'top_logprobs': 2},
      'logprobs, no tops': {'messages': user, 'logprobs': True},
      'stream': {'messages': user, 'stream': True},
      'stream, usage': {
          'messages': user,
          'stream': True,
          'stream_options': {'include_usage': True},
      },
      'parts': {
          'messages': [
              {'role': 'user', 'content': [{'type': 'text', 'text': 'a'}]}
          ]
      },
      'no messages': {},
      'empty messages': {'messages': []},
      'messages x': {'messages': 'x'},
      'no role': {'messages': [{'content': 'a'}]},
      'odd role': {'messages': [{'role': 'wizard', 'content': 'a'}]},
      'no content': {'messages': [{'role': 'user'}]},
      'temperature -1': {'messages': user, 'temperature': -1},
      'top_logprobs x': {'messages': user, 'top_logprobs': 'x'},
      'response_format': {
          'messages': user,
          'response_format': {'type': 'text'},
      },
      'other model': {'messages': user, 'model': 'nobody'},
  }.items():
    yield f'chat: {name}', post('v1/chat/completions', few | body)
  for path in ('v1/completions', 'v1/chat/completions'):
    for name, raw in (('nothing', b''), ('half', b'{'), ('list', b'[]')):
      yield f'{path}, raw {name}', post(path, raw=raw, headers=JSON)
    yield f'{path} as text', post(
        path, raw=b'{}', headers={'Content-Type': 'text/plain'}
    )
