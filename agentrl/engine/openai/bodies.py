"""Bodies of OpenAI's routes, translated into those of SGLang's /generate.

Fields without an effect here are refused unless they are at their default;
fields that ask nothing of the model (user, metadata, store) are ignored.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.engine.http import lengths, unsupported
from agentrl.engine.request import MAX_TOP_LOGPROBS
from agentrl.http import tools as tools_lib
from agentrl.text.calls import Call, Syntax
from agentrl.text.chat import ChatFormat
from agentrl.types import Message

# OpenAI's and SGLang's names where they are one or nearly one.
_PARAMS = {
    name: name
    for name in (
        'temperature top_p top_k min_p n stop stop_regex stop_token_ids'
        ' ignore_eos skip_special_tokens no_stop_trim frequency_penalty'
        ' presence_penalty repetition_penalty logit_bias json_schema regex ebnf'
        ' custom_params'
    ).split()
} | {'seed': 'sampling_seed', 'min_tokens': 'min_new_tokens'}
_KEYS = ('stream', 'rid', 'extra_key', 'cache_salt', 'lora_path')
# /generate's names -> those that mean the same here.
_OTHER_NAMES = {
    'max_new_tokens': 'max_tokens',
    'min_new_tokens': 'min_tokens',
    'sampling_seed': 'seed',
}
_ROLES = {
    'system': 'system',
    'developer': 'system',
    'user': 'user',
    'assistant': 'assistant',
    'tool': 'tool',
}
_DEFAULT_TOKENS = 16  # of /v1/completions
_BOOLEANS = ('stream', 'return_token_ids', 'echo')


def completion(body: dict[str, Any]) -> dict[str, Any]:
  """The /generate body that a /v1/completions body means.

  With `echo` the prompt is scored too, from its second token on, and no token
  need be sampled (`max_tokens: 0`), as of OpenAI's; SGLang 0.5.23 wants at
  least one token, and `logprobs` above 0 to score a prompt.

  Raises:
    ValueError: something in it is wrong or not supported.
  """
  _refuse(body)
  unsupported.refuse(body, {'tools': ([],)})
  copies = body.get('n') or 1
  if body.get('best_of') not in (None, copies):
    raise ValueError('best_of is not supported; ask for n completions.')
  tops = _tops(body, 'logprobs')
  prompt = body.get('prompt')
  if not isinstance(prompt, (str, list)) or not prompt:
    raise ValueError(
        'prompt must be a text, a list of texts, or one or more lists of ids.'
    )
  first = prompt[0] if isinstance(prompt, list) else prompt
  key = 'text' if isinstance(first, str) else 'input_ids'
  echo = bool(body.get('echo'))
  limit = _limit(body, 'max_tokens', least=0 if echo else 1)
  out = _native(body, _DEFAULT_TOKENS if limit is None else limit, tops)
  if echo and tops is not None:
    out['logprob_start_len'] = 0
  return out | {key: prompt}


def tools(body: dict[str, Any]) -> list[dict[str, Any]]:
  """The tools that the policy may call, as it is told of them.

  They read as in training, where an agent program sends them: a description is one
  line, or the name where there is none.

  Raises:
    ValueError: one is wrong, or not supported.
  """
  listed = body.get('tools') or []
  if not isinstance(listed, list):
    raise ValueError(f'tools must be a list, got {listed!r:.80}.')
  if body.get('tool_choice') == 'none':
    return []
  return [_tool(f'tools[{i}]', tool) for i, tool in enumerate(listed)]


def _tool(where: str, tool: Any) -> dict[str, Any]:
  function = tool.get('function') if isinstance(tool, dict) else None
  if not isinstance(function, dict) or tool.get('type') != 'function':
    raise ValueError(f"{where} must have the type 'function', and a function.")
  name, description = function.get('name'), function.get('description')
  parameters = function.get('parameters')
  if not isinstance(name, str) or not name.strip():
    raise ValueError(f'{where} must have a name.')
  if not isinstance(description, str | None):
    raise ValueError(f'The description of {where} must be a text.')
  if not isinstance(parameters, dict | None):
    raise ValueError(f'The parameters of {where} must be a JSON schema.')
  return {
      'type': 'function',
      'function': {
          'name': name,
          'description': tools_lib.description(name, description),
          'parameters': parameters or {'type': 'object', 'properties': {}},
      },
  }


def chat(
    body: dict[str, Any], chat_format: ChatFormat, max_len: int
) -> dict[str, Any]:
  """The /generate body that a /v1/chat/completions body means.

  Args:
    body: decoded JSON.
    chat_format: of the policy, with the tools of this body.
    max_len: tokens of prompt and completion; the limit where none is given.

  Raises:
    ValueError: something in it is wrong or not supported.
    ChatTemplateError: the template refuses these messages.
  """
  _refuse(body)
  if body.get('echo'):
    raise ValueError('echo is for /v1/completions; a chat has none.')
  if body.get('logprobs') not in (None, False, True):
    raise ValueError('logprobs must be a boolean in a chat.')
  tops = _tops(body, 'top_logprobs') or 0
  if tops and not body.get('logprobs'):
    raise ValueError('top_logprobs has no effect without logprobs: true.')
  ids = _ids(body, 'input_ids')  # SGLang's: a prompt that is rendered already
  if ids is None:
    messages = _messages(body.get('messages'), chat_format.call)
    # A template may trim contents, and does nothing else to them.
    contents = ''.join(message.content.strip() for message in messages)
    lengths.check(contents, chat_format.tokenizer, max_len)
    ids = chat_format.prompt(messages, as_is=True)
  stop_ids = _ids(body, 'stop_token_ids') or []
  limit = _limit(body, 'max_completion_tokens')
  if limit is None:
    limit = _limit(body, 'max_tokens')
  if limit is None:
    limit = max(max_len - len(ids), 1)
  out = _native(body, limit, tops if body.get('logprobs') else None)
  # A template may end a turn with another token than the model's own end.
  ends = [*stop_ids, *chat_format.stop_ids]
  out['sampling_params']['stop_token_ids'] = ends
  return out | {'input_ids': ids}


def _native(
    body: dict[str, Any], max_new_tokens: int, tops: int | None
) -> dict[str, Any]:
  """The part that both routes share; `tops` None: no log-probabilities."""
  params = {
      name: body[key]
      for key, name in _PARAMS.items()
      if body.get(key) is not None
  }
  params['max_new_tokens'] = max_new_tokens
  return {key: body[key] for key in _KEYS if body.get(key) is not None} | {
      'sampling_params': params,
      'return_logprob': tops is not None,
      'top_logprobs_num': tops or 0,
  }


def _refuse(body: dict[str, Any]) -> None:
  unsupported.refuse(body, unsupported.OPENAI)
  for key, name in _OTHER_NAMES.items():
    if body.get(key) is not None:
      raise ValueError(f'{key} is a name of /generate; here it is {name}.')
  # type() and not isinstance: 1 is no boolean.
  for key in _BOOLEANS:
    if type(body.get(key)) not in (bool, type(None)):
      raise ValueError(f'{key} must be a boolean, got {body[key]!r:.80}.')
  if not isinstance(body.get('model'), str | None):
    raise ValueError(f"model must be a name, got {body['model']!r:.80}.")


def _tops(body: dict[str, Any], key: str) -> int | None:
  value = body.get(key)
  if value is not None and (
      type(value) is not int or not 0 <= value <= MAX_TOP_LOGPROBS
  ):
    raise ValueError(
        f'{key} must be a number in [0, {MAX_TOP_LOGPROBS}], got {value!r:.80}.'
    )
  return value


def _limit(body: dict[str, Any], key: str, least: int = 1) -> int | None:
  value = body.get(key)
  if value is not None and (type(value) is not int or value < least):
    rule = 'a positive number' if least else 'a number, at least 0'
    raise ValueError(f'{key} must be {rule}, got {value!r:.80}.')
  return value


def _ids(body: dict[str, Any], key: str) -> list[int] | None:
  value = body.get(key)
  if value is not None and (
      not isinstance(value, list) or any(type(i) is not int for i in value)
  ):
    raise ValueError(f'{key} must be a list of token ids, got {value!r:.80}.')
  return value


def _messages(messages: Any, syntax: Syntax | None) -> Sequence[Message]:
  """The messages, calls of tools as the text that the policy writes.

  Args:
    messages: of a body.
    syntax: of calls; None: there are no tools.
  """
  if not isinstance(messages, list) or not messages:
    raise ValueError('messages must be a list of at least one message.')
  return [
      _message(f'messages[{index}]', message, syntax)
      for index, message in enumerate(messages)
  ]


def _message(where: str, message: Any, syntax: Syntax | None) -> Message:
  if not isinstance(message, dict):
    raise ValueError(f'{where} must be an object with role and content.')
  role = message.get('role')
  if not isinstance(role, str) or role not in _ROLES:
    raise ValueError(
        f'{where} has the role {role!r:.80}; known: {", ".join(_ROLES)}.'
    )
  if message.get('function_call'):
    raise ValueError(f'{where} has a function_call; give it as tool_calls.')
  calls = message.get('tool_calls')
  if syntax is None and (calls or role == 'tool'):
    raise ValueError(
        f'{where} is of a tool, but the request has none. Give the tools that'
        ' it is about, or the answer of one as a user message.'
    )
  content = message.get('content')
  if isinstance(content, list):
    content = ''.join(_part(where, part) for part in content)
  if content is None and calls:
    content = ''
  if not isinstance(content, str):
    raise ValueError(f'{where} must have a text as its content.')
  if syntax is not None and calls:
    content += syntax.write(_call(where, calls))
  return Message(_ROLES[role], content)


def _call(where: str, calls: Any) -> Call:
  """The only call of a message."""
  if not isinstance(calls, list) or len(calls) != 1:
    raise ValueError(
        f'{where} has several tool calls; the policy makes one at a time.'
    )
  function = calls[0].get('function') if isinstance(calls[0], dict) else None
  made = function if isinstance(function, dict) else {}
  name, text = made.get('name'), made.get('arguments')
  try:
    arguments = json.loads(text or '{}') if isinstance(text, str) else text
  except ValueError as error:
    raise ValueError(
        f'The arguments of the call of {where} are no JSON: {error}.'
    ) from error
  if not isinstance(name, str) or not isinstance(arguments, Mapping):
    raise ValueError(
        f'The call of {where} must have a function with a name, and arguments'
        ' that are the JSON of an object.'
    )
  return Call(name, arguments)


def _part(where: str, part: Any) -> str:
  if isinstance(part, dict) and part.get('type') == 'text':
    text = part.get('text')
    if isinstance(text, str):
      return text
  raise ValueError(
      f'{where} has a part that is no text; the policy reads text alone.'
  )
