"""Experts of the pages with a calendar."""

import re

from agentrl.envs.web.situation import (
    Situation,
    Stuck,
    click,
    type_into,
)

_MONTHS = (
    'January', 'February', 'March', 'April', 'May', 'June', 'July', 'August',
    'September', 'October', 'November', 'December',
)  # fmt: skip


def _date(at: Situation) -> str:
  (date,) = at.find(r'Select (\S+) as the date')
  return _pick(at, date) or click(at.one('button', 'Submit'))


def _flight(at: Situation) -> str:
  wish, start, end, date = at.find(
      r'the (\w+) .* from: (.*) to: (.*) on (\S+)\.$'
  )
  if not at.has('button', 'Search'):
    return _best(at, wish)
  return (
      _place(at, 'From:', start)
      or _place(at, 'To:', end)
      or _pick(at, date)
      or click(at.one('button', 'Search'))
  )


def _pick(at: Situation, date: str) -> str | None:
  """The next command that chooses a date; None: it is chosen."""
  field = at.one('textbox', 'datepicker')
  if field.value == date:
    return None
  month, day, year = map(int, date.split('/'))
  shown = [x for x in at.all('StaticText') if x.name in _MONTHS]
  if not shown:
    return click(field)
  there = int(at.nodes[shown[0].number].name), _MONTHS.index(shown[0].name) + 1
  if there == (year, month):
    return click(at.one('link', str(day)))
  return click(at.one('link', 'Next' if there < (year, month) else 'Prev'))


def _place(at: Situation, field_name: str, place: str) -> str | None:
  """The next command that fills a field from its list; None: it is filled.

  Args:
    at: what is seen.
    field_name: of the field.
    place: a city, or the code of an airport.
  """
  field = at.one('textbox', field_name)
  if re.search(r'\([A-Z]{3}\)$', field.value):  # as the list writes them
    return None
  if field.value != place:
    return type_into(field, place)
  for node in at.after(at.one('button', 'Search')):
    city, _, code = node.name.rstrip(')').partition(' (')
    if place in (city, code):
      return click(node)
  raise Stuck(f'the list has no {place!r}.')


def _best(at: Situation, wish: str) -> str:
  """Books the cheapest or the shortest flight."""
  books = [x for x in at.all('button') if x.name.startswith('Book flight')]
  lengths = [x.name for x in at.nodes if re.fullmatch(r'\d+h \d+m', x.name)]

  def cost(k: int) -> list[int]:
    text = books[k].name if wish == 'cheapest' else lengths[k]
    return [int(x) for x in re.findall(r'\d+', text)]

  return click(books[min(range(len(books)), key=cost)])


EXPERTS = {
    'book-flight': _flight,
    'book-flight-nodelay': _flight,
    'choose-date': _date,
    'choose-date-easy': _date,
    'choose-date-medium': _date,
    'choose-date-nodelay': _date,
}
