"""Tests for the client of chat endpoints, against real servers on loopback."""

import asyncio
import datetime
import email.utils
import json

import aiohttp
import pytest
from aiohttp import web

from agentrl.errors import ConfigError, EngineError, EngineRefusal
from agentrl.inference.chat import ChatClient
from agentrl.inference.chat_replies import ContextExceeded
from agentrl.inference.options import ChatOptions
from agentrl.types import Message
from tests.fakes import FakeChat, chat_reply
from tests.waiting import until

HELLO = [Message('system', 'Be short.'), Message('user', 'Hello')]


def ask(script=(), *, times=1, chat=None, **options):
  """The completions of `times` requests in turn, the client and the server."""
  chat = chat or FakeChat(script)
  values = dict(model='m', backoff_s=0.0, attempts=3, timeout_s=20.0)

  async def main():
    async with chat, aiohttp.ClientSession() as session:
      given = ChatOptions(**(values | {'url': chat.url} | options))
      client = ChatClient(session, given)
      completions = [
          await client.complete(HELLO, max_completion_tokens=9, seed=7)
          for _ in range(times)
      ]
      return completions, client, chat

  return asyncio.run(main())


def refused(*args, error=EngineRefusal, match=None, **kwargs):
  chat = FakeChat(*args)
  with pytest.raises(error, match=match) as caught:
    ask(chat=chat, **kwargs)
  return caught.value, chat


def test_messages_in_text_out():
  [completion], _, chat = ask([chat_reply('Hi.', system_fingerprint='fp')])
  assert completion.text == 'Hi.'
  assert completion.finish_reason == 'stop'
  assert completion.weight_version == 'm fp'
  counts = completion.prompt_tokens, completion.completion_tokens
  assert (*counts, completion.cached_tokens) == (5, 2, 1)
  assert completion.latency_s > 0
  assert chat.requests == [{
      'model': 'm',
      'messages': [
          {'role': 'system', 'content': 'Be short.'},
          {'role': 'user', 'content': 'Hello'},
      ],
      'max_completion_tokens': 9,
      'temperature': 1.0,
      'seed': 7,
  }]
  assert 'Authorization' not in chat.headers[0]


def test_requests_have_the_fields_that_options_choose():
  _, _, chat = ask(
      temperature=None,
      send_seed=False,
      limit_name='max_tokens',
      extra={'reasoning_effort': 'low'},
  )
  assert set(chat.requests[0]) == {
      'model', 'messages', 'max_tokens', 'reasoning_effort'
  }  # fmt: skip
  assert chat.requests[0]['max_tokens'] == 9


def test_keys_come_from_a_file_or_a_variable(tmp_path, monkeypatch):
  (tmp_path / 'key').write_text('of-the-file\n')
  monkeypatch.setenv('SOME_KEY', 'of-the-variable')
  _, _, chat = ask(token_file=str(tmp_path / 'key'))
  assert chat.headers[0]['Authorization'] == 'Bearer of-the-file'
  _, _, chat = ask(token_variable='SOME_KEY')
  assert chat.headers[0]['Authorization'] == 'Bearer of-the-variable'


@pytest.mark.parametrize('value', [None, '', ' ', 'a\nb', 'ключ'])
def test_a_variable_without_a_key_is_named(monkeypatch, value):
  monkeypatch.delenv('SOME_KEY', raising=False)
  if value is not None:
    monkeypatch.setenv('SOME_KEY', value)
  with pytest.raises(ConfigError, match='SOME_KEY, which holds no key'):
    ask(token_variable='SOME_KEY')


# --- tries


@pytest.mark.parametrize('status', [408, 429, 500, 502, 503, 529])
def test_failures_of_the_moment_are_tried_again(status):
  script = [web.Response(status=status, text='<html>busy</html>')] * 2
  [completion], client, chat = ask(script)
  assert completion.text == 'go'
  # The same body, seed included.
  assert chat.requests[0] == chat.requests[1] == chat.requests[2]
  assert (client.usage.requests, client.usage.retries) == (3, 2)
  assert client.usage.completions == 1


def test_tries_have_an_end():
  error, chat = refused(
      [web.Response(status=503, text='busy')] * 9,
      error=EngineError,
      match='/chat/completions gave 503: busy',
  )
  assert error.retryable and len(chat.requests) == 3


def http_date(seconds):
  moment = datetime.datetime.now(datetime.UTC)
  return email.utils.format_datetime(
      moment + datetime.timedelta(seconds=seconds), usegmt=True
  )


@pytest.mark.parametrize(
    'value, least', [(lambda: '0.4', 0.4), (lambda: http_date(2), 0.9)]
)
def test_retry_after_is_honoured(value, least):
  async def busy(request):
    del request
    return web.Response(status=429, headers={'Retry-After': value()})

  _, client, chat = ask([busy])
  assert chat.times[1] - chat.times[0] >= least
  assert client.usage.retries == 1


def test_when_one_request_is_told_to_wait_all_do():
  async def main():
    script = [web.Response(status=429, headers={'Retry-After': '1'})]
    async with FakeChat(script) as chat, aiohttp.ClientSession() as session:
      options = ChatOptions(url=chat.url, model='m', backoff_s=0.0)
      client = ChatClient(session, options)
      ask = lambda: client.complete(HELLO, max_completion_tokens=9, seed=0)
      first = asyncio.create_task(ask())
      await until(lambda: client.usage.retries)
      await asyncio.gather(first, ask(), ask())
      return chat.times

  start, *rest = asyncio.run(main())
  assert len(rest) == 3 and min(rest) - start >= 0.99


def test_a_pause_beyond_the_limit_is_an_error_at_once():
  script = [web.Response(status=429, headers={'Retry-After': '3600'})]
  error, chat = refused(
      script, error=EngineError, match='3600 s, longer than api.max_wait_s=60'
  )
  assert error.retryable and len(chat.requests) == 1


def test_a_connection_that_breaks_is_tried_again():
  async def broken(request):
    response = web.StreamResponse(headers={'Content-Length': '500'})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    request.transport.close()
    return response

  [completion], client, _ = ask([broken])
  assert completion.text == 'go' and client.usage.retries == 1


def test_a_server_that_is_not_there_is_named():
  with pytest.raises(EngineError, match='127.0.0.1:9/v1/chat/completions fail'):
    ask(url='http://127.0.0.1:9/v1')


@pytest.mark.parametrize(
    'url', ['http://127.0.0.1:9/v1', 'http://no-such-host.invalid/v1']
)
def test_the_first_contact_with_a_wrong_address_is_not_tried_again(url, caplog):
  async def main():
    async with aiohttp.ClientSession() as session:
      client = ChatClient(session, ChatOptions(url=url, model='m'))
      with pytest.raises(EngineRefusal, match='api.url=.* of a server that ru'):
        await client.check(9)
      return client.usage

  usage = asyncio.run(main())
  assert (usage.requests, usage.retries) == (1, 0) and not caplog.text


def test_the_first_contact_with_a_busy_server_is_tried_again():
  async def main():
    async with FakeChat([web.Response(status=503)]) as chat:
      async with aiohttp.ClientSession() as session:
        options = ChatOptions(url=chat.url, model='m', backoff_s=0.01)
        client = ChatClient(session, options)
        await client.check(9)
        return client.usage

  usage = asyncio.run(main())
  assert (usage.retries, usage.completions) == (1, 1)


def test_a_server_that_never_answers_is_given_up():
  async def silent(request):
    del request
    await asyncio.sleep(60)

  error, chat = refused(
      [silent] * 2,
      error=EngineError,
      match='gave no answer within 0.2 s',
      timeout_s=0.2,
      attempts=2,
  )
  assert error.retryable and len(chat.requests) == 2


def test_cancelling_ends_a_pause():
  async def main():
    script = [web.Response(status=429, headers={'Retry-After': '50'})]
    async with FakeChat(script) as chat, aiohttp.ClientSession() as session:
      client = ChatClient(session, ChatOptions(url=chat.url, model='m'))
      with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
          await client.complete(HELLO, max_completion_tokens=9, seed=0)

  asyncio.run(main())


# --- refusals


def failure(status, message, **fields):
  error = {'message': message, 'type': 'invalid_request_error'} | fields
  return web.json_response({'error': error}, status=status)


@pytest.mark.parametrize('status', [401, 403])
def test_a_wrong_key_names_where_it_is_from_and_is_not_shown(tmp_path, status):
  path = tmp_path / 'key'
  path.write_text('sk-secret-123')
  said = failure(status, 'Incorrect API key provided: sk-secret-123.')
  error, chat = refused([said], match='Incorrect API key', token_file=str(path))
  assert f'api.token_file={str(path)!r}' in str(error)
  assert 'sk-secret' not in str(error) and 'provided: ***' in str(error)
  assert error.__cause__ is None and len(chat.requests) == 1


def test_without_a_key_the_refusal_says_how_to_set_one():
  refused([web.Response(status=401)], match='set api.token_file or')


def test_an_unknown_model_lists_the_known_ones():
  said = failure(404, 'The model m does not exist', code='model_not_found')
  chat = FakeChat([said], models=('large', 'small'))
  with pytest.raises(EngineRefusal, match="api.model='m', but large, small"):
    ask(chat=chat)


def test_an_address_without_v1_is_said():
  chat = FakeChat(models=None)

  async def main():
    async with chat, aiohttp.ClientSession() as session:
      url = chat.url.removesuffix('/v1')
      client = ChatClient(session, ChatOptions(url=url, model='m'))
      await client.check(16)

  with pytest.raises(EngineRefusal, match='gave 404.*should end in /v1'):
    asyncio.run(main())


@pytest.mark.parametrize(
    'message, way_out',
    [
        ("Unsupported value: 'temperature' is 0.", 'api.temperature=None'),
        ("Unknown field: 'seed'", 'api.send_seed=False'),
        (
            "Unknown name 'max_completion_tokens'.",
            "api.limit_name='max_tokens'",
        ),
    ],
)
def test_a_field_that_is_refused_has_a_way_out(message, way_out):
  _, chat = refused([failure(400, message)], match=way_out)
  assert len(chat.requests) == 1


def test_a_spent_quota_is_not_tried_again():
  said = failure(429, 'You exceeded your quota.', code='insufficient_quota')
  _, chat = refused([said], match='exceeded your quota')
  assert len(chat.requests) == 1


def test_redirects_are_not_followed_with_the_key():
  moved = web.Response(status=302, headers={'Location': 'http://elsewhere/'})
  refused([moved], match="leads to 'http://elsewhere/'; set api.url")


# The words of OpenAI, vLLM (two releases), SGLang, llama.cpp, Anthropic, ours.
TOO_LONG = [
    failure(400, 'Please shorten.', code='context_length_exceeded'),
    failure(400, "This model's maximum context length is 64 tokens. However,"),
    web.json_response(
        {'object': 'error', 'message': 'maximum context length is 64', 'code': 400},
        status=400,
    ),
    web.json_response(
        {
            'object': 'error',
            'message': (
                'The input (90 tokens) is longer than the model\'s context'
                ' length (64 tokens).'
            ),
        },
        status=400,
    ),
    failure(400, 'the request exceeds the available context size'),
    failure(400, 'prompt is too long: 90 tokens > 64 maximum'),
    failure(413, 'The input is longer than the maximum of 64 tokens'),
    web.json_response(
        {'error': {'message': 'too long', 'code': 'context_length_exceeded'}}
    ),
]  # fmt: skip


@pytest.mark.parametrize('response', TOO_LONG)
def test_a_full_context_is_told_apart(response):
  error, chat = refused([response], error=ContextExceeded)
  assert not error.retryable and len(chat.requests) == 1


# --- replies outside the contract


def reply(body, content_type='application/json'):
  return web.Response(body=body, content_type=content_type)


def broken(**changes):
  """A reply in which the message is another."""
  whole = chat_reply('x')
  whole['choices'][0]['message'] = {'content': None} | changes
  return whole


@pytest.mark.parametrize(
    'answer, match',
    [
        (reply(b'<html>hello</html>', 'text/html'), 'gave text/html and not'),
        (reply(b'<html>hello</html>'), 'gave no JSON'),
        (reply(b'data: {}', 'text/event-stream'), 'gave text/event-stream'),
        (
            reply(b'{"choices": [{"message": {"content": "\xff"}'),
            'gave no JSON',
        ),
        (reply(b'[1]'), 'outside its contract'),
        (reply(b'[' * 100_000), 'gave (no JSON|JSON outside)'),
        (reply(b''), 'gave no JSON'),
        (chat_reply('x', choices=None), 'outside its contract'),
        (chat_reply(7), 'outside its contract'),
        (chat_reply('x', finish=7), r'finish_reason'),
        (chat_reply('x', usage=(5.5, 2, 0)), 'counted prompt_tokens=5.5'),
        (chat_reply('x', usage=(5, 1e300, 0)), 'completion_tokens'),
        (chat_reply('x', usage=(True, 2, 0)), 'prompt_tokens'),
        (chat_reply([{'type': 'image_url'}]), 'a part that is no text: '),
        (chat_reply([{'type': 'text', 'text': None}]), 'that is no text'),
        (chat_reply([{'type': ['text'], 'text': 'x'}]), 'that is no text'),
        (chat_reply([7]), 'a part that is no text: 7'),
        (broken(content=' ', tool_calls=[{'id': 'x'}]), 'a call of a tool'),
        (broken(content=[], tool_calls=[{'id': 'x'}]), 'a call of a tool'),
        (chat_reply('x', usage=(-1, 2, 0)), 'prompt_tokens'),
        (chat_reply('x', usage=(5, 10**30, 0)), 'completion_tokens'),
        (chat_reply('x', usage=(5, 2, 6)), '6 cached tokens in a prompt of 5'),
        (broken(tool_calls=[{'id': 'x'}]), 'gave a call of a tool'),
        (chat_reply(['x' * 2**20] * 3), 'gave 3145728 characters'),
        (reply(b'x' * (8 * 2**20 + 1)), 'gave more than 8388608 bytes'),
    ],
)
def test_a_reply_outside_the_contract_is_refused_at_once(answer, match):
  _, chat = refused([answer], match=match)
  assert len(chat.requests) == 1


def test_a_page_that_never_ends_is_refused_at_once():
  async def drip(request):
    response = web.StreamResponse(headers={'Content-Type': 'text/html'})
    await response.prepare(request)
    while True:
      await response.write(b'<p>')
      await asyncio.sleep(0.05)

  refused([drip], match='gave text/html')


@pytest.mark.parametrize(
    'error, tries',
    [
        ({'message': 'no', 'code': 400}, 1),
        ({'message': 'slow down', 'code': 429}, 3),
        ({'message': 'overloaded'}, 3),
        ('overloaded', 3),
    ],
)
def test_an_error_with_status_200_is_an_error(error, tries):
  _, chat = refused(
      [{'error': error}] * 3, error=EngineError, match='gave 200 with the error'
  )
  assert len(chat.requests) == tries


def test_no_choice_is_tried_again():
  [completion], client, _ = ask([chat_reply('x', choices=[])])
  assert completion.text == 'go' and client.usage.retries == 1


@pytest.mark.parametrize(
    'answer, text, finish',
    [
        (broken(refusal='I will not.'), 'I will not.', 'stop'),
        (broken(), '', 'stop'),
        (chat_reply('', finish='length'), '', 'length'),
        (chat_reply('par', finish='content_filter'), 'par', 'content_filter'),
        (chat_reply('\u2603 "error" x'), '\u2603 "error" x', 'stop'),
    ],
)
def test_a_completion_may_be_a_refusal_cut_or_empty(answer, text, finish):
  [completion], _, _ = ask([answer])
  assert (completion.text, completion.finish_reason) == (text, finish)


@pytest.mark.parametrize(
    'message, text',
    [
        # vLLM's, SGLang's and DeepSeek's reasoning; OpenRouter's and Ollama's.
        ({'content': 'go', 'reasoning_content': 'Hm.'}, 'go'),
        (
            {'content': 'go', 'reasoning': 'Hm.', 'reasoning_details': [{}]},
            'go',
        ),
        ({'content': None, 'reasoning_content': 'Hm.'}, ''),
        # Tool calls: none, null, or beside words.
        ({'content': 'go', 'tool_calls': []}, 'go'),
        ({'content': 'go', 'tool_calls': None, 'function_call': None}, 'go'),
        ({'content': 'go', 'tool_calls': [{'id': 'x'}]}, 'go'),
        # Parts: of OpenAI's, Mistral's and others' servers.
        ({'content': [{'type': 'text', 'text': 'go '}, 'on']}, 'go on'),
        ({'content': [{'text': 'go'}]}, 'go'),
        ({'content': [{'type': 'output_text', 'text': 'go', 'x': []}]}, 'go'),
        ({'content': [{'type': 'refusal', 'refusal': 'No.'}]}, 'No.'),
        (
            {
                'content': [
                    {'type': 'thinking', 'thinking': [{'text': 'Hm.'}]},
                    {'type': 'text', 'text': 'go'},
                ]
            },
            'go',
        ),
        ({'content': []}, ''),
        ({'content': '', 'refusal': 'No.'}, 'No.'),
        ({'content': [], 'refusal': 'No.'}, 'No.'),
        # What is cut amid a character, as a lenient server writes it.
        ({'content': 'go \ud83d'}, 'go \ufffd'),
        ({'content': '\U0001f600 \\ud83d'}, '\U0001f600 \\ud83d'),
        ({'content': 'go', 'audio': None, 'annotations': [], 'name': 1}, 'go'),
    ],
)
def test_messages_of_real_servers_are_read(message, text):
  [completion], _, _ = ask([broken(**message)])
  assert completion.text == text


@pytest.mark.parametrize('finish', [None, ''])
def test_an_end_without_a_reason_is_unknown(finish):
  [completion], _, _ = ask([chat_reply('go', finish=finish)])
  assert (completion.text, completion.finish_reason) == ('go', 'unknown')
  said = chat_reply('go')
  del said['choices'][0]['finish_reason']
  [completion], _, _ = ask([said])
  assert completion.finish_reason == 'unknown'


def test_counts_may_be_written_as_floats():
  [completion], _, _ = ask([chat_reply('go', usage=(5.0, 2.0, 1.0))])
  counts = (
      completion.prompt_tokens,
      completion.completion_tokens,
      completion.cached_tokens,
  )
  assert counts == (5, 2, 1) and {*map(type, counts)} == {int}


# --- tokens and cost


def test_tokens_that_nobody_reports_are_unknown_and_not_zero():
  [completion], client, _ = ask([chat_reply('x', usage=None)], price_input=1.0,
                                price_output=1.0)  # fmt: skip
  assert completion.prompt_tokens is None
  assert completion.completion_tokens is None
  assert completion.cached_tokens is None
  assert client.usage.unreported == 1 and client.usage.cost == 0.0


def test_cached_tokens_of_an_unknown_prompt_are_unknown():
  said = chat_reply('x')
  del said['usage']['prompt_tokens']
  [completion], _, _ = ask([said])
  assert (completion.prompt_tokens, completion.cached_tokens) == (None, None)


def test_what_names_the_weights_may_be_of_any_type():
  said = chat_reply('x', model=7, system_fingerprint=3)
  assert ask([said])[0][0].weight_version == '7 3'


def test_cached_tokens_alone_may_be_unknown():
  said = chat_reply('x')
  said['usage']['prompt_tokens_details'] = None
  [completion], client, _ = ask([said])
  assert (completion.prompt_tokens, completion.cached_tokens) == (5, None)
  assert client.usage.unreported == 0


def test_usage_and_cost_are_summed():
  script = [chat_reply('x', usage=usage) for usage in ((100, 7, 40), (9, 1, 0))]
  _, client, _ = ask(
      script, times=2, price_input=2.0, price_cached=0.5, price_output=10.0
  )
  usage = client.usage
  assert usage.prompt_tokens == 109 and usage.cached_tokens == 40
  assert usage.completion_tokens == 8 and usage.completions == 2
  # (60 + 9) * 2 + 40 * 0.5 + 8 * 10 = 238 millionths.
  assert usage.cost == pytest.approx(238e-6)


def test_cost_without_a_price_of_cached_tokens_takes_that_of_the_prompt():
  options = ChatOptions(price_input=2.0, price_output=10.0)
  assert options.cost(100, 40, 1) == options.cost(100, None, 1) == 210e-6
  assert options.cost(None, None, 1) is None
  assert ChatOptions().cost(1, 0, 1) is None


# --- options


@pytest.mark.parametrize(
    'options, match',
    [
        (dict(url=None), 'api.url is not set'),
        (dict(url='host/v1'), 'is no address'),
        (dict(url='http://host:port/v1'), 'is no address'),
        (dict(url='http://h/v1/chat/completions'), 'before /chat/completions'),
        (dict(url='http://me:sk-1@h/v1'), 'must not hold a name or password'),
        (dict(url='http://h/v1?key=1'), 'must end before'),
        (dict(model=None), 'api.model is not set'),
        (dict(token_file='a', token_variable='B'), 'both name a key'),
        (dict(extra={'stream': True}), 'api.extra must not have stream'),
        (dict(price_input=1.0), 'both api.price_input and api.price_output'),
        (dict(price_cached=1.0), 'api.price_cached has no effect'),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, match):
  values = dict(url='http://h/v1', model='m') | options
  with pytest.raises(ConfigError, match=match) as caught:
    options = ChatOptions(**values)
    options.check()
    options.check_named()
  assert 'sk-1' not in str(caught.value)


def test_what_the_client_sends_is_what_the_openai_client_sends(monkeypatch):
  """Path, headers and body, as far as the real client sets them."""
  openai = pytest.importorskip('openai', reason='needs the openai package')
  monkeypatch.setenv('SOME_KEY', 'abc')
  _, _, ours = ask(token_variable='SOME_KEY')

  async def main():
    async with FakeChat() as chat:
      client = openai.AsyncOpenAI(base_url=chat.url, api_key='abc')
      async with client:
        await client.chat.completions.create(
            model='m',
            messages=[
                {'role': 'system', 'content': 'Be short.'},
                {'role': 'user', 'content': 'Hello'},
            ],
            max_completion_tokens=9,
            temperature=1.0,
            seed=7,
        )
      return chat

  theirs = asyncio.run(main())
  assert ours.requests == theirs.requests
  for name in ('Authorization', 'Content-Type'):
    assert ours.headers[0][name] == theirs.headers[0][name]


def test_every_reply_of_the_fake_is_one_that_openai_reads():
  chat = pytest.importorskip('openai.types.chat', reason='needs openai')
  said = chat_reply('x', finish='content_filter', created=0)
  json.dumps(chat.ChatCompletion.model_validate(said).model_dump())
