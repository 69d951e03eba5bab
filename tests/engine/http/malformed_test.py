"""Malformed bodies on the OpenAI routes: an error of the client, each of them."""

import pytest

from tests.engine.talking import talk

CHAT, COMPLETION = 'v1/chat/completions', 'v1/completions'
MESSAGE = {'role': 'user', 'content': 'a'}
BODIES = {
    CHAT: {'messages': [MESSAGE], 'max_tokens': 1},
    COMPLETION: {'prompt': 'a', 'max_tokens': 1},
}
# A value of each type, and what looks like one that is wanted.
VALUES = (
    *(None, True, -1, 10**30, 0.5, '', 'x', '\ud800'),
    *([], [[]], [None], [1, 'x'], [[1], 2], {}, {'x': 'x'}, {'1': None}),
)
SHARED = (
    'model temperature top_p top_k min_p n seed stop stop_regex stop_token_ids'
    ' ignore_eos frequency_penalty repetition_penalty logit_bias custom_params'
    ' min_tokens max_tokens stream stream_options return_token_ids rid'
    ' extra_key cache_salt lora_path logprobs response_format echo'
).split()
FIELDS = [
    *(
        (COMPLETION, field)
        for field in ('prompt', 'best_of', 'suffix', *SHARED)
    ),
    *((CHAT, field) for field in ('messages', 'input_ids', 'tools', *SHARED)),
    (CHAT, 'top_logprobs'),
    (CHAT, 'max_completion_tokens'),
]


def check(status, reply):
  """Accepts an answer, or a refusal in the shape of SGLang's."""
  if status == 200:
    assert 'data: {"error"' not in reply if isinstance(reply, str) else reply
    return
  assert status == 400, reply
  assert set(reply) == {'object', 'message', 'type', 'param', 'code'}
  assert reply['object'] == 'error' and reply['message']
  assert reply['code'] == 400


@pytest.mark.parametrize('route, field', FIELDS)
def test_a_value_of_another_type_is_a_bad_request(words_engine, route, field):
  async def body(call):
    return [
        await call(route, BODIES[route] | {field: value}) for value in VALUES
    ]

  for value, answer in zip(VALUES, talk(words_engine, body), strict=True):
    try:
      check(*answer)
    except AssertionError as error:
      raise AssertionError(f'{field}={value!r}: {answer}') from error


@pytest.mark.parametrize('field', ['role', 'content', 'tool_calls'])
def test_messages_of_other_types_are_bad_requests(words_engine, field):
  async def body(call):
    return [
        await call(CHAT, {'messages': [MESSAGE | {field: v}], 'max_tokens': 1})
        for v in VALUES
    ]

  for answer in talk(words_engine, body):
    check(*answer)


def test_parts_of_other_types_are_bad_requests(words_engine):
  async def body(call):
    return [
        await call(CHAT, {'messages': [MESSAGE | {'content': [part]}]})
        for value in VALUES
        for part in (value, {'type': value}, {'type': 'text', 'text': value})
        if not isinstance(value, str)
    ]

  for status, reply in talk(words_engine, body):
    check(status, reply)
    assert status == 400


@pytest.mark.parametrize(
    'route, change, reason',
    [
        (CHAT, {'messages': [{'role': ['user']}]}, "has the role ['user']"),
        (CHAT, {'input_ids': 5}, 'input_ids must be a list of token ids'),
        (CHAT, {'input_ids': [[5]]}, 'input_ids must be a list of token ids'),
        (CHAT, {'stop_token_ids': 5}, 'stop_token_ids must be a list of token'),
        (CHAT, {'stream': 'no'}, 'stream must be a boolean'),
        (CHAT, {'model': 5}, 'model must be a name, got 5'),
        (COMPLETION, {'return_token_ids': 1}, 'must be a boolean, got 1'),
        (COMPLETION, {'stream': True, 'stream_options': 1}, 'stream_options'),
    ],
)
def test_a_refusal_says_what_is_wrong(words_engine, route, change, reason):
  status, reply = talk(
      words_engine, lambda call: call(route, BODIES[route] | change)
  )
  assert status == 400 and reason in reply['message']


@pytest.mark.parametrize(
    'raw', [b'{', b'\xff', b'[]', b'5', b'{"prompt": NaN}', b'[' * 100_000]
)
@pytest.mark.parametrize('route', BODIES)
def test_what_is_no_object_is_a_bad_request(words_engine, route, raw):
  check(*talk(words_engine, lambda call: call(route, data=raw)))
