"""Tools over the OpenAI routes: the real client, and an agent program that was trained."""

import contextlib
import dataclasses
import json
from typing import Any

import pytest

from agentrl.engine.http.submissions import Submissions
from agentrl.engine.openai.said import Said
from agentrl.engine.request import Request, Result, SamplingParams
from agentrl.text.chat import ChatFormat
from tests.engine.conftest import start_words_engine
from tests.engine.talking import WORDS
from tests.envs.adapters import program_agent
from tests.rollout import program_test

openai = pytest.importorskip('openai', reason='needs the openai package')
ASK = {
    'model': 'words',
    'messages': [{'role': 'user', 'content': 'What is 3 times 7?'}],
    'tools': program_agent.TOOLS,
    'max_tokens': 200,
}
CALL = (
    '<tool_call>\n{"name": "multiply", "arguments": {"a": 3, "b": 7}}\n'
    '</tool_call>'
)


@dataclasses.dataclass
class Scripted:
  """Replaces what an engine samples, and nothing else of it.

  Attributes:
    ids: completions, each for the next request; the last one stays.
    tokenizer: of the engine.
    prompts: of the requests so far.
  """

  ids: list[list[int]]
  tokenizer: Any = WORDS
  prompts: list[list[int]] = dataclasses.field(default_factory=list)

  def say(self, *texts):
    self.ids = [WORDS.encode(text) + [WORDS.eos_ids[0]] for text in texts]

  def _next(self, requests):
    [request] = requests
    self.prompts.append(list(request.tokens))
    ids = self.ids.pop(0) if len(self.ids) > 1 else self.ids[0]
    return request, tuple(ids[: request.params.max_new_tokens]), len(ids)

  async def finish(self, requests):
    request, ids, size = self._next(requests)
    return [
        self._result(request, ids, 'stop' if len(ids) == size else 'length')
    ]

  async def follow(self, requests):
    request, ids, size = self._next(requests)
    for end in range(1, len(ids)):
      yield 0, self._result(request, ids[:end], None)
    yield 0, self._result(
        request, ids, 'stop' if len(ids) == size else 'length'
    )

  def _result(self, request, ids, reason):
    return Result(
        rid=request.rid,
        output_ids=ids,
        output_logprobs=(0.0,) * len(ids),
        text=self.tokenizer.decode(ids) if reason else None,
        finish_reason={'type': reason} if reason else None,
        prompt_tokens=len(request.tokens),
        cached_tokens=0,
        input_logprobs=None,
        weight_version='1',
        spans=(),
        num_retractions=0,
        latency_s=0.0,
    )


@pytest.fixture
def script(monkeypatch):
  """The script of all engines of a test."""
  script = Scripted([[]])
  for name in ('finish', 'follow'):
    replaced = getattr(script, name)
    monkeypatch.setattr(
        Submissions, name, lambda self, x, replaced=replaced: replaced(x)
    )
  return script


@contextlib.contextmanager
def served(tokenizer=WORDS, template=None):
  """The URL of an engine with room for tools."""
  engine = start_words_engine(tokenizer, 4000, chat_template=template)
  try:
    yield f'{engine.url}/v1'
  finally:
    engine.stop()


@pytest.fixture(scope='module')
def client():
  with (
      served() as url,
      openai.OpenAI(base_url=url, api_key='x', max_retries=0) as client,
  ):
    yield client


def test_a_call_is_one_for_the_client(client, script):
  script.say(f'I use it.\n{CALL}')
  [choice] = client.chat.completions.create(**ASK).choices
  assert choice.finish_reason == 'tool_calls'
  assert choice.message.content == 'I use it.\n'
  [call] = choice.message.tool_calls
  assert (call.type, call.function.name) == ('function', 'multiply')
  assert json.loads(call.function.arguments) == {'a': 3, 'b': 7}
  # All that stays words comes at once, the call in the end.
  chunks = [
      chunk.choices[0]
      for chunk in client.chat.completions.create(**ASK, stream=True)
  ]
  words = [chunk.delta.content or '' for chunk in chunks]
  assert ''.join(words) == 'I use it.\n'
  assert sum(map(bool, words)) > 1
  assert [chunk.delta.role for chunk in chunks][0] == 'assistant'
  called = [call for x in chunks for call in x.delta.tool_calls or ()]
  assert [(x.index, x.function.name) for x in called] == [(0, 'multiply')]
  assert called[0].function.arguments == call.function.arguments
  assert chunks[-1].finish_reason == 'tool_calls'


@pytest.mark.parametrize(
    'text', ['It is 21.', CALL.replace('multiply', 'divide'), f'{CALL} Done.']
)
def test_what_is_no_call_is_words(client, script, text):
  script.say(text)
  [choice] = client.chat.completions.create(**ASK).choices
  assert choice.message.content == text and not choice.message.tool_calls
  assert choice.finish_reason == 'stop'
  chunks = list(client.chat.completions.create(**ASK, stream=True))
  assert ''.join(x.choices[0].delta.content or '' for x in chunks) == text


def test_a_call_that_is_cut_is_words(client, script):
  script.say(CALL)
  ask = ASK | {'max_tokens': 12}
  [choice] = client.chat.completions.create(**ask).choices
  assert choice.finish_reason == 'length' and not choice.message.tool_calls
  assert CALL.startswith(choice.message.content)


def test_without_choice_tools_are_not_told(client):
  ask = ASK | {'extra_body': {'return_token_ids': True}, 'max_tokens': 1}
  prompts = [
      client.chat.completions.create(**ask, **more)
      .choices[0]
      .model_extra['prompt_token_ids']
      for more in ({}, {'tool_choice': 'auto'}, {'tool_choice': 'none'})
  ]
  assert prompts[0] == prompts[1] and len(prompts[2]) < len(prompts[0]) / 4


@pytest.mark.parametrize(
    'change, words',
    [
        ({'tools': 3}, 'tools must be a list'),
        ({'tools': [3]}, r"tools\[0\] must have the type 'function'"),
        (
            {'tools': [{'type': 'function', 'function': {'name': ' '}}]},
            r'tools\[0\] must have a name',
        ),
        ({'tool_choice': 'required'}, 'tool_choice is not supported'),
        (
            {'messages': [{'role': 'assistant', 'tool_calls': [1, 2]}]},
            'several tool calls; the policy makes one',
        ),
        (
            {'messages': [{'role': 'assistant', 'tool_calls': [1]}]},
            'must have a function with a name',
        ),
        (
            {
                'messages': [{
                    'role': 'assistant',
                    'tool_calls': [{'function': {'arguments': '{'}}],
                }]
            },
            'are no JSON',
        ),
    ],
)
def test_what_is_wrong_is_named(client, change, words):
  with pytest.raises(openai.BadRequestError, match=words):
    client.chat.completions.create(**ASK | change)


@pytest.mark.parametrize(
    'keep, end', [(False, 'go left '), (True, 'go left STOP')]
)
def test_a_stop_string_is_cut_off_in_harmony_too(keep, end):
  tokenizer, _ = program_test.harmony()
  chat = ChatFormat(tokenizer, 'harmony')
  thought = '<think>\nLeft.\n</think>\n\n'
  ids = chat.completion(f'{thought}go left STOP.', ended=False)
  result = Scripted([])._result(
      Request('a', (1,), SamplingParams()), tuple(ids), 'stop'
  )
  result.finish_reason['matched'] = 'STOP'
  said = Said(chat, (), keep_stop=keep)
  assert said.message(result)['content'] == thought + end
  assert said.delta(result, '') == {'content': thought + end}


@pytest.mark.parametrize('template', ['chatml', 'qwen3', 'harmony'])
def test_a_program_is_served_what_it_was_trained_with(
    template, script, tmp_path
):
  path = tmp_path / 'tasks.jsonl'
  path.write_text('{"a": 1, "b": 7}\n' * 3 + '{"a": 3, "b": 7}\n' * 9)
  tokenizer, texts = WORDS, [f'I use it.\n{CALL}', 'It is 21.']
  if template == 'harmony':
    tokenizer, texts = program_test.harmony()
  function = f'{program_agent.__name__}:solve'
  episode, policy = program_test.played(
      tokenizer, function, str(path), *texts, template=template
  )
  assert episode.success
  chat = ChatFormat(tokenizer, template, tools=program_agent.TOOLS)
  script.ids = [chat.completion(text) for text in texts]
  script.tokenizer = tokenizer
  with served(tokenizer, template) as url:
    assert program_agent.solve(url, {'a': 3, 'b': 7}) == 1.0
  assert script.prompts == [list(x['input_ids']) for x in policy.requests]
