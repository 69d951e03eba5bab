"""Experts of click pages and menus, on situations written by hand."""

import pytest

from agentrl.envs.miniwob import experts
from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import Situation
from agentrl.errors import EnvError


def _situation(objective, *shown, past=()):
  """Nodes below the page from `(role, name, states)`; numbers are 2, 3, ..."""
  nodes = [Node(number=1, backend=1, depth=0, role='RootWebArea')]
  for role, name, *states in shown:
    number = len(nodes) + 1
    states = tuple((state, 'true') for state in states)
    nodes.append(Node(number, number, 1, role, name, states=states))
  return Situation(objective, tuple(nodes), tuple(past))


def test_buttons_are_pressed_in_order_and_with_the_delay():
  shown = [('button', 'ONE'), ('button', 'TWO')]
  objective = 'Click button ONE, wait 2 seconds, then click button TWO.'
  past = []
  for _ in range(3):
    at = _situation(objective, *shown, past=past)
    past.append(experts.action('button-delay', at))
  assert past == ['click [2]', 'hover [2]', 'click [3]']


def test_boxes_are_ticked_unticked_and_submitted():
  objective = 'Select words similar to tiny, TVs and click Submit.'
  boxes = [('checkbox', 'mini'), ('checkbox', 'red', 'checked')]
  submit = ('button', 'Submit')
  act = lambda *shown: experts.action(
      'click-checkboxes-soft', _situation(objective, *shown, submit)
  )
  assert act(*boxes) == 'click [2]'
  assert act(('checkbox', 'mini', 'checked'), boxes[1]) == 'click [3]'
  assert act(('checkbox', 'television', 'checked')) == 'click [3]'


def test_an_option_is_chosen_before_the_former_one_is_looked_at():
  shown = [('option', 'Aruba', 'selected'), ('option', 'Chad')]
  objective = 'Select Chad from the list and click Submit.'
  at = _situation(objective, *shown, ('button', 'Submit'))
  assert experts.action('choose-list', at) == 'click [3]'


def test_a_word_is_sought_from_section_to_section():
  objective = 'Switch between the tabs to find and click on the link "eget".'
  first = [
      ('tab', 'Tab #1', 'expanded'), ('tab', 'Tab #2'), ('StaticText', 'dui')
  ]  # fmt: skip
  at = _situation(objective, *first)
  assert experts.action('click-tab-2', at) == 'click [3]'
  second = [
      ('tab', 'Tab #1'), ('tab', 'Tab #2', 'expanded', 'focused'),
      ('StaticText', 'eget'), ('StaticText', 'eget'),
  ]  # fmt: skip
  at = _situation(objective, *second, past=['click [4]'])
  assert experts.action('click-tab-2', at) == 'click [4]'  # the new 4
  second[1] = ('tab', 'Tab #2', 'expanded')
  at = _situation(objective, *second, past=['click [3]', 'click [4]'])
  assert experts.action('click-tab-2', at) == 'click [5]'  # 4 was mere text
  at = _situation(objective, *second[:2])
  with pytest.raises(EnvError, match="no way on: there is no 'eget'"):
    experts.action('click-tab-2', at)


def test_a_menu_is_opened_by_the_mouse_over_it():
  at = _situation('Select Flora>Lezlie', ('menuitem', 'Flora'))
  assert experts.action('click-menu', at) == 'hover [2]'
  shown = [('menuitem', 'Flora'), ('menuitem', 'Lezlie')]
  at = _situation('Select Flora>Lezlie', *shown)
  assert experts.action('click-menu', at) == 'click [3]'


def test_guesses_close_in_on_the_number():
  field = ('spinbutton', 'tt')
  past, said = [], ('StaticText', 'Waiting for your guess...')
  for number, hint in ((4, 'lower'), (1, 'higher'), (2, 'higher'), (3, '')):
    at = _situation('Guess the number.', said, field, past=past)
    past.append(experts.action('guess-number', at))
    assert past[-1] == f'type [3] [{number}] [1]'
    said = ('StaticText', f'The number is {hint} than')


def test_stock_is_bought_below_the_limit_alone():
  for price, command in (('$56.50', 'click [3]'), ('$56.60', 'hover [3]')):
    at = _situation(
        'Buy ACP stock when the price is less than $56.60.',
        ('StaticText', price),
        ('button', 'Buy'),
    )
    assert experts.action('stock-market', at) == command


def test_food_is_ordered_by_name_and_by_kind():
  bread = [('StaticText', 'Garlic bread'), ('image', 'vegan')]
  tart = [('StaticText', 'Tart'), ('image', 'dairy')]
  none = [('StaticText', '-'), ('StaticText', '+')]
  two = [none[0], ('StaticText', '2'), none[1]]
  order = ('button', 'Order!')
  act = lambda objective, *shown: experts.action(
      'order-food', _situation(objective, ('heading', 'All'), *shown, order)
  )
  named = 'Order one of each item: Tart, Garlic bread'
  assert act(named, *bread, *two, *tart, *none) == 'click [11]'
  by_kind = 'Order 2 items that are dairy'
  assert act(by_kind, *bread, *none, *tart, *none) == 'click [10]'
  assert act(by_kind, *bread, *none, *tart, *two) == 'click [12]'


@pytest.mark.parametrize(
    'wish, number',
    [
        ('cheapest cost', 5),
        ('most expensive cost', 3),
        ('shortest duration', 3),
        ('longest duration', 5),
    ],
)
def test_the_ticket_is_compared_as_a_number(wish, number):
  at = _situation(
      f'Buy the ticket with the {wish}.',
      ('StaticText', '9h 59m'),
      ('button', 'Book for $1844'),
      ('StaticText', '10h 2m'),
      ('button', 'Book for $300'),
  )
  assert experts.action('buy-ticket', at) == f'click [{number}]'


def test_a_digit_is_drawn_row_by_row():
  boxes = [('checkbox', 'input')] * 28
  at = _situation('Draw the number "1"', *boxes)
  assert experts.action('number-checkboxes', at) == 'click [4]'


def test_the_calendar_turns_to_the_end_of_the_window_where_events_cover():
  objective = 'Create a 1.5 hours event named "Gym", between 8AM and 12PM.'
  halves = [('clickable', f'hh-{k}') for k in range(48)]
  number = lambda half: f'click [{half + 2}]'
  past = []
  for half in (16, 18, 21):
    at = _situation(objective, *halves, past=past)
    past.append(experts.action('daily-calendar', at))
    assert past[-1] == number(half)
  dialog = [
      ('textbox', 'Event name'), ('StaticText', '8am'), ('StaticText', 'to'),
      ('StaticText', '11am'), ('button', 'Cancel'), ('button', 'Create'),
  ]  # fmt: skip
  at = _situation(objective, *halves, *dialog, past=past)
  past.append(experts.action('daily-calendar', at))
  assert past[-1] == 'click [54]'  # Cancel
  for half in (21, 23):
    at = _situation(objective, *halves, past=past)
    past.append(experts.action('daily-calendar', at))
    assert past[-1] == number(half)
  dialog[1], dialog[3] = ('StaticText', '10:30am'), ('StaticText', '12pm')
  at = _situation(objective, *halves, *dialog, past=past)
  assert experts.action('daily-calendar', at) == 'type [50] [Gym] [0]'


def test_a_page_that_shows_something_else_is_refused():
  with pytest.raises(EnvError, match='no way on: there is no button ONE'):
    experts.action('click-test-2', _situation('Click button ONE.'))
  with pytest.raises(EnvError, match='tic-tac-toe has no expert'):
    experts.action('tic-tac-toe', _situation("Playing as 'X', win."))
