"""Experts of texts and forms decide from what a page shows, without one."""

import pytest

from agentrl.envs.miniwob import experts
from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import Situation
from agentrl.errors import EnvError


def situation(objective, *rows, past=()):
  """A page; a row is a role, a name and, if wanted, a value and states."""
  nodes = [Node(1, 100, 0, 'RootWebArea', 'A Task')]
  for number, (role, name, *more) in enumerate(rows, start=2):
    nodes.append(Node(number, 100 + number, 1, role, name, *more))
  return Situation(objective, nodes, tuple(past))


SUBMIT = ('button', 'Submit')


def test_a_text_is_typed_and_then_submitted():
  objective = 'Enter "Ada" into the text field and press Submit.'
  before = situation(objective, ('textbox', 'tt'), SUBMIT)
  after = situation(objective, ('textbox', 'tt', 'Ada'), SUBMIT)
  assert experts.action('enter-text', before) == 'type [2] [Ada] [0]'
  assert experts.action('enter-text', after) == 'click [3]'


def test_a_password_is_recognized_by_its_bullets():
  objective = 'Enter the password "yA" into both text fields and press submit.'
  at = situation(
      objective, ('textbox', 'password', '••'), ('textbox', 'verify'), SUBMIT
  )
  assert experts.action('enter-password', at) == 'type [3] [yA] [0]'


def test_a_dialog_is_cancelled_before_the_login():
  objective = (
      'Enter the username "eve" and the password "x" into the text fields and'
      ' press login.'
  )
  fields = ('textbox', 'username'), ('textbox', 'password')
  at = situation(
      objective, *fields, ('button', 'Login'), ('button', 'OK'),
      ('button', 'Cancel'),
  )  # fmt: skip
  assert experts.action('login-user-popup', at) == 'click [6]'


@pytest.mark.parametrize(
    ('problem', 'x'),
    [
        ('x + 3 = 10', 7),
        ('3 + x = 10', 7),
        ('x - 3 = 10', 13),
        ('3 - x = 10', -7),
    ],
)
def test_an_equation_is_solved(problem, x):
  at = situation(
      'Solve for x.', ('StaticText', problem), ('textbox', 'a'), SUBMIT
  )
  assert experts.action('simple-algebra', at) == f'type [3] [{x}] [0]'


def test_a_copy_keeps_the_space_at_the_end():
  at = situation(
      'Copy the text from the 2nd text area below',
      ('textbox', '', 'one', (('multiline', 'true'),)),
      ('textbox', '', 'two ', (('multiline', 'true'),)),
      ('textbox', 'answer-input'),
      SUBMIT,
  )
  assert experts.action('copy-paste-2', at) == 'type [4] [two ] [0]'


def test_a_file_is_chosen_that_the_page_accepts():
  at = situation(
      'delete a file ending with the extension .py',
      ('StaticText', 'ls'),
      ('StaticText', 'cats puppy.py vim.py'),
      ('textbox', 'terminal-target'),
  )
  assert experts.action('terminal', at) == 'type [4] [rm vim.py] [1]'


def test_a_word_is_selected_by_keys_and_styled():
  objective = 'give the text amet, the style bold and press Submit.'
  rows = ('button', 'ql-bold'), ('StaticText', 'Sit amet, non.'), SUBMIT
  past = []
  for _ in range(7):
    past.append(
        experts.action('text-editor', situation(objective, *rows, past=past))
    )
  assert past == [
      'click [3]',
      'press [ctrl+Home]',
      'press [ctrl+ArrowRight]',
      'press [ctrl+shift+ArrowRight]',
      'press [ctrl+shift+ArrowRight]',
      'click [2]',
      'click [4]',
  ]


@pytest.mark.parametrize(
    ('shown', 'past', 'command'),
    [
        ('0', (), 'click [2]'),
        ('0', ('click [2]',), 'press [PageUp]'),
        ('40', ('click [2]',), 'press [ArrowDown]'),
        ('37', ('click [2]',), 'click [4]'),
    ],
)
def test_a_slider_goes_by_pages_and_then_by_steps(shown, past, command):
  at = situation(
      'Select 37 with the slider and hit Submit.',
      ('clickable', 'slider'),
      ('StaticText', shown),
      SUBMIT,
      past=past,
  )
  assert experts.action('use-slider', at) == command


@pytest.mark.parametrize('after', [False, True])
def test_labels_may_stand_on_either_side_of_their_fields(after):
  labels = [('StaticText', x) for x in ('Year:', 'Genre:', 'Director:')]
  fields = [('textbox', 'input')] * 3
  rows = [
      row
      for label, field in zip(labels, fields, strict=True)
      for row in ((field, label) if after else (label, field))
  ]
  at = situation(
      'Search for drama movies directed by Roe from year 1999.',
      *rows,
      ('StaticText', 'Search'),
  )
  number = 2 if after else 3
  assert experts.action('multi-layouts', at) == f'type [{number}] [1999] [0]'


@pytest.mark.parametrize(
    ('objective', 'shown', 'command'),
    [
        ('Generate a number less than 5, then', '-', 'click [3]'),
        ('Generate a number less than 5, then', '5', 'click [3]'),
        ('Generate a number greater than 5, then', '6', 'click [4]'),
        ('Generate an odd number, then', '4', 'click [3]'),
        ('Generate an even number, then', '0', 'click [4]'),
    ],
)
def test_numbers_are_drawn_until_one_suits(objective, shown, command):
  at = situation(
      objective, ('StaticText', shown), ('button', 'Generate'), SUBMIT
  )
  assert experts.action('generate-number', at) == command


def test_a_page_without_what_is_sought_has_no_way_on():
  with pytest.raises(EnvError, match='no way on: there is no textbox'):
    experts.action('focus-text', situation('Focus into the textbox.', SUBMIT))
