"""Bodies of /generate with odd values, parameter by parameter, field by field."""

from tests.sglang.steps import END, PROMPT, generate, post

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


def sampling():
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
      'n that agree': [{'n': 2, 'max_new_tokens': 1, 'ignore_eos': True}] * 2,
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


def fields():
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
      body = {
          'sampling_params': {'max_new_tokens': 2, 'ignore_eos': True}
      } | body
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
