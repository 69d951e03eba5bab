"""Experts of check boxes, lists, menus and orders."""

import re
from collections.abc import Collection, Iterator

from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import Situation, click, hover

# Words that mean the same, as click-checkboxes-soft has them.
_SYNONYMS = tuple(frozenset(line.split()) for line in """
        big large huge enormous gigantic
        small tiny little mini petite
        red scarlet crimson vermillion
        happy cheerful joyful gleeful delighted
        sad unhappy sorrowful miserable tragic
        angry mad furious irritated
        evil wicked immoral sinful corrupt depraved
        wrong incorrect mistaken erroneous
        real genuine actual
        strange odd peculiar unusual weird
        stop cease halt end finish
        scared terrified panicked fearful frightened afraid
        quiet calm peaceful serene mild
        old aged archaic
        love like adore favor
        kill murder assassinate
        keep retain preserve sustain maintain
        hide conceal camouflage
        hate despise loathe detest dislike
        funny humorous amusing comical laughable
        fat fleshy plump chubby
        stupid dumb dull unwise
        delicious savory delectable appetizing
        cut slice carve chop
        brave courageous fearless
        begin start initiate launch
        answer reply response
        television televisions TV TVs
        house home houses homes
        fire flame fires flames
        pig pork swine
        rabbit rabbits bunny bunnies
        car cars automobile automobiles vehicle vehicles
        water
    """.strip().splitlines())


# --- check boxes and lists


def _boxes(at: Situation) -> str:
  (names,) = at.find('Select (.*) and click Submit')
  return _choose(at, 'checkbox', 'checked', names.split(', '))


def _similar_boxes(at: Situation) -> str:
  (names,) = at.find('similar to (.*) and click Submit')
  wanted = {
      word
      for name in names.split(', ')
      for group in _SYNONYMS
      if name in group
      for word in group
  }
  return _choose(at, 'checkbox', 'checked', wanted)


def _option(at: Situation) -> str:
  (name,) = at.find('Select (.*) and click Submit')
  return _choose(at, 'radio', 'checked', (name,))


def _list(at: Situation) -> str:
  (names,) = at.find('Select (.*) from the (?:scroll )?list')
  return _choose(at, 'option', 'selected', names.split(', '))


def _choose(
    at: Situation, role: str, state: str, wanted: Collection[str]
) -> str:
  """Clicks on the nodes of a role whose state is not as wanted, then submits.

  Args:
    at: what is seen.
    role: of the nodes.
    state: that a chosen node has as 'true'.
    wanted: names of those to choose.
  """
  nodes = at.all(role)
  # Added first: of nodes that exclude each other, the former one goes itself.
  for node in sorted(nodes, key=lambda node: node.name not in wanted):
    if (node.name in wanted) != (node.state(state) == 'true'):
      return click(node)
  return click(at.one('button', 'Submit'))


# --- menus


def _menu(at: Situation) -> str:
  (path,) = at.find('Select (.*)')
  *menus, item = path.split('>')
  for node in at.all('menuitem', item):
    return click(node)
  for menu in reversed(menus):
    for node in at.all('menuitem', menu):
      return hover(node)  # a click would choose it
  return hover(at.one('menuitem', item))


# --- orders


def _order_food(at: Situation) -> str:
  named = re.fullmatch('Order one of each item: (.*)', at.objective)
  if named:
    wanted = named[1].split(', ')
    for dish in _dishes(at):
      if dish[0].name in wanted and not _quantity(dish):
        return click(dish[-1])
    return click(at.one('button', 'Order!'))
  number, kind = at.find(r'Order (\d+) items that are (.*)')
  if sum(map(_quantity, _dishes(at))) == int(number):
    return click(at.one('button', 'Order!'))
  for dish in _dishes(at):
    if any((node.role, node.name) == ('image', kind) for node in dish):
      return click(dish[-1])
  return click(at.one('image', kind))


def _dishes(at: Situation) -> Iterator[list[Node]]:
  """The nodes of each dish, its name first and '+' last."""
  dish: list[Node] = []
  for node in at.nodes[1:]:
    if node.role in ('heading', 'button'):
      continue
    dish.append(node)
    if node.name == '+':
      yield dish
      dish = []


def _quantity(dish: list[Node]) -> int:
  return sum(int(node.name) for node in dish if node.name.isdecimal())


def _ticket(at: Situation) -> str:
  (wish,) = at.find(r'with the (\w+ \w+|most \w+ \w+)\.')
  tickets = at.all('button')
  durations = [
      60 * int(hours) + int(minutes)
      for node in at.all('StaticText')
      for hours, minutes in re.findall(r'(\d+)h (\d+)m', node.name)
  ]
  prices = [int(node.name.partition('$')[2]) for node in tickets]
  values = durations if 'duration' in wish else prices
  best = max if wish.startswith(('longest', 'most')) else min
  return click(tickets[values.index(best(values))])


EXPERTS = {
    'buy-ticket': _ticket,
    'choose-list': _list,
    'click-checkboxes': _boxes,
    'click-checkboxes-large': _boxes,
    'click-checkboxes-soft': _similar_boxes,
    'click-checkboxes-transfer': _boxes,
    'click-menu': _menu,
    'click-option': _option,
    'click-scroll-list': _list,
    'order-food': _order_food,
}
