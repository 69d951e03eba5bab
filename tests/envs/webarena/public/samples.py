"""Texts that regular expressions match, for traces that are right."""

import re
from re import _constants as c, _parser

_MOST = 3  # of what may repeat without end
_SPACE = ' '


def sample(pattern, rng):
  """A text that `pattern` matches as a whole."""
  inner = pattern.removeprefix('^').removesuffix('$')
  for _ in range(200):
    text = ''.join(_items(_parser.parse(inner), rng))
    if re.fullmatch(pattern, text):
      return text
  raise ValueError(f'No sample of {pattern!r}.')


def _items(parsed, rng):
  for op, value in parsed:
    yield _item(op, value, rng)


def _item(op, value, rng):
  if op is c.LITERAL:
    return chr(value)
  if op is c.NOT_LITERAL:
    return 'x' if value != ord('x') else 'y'
  if op is c.ANY:
    return rng.choice('abc')
  if op is c.IN:
    return _one(value, rng)
  if op in (c.MAX_REPEAT, c.MIN_REPEAT):
    low, high, inner = value
    if inner[0][0] is c.ANY:
      low = max(low, 1)  # an empty part of a path would be left out
    times = rng.randint(low, max(low, min(high, low + _MOST)))
    return ''.join(''.join(_items(inner, rng)) for _ in range(times))
  if op is c.SUBPATTERN:
    return ''.join(_items(value[-1], rng))
  if op is c.BRANCH:
    return ''.join(_items(rng.choice(value[1]), rng))
  if op is c.ASSERT:
    # What must follow is written here; what comes next must let it pass.
    return ''.join(_items(value[1], rng))
  return ''  # places, and what must not follow


def _one(choices, rng):
  if choices[0][0] is c.NEGATE:
    return 'x'
  op, value = rng.choice(choices)
  if op is c.LITERAL:
    return chr(value)
  if op is c.RANGE:
    return chr(rng.randint(*value))
  return {
      c.CATEGORY_DIGIT: rng.choice('0123456789'),
      c.CATEGORY_SPACE: _SPACE,
      c.CATEGORY_WORD: 'w',
  }.get(value, 'x')
