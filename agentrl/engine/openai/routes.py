"""OpenAI-compatible routes, so that any agent library can talk to a policy.

    client = openai.OpenAI(base_url=f'{url}/v1', api_key='any')
    client.chat.completions.create(model='policy', messages=[...])

`/v1/completions`, `/v1/chat/completions` and `/v1/models`, streaming too. A chat
becomes ids through `text.chat.ChatFormat`, as an agent's does in training, and so
do tools: a policy that an agent program has trained serves that program. What
SGLang adds is understood in `extra_body`: top_k, min_p, stop_token_ids,
return_token_ids and so on; replies name the weights in `metadata`. With `echo`
and `logprobs` a completion scores its prompt, as evaluation harnesses want it.
"""

import contextlib
import functools
import json
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from aiohttp import web

from agentrl.engine.http import (
    body_fields,
    errors,
    generate as generate_lib,
    replies,
)
from agentrl.engine.http.bodies import Call
from agentrl.engine.http.generate import Generate
from agentrl.engine.http.info import TRAINED_WITH
from agentrl.engine.openai import (
    bodies as openai_bodies,
    replies as openai_replies,
)
from agentrl.engine.openai.replies import ReplyWriter
from agentrl.engine.openai.said import Said
from agentrl.engine.request import Result
from agentrl.http.errors import Handler
from agentrl.text.chat import ChatFormat
from agentrl.text.tokenizer import Tokenizer

_CHATS = 16  # sets of tools whose rendering is kept


class OpenAI:
  """The handlers of the /v1 routes."""

  def __init__(
      self,
      generate: Generate,
      info: dict[str, Any],
      chat_template: str | None,
      chat_date: str | None,
      adapters: Callable[[], dict[str, str]],
  ):
    """Keeps what the routes need.

    Args:
      generate: reads and runs bodies of /generate.
      info: its served_model_name is the name of the model; an update from
        disk changes it, as SGLang's does, and the first one stays valid.
      chat_template: see `text.chat.ChatFormat`.
      chat_date: its `date`.
      adapters: gives the paths of adapters, by the name for `lora_path`.
    """
    self._generate = generate
    self._info = info
    self._name = info['served_model_name']
    self._chat_template, self._chat_date = chat_template, chat_date
    self._chats: dict[str, ChatFormat] = {}  # by their tools, as JSON
    self._adapters = adapters
    self._created = int(time.time())

  def routes(self) -> list[tuple[str, str, Handler]]:
    """Methods, path and handler of each route."""
    return [
        ('POST', '/v1/completions', self._completions),
        ('POST', '/v1/chat/completions', self._chat_completions),
        ('GET', '/v1/models', self._models),
        ('GET', '/v1/models/{model:.+}', self._model),
    ]

  def _chat(self, tools: str) -> ChatFormat:
    """Made when first used: a run that never chats needs no template."""
    chat = self._chats.get(tools)
    if chat is None:
      chat = ChatFormat(
          self._tokenizer,
          self._chat_template,
          self._chat_date,
          json.loads(tools),
      )
      while len(self._chats) >= _CHATS:
        self._chats.pop(next(iter(self._chats)), None)
      self._chats[tools] = chat
    return chat

  @property
  def _tokenizer(self) -> Tokenizer:
    tokenizer = self._generate.tokenizer
    assert tokenizer is not None  # `_body` has refused the request
    return tokenizer

  async def _completions(self, request: web.Request) -> web.StreamResponse:
    body = await self._body(request)
    native_body = openai_bodies.completion(body)
    return await self._answer(request, body, native_body)

  async def _chat_completions(self, request: web.Request) -> web.StreamResponse:
    body = await self._body(request)
    tools = openai_bodies.tools(body)
    key = json.dumps(tools)

    def read() -> tuple[ChatFormat, dict[str, Any]]:
      chat = self._chat(key)
      limit = self._generate.limits.max_len
      return chat, openai_bodies.chat(body, chat, limit)

    # To prove a template takes a second.
    chat, native_body = await self._generate.read(
        request, read, slow=key not in self._chats
    )
    said = Said(
        chat,
        [tool['function']['name'] for tool in tools],
        keep_stop=bool(body.get('no_stop_trim')),
    )
    return await self._answer(request, body, native_body, said)

  async def _body(self, request: web.Request) -> dict[str, Any]:
    if self._generate.tokenizer is None:
      raise ValueError(
          'The engine has no tokenizer, so it has no OpenAI routes; send'
          ' input_ids to /generate.'
      )
    return await body_fields.read_object(request)

  async def _answer(
      self,
      request: web.Request,
      body: dict[str, Any],
      native_body: dict[str, Any],
      said: Said | None = None,
  ) -> web.StreamResponse:
    model = body.get('model') or self._info['served_model_name']
    if adapter := self._adapter(model):
      native_body |= {'lora_path': adapter}
    call = await self._generate.read(
        request, lambda: self._generate.parse(native_body)
    )
    writer = ReplyWriter(
        call,
        model=model,
        said=said,
        copies=body.get('n') or 1,
        token_ids=bool(body.get('return_token_ids')),
        decode=functools.partial(self._tokenizer.decode, skip_special=False),
        echo=self._echoed(body) if body.get('echo') else None,
    )
    if call.stream:
      options = body.get('stream_options') or {}
      if not isinstance(options, dict):
        raise ValueError(f'stream_options must be an object, got {options!r}.')
      events = self._events(call, writer, bool(options.get('include_usage')))
      return await generate_lib.send_events(request, events)
    results = await self._generate.submissions.finish(call.requests)
    failed = replies.failure(results)
    if failed is not None:
      status, message = failed
      return web.json_response(
          errors.openai_error(message, status), status=status
      )
    return web.json_response(writer.whole(results))

  async def _events(
      self, call: Call, writer: ReplyWriter, include_usage: bool
  ) -> AsyncGenerator[dict[str, Any], None]:
    ended: dict[int, Result] = {}
    async with contextlib.aclosing(self._generate.chunks(call)) as chunks:
      async for index, result, sent in chunks:
        if result.finish_reason is not None:
          ended[index] = result
          failed = replies.failure([result])
          if failed is not None:
            status, message = failed
            yield {'error': errors.openai_error(message, status)}
            continue
        for event in writer.chunks(index, result, sent):
          yield event
    if include_usage:
      # By index: a prompt with several completions counts once.
      yield writer.usage_chunk([ended[index] for index in sorted(ended)])

  async def _models(self, request: web.Request) -> web.Response:
    del request
    cards = [
        self._card(self._info['served_model_name']),
        *(self._adapter_card(*each) for each in self._adapters().items()),
    ]
    return web.json_response({'object': 'list', 'data': cards})

  async def _model(self, request: web.Request) -> web.Response:
    name = request.match_info['model']
    if name in self._names:
      return web.json_response(self._card(name))
    adapters = self._adapters()
    if name not in adapters:
      message = f'The model {name!r} does not exist; /v1/models has the list.'
      return web.json_response(
          {
              'error': {
                  'message': message,
                  'type': 'invalid_request_error',
                  'param': 'model',
                  'code': 'model_not_found',
              }
          },
          status=404,
      )
    return web.json_response(self._adapter_card(name, adapters[name]))

  @property
  def _names(self) -> tuple[str, str]:
    return self._info['served_model_name'], self._name

  def _adapter(self, model: str) -> str:
    """The adapter that a name selects; '' asks for none.

    'MODEL:ADAPTER', as SGLang reads it, or a name that /v1/models lists: there
    SGLang 0.5.23 answers with the base model, and replies under the adapter's name.
    """
    for name in self._names:
      if model == name:
        return ''
      if model.startswith(f'{name}:'):
        return model[len(name) + 1 :].strip()
    if model in self._adapters():
      return model
    return model.partition(':')[2].strip()

  def _echoed(self, body: dict[str, Any]) -> list[str]:
    """The texts of the prompts, control tokens among ids left out."""
    prompts = body['prompt']
    single = isinstance(prompts, str) or isinstance(prompts[0], int)
    return [
        prompt if isinstance(prompt, str) else self._tokenizer.decode(prompt)
        for prompt in ([prompts] if single else prompts)
    ]

  def _card(self, name: str) -> dict[str, Any]:
    return openai_replies.model_card(
        name,
        created=self._created,
        max_len=self._generate.limits.max_len,
        trained_with=self._info.get(TRAINED_WITH),
    )

  def _adapter_card(self, name: str, path: str) -> dict[str, Any]:
    model = self._info['served_model_name']
    return self._card(model) | {'id': name, 'root': path, 'parent': model}
