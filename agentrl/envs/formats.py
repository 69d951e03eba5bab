"""Formats in which a policy says its actions: how they are read, written, explained."""

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agentrl import plugins
from agentrl.envs import actions, functions as functions_lib
from agentrl.envs.actions import Reading
from agentrl.envs.functions import Functions


class Format(NamedTuple):
  """One way of saying an action; one of your own is such a value.

  Attributes:
    read: the action of a completion, or '' and why there is none, from its text and
      the environment's functions. Ends soon and raises nothing.
    write: a completion that says an action, without a thought. Raises ValueError
      where no function stands for the action.
    full: explains the format after the environment's instructions; `{functions}`
      in it becomes what the environment can do.
    compact: the same in a few signs, after the environment's compact instructions;
      None: a policy that learns from episodes needs neither.
    calls: whether actions are calls of the environment's functions.
    marked: whether nothing is written in it by chance.
    tools: whether the model's chat template tells the functions, and says how they
      are called, see `tools`.
    words: whether an answer without a call is one, as the last of an agent often is.
  """

  read: Callable[[str, Functions], Reading]
  write: Callable[[str, Functions], str]
  full: str
  compact: str | None = None
  calls: bool = False
  marked: bool = True
  tools: bool = False
  words: bool = False


def find(name: str) -> Format:
  """The format called `name`, or one's own: `module:NAME`, `FILE.py:NAME`.

  Raises:
    ConfigError: there is none.
  """
  what = 'agent.format='
  format = plugins.get(name, FORMATS, Format, what)
  if name in FORMATS:
    return format
  return format._replace(
      read=plugins.named(format.read, f'{what}{name}'),
      write=plugins.named(format.write, f'{what}{name}', ValueError),
  )


def tools(
    before: str, name: str, arguments: str, after: str, *, words: bool = False
) -> Format:
  """Calls as a chat template writes them: text, a JSON object, text.

  Args:
    before: the text before the object.
    name: key of the function's name.
    arguments: key of the arguments.
    after: the text behind the object.
    words: whether an answer without a call is one.
  """

  def write(called: str, values: Mapping[str, Any]) -> str:
    call = {name: called, arguments: values}
    return f'{before}{json.dumps(call, ensure_ascii=False)}{after}'

  read = functools.partial(
      actions.parse_tool,
      before=before,
      name=name,
      arguments=arguments,
      after=after,
  )
  return _tools(write, read, before.strip(), words=words)


def named_tools(
    before: str, between: str, after: str, *, words: bool = False
) -> Format:
  """Calls as a chat template writes them that has the name outside of the JSON.

  Args:
    before: the text before the function's name.
    between: the text between that and the JSON object of the arguments.
    after: the text behind it.
    words: whether an answer without a call is one.
  """

  def write(called: str, values: Mapping[str, Any]) -> str:
    arguments = json.dumps(values, ensure_ascii=False)
    return f'{before}{called}{between}{arguments}{after}'

  read = functools.partial(
      actions.parse_named_tool, before=before, between=between, after=after
  )
  return _tools(write, read, before, words=words)


def _tools(
    write_call: Callable[[str, Mapping[str, Any]], str],
    read_call: Callable[[str, Functions], Reading],
    mark: str,
    *,
    words: bool,
) -> Format:
  """Calls that a chat template has a syntax for.

  Args:
    write_call: writes the name and the arguments of one.
    read_call: reads one.
    mark: the text with which one begins; '': with its JSON object.
    words: whether an answer without a call is one.
  """

  def write(action: str, functions: Functions) -> str:
    if words and functions_lib.called(functions, action) is None:
      return action
    return write_call(*functions_lib.call_of(functions, action))

  def read(text: str, functions: Functions) -> Reading:
    has_call = mark in text if mark else text.lstrip().startswith('{')
    if words and not (functions and has_call):
      return actions.parse_raw(text)
    return read_call(text, functions)

  return Format(
      read=read,
      write=write,
      full=(
          'Answer in words, or call one function.'
          if words
          else 'You act by calling one function at a time.'
      ),
      calls=not words,
      marked=not words,
      tools=True,
      words=words,
  )


def _write_call(action: str, functions: Functions) -> str:
  return functions_lib.write_call(*functions_lib.call_of(functions, action))


def _write_code(action: str, functions: Functions) -> str:
  name, arguments = functions_lib.call_of(functions, action)
  return f'{name}({", ".join(f"{k}={v!r}" for k, v in arguments.items())})'


def _textual(
    read: Callable[[str], Reading],
    written: str,
    full: str,
    compact: str | None = None,
    *,
    marked: bool = True,
) -> Format:
  """A format that says the action itself."""
  return Format(
      read=lambda text, functions: read(text),
      write=lambda action, functions: written.format(action=action),
      full=full,
      compact=compact,
      marked=marked,
  )


_HERMES = ('<tool_call>\n', 'name', 'arguments', '\n</tool_call>')
FORMATS: Mapping[str, Format] = {
    'react': _textual(
        actions.parse_react,
        'Thought:\n\nAction:\n{action}',
        """\
Answer every time with one thought and one action, in this form and nothing \
else:
Thought:
what you think

Action:
the action""",
        ' Thought: ... Action: ...',
    ),
    'plain': _textual(
        actions.parse_plain,
        '{action}',
        'Answer every time with one action and nothing else.',
        marked=False,
    ),
    'raw': _textual(
        actions.parse_raw,
        '{action}',
        'Answer every time with one action.',
        marked=False,
    ),
    'tags': _textual(
        actions.parse_tags,
        '<action>{action}</action>',
        """\
Think first if you like. End every answer with one action, in this form:
<action>the action</action>""",
        ' <action>...</action>',
    ),
    'fenced': _textual(
        actions.parse_fenced,
        '```\n{action}\n```',
        """\
Think first if you like. End every answer with one action on a line of its own, \
in this form:
```
the action
```""",
        ' ```...```',
    ),
    'function_calling': Format(
        actions.parse_function_calling,
        _write_call,
        """\
You act by calling functions. Each stands for one of these actions:
{functions}
Think first if you like. End every answer with one call, as a JSON object in \
this form:
{"name": "the function", "arguments": {"parameter": "value"}}""",
        ' {"name": ..., "arguments": {...}}',
        calls=True,
    ),
    # Of Qwen's and Hermes' models; an agent takes those of its model's template.
    'tools': tools(*_HERMES),
    # The same, or words.
    'chat': tools(*_HERMES, words=True),
    'code': Format(
        actions.parse_code,
        _write_code,
        """\
You act by calling Python functions. Each stands for one of these actions:
{functions}
Answer every time with one call and nothing else; write texts and numbers \
themselves as arguments. What you think belongs in comments before it, in this \
form:
# what you think
function(parameter=value)""",
        ' function(parameter=value)',
        calls=True,
    ),
}
