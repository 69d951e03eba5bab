"""Experts of the pages with forms, tables and lists of results."""

from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import (
    Situation,
    Stuck,
    click,
    fill,
    press,
    type_into,
)

# Label of a field, in any of the layouts -> what it asks for.
_MOVIE = {
    'Genre': 'genre',
    'Movie Genre': 'genre',
    'Director': 'director',
    'Director Name': 'director',
    'Year': 'year',
    'Released Date': 'year',
}
_RESULTS = 3  # on a page of the search engine


def _date(at: Situation) -> str:
  month, day, year = at.find(r'(\d+)/(\d+)/(\d+)')
  if at.one('Date').value == f'{year}-{month}-{day}':
    return click(at.one('button', 'Submit'))
  # The cursor moves on as a part is full.
  return type_into(at.one('spinbutton', 'Month'), f'{month}{day}{year}')


def _time(at: Situation) -> str:
  hour, minute, half = at.find(r'(\d+):(\d+)\s+([AP]M)')
  value = f'{int(hour) % 12 + 12 * (half == "PM"):02}:{minute}'
  if at.one('InputTime').value == value:
    return click(at.one('button', 'Submit'))
  hours = at.one('spinbutton', 'Hours')
  return type_into(hours, f'{hour:0>2}{minute}{half}')


def _slider_and_box(at: Situation) -> str:
  value, place = at.find(r'Select (-?\d+) .* the (\d+)\w\w checkbox')
  move = _slide(at, at.one('clickable', 'slider'), int(value), coarse=2)
  if move:
    return move
  box = at.nth('checkbox', int(place))
  if box.state('checked') != 'true':
    return click(box)
  return click(at.one('button', 'Submit'))


def _radio_and_text(at: Situation) -> str:
  place, text, box = at.find(
      r'the (\d+)\w\w radio .* number "(.*)" into the (\d+)\w\w textbox'
  )
  radio = at.nth('radio', int(place))
  if radio.state('checked') != 'true':
    return click(radio)
  field = at.nth('textbox', int(box))
  return fill([(field, text)], at.one('button', 'Submit'))


def _option_and_button(at: Situation) -> str:
  option, button = at.find('Choose (.*) from .* labeled "(.*)"')
  chosen = at.one('option', option)
  # The page's own list, which covers the buttons; a click closes it.
  for node in at.after(at.one('StaticText', '▾')):
    if (node.role, node.name) == ('StaticText', option):
      return click(node)
  if chosen.state('selected') != 'true':
    return click(chosen)
  return click(at.one('button', button))


def _movie(at: Situation) -> str:
  names = 'genre', 'director', 'year'
  texts = at.find('for (.*) movies directed by (.*) from year (.*)[.]')
  values = dict(zip(names, texts, strict=True))
  # Labels stand before their fields or after them, in the same order.
  labels = [node.name.rstrip(':') for node in at.nodes]
  entries = [values[_MOVIE[label]] for label in labels if label in _MOVIE]
  fields = at.all('textbox')
  if len(entries) != len(fields):
    raise Stuck(f'{len(fields)} fields have {len(entries)} labels.')
  return fill(zip(fields, entries, strict=True), at.nodes[-1])


def _number(at: Situation) -> str:
  shown = at.one('StaticText').name
  if shown != '-' and _suits(int(shown), at.objective):
    return click(at.one('button', 'Submit'))
  return click(at.one('button', 'Generate'))


def _suits(number: int, objective: str) -> bool:
  bound = int(''.join(c for c in objective if c.isdigit()) or 0)
  if 'less' in objective:
    return number < bound
  if 'greater' in objective:
    return number > bound
  return number % 2 == (1 if 'odd' in objective else 0)


def _suggested(at: Situation) -> str:
  start, _, end = at.find('starts with "(.*?)"( and ends with "(.*)")?')
  end = end or ''
  suits = lambda text: text.startswith(start) and text.endswith(end)
  field, submit = at.one('textbox'), at.one('button', 'Submit')
  for node in at.after(submit):
    # Deeper is the status, which repeats what was chosen.
    if node.depth == submit.depth and suits(node.name):
      return click(node)
  return click(submit) if suits(field.value) else type_into(field, start)


def _slider(at: Situation) -> str:
  (value,) = at.find(r'Select (-?\d+) with')
  # Page keys go a fifth of the way, at most 20.
  move = _slide(at, at.one('clickable', 'slider'), int(value), coarse=10)
  return move or click(at.one('button', 'Submit'))


def _sliders(at: Situation) -> str:
  values = at.find(r'\[(-?\d+),(-?\d+),(-?\d+)\]')
  for place, value in enumerate(values, start=1):
    slider = at.one('clickable', f'slider-{place}')
    move = _slide(at, slider, int(value), coarse=2)
    if move:
      return move
  return click(at.one('button', 'Submit'))


def _spinner(at: Situation) -> str:
  (value,) = at.find(r'Select (-?\d+) with')
  spinner = at.one('spinbutton')
  gap = int(value) - int(spinner.value)
  if gap == 0:
    return click(at.one('button', 'Submit'))
  if spinner.state('focused') is None:
    return click(spinner)
  return _step(gap, coarse=5)


def _slide(
    at: Situation, slider: Node, value: int, *, coarse: int
) -> str | None:
  """The next command on a slider's way; None: it is there."""
  gap = value - int(at.following(slider, 'StaticText').name)
  if gap == 0:
    return None
  clicks = [command for command in at.past if command.startswith('click')]
  if clicks[-1:] != [click(slider)]:  # which gives it the keys
    return click(slider)
  return _step(gap, coarse=coarse)


def _step(gap: int, *, coarse: int) -> str:
  """The key on the way to a value.

  Args:
    gap: to the value.
    coarse: half of a page key's step: of a smaller gap that would make more.
  """
  key = 'Page' if abs(gap) > coarse else 'Arrow'
  return press(f'{key}{"Up" if gap > 0 else "Down"}')


def _search(at: Situation) -> str:
  text, place = at.find(r'enter "(.*)" and .* click the (\d+)\w\w search')
  page, row = divmod(int(place) - 1, _RESULTS)
  search = at.one('button', 'Search')
  if at.one('textbox').value != text or at.since(click(search)) is None:
    return fill([(at.one('textbox'), text)], search)
  link = at.one('link', str(page + 1))
  if page > 0 and at.since(click(link)) != ():
    return click(link)
  return click(at.nth('link', row + 1))


def _cells(at: Situation) -> dict[str, str]:
  """A table of two columns."""
  names = [node.name for node in at.all('cell')]
  return dict(zip(names[::2], names[1::2], strict=True))


def _table(at: Situation) -> str:
  (label,) = at.find('the value of (.*) into')
  field = at.one('textbox')
  return fill([(field, _cells(at)[label])], at.one('button', 'Submit'))


def _table_to_form(at: Situation) -> str:
  cells = _cells(at)
  texts = [
      (at.following(node, 'textbox'), cells[node.name.rstrip(':')])
      for node in at.all('StaticText')
      if node.name.endswith(':')
  ]
  return fill(texts, at.one('button', 'Submit'))


def _contact(at: Situation) -> str:
  name, kind = at.find(r'Find (.*) in the .* on their (\w+)')
  if not at.all('heading', name):
    return click(at.one('link', '>'))
  label = at.text(f'{kind.capitalize()}:')
  return click(at.following(label, 'link'))


EXPERTS = {
    'enter-date': _date,
    'enter-time': _time,
    'form-sequence': _slider_and_box,
    'form-sequence-2': _radio_and_text,
    'form-sequence-3': _option_and_button,
    'generate-number': _number,
    'multi-layouts': _movie,
    'multi-orderings': _movie,
    'phone-book': _contact,
    'read-table': _table,
    'read-table-2': _table_to_form,
    'search-engine': _search,
    'use-autocomplete': _suggested,
    'use-autocomplete-nodelay': _suggested,
    'use-slider': _slider,
    'use-slider-2': _sliders,
    'use-spinner': _spinner,
}
