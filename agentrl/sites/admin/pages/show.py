"""Values as the administration's pages show them, and as its forms take them."""

import datetime
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from agentrl.sites.site import Visit, Wrong

ENABLED = {'enabled': 'Enabled', 'disabled': 'Disabled'}
_DATES = ('%Y-%m-%d', '%m/%d/%Y', '%m/%d/%y')


def money(cents: int | None) -> str:
  """An amount, such as '$1,234.50'."""
  if cents is None:
    return ''
  return f'{"-" if cents < 0 else ""}${abs(cents) / 100:,.2f}'


def when(stamp: str | None) -> str:
  """A time, such as 'Jun 15, 2023 12:00:00 PM', or a day."""
  if not stamp:
    return ''
  then = datetime.datetime.fromisoformat(stamp)
  form = '%b %-d, %Y' if len(stamp) == 10 else '%b %-d, %Y %-I:%M:%S %p'
  return then.strftime(form)


def number(key: int) -> str:
  """The number of an order or of a paper: nine digits."""
  return f'{key:09d}'


def cents(text: str, label: str) -> int:
  """An amount that was typed, such as '$1,234.5'.

  Raises:
    Wrong: it is none.
  """
  plain = text.strip().removeprefix('$').replace(',', '')
  try:
    amount = Decimal(plain)
  except InvalidOperation:
    amount = Decimal(-1)
  if not re.fullmatch(r'\d{0,9}(\.\d{0,2})?', plain) or not 0 <= amount:
    raise Wrong(f'{label} must be an amount such as 19.99.')
  return int(amount * 100)


def whole(text: str, label: str) -> int:
  """A whole number that was typed.

  Raises:
    Wrong: it is none, or has more than nine digits.
  """
  text = text.strip()
  if not re.fullmatch(r'[0-9]{1,9}', text):
    raise Wrong(f'{label} must be a whole number.')
  return int(text)


def day(text: str, label: str) -> str:
  """A day that was typed, as `YYYY-MM-DD`.

  Raises:
    Wrong: it is none.
  """
  for form in _DATES:
    try:
      return datetime.datetime.strptime(text.strip(), form).date().isoformat()
    except ValueError:
      continue
  raise Wrong(f'{label} must be a date such as 2023-06-15.')


def choice(visit: Visit, name: str, choices: tuple[str, ...]) -> str:
  """A field of the form that must be one of these.

  Raises:
    Wrong: it is another.
  """
  value = visit.form.get(name, '')
  if value not in choices:
    raise Wrong(f'{name.replace("_", " ").capitalize()} must be chosen.')
  return value


def enabled(visit: Visit) -> int:
  """1 if the status of the form is 'enabled', 0 if it is 'disabled'.

  Raises:
    Wrong: it is another.
  """
  return int(choice(visit, 'status', tuple(ENABLED)) == 'enabled')


FILTERS: Mapping[str, Callable[..., Any]] = {
    'money': money,
    'when': when,
    'number': number,
}
