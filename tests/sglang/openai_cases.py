"""Requests to OpenAI's routes."""

from tests.sglang.steps import JSON, PROMPT, post


def openai():
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
