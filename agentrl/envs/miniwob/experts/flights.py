"""Expert of an airline's pages; their objective is JSON.

Of the four, flight.Alaska and flight.AA have none: people filled in the forms
that they are held against, with one airport of a city or another, and with
slips.
"""

import json
import re

from agentrl.envs.web.situation import (
    Situation,
    Stuck,
    click,
    type_into,
)

# The list has two of them.
_STATES = {'Portland': 'OR', 'Washington': 'DC'}


def _search(at: Situation) -> str:
  wish = json.loads(at.objective)
  if at.has('StaticText', 'DONE'):
    return _pick(at, wish)
  if 'Returning Day' not in wish and at.has('textbox', 'Return'):
    return click(at.text('One-way'))
  return (
      _place(at, 'From', wish['Departure City'])
      or _place(at, 'To', wish['Destination City'])
      or _open(at, wish)
      or _seats(at, wish)
      or click(at.one('button', 'Find Flights'))
  )


def _place(at: Situation, field_name: str, city: str) -> str | None:
  """The next command that fills a field from its list; None: it is filled."""
  field = at.one('textbox', field_name)
  if field.value.endswith(')'):  # as the list writes them
    return None
  city = city.removesuffix(' DC')
  if field.value != city:
    return type_into(field, city)
  state = _STATES.get(city, '[A-Z]{2}')
  for node in at.after(field):
    if re.match(rf'{city}, {state} \(', node.name):
      return click(node)
  raise Stuck(f'the list has no {city!r}.')


def _date(wish: dict, day: str) -> str:
  return f'3/{wish[day]}/2017'  # the month that the calendar opens with


def _open(at: Situation, wish: dict) -> str | None:
  """Opens the calendar of a date that is wrong; None: both are right."""
  for name, day in (('Depart', 'Departure Day'), ('Return', 'Returning Day')):
    if day not in wish:
      continue
    field = at.one('textbox', name)
    if field.value != _date(wish, day):
      return click(field)
  return None


def _pick(at: Situation, wish: dict) -> str:
  """Chooses a date in the calendar that is open."""
  returns = at.has('StaticText', 'return')
  day = 'Returning Day' if returns else 'Departure Day'
  field = at.one('textbox', 'Return' if returns else 'Depart')
  if field.value == _date(wish, day):
    return click(at.one('StaticText', 'DONE'))
  return click(at.one('link', str(wish[day])))


def _seats(at: Situation, wish: dict) -> str | None:
  """The next command for passengers and cabin; None: they are right."""
  minus = at.one('StaticText', '-')
  if int(at.nodes[minus.number].name) < wish['Passengers']:
    return click(at.one('StaticText', '+'))
  if wish.get('Seat type') == 'First':
    if not at.has('radio', 'First'):
      return click(at.one('heading', 'More search options'))
    if at.one('radio', 'First').state('checked') != 'true':
      return click(at.one('StaticText', 'First'))
  return None


EXPERTS = {
    'flight.Alaska-auto': _search,
    'flight.Alaska-auto-medium': _search,
}
