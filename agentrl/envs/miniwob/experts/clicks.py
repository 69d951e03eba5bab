"""Experts of buttons, links, tabs, dialogs, numbers and a calendar."""

import re

from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import (
    Situation,
    Stuck,
    click,
    hover,
    type_into,
)

# --- buttons


def _only_button(at: Situation) -> str:
  return click(at.one('button'))


def _quoted_button(at: Situation) -> str:
  (name,) = at.find('"(.*)" button')
  return click(at.one('button', name))


def _button_sequence(at: Situation) -> str:
  names = re.findall(r'button (\w+)', at.objective)
  return click(at.one('button', names[len(at.past)]))


def _button_delay(at: Situation) -> str:
  first, seconds, second = at.find(
      r'button (\w+), wait (\d+) seconds, then click button (\w+)'
  )
  if not at.past:
    return click(at.one('button', first))
  # Each command lets one second pass.
  if len(at.past) < int(seconds):
    return hover(at.one('button', first))
  return click(at.one('button', second))


def _dialog(at: Situation) -> str:
  return click(at.one('button', 'Close'))


def _dialog_button(at: Situation) -> str:
  (name,) = at.find('labeled "(.*)"')
  return click(at.one('button', 'Close' if name == 'x' else name))


def _widget(at: Situation) -> str:
  (kind,) = at.find('a "(.*)" widget')
  if kind not in ('text', 'textarea'):
    return click(at.one(kind))
  for node in at.all('textbox'):
    if (node.state('multiline') == 'true') == (kind == 'textarea'):
      return click(node)
  raise Stuck(f'there is no {kind}.')


# --- links in sections


def _link(at: Situation) -> str:
  """Clicks on a word; opens section after section where it is not shown."""
  (word,) = at.find('link "(.*)"')
  sections = at.all('tab')
  opened = [k for k, tab in enumerate(sections) if _expanded(tab)]
  # The word may stand there as mere text, too: try one after the other. A
  # section that was just opened has the focus.
  words = [click(node) for node in at.all('StaticText', word)]
  tried = 0
  if not any(node.state('focused') for node in at.nodes[1:]):
    for k in range(1, len(words) + 1):
      if list(at.past[-k:]) == words[:k]:
        tried = k
  if tried < len(words):
    return words[tried]
  following = opened[-1] + 1 if opened else 0
  if following >= len(sections):
    raise Stuck(f'there is no {word!r}.')
  return click(sections[following])


def _tab(at: Situation) -> str:
  (name,) = at.find(r'(Tab #\d+)')
  return click(at.one('link', name))


def _collapsible(at: Situation) -> str:
  section = at.one('tab')
  return click(at.one('button', 'Submit') if _expanded(section) else section)


def _expanded(node: Node) -> bool:
  return node.state('expanded') == 'true'


def _tree(at: Situation) -> str:
  (name,) = at.find('named "(.*)"')
  for node in at.all('StaticText', name):
    return click(node)
  for node in at.all('clickable'):
    # The last folder of another has a class more.
    if node.name.startswith('hitarea expandable-hitarea'):
      return click(node)
  raise Stuck(f'no folder is left that may hold {name!r}.')


# --- shapes


def _ascending(at: Situation) -> str:
  for node in at.all('StaticText', '1'):
    return click(node)
  return click(at.one('graphics-symbol', 'rect'))  # in the order of numbers


def _pie(at: Situation) -> str:
  (name,) = at.find('labeled "(.*)"')
  for plus in at.all('StaticText', '+'):
    return click(plus)
  return click(at.one('StaticText', name))


def _grid(at: Situation) -> str:
  (point,) = at.find(r'(\(-?\d,-?\d\))')
  return click(at.text(point))


# --- numbers


def _greatest(at: Situation) -> str:
  if at.past:
    return click(at.one('button', 'Submit'))
  return click(max(at.all('StaticText'), key=lambda node: int(node.name)))


def _parity(at: Situation) -> str:
  for odd, number, even in zip(
      at.all('button', 'Odd'),
      at.all('StaticText'),
      at.all('button', 'Even'),
      strict=True,
  ):
    wanted = click(odd if int(number.name) % 2 else even)
    if wanted not in at.past:
      return wanted
  return click(at.one('button', 'Submit'))


def _guess(at: Situation) -> str:
  low, high = 0, 9
  guesses = [int(re.findall(r'\[(\d+)\]', x)[1]) for x in at.past]
  if guesses:
    *earlier, last = guesses
    # Where the later guess is greater, the number was.
    low = max([guess + 1 for guess in earlier if guess < last], default=low)
    high = min([guess - 1 for guess in earlier if guess > last], default=high)
    text = ' '.join(node.name for node in at.all('StaticText'))
    if 'higher than' in text:
      low = last + 1
    else:
      high = last - 1
  field = at.one('spinbutton')
  return type_into(field, str((low + high) // 2), enter=True)


def _stock(at: Situation) -> str:
  (limit,) = at.find(r'less than \$([\d.]+)\.')
  buy = at.one('button', 'Buy')
  for node in at.all('StaticText'):
    price = re.fullmatch(r'\$([\d.]+)', node.name)
    if price:
      return click(buy) if float(price[1]) < float(limit) else hover(buy)
  raise Stuck('the market has closed.')


# Rows of four boxes, from the top.
_DIGITS = (
    '.##. #..# #..# #..# #..# #..# .##.',
    '..#. .##. ..#. ..#. ..#. ..#. ..#.',
    '.##. #..# #..# ..#. .#.. #... ####',
    '.##. #..# ...# .##. ...# #..# .##.',
    '#... #.#. #.#. #### ..#. ..#. ..#.',
    '#### #... #... ###. ...# #..# .##.',
    '.##. #..# #... ###. #..# #..# .##.',
    '#### #..# ...# ..#. ..#. .#.. .#..',
    '.##. #..# #..# .##. #..# #..# .##.',
    '.##. #..# #..# .### ...# #..# .##.',
)


def _draw_digit(at: Situation) -> str:
  (digit,) = at.find('number "(.)"')
  pattern = _DIGITS[int(digit)].replace(' ', '')
  for box, mark in zip(at.all('checkbox'), pattern, strict=True):
    if (mark == '#') != (box.state('checked') == 'true'):
      return click(box)
  return click(at.one('button', 'Submit'))


# --- a calendar

_TIME = r'(\d+)(:30)?(am|pm)'


def _calendar(at: Situation) -> str:
  """Marks a span by clicks on its first and on its last half hour.

  Other events may cover these; where they are, the page does not tell. One
  lasts 1.5 hours at most, so that either the beginning or the end of the wanted
  window is free.
  """
  length, unit, name, start, end = at.find(
      r'Create a ([\d.]+) (hour|min)s? event named "(.*)", between (\w+) and'
      r' (\w+)'
  )
  size = int(2 * float(length)) if unit == 'hour' else int(length) // 30
  first, beyond = _half_hour(start), _half_hour(end)
  for field in at.all('textbox'):
    begin, close = (
        _half_hour(node.name)
        for node in at.after(field)
        if re.fullmatch(_TIME, node.name)
    )
    if close - begin != size or not first <= begin <= close <= beyond:
      return click(at.one('button', 'Cancel'))
    if field.value != name:
      return type_into(field, name)
    return click(at.one('button', 'Create'))
  spans = [(first, first + size - 1), (beyond - size, beyond - 1)]
  halves = [click(at.text(f'hh-{k}')) for span in spans for k in span]
  marks = [x for x in at.past if x in halves]
  if len(marks) < 2:
    return halves[len(marks)]
  # The first span was covered. A click in it may have begun a span that this
  # one ends: that is cancelled.
  return halves[3] if at.past[-1] == halves[2] else halves[2]


def _half_hour(time: str) -> int:
  """Number of half hours from midnight to a time such as 4PM or 4:30pm."""
  match = re.fullmatch(_TIME, time.lower())
  assert match is not None  # the page writes its times like this
  hour, half, noon = match.groups()
  return 2 * (int(hour) % 12 + 12 * (noon == 'pm')) + bool(half)


EXPERTS = {
    'ascending-numbers': _ascending,
    'button-delay': _button_delay,
    'click-button': _quoted_button,
    'click-button-sequence': _button_sequence,
    'click-collapsible': _collapsible,
    'click-collapsible-2': _link,
    'click-collapsible-2-nodelay': _link,
    'click-collapsible-nodelay': _collapsible,
    'click-dialog': _dialog,
    'click-dialog-2': _dialog_button,
    'click-link': _link,
    'click-pie': _pie,
    'click-tab': _tab,
    'click-tab-2': _link,
    'click-tab-2-easy': _link,
    'click-tab-2-hard': _link,
    'click-tab-2-medium': _link,
    'click-test': _only_button,
    'click-test-2': _button_sequence,
    'click-test-transfer': _button_sequence,
    'click-widget': _widget,
    'daily-calendar': _calendar,
    'find-greatest': _greatest,
    'grid-coordinate': _grid,
    'guess-number': _guess,
    'navigate-tree': _tree,
    'number-checkboxes': _draw_digit,
    'odd-or-even': _parity,
    'stock-market': _stock,
    'unicode-test': _quoted_button,
}
