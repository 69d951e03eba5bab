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

_NUMBER = re.compile(r'[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?', re.ASCII)
_DATES = (
    '%Y-%m-%d', '%m/%d/%Y', '%m/%d/%y', '%B %d, %Y', '%b %d, %Y', '%d %B %Y',
    '%d %b %Y', '%B %d %Y', '%b %d %Y',
)  # fmt: skip
_QUOTES = '"\'`\u201c\u201d\u2018\u2019'


class Answer(Protocol):
  """A right answer."""

  def accepts(self, said: str) -> bool:
    """True if this is it."""

  def example(self) -> str:
    """One way to say it."""


@dataclasses.dataclass(frozen=True)
class Text:
  """Words, up to case, spaces, quotes and a full stop at the end.

  Attributes:
    text: the words.
    aliases: other words that are as right.
  """

  text: str
  aliases: Sequence[str] = ()

  def accepts(self, said: str) -> bool:
    return _plain(said) in {_plain(x) for x in (self.text, *self.aliases)}

  def example(self) -> str:
    return self.text


@dataclasses.dataclass(frozen=True)
class Number:
  """A number, exactly.

  Attributes:
    value: as digits, such as '4.5'.
    unit: a word that may follow, such as 'reviews'.
  """

  value: str
  unit: str = ''

  def accepts(self, said: str) -> bool:
    text = _plain(said)
    unit = self.unit.lower()
    for word in (unit, unit.removesuffix('s')):
      if word:
        text = text.removesuffix(f' {word}')
    return _decimal(text) == Decimal(self.value)

  def example(self) -> str:
    return self.value


@dataclasses.dataclass(frozen=True)
class Money:
  """An amount of dollars, exactly.

  Attributes:
    cents: of them.
  """

  cents: int

  def accepts(self, said: str) -> bool:
    text = re.sub(r'^(us)?\$\s*|\s*(usd|dollars)$', '', _plain(said))
    return _decimal(text) == Decimal(self.cents) / 100

  def example(self) -> str:
    return f'${self.cents / 100:,.2f}'


@dataclasses.dataclass(frozen=True)
class Date:
  """A day.

  Attributes:
    day: as `YYYY-MM-DD`.
  """

  day: str

  def accepts(self, said: str) -> bool:
    text = re.sub(r'(\d)(st|nd|rd|th)\b', r'\1', _plain(said))
    for form in _DATES:
      try:
        found = datetime.datetime.strptime(text, form)
      except ValueError:
        continue
      return found.date().isoformat() == self.day
    return False

  def example(self) -> str:
    return self.day


@dataclasses.dataclass(frozen=True)
class Several:
  """A list: JSON, or items between semicolons, lines or, else, commas.

  Attributes:
    items: all of them.
    ordered: whether their order counts.
  """

  items: Sequence[Answer]
  ordered: bool = False

  def accepts(self, said: str) -> bool:
    return any(self._are(items) for items in _splits(said))

  def _are(self, said: Sequence[str]) -> bool:
    if len(said) != len(self.items):
      return False
    if self.ordered:
      return all(
          item.accepts(x) for item, x in zip(self.items, said, strict=True)
      )
    left = list(said)
    for item in self.items:
      found = next((x for x in left if item.accepts(x)), None)
      if found is None:
        return False
      left.remove(found)
    return True

  def example(self) -> str:
    return '; '.join(item.example() for item in self.items)


def _plain(text: str) -> str:
  text = ' '.join(text.split()).strip(_QUOTES).removesuffix('.')
  return text.strip(_QUOTES).strip().lower().replace('\u2019', "'")


def _decimal(text: str) -> Decimal | None:
  if not _NUMBER.fullmatch(text):
    return None
  return Decimal(text.replace(',', ''))


def _splits(said: str) -> list[list[str]]:
  """The ways to read a list."""
  try:
    found = json.loads(said)
  except ValueError:
    found = None
  if isinstance(found, list):
    return [[str(x) for x in found]]
  ways = []
  for mark in (';', '\n', ','):
    if mark in said:
      ways.append([x.strip() for x in said.split(mark) if x.strip()])
  return ways or [[said]]
