"""Actions as functions, and the texts that calls stand for.

Formats in which a policy calls functions read those of its environment, which gets
the text that a call stands for.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_SHOWN = 60  # characters of a name or a value that a reason repeats
_MOST = 10**9  # no count is larger, and Python refuses to write some that are
# Control characters and lone surrogates, which no text has.
_NO_TEXT = re.compile('[\x00-\x1f\x7f-\x9f\ud800-\udfff]')


@dataclasses.dataclass(frozen=True)
class Function:
  """One function.

  Attributes:
    name: its name.
    forms: the texts that a call may stand for, with each parameter in braces; a
      call has exactly the arguments of one of them. The fullest comes first.
    numbers: the parameters that are whole numbers; the others are texts.
  """

  name: str
  forms: tuple[str, ...]
  numbers: tuple[str, ...] = ()

  @property
  def parameters(self) -> tuple[str, ...]:
    """Names, in the order in which arguments without one are taken."""
    return _parameters(self.forms[0])

  @property
  def required(self) -> tuple[str, ...]:
    """The parameters that every form has."""
    return tuple(
        name
        for name in self.parameters
        if all(name in _parameters(form) for form in self.forms)
    )

  @property
  def signature(self) -> str:
    """For a policy: `get(count: int, item: str)`."""
    parts = [
        f'{x}: {"int" if x in self.numbers else "str"}'
        + ('' if x in self.required else ' = None')
        for x in self.parameters
    ]
    return f'{self.name}({", ".join(parts)})'


Functions = Sequence[Function]


def _parameters(form: str) -> tuple[str, ...]:
  return tuple(re.findall(r'{(\w+)}', form))


def action_of(
    functions: Functions, name: Any, arguments: Mapping[str, Any]
) -> tuple[str, str | None]:
  """The action that a call stands for, or '' and a reason for the policy."""
  by_name = {function.name: function for function in functions}
  if not isinstance(name, str) or name not in by_name:
    return '', f'unknown function {_short(name)}; known: {", ".join(by_name)}.'
  function = by_name[name]
  for key in arguments:
    if key not in function.parameters:
      return '', (
          f'{name} has no argument {_short(key)}; call {function.signature}.'
      )
  for key in function.required:
    if key not in arguments:
      return '', (
          f'{name} lacks the argument {key!r}; call {function.signature}.'
      )
  values: dict[str, int | str] = {}
  for key, value in arguments.items():
    read: Callable[[Any], tuple[int | str, str | None]] = _text
    if key in function.numbers:
      read = _number
    values[key], reason = read(value)
    if reason is not None:
      return '', f'argument {key!r} of {name} {reason}, not {_short(value)}.'
  for form in function.forms:
    if set(_parameters(form)) == values.keys():
      return form.format(**values), None
  raise AssertionError(f'{name} has no form with {", ".join(values)}.')


def call_of(functions: Functions, action: str) -> tuple[str, dict[str, Any]]:
  """The name and the arguments of a call that stands for `action`.

  Raises:
    ValueError: no function stands for it.
  """
  for function in functions:
    for form in function.forms:
      match = re.fullmatch(_pattern(function, form), action)
      if match:
        values = match.groupdict()
        return function.name, {
            key: int(value) if key in function.numbers else value
            for key, value in values.items()
        }
  raise ValueError(f'No function stands for the action {_short(action)}.')


def describe(functions: Functions) -> str:
  """One line a function, for the policy: how it is called and what it means."""
  return '\n'.join(
      f'- {function.signature}: {" or ".join(map(_plain, function.forms))}'
      for function in functions
  )


def _plain(form: str) -> str:
  """`get {count} {item}` as instructions have it: `get COUNT ITEM`."""
  return re.sub(r'{(\w+)}', lambda match: match[1].upper(), form)


def _pattern(function: Function, form: str) -> str:
  parts = re.split(r'{(\w+)}', form)
  return ''.join(
      rf'(?P<{part}>{r"[0-9]{1,9}" if part in function.numbers else ".+?"})'
      if index % 2
      else re.escape(part)
      for index, part in enumerate(parts)
  )


def _number(value: Any) -> tuple[int, str | None]:
  if not isinstance(value, int) or isinstance(value, bool):
    return 0, 'must be a whole number'
  if not 0 <= value < _MOST:
    return 0, f'must be a number from 0 to {_MOST - 1}'
  return value, None


def _text(value: Any) -> tuple[str, str | None]:
  if not isinstance(value, str):
    return '', 'must be a text'
  text = ' '.join(value.split())  # an action is one line
  if not text:
    return '', 'must have words'
  if _NO_TEXT.search(text):
    return '', 'must be readable text'
  return text, None


def _short(value: Any) -> str:
  if isinstance(value, int) and abs(value) >= _MOST:
    return 'a huge number'  # Python may refuse to write it
  # A container is not written out: it may be deep.
  if not isinstance(value, str | int | float | None):
    return f'a {type(value).__name__}'
  if isinstance(value, str) and len(value) > _SHOWN:
    value = f'{value[:_SHOWN]}...'
  return repr(value)
