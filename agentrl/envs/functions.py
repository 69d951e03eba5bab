"""Actions as functions, and the texts that calls stand for.

Formats in which a policy calls functions read those of its environment, which gets
the text that a call stands for.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl.errors import one_line
from agentrl.http import tools as tools_lib

_LONGEST_REASON = 200
_SHOWN = 60  # characters of a name or a value that a reason repeats
_MOST = 10**9  # no count is larger, and Python refuses to write some that are
# Of whole numbers in JSON: ids and times of others' tools have up to 64 bits.
_MOST_BITS = 64
# Types of JSON Schema in Python's words.
_KINDS = {
    'string': 'str',
    'integer': 'int',
    'number': 'float',
    'boolean': 'bool',
    'array': 'list',
    'object': 'dict',
    'null': 'None',
}
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
    description: what it does, for a policy.
    schema: the JSON Schema of its arguments, an object's: a call then stands for its
      own JSON, see `called`, and `forms` are texts that stand for a call as well.
  """

  name: str
  forms: tuple[str, ...] = ()
  numbers: tuple[str, ...] = ()
  description: str = ''
  schema: Mapping[str, Any] | None = None

  @property
  def parameters(self) -> tuple[str, ...]:
    """Names, in the order in which arguments without one are taken."""
    if self.schema is not None:
      return tuple(self.schema.get('properties', ()))
    return _parameters(self.forms[0])

  @property
  def required(self) -> tuple[str, ...]:
    """The parameters that every form has."""
    if self.schema is not None:
      return tuple(self.schema.get('required', ()))
    return tuple(
        name
        for name in self.parameters
        if all(name in _parameters(form) for form in self.forms)
    )

  @property
  def signature(self) -> str:
    """For a policy: `get(count: int, item: str)`."""
    parts = [
        f'{x}: {self._kind(x)}' + ('' if x in self.required else ' = None')
        for x in self.parameters
    ]
    return f'{self.name}({", ".join(parts)})'

  def _kind(self, parameter: str) -> str:
    if self.schema is None:
      return 'int' if parameter in self.numbers else 'str'
    field = self.schema['properties'][parameter]
    # A schema may be True as well, for any value.
    kind = field.get('type') if isinstance(field, Mapping) else None
    return _KINDS.get(kind, 'any') if isinstance(kind, str) else 'any'

  @property
  def tool(self) -> dict[str, Any]:
    """The function as a tool of OpenAI's API."""
    schema = self.schema
    if schema is None:
      kind = lambda x: 'integer' if x in self.numbers else 'string'
      schema = {
          'type': 'object',
          'properties': {x: {'type': kind(x)} for x in self.parameters},
          'required': list(self.required),
      }
    description = self.description or ' or '.join(map(_plain, self.forms))
    return {
        'type': 'function',
        'function': {
            'name': self.name,
            'description': description,
            'parameters': dict(schema),
        },
    }


Functions = Sequence[Function]


def of_texts(name: str, description: str, *parameters: str) -> Function:
  """A function of texts, all of them required, whose calls are JSON."""
  schema: dict[str, Any] = {
      'type': 'object',
      'properties': {x: {'type': 'string'} for x in parameters},
      'required': list(parameters),
      'additionalProperties': False,
  }
  return Function(name, description=description, schema=schema)


def of_tool(
    name: str,
    description: str | None,
    schema: Mapping[str, Any],
    forms: tuple[str, ...] = (),
) -> Function:
  """The function of a tool that others describe; its name may have to explain it."""
  words = tools_lib.description(name, str(description or ''))
  return Function(name, forms, description=words, schema=dict(schema))


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
  if function.schema is not None:
    return _checked(function, arguments)
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
  if (call := called(functions, action)) is not None:
    return call
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


def _checked(
    function: Function, arguments: Mapping[str, Any]
) -> tuple[str, str | None]:
  """The JSON of a call whose arguments a schema takes, or '' and why it does not."""
  assert function.schema is not None
  # Imported late: most environments have no schema.
  import jsonschema

  checker = jsonschema.Draft202012Validator(function.schema)
  try:
    for key, value in arguments.items():
      # The checker and its messages fail on what JSON cannot say.
      if not _is_json(value):
        return '', (
            f'argument {_short(key)} of {function.name} must be JSON, with'
            f' finite numbers of at most {_MOST_BITS} bits, not'
            f' {_short(value)}.'
        )
    error = jsonschema.exceptions.best_match(checker.iter_errors(arguments))
    if error is not None:
      where = ''.join(f'[{key!r}]' for key in error.absolute_path)
      what = one_line(error.message, _LONGEST_REASON)
      return '', f'arguments{where} of {function.name}: {what}.'
    action = write_call(function.name, arguments)
    action.encode()
  except RecursionError:
    return '', f'arguments of {function.name} are too deep.'
  except UnicodeEncodeError:
    return '', f'arguments of {function.name} must be readable text.'
  return action, None


def _is_json(value: Any) -> bool:
  """True for what JSON can say, with numbers that its other readers can hold."""
  match value:
    case None | bool() | str():
      return True
    case int():
      return value.bit_length() <= _MOST_BITS
    case float():
      return math.isfinite(value)
    case list():
      return all(map(_is_json, value))
    case dict():
      return all(map(_is_json, value.values()))
  return False


def write_call(name: str, arguments: Mapping[str, Any]) -> str:
  """A call as JSON, which `called` reads."""
  call = {'name': name, 'arguments': dict(arguments)}
  return json.dumps(call, ensure_ascii=False, allow_nan=False)


def call_forms(functions: Functions) -> list[str]:
  """A call of each function, its arguments as parameters in braces."""
  return [
      write_call(function.name, {x: f'{{{x}}}' for x in function.parameters})
      for function in functions
  ]


def called(
    functions: Functions, action: str
) -> tuple[str, dict[str, Any]] | None:
  """Name and arguments of a call that stands for its own JSON; None: it is none."""
  if not action.startswith('{'):
    return None
  try:
    call = json.loads(action)
    if not _is_json(call):
      return None
  except (ValueError, RecursionError):
    return None
  names = {x.name for x in functions if x.schema is not None}
  if not isinstance(call, dict) or call.keys() != {'name', 'arguments'}:
    return None
  if call['name'] not in names or not isinstance(call['arguments'], dict):
    return None
  return call['name'], call['arguments']


def describe(functions: Functions) -> str:
  """One line a function, for the policy: how it is called and what it means."""
  return '\n'.join(
      f'- {function.signature}: '
      + (function.description or ' or '.join(map(_plain, function.forms)))
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
