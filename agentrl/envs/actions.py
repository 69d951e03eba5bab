"""The action that a completion says, read by pure functions; `formats` has them all.

Reading ends soon and raises nothing, whatever a policy writes: a completion
that cannot be parsed gives a reason instead, a sentence for the policy. Nothing
that it writes is ever run.
"""

import ast
import json
import re
import warnings
from typing import Any

from agentrl.envs import functions as functions_lib
from agentrl.envs.functions import Functions

_MARK = 'Action:'
# The same as Markdown: **Action:** or **Action**: or **Action: go left**.
_LABEL = re.compile(
    r'(?P<mark>\*{1,3}|_{1,3}|`)?Action'
    r'(?(mark)(?:(?P<before>(?P=mark)):|:(?P<behind>(?P=mark))?)|:)'
)
_HEADING = re.compile(r'^#{1,6}\s+')
# Emphasis and code, the longer ones first.
_WRAPS = ('***', '**', '*', '___', '__', '_', '``', '`')
_TAG, _END_TAG = '<action>', '</action>'
_CALL, _END_CALL = '<tool_call>', '</tool_call>'
_FENCE = '```'
# Python's parser costs memory, and its stack, by the length of what it reads.
_LONGEST_CODE = 4000

Reading = tuple[str, str | None]  # the action and None, or '' and a reason


def parse_react(text: str) -> Reading:
  """ReAct (arXiv:2210.03629): the line after the only "Action:".

  Label and line may be written as Markdown: bold, a heading, code, a fence.
  """
  labels = list(_LABEL.finditer(text))
  if len(labels) != 1:
    return '', _not_once(_MARK, len(labels))
  (label,) = labels
  action, error = _first_line(
      text[label.end() :], f'nothing follows "{_MARK}".'
  )
  if label['mark'] and not (label['before'] or label['behind']):
    action = _bare(action.removesuffix(label['mark']))  # all was in bold
  return action, error


def parse_plain(text: str) -> Reading:
  """The completion is the action; of several lines, the first that is one.

  It may be written as Markdown, as in `parse_react`.
  """
  return _first_line(text, 'it is empty.')


def parse_raw(text: str) -> Reading:
  """The whole completion is the action: the environment reads it itself."""
  action = text.strip()
  return (action, None) if action else ('', 'it is empty.')


def parse_tags(text: str) -> Reading:
  """The line between the only <action> and </action>."""
  inside, error = _between(text, _TAG, _END_TAG)
  if error is not None:
    return '', error
  return _only_line(inside, f'between "{_TAG}" and "{_END_TAG}"')


def parse_fenced(text: str) -> Reading:
  """The line in the only fenced block: ```turn left```."""
  inside, error = _fenced(text)
  if error is not None:
    return '', error
  return _only_line(inside, f'between "{_FENCE}" and "{_FENCE}"')


def parse_function_calling(text: str, functions: Functions) -> Reading:
  """A call as one JSON object.

  `{"name": ..., "arguments": {...}}` or AgentGym's `{"thought": ...,
  "function_name": ..., "arguments": {...}}`, alone, after other words, or
  between <tool_call> and </tool_call> as Qwen's models write it.
  """
  call, error = _json_object(text)
  if error is not None:
    return '', error
  names = [key for key in ('name', 'function_name') if key in call]
  if len(names) != 1:
    return '', 'its JSON needs one "name", that of a function.'
  extra = call.keys() - {*names, 'arguments', 'thought'}
  if extra:
    return '', (
        f'its JSON has {min(extra)[:40]!r}, but only "{names[0]}", "arguments"'
        ' and "thought" are known.'
    )
  arguments = call.get('arguments', {})
  if not isinstance(arguments, dict):
    return '', 'its "arguments" must be a JSON object.'
  return functions_lib.action_of(functions, call[names[0]], arguments)


def parse_tool(
    text: str,
    functions: Functions,
    *,
    before: str,
    name: str,
    arguments: str,
    after: str,
) -> Reading:
  """A call as a model's chat template writes it, and nothing behind it.

  Args:
    text: a completion outside of its reasoning; words may stand before the call.
    functions: of the environment.
    before: the text before the JSON object of a call.
    name: its key of the function's name.
    arguments: its key of the arguments.
    after: the text behind it.
  """
  start, end = before.strip(), after.strip()
  inside, error = _marked(text, start, end)
  if error is not None:
    return '', error
  inside = inside.strip()
  if not inside.startswith('{'):
    return '', 'it has no JSON object.' if start else 'it is no JSON object.'
  call, error = _only_object(inside)
  if error is not None:
    return '', error
  if call.keys() != {name, arguments}:
    return '', f'its JSON must have "{name}" and "{arguments}", and no more.'
  if not isinstance(call[arguments], dict):
    return '', f'its "{arguments}" must be a JSON object.'
  return functions_lib.action_of(functions, call[name], call[arguments])


def parse_named_tool(
    text: str, functions: Functions, *, before: str, between: str, after: str
) -> Reading:
  """A call whose template names the function outside of its JSON object.

  Args:
    text: a completion outside of its reasoning; words may stand before the call.
    functions: of the environment.
    before: the text before the function's name.
    between: the text between that and the JSON object of the arguments.
    after: the text behind it.
  """
  inside, error = _marked(text, before, after)
  if error is not None:
    return '', error
  name, found, inside = inside.partition(between)
  if not found:
    return '', _not_once(between, 0)
  inside = inside.strip()
  if not inside.startswith('{'):
    return '', 'it has no JSON object.'
  arguments, error = _only_object(inside)
  if error is not None:
    return '', error
  return functions_lib.action_of(functions, name, arguments)


def parse_code(text: str, functions: Functions) -> Reading:
  """A call as one Python expression of literals; it is read, never run.

  Alone or in the only fenced block; comments may hold the thought.
  """
  if _FENCE in text:
    text, error = _fenced(text)
    if error is not None:
      return '', error
  if len(text) > _LONGEST_CODE:
    return '', f'its code is longer than {_LONGEST_CODE} characters.'
  try:
    with warnings.catch_warnings():  # '\d' in a string is not our concern
      warnings.simplefilter('ignore')
      statements = ast.parse(text.strip()).body
  except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
    why = error.msg if isinstance(error, SyntaxError) else 'it is too deep'
    if isinstance(error, ValueError):
      why = 'it has characters that no code has'
    return '', f'it is no Python code: {why}.'
  if len(statements) != 1:
    return '', f'it has {len(statements)} statements; write one call.'
  call = getattr(statements[0], 'value', None)
  if (
      not isinstance(statements[0], ast.Expr)
      or not isinstance(call, ast.Call)
      or not isinstance(call.func, ast.Name)
  ):
    return (
        '',
        'it is no call of a function; write one, such as name(1, "text").',
    )
  return _read_call(call.func.id, call, functions)


def _read_call(name: str, call: ast.Call, functions: Functions) -> Reading:
  by_name = {function.name: function for function in functions}
  parameters = by_name[name].parameters if name in by_name else ()
  if name in by_name and len(call.args) > len(parameters):
    return '', (
        f'{name} takes at most {len(parameters)} arguments, got'
        f' {len(call.args)}; call {by_name[name].signature}.'
    )
  arguments = {}
  for key, node in (
      *zip(parameters, call.args, strict=False),
      *((keyword.arg, keyword.value) for keyword in call.keywords),
  ):
    if key is None or not isinstance(node, ast.Constant):
      return '', 'arguments must be plain texts or numbers, such as "a" or 1.'
    if key in arguments:
      return '', f'{name} has the argument {key[:40]!r} twice.'
    arguments[key] = node.value
  return functions_lib.action_of(functions, name, arguments)


def _marked(text: str, start: str, end: str) -> tuple[str, str | None]:
  """The text between the only `start` and the only `end`, which ends the text."""
  error = _repeated(text, *filter(None, (start, end)))
  if error is not None:
    return '', error
  inside, rest = text, ''
  if start:
    inside = inside.partition(start)[2]
  if end:
    inside, _, rest = inside.partition(end)
  if rest.strip():
    return '', f'something stands behind "{end}".'
  return inside, None


def _only_object(text: str) -> tuple[dict[str, Any], str | None]:
  """The JSON object that a text is."""
  value, error = _first_object(text)
  if error is None and not text.endswith('}'):
    return {}, 'something stands behind its JSON object.'
  return value, error


def _json_object(text: str) -> tuple[dict[str, Any], str | None]:
  """The only JSON object of a text, or of its only <tool_call>."""
  if _CALL in text or _END_CALL in text:
    text, error = _between(text, _CALL, _END_CALL)
    if error is not None:
      return {}, error
  return _first_object(text)


def _first_object(text: str) -> tuple[dict[str, Any], str | None]:
  """The only JSON object of a text."""
  start = text.find('{')
  if start < 0:
    return {}, 'it has no JSON object.'
  try:
    value, end = _DECODER.raw_decode(text, start)
  except RecursionError:
    return {}, 'its JSON is too deep.'
  except ValueError as error:
    why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
    return {}, f'its JSON is broken: {why}.'
  if '{' in text[end:]:
    return {}, 'it has more than one JSON object; only one action is allowed.'
  return value, None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  by_key = dict(pairs)
  if len(by_key) < len(pairs):
    raise ValueError('a key comes twice')
  return by_key


def _no_constant(name: str) -> None:
  raise ValueError(f'{name} is no JSON')


# Texts may run over lines: a thought often does.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_once_each, parse_constant=_no_constant, strict=False
)


def _between(text: str, start: str, end: str) -> tuple[str, str | None]:
  """The text between the only `start` and the only `end` after it."""
  error = _repeated(text, start, end)
  if error is not None:
    return '', error
  before, _, after = text.partition(start)
  inside, separator, _ = after.partition(end)
  if not separator:
    return '', f'"{end}" comes before "{start}".'
  return inside, None


def _fenced(text: str) -> tuple[str, str | None]:
  """The content of the only fenced block, without the name of its language."""
  count = text.count(_FENCE)
  if count != 2:
    return '', (
        f'it has {count} times "{_FENCE}"; one before the action and one after'
        ' it are needed.'
    )
  return _unfenced(text.split(_FENCE)[1]), None


def _unfenced(inside: str) -> str:
  """The content between two fences, without the name of its language."""
  _, newline, rest = inside.partition('\n')
  # Words beside the fence name a language where lines follow.
  return rest if newline and rest.strip() else inside


def _repeated(text: str, *marks: str) -> str | None:
  """The reason against a text that has one of these not exactly once."""
  for mark in marks:
    if text.count(mark) != 1:
      return _not_once(mark, text.count(mark))
  return None


def _not_once(mark: str, count: int) -> str:
  if count == 0:
    return f'there is no "{mark}" in it.'
  return f'it has {count} times "{mark}"; only one action is allowed.'


def _first_line(text: str, error: str) -> Reading:
  text = text.strip()
  if text.startswith(_FENCE):
    inside = _unfenced(text.removeprefix(_FENCE).partition(_FENCE)[0])
    line, reason = _only_line(inside, f'behind "{_FENCE}"')
    return _bare(line), reason
  line = _bare(text.partition('\n')[0])
  return (line, None) if line else ('', error)


def _bare(line: str) -> str:
  """A line without the Markdown that wraps all of it."""
  line = _HEADING.sub('', line.strip(), count=1)
  for wrap in _WRAPS:
    inside = line.removeprefix(wrap).removesuffix(wrap)
    if len(line) - len(inside) == 2 * len(wrap) and inside.strip():
      if wrap not in inside:
        return _bare(inside)
  return line


def _only_line(text: str, where: str) -> Reading:
  lines = text.strip().splitlines()
  if not lines:
    return '', f'nothing stands {where}.'
  if len(lines) > 1:
    return '', f'{len(lines)} lines stand {where}; one action is one line.'
  return lines[0], None
