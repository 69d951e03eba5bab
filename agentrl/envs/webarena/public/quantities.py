"""Numbers, amounts, times and places as webarena-verified reads them.

There, five libraries do it. Here are the forms that answers take; the tests
compare both on pairs of such forms.
"""

import calendar
import datetime
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from dateutil import parser as dateutil

_ONES = (
    'zero one two three four five six seven eight nine ten eleven twelve'
    ' thirteen fourteen fifteen sixteen seventeen eighteen nineteen'
).split()
_TENS = 'twenty thirty forty fifty sixty seventy eighty ninety'.split()
_WORDS = {
    **{word: k for k, word in enumerate(_ONES)},
    **{word: 10 * k for k, word in enumerate(_TENS, 2)},
}
_SCALES = {'thousand': 1000, 'million': 1_000_000, 'billion': 1_000_000_000}
_METRES = {
    Decimal(1): 'm meter meters metre metres',
    Decimal(1000): 'km kilometer kilometers kilometre kilometres',
    Decimal('0.01'): 'cm centimeter centimeters centimetre centimetres',
    Decimal('0.001'): 'mm millimeter millimeters millimetre millimetres',
    Decimal('1609.344'): 'mi mile miles',
    Decimal('0.3048'): 'ft foot feet',
    Decimal('0.9144'): 'yd yard yards',
    Decimal('0.0254'): 'in inch inches',
    Decimal(1852): 'nmi',
}  # fmt: skip
_LENGTHS = {
    name: metres for metres, names in _METRES.items() for name in names.split()
}
_LENGTH = re.compile(
    r'([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*\*?\s*([a-z]+)'
)
# In this order; units as regular expressions, and seconds of each.
_TIMES = (
    ('years?|ys?|yrs?.?', 365 * 86400),
    ('months?|mos?.?|mths?.?', 30 * 86400),
    ('weeks?|wks?|w', 7 * 86400),
    ('days?|dys?|d', 86400),
    ('hours?|hrs?|h', 3600),
    ('minutes?|mins?|m', 60),
    ('seconds?|secs?|s', 1),
    ('milliseconds?|millis|msecs?|ms', 0.001),
)
_SPAN = re.compile(
    r'\s*'
    + r'\s*'.join(
        rf'(?:([\d.]+)\s*(?:{unit})\s*(?:[,/]\s*)?)?' for unit, _ in _TIMES[:6]
    )
    + r'\s*'
    + r'\s*'.join(rf'(?:([\d.]+)\s*(?:{unit}))?' for unit, _ in _TIMES[6:])
    + r'\s*'
)
_CLOCK = re.compile(
    r'\s*(?:([\d.]+)\s*(?:weeks?|wks?|w)\s*(?:[,/]\s*)?)?'
    r'\s*(?:([\d.]+)\s*(?:days?|dys?|d)\s*(?:[,/]\s*)?)?'
    r'\s*(\d+):(\d\d):(\d\d(?:\.\d+)?)\s*'
)
_SHORT_CLOCK = re.compile(r'\s*(\d\d?)?:(\d\d(?:\.\d+)?)\s*')
_LONG_CLOCK = re.compile(r'\s*(\d+):(\d\d):(\d\d):(\d\d(?:\.\d+)?)\s*')
_ANGLE = (
    r'[ ]*([+-]?\d+(?:\.\d+)?)'
    r"(?:[*\s][ ]*(?:(\d+(?:\.\d+)?)['m][ ]*)?"
    r'(?:(\d+(?:\.\d+)?)["s][ ]*)?)?'
)
_COMMA = r'\s*[,;/\s]\s*'
_POINT = re.compile(
    rf'.*?{_ANGLE}{_COMMA}{_ANGLE}'
    rf'(?:{_COMMA}[+-]?\d+(?:\.\d+)?[ ]*(?:km|m|mi|ft|nm|nmi))?\s*'
)


def number(value: Any) -> float:
  """A number, of digits or of English words.

  Raises:
    ValueError: it is none.
  """
  if isinstance(value, (int, float)):
    return float(value)
  text = _text(value)
  try:
    return float(text.replace(',', '').replace(' ', ''))
  except ValueError:
    return float(_spelt(text))


def _spelt(text: str) -> float:
  """The number that words spell; other words are passed over."""
  words = [
      word
      for word in text.replace('-', ' ').lower().split()
      if word in _WORDS or word in _SCALES or word in ('hundred', 'point')
  ]
  if not words:
    raise ValueError(f'{text!r} has no number.')
  digits = ''
  if 'point' in words:
    place = words.index('point')
    words, after = words[:place], words[place + 1 :]
    if all(_WORDS.get(word, 10) < 10 for word in after):
      digits = ''.join(str(_WORDS[word]) for word in after)
  total = group = 0
  largest = math.inf
  for word in words:
    if word in _SCALES:
      if _SCALES[word] >= largest:
        raise ValueError(f'{text!r} is no number.')
      largest = _SCALES[word]
      total, group = total + (group or len(words) == 1) * largest, 0
    elif word == 'hundred':
      group = (group or len(words) == 1) * 100
    else:
      group += _WORDS[word]
  return total + group + float(f'0.{digits}' if digits else 0)


def amount(value: Any) -> Decimal:
  """The first amount of money in a text; 'free' is 0.

  The last of `.` and `,` is the decimal mark, so '1,234' is 1.234 as there.

  Raises:
    ValueError: there is none.
  """
  if not value and not isinstance(value, (int, float)):
    raise ValueError('The amount is empty.')
  text = str(value)
  sign = -1 if text.startswith('-') else 1
  if sign < 0:
    text = text.replace('-', '')
  mark = '.' if text.rfind('.') > text.rfind(',') else ','
  match = re.search(r"\.?\d[\d\s.,']*(?![%\d])", ' '.join(text.split()))
  if match is None:
    if 'free' in text.lower():
      return Decimal(0)
    raise ValueError(f'{text!r} is no amount.')
  digits = match[0].rstrip(',.').replace("'", '')
  if digits.count('.') != 1:
    digits = digits.lstrip(',.')
  digits = digits.replace(' ', '').replace('.' if mark == ',' else ',', '')
  try:
    return sign * Decimal(str(float(Decimal(digits.replace(',', '.')))))
  except InvalidOperation as error:
    raise ValueError(f'{text!r} is no amount.') from error


def metres(value: Any) -> Decimal:
  """A distance with its unit, in metres; terms may be added.

  Raises:
    ValueError: it is none, or has no unit.
  """
  text = _text(value).replace(',', '').strip(' .~')
  text = re.sub(r'(\d)\s*k(?=\s|$)', r'\1 km', text)
  total = Decimal(0)
  for term in re.split(r'\s+\+\s+', text):
    match = _LENGTH.fullmatch(term)
    if match is None or match[2] not in _LENGTHS:
      raise ValueError(f'{text!r} is no distance.')
    total += Decimal(match[1]) * _LENGTHS[match[2]]
  return total


def seconds(value: Any) -> float:
  """A span of time with its units, or as a clock shows it, in seconds.

  Raises:
    ValueError: it is none, or has no unit.
  """
  text = re.sub(r'(\d+):(\d+)\s*hours?', r'\1h\2m', _text(value))
  if re.fullmatch(r'\s*[+-]?[\d._]+(e[+-]?\d+)?\s*', text):
    raise ValueError(f'{text!r} has no unit of time.')
  signed = re.fullmatch(r'\s*([+|-])?\s*(.*)', text, re.DOTALL)
  assert signed is not None  # any text has this form
  sign, text = signed.groups()
  span = _SPAN.fullmatch(text)
  if span and any(span.groups()):
    parts = zip(span.groups(), (each for _, each in _TIMES), strict=True)
  elif match := _SHORT_CLOCK.fullmatch(text):
    parts = zip(match.groups(), (60, 1), strict=True)
  elif match := _CLOCK.fullmatch(text):
    parts = zip(match.groups(), (7 * 86400, 86400, 3600, 60, 1), strict=True)
  elif match := _LONG_CLOCK.fullmatch(text):
    parts = zip(match.groups(), (86400, 3600, 60, 1), strict=True)
  else:
    raise ValueError(f'{text!r} is no span of time.')
  total = sum(float(part) * each for part, each in parts if part)
  return -total if sign == '-' else total


def day(value: Any) -> str:
  """A date as `YYYY-MM-DD`; the month comes first where it could be either.

  Raises:
    ValueError: it is none.
  """
  text = re.sub(',(?! )', ', ', _text(value))
  try:
    return dateutil.parse(text, dayfirst=False).date().isoformat()
  except OverflowError as error:
    raise ValueError(f'{text!r} is no date.') from error


def month(value: Any) -> str:
  """A month's English name.

  Raises:
    ValueError: it is none.
  """
  if isinstance(value, float) and not value.is_integer():
    raise ValueError(f'{value} is no month.')
  text = str(int(value)) if isinstance(value, (int, float)) else _text(value)
  try:
    place = int(text)
  except ValueError:
    first = datetime.datetime(2000, 1, 1)
    try:
      place = dateutil.parse(text, default=first).month
    except OverflowError as error:
      raise ValueError(f'{text!r} is no month.') from error
  if not 1 <= place <= 12:
    raise ValueError(f'{text!r} is no month.')
  return calendar.month_name[place]


def boolean(value: Any) -> bool:
  """True or false, yes or no, on or off, 1 or 0.

  Raises:
    ValueError: it is none of them.
  """
  if isinstance(value, (int, float)):
    return bool(value)
  text = _text(value)
  if text in ('true', 'yes', 'y', '1', 't', 'on'):
    return True
  if text in ('false', 'no', 'n', '0', 'f', 'off'):
    return False
  raise ValueError(f'{text!r} is neither true nor false.')


def point(value: Any) -> tuple[float, float]:
  """Latitude and longitude, in degrees.

  Args:
    value: a pair, an object with both under names such as `lat`, or a text.

  Raises:
    ValueError: it is none of them.
  """
  if isinstance(value, Mapping):
    pair = [
        next((value[key] for key in value if _names(key, name)), None)
        for name in ('latitude', 'longitude')
    ]
    if not all(any(_names(key, name) for key in value) for name in _AXES):
      raise ValueError('The point has no latitude and longitude.')
  elif isinstance(value, Sequence) and not isinstance(value, str):
    pair = list(value)
  else:
    match = _POINT.fullmatch(_text(value))
    if match is None:
      raise ValueError(f'{value!r} is no point.')
    groups = match.groups()
    pair = [_degrees(*groups[:3]), _degrees(*groups[3:])]
  if len(pair) != 2:
    raise ValueError(f'{value!r} is no point.')
  try:
    latitude, longitude = (float(x or 0.0) for x in pair)
  except TypeError as error:
    raise ValueError(f'{value!r} is no point.') from error
  if not (abs(latitude) <= 90 and math.isfinite(longitude)):
    raise ValueError(f'{value!r} is no point.')
  if abs(longitude) > 180:
    longitude = (longitude + 180) % 360 - 180
  return latitude, longitude


_AXES = ('latitude', 'longitude')


def _names(key: str, axis: str) -> bool:
  key = key.lower()
  return (
      len(key) >= 2 and axis.startswith(key) or (key, axis) == ('lng', _AXES[1])
  )


def _degrees(whole: str, minutes: str | None, parts: str | None) -> float:
  """Degrees; minutes and seconds count away from 0."""
  rest = float(minutes or 0) / 60 + float(parts or 0) / 3600
  return float(whole) + (-rest if whole.startswith('-') else rest)


def _text(value: Any) -> str:
  if not isinstance(value, str) or not value:
    raise ValueError(f'{value!r} is no text.')
  return value
