"""Answers to questions, read by type: the whole answer must be of it.

A text that only holds the answer somewhere is none: whoever repeats a page has
answered nothing.
"""

import dataclasses
import datetime
import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

_NUMBER = re.compile(
    r'[-+]?(\d{1,3}(?P<mark>[, \'])\d{3}((?P=mark)\d{3})*|\d+)(\.\d+)?',
    re.ASCII,
)
_OF_FIVE = re.compile(r'( ?(/|(out )?of) ?5(\.0)?)?( ?(stars?|\u2605))?')
_AMOUNT = re.compile(
    r'(?P<sign>[-+]?)((usd|us) ?)?\$? ?(?P<number>[-+]?\d.*?)'
    r' ?(\$|us\$|usd|((us|u\.s\.) )?dollars?)?( usd)?'
)
_DATES = (
    '%Y-%m-%d', '%Y/%m/%d', '%Y.%m.%d', '%m/%d/%Y', '%m/%d/%y', '%B %d %Y',
    '%b %d %Y', '%d %B %Y', '%d %b %Y', '%d-%B-%Y', '%d-%b-%Y', '%Y %B %d',
    '%Y %b %d',
)  # fmt: skip
_WEEKDAY = re.compile(
    r'\(?\b(?P<day>mon|tue|wed|thu|fri|sat|sun)[a-z]*day\b\)?'
    r'|\(?\b(?P<short>mon|tues?|wed|thur?s?|fri|sat|sun)\b\.?\)?'
)
# Of the United States, where the sites are: the country's 1 may stand before.
_PHONE = re.compile(r'(\+?1[-. /]*)?\(?\d{3}\)?[-. /]*\d{3}[-. /]*\d{4}')
_QUOTES = '"\'`\u201c\u201d\u2018\u2019\u00ab\u00bb'
_EMPHASIS = re.compile(r'(\*\*|__|\*|_)(?=\S)(.+)(?<=\S)\1', re.DOTALL)
# Signs that look alike, and those that Markdown escapes.
_ALIKE = str.maketrans({
    '\u2019': "'", '\u2018': "'", '\u201c': '"', '\u201d': '"',
    '\u2010': '-', '\u2011': '-', '\u2012': '-', '\u2013': '-', '\u2014': '-',
    '\u2212': '-', '\u2026': '...',
})  # fmt: skip
_FENCE = re.compile(r'```\w*\s(.*?)\s?```', re.DOTALL)
_MARKS = (r';', r'\n', r',(?=\s)', r',', r'\s(?:-|\u2013|to)\s', r'\sand\s')
_BULLET = re.compile(
    r'(?:[-*+\u2022\u2013]|\(?(\d{1,3})[.):])\s+(.*)', re.DOTALL
)


class Answer(Protocol):
  """A right answer."""

  def accepts(self, answer: str) -> bool:
    """True if this is it."""

  def example(self) -> str:
    """One way to say it."""


@dataclasses.dataclass(frozen=True)
class Text:
  """Words, up to case, spaces, quotes, emphasis and a full stop at the end.

  The full stop of an initial ('Carla V.') belongs to the words; any other may
  be left out. Phone numbers are equal in whatever way they are grouped.

  Attributes:
    text: the words.
    aliases: other words that are as right.
  """

  text: str
  aliases: Sequence[str] = ()

  def accepts(self, answer: str) -> bool:
    forms = {_words(x) for x in _sentences(answer)}
    for text in (self.text, *self.aliases):
      plain = _words(_plain(text))
      right = {plain}
      if not re.search(r'\b\w\.$', plain):
        right.add(plain.removesuffix('.'))
      if right & forms:
        return True
      if not plain.isdecimal() and _PHONE.fullmatch(plain):
        if any(_phone(plain) == _phone(x) for x in forms):
          return True
    return False

  def example(self) -> str:
    return self.text


@dataclasses.dataclass(frozen=True)
class Number:
  """A number, exactly.

  Attributes:
    value: as digits, such as '4.5'. With a decimal point and no unit it is a
      rating, which may be said to be 'out of 5' or of 'stars'.
    unit: a word that may follow, such as 'reviews'.
  """

  value: str
  unit: str = ''

  def accepts(self, answer: str) -> bool:
    return any(
        _decimal(x) == Decimal(self.value)
        for text in _sentences(answer)
        for x in self._bare(re.sub(r'^(minus|negative) (?=\d)', '-', text))
    )

  def _bare(self, text: str) -> Sequence[str]:
    """The text, and what it is without a unit."""
    if not self.unit and '.' in self.value:
      match = re.match(r'[-+\d,.]+', text)
      if match and _OF_FIVE.fullmatch(text, match.end()):
        return (match[0],)
      return (text,)
    number, _, word = text.rpartition(' ')
    if word and self.unit.lower() in (word, f'{word}s'):
      return text, number
    return (text,)

  def example(self) -> str:
    return self.value


@dataclasses.dataclass(frozen=True)
class Money:
  """An amount of dollars, exactly.

  Attributes:
    cents: of them.
  """

  cents: int

  def accepts(self, answer: str) -> bool:
    for text in _sentences(answer):
      match = _AMOUNT.fullmatch(text)
      if match and _decimal(match['sign'] + match['number']) == (
          Decimal(self.cents) / 100
      ):
        return True
    return False

  def example(self) -> str:
    return f'${self.cents / 100:,.2f}'


@dataclasses.dataclass(frozen=True)
class Date:
  """A day; a day of the week that is said with it must be its own.

  Attributes:
    day: as `YYYY-MM-DD`.
  """

  day: str

  def accepts(self, answer: str) -> bool:
    text = re.sub(r'(\d)(st|nd|rd|th)\b', r'\1', _sentences(answer)[-1])
    weekday = _WEEKDAY.search(text)
    if weekday:
      text = text[: weekday.start()] + ' ' + text[weekday.end() :]
    text = re.sub(r'\b(the|of)\b|,', ' ', text)
    text = re.sub(r'\b([a-z]{3})t?\.', r'\1', text)  # 'Jan.', 'Sept.'
    text = ' '.join(text.split())
    for form in _DATES:
      try:
        date = datetime.datetime.strptime(text, form).date()
      except ValueError:
        continue
      name = (weekday['day'] or weekday['short'])[:3] if weekday else ''
      return date.isoformat() == self.day and (
          date.strftime('%A').lower().startswith(name)
      )
    return False

  def example(self) -> str:
    return self.day


@dataclasses.dataclass(frozen=True)
class Several:
  """A list: JSON, or items between semicolons, lines, commas or 'and'.

  Items may be numbered or have bullets.

  Attributes:
    items: all of them.
    ordered: whether their order counts.
  """

  items: Sequence[Answer]
  ordered: bool = False

  def accepts(self, answer: str) -> bool:
    return any(self._are(items) for items in _splits(answer))

  def _are(self, texts: Sequence[str]) -> bool:
    if len(texts) != len(self.items):
      return False
    if self.ordered:
      return all(
          item.accepts(x) for item, x in zip(self.items, texts, strict=True)
      )
    left = list(texts)
    for item in self.items:
      match = next((x for x in left if item.accepts(x)), None)
      if match is None:
        return False
      left.remove(match)
    return True

  def example(self) -> str:
    return '; '.join(item.example() for item in self.items)


def _plain(text: str) -> str:
  """A text in small letters, without quotes and emphasis around it."""
  text = ' '.join(text.translate(_ALIKE).split()).lower()
  while True:
    before = text
    text = text.strip(_QUOTES).strip()
    match = _EMPHASIS.fullmatch(text)
    text = match[2] if match else text
    if text == before:
      return text


def _sentences(text: str) -> Sequence[str]:
  """The plain text, and the one without a full stop at its end."""
  text = _plain(text)
  return text, _plain(text.removesuffix('.'))


def _words(text: str) -> str:
  """A plain text without what is written in one way or another."""
  text = text.replace(' & ', ' and ')
  return re.sub(r'(?<=\d) (?=[a-z])', '', text)  # '256 GB'


def _phone(text: str) -> str | None:
  """The ten digits of a phone number; None: it is none."""
  if not _PHONE.fullmatch(text):
    return None
  return re.sub(r'\D', '', text)[-10:]


def _decimal(text: str) -> Decimal | None:
  if not _NUMBER.fullmatch(text):
    return None
  return Decimal(re.sub("[, ']", '', text))


def _splits(answer: str) -> list[list[str]]:
  """The ways to read a list."""
  fenced = _FENCE.fullmatch(answer.strip())
  answer = fenced[1] if fenced else answer
  try:
    value = json.loads(answer)
  except (ValueError, RecursionError):
    value = None
  if isinstance(value, list):
    return [[str(x) for x in value]]
  ways = [[answer]]
  for mark in _MARKS:
    items = [x.strip() for x in re.split(mark, answer) if x.strip()]
    ways.append(items)
    if len(items) > 1:  # 'a, b and c', 'a, b, and c'
      *most, last = items
      ways.append([*most, *filter(None, re.split(r'(?:^|\s+)and\s+', last))])
  return [y for x in ways for y in (x, _unmarked(x)) if y]


def _unmarked(items: Sequence[str]) -> list[str] | None:
  """Items without bullets, or numbers from 1; None: they have none."""
  matches = [x for x in map(_BULLET.fullmatch, items) if x]
  if len(matches) < len(items):
    return None
  numbers = [x[1] for x in matches]
  if any(numbers) and numbers != [str(k + 1) for k in range(len(items))]:
    return None
  return [x[2].rstrip(',;') for x in matches]
