"""Commands as policies write them."""

import pytest
from hypothesis import example, given, strategies as st

from agentrl.envs.web import commands
from agentrl.envs.web.commands import Command, Refused

NUMBERED = ('click', 'hover', 'tab_focus')
TEXTS = ('press', 'goto', 'stop')
BARE = ('new_tab', 'close_tab', 'go_back', 'go_forward')

# Of the characters that the form itself uses, and any others.
PIECES = st.sampled_from(
    ['[', ']', '[1]', '0', '1', '12', ' ', '\n', '```', 'type', 'click', 'stop',
     'press', 'scroll', 'up', '٣', '²', '\ud800', '\x00', '-', '_', 'goto']
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PIECES).map(''.join)))
@example('type [1] [' + '] [' * 5000 + ']')
@example('```' * 5000)
@example('click [' + '9' * 5000 + ']')
@example('click [' + ' ' * 100_000 + 'x')
@example('type [1]' + ' ' * 100_000 + '[')
def test_any_text_is_a_command_or_refused(text):
  try:
    command = commands.parse(text)
  except Refused as refusal:
    assert len(str(refusal)) < 1000
    return
  assert command.name in commands.FORMS
  command.text.encode()  # Chromium is told in UTF-8
  assert len(command.text) <= commands.MAX_TEXT
  if command.name in (*NUMBERED, 'type'):
    assert 0 <= command.number < 10**9
  else:
    assert command.number is None


@given(st.sampled_from(NUMBERED), st.integers(0, 10**9 - 1))
def test_numbers_are_read(name, number):
  for form in ('{} [{}]', '{}[{}]', ' {}   [ {} ] \n'):
    assert commands.parse(form.format(name, number)) == Command(name, number)


@given(st.text(st.characters(exclude_categories=('Cs',))))
def test_texts_are_read(text):
  for name in TEXTS:
    if '```' not in text:
      assert commands.parse(f'{name} [{text}]') == Command(
          name, text=text.strip()
      )


@given(
    st.integers(0, 999),
    st.text(st.characters(exclude_categories=('Cs',))),
    st.sampled_from((None, 0, 1)),
)
@example(1, 'a] [b', 0)
@example(1, 'a] [b', None)
@example(1, '', 1)
@example(1, ' spaces stay ', 1)
def test_typed_texts_are_read_as_they_are(number, text, enter):
  last = '' if enter is None else f' [{enter}]'
  whole = f'type [{number}] [{text}]{last}'
  if '```' in whole or (enter is None and text.endswith(('] [0', '] [1'))):
    return
  command = commands.parse(whole)
  assert command == Command('type', number, text, enter != 0)


@pytest.mark.parametrize('name', BARE)
def test_commands_without_an_argument(name):
  assert commands.parse(f' {name}\n') == Command(name)
  with pytest.raises(Refused, match=f'the form is {name}'):
    commands.parse(f'{name} [1]')


@pytest.mark.parametrize(
    'text, command',
    (
        ('stop', Command('stop')),
        (' stop\n', Command('stop')),
        ('stop []', Command('stop')),
        ('```stop```', Command('stop')),
        ('scroll down', Command('scroll', text='down')),
        ('scroll up', Command('scroll', text='up')),
        ('scroll[up]', Command('scroll', text='up')),
        ('scroll [ down ]', Command('scroll', text='down')),
        ('```scroll down```', Command('scroll', text='down')),
    ),
)
def test_what_the_original_reads_without_brackets(text, command):
  assert commands.parse(text) == command


def test_the_first_fenced_command_counts():
  text = 'I think so.\n```click [3]```\nor ```click [4]```'
  assert commands.parse(text) == Command('click', 3)
  assert commands.parse('```\nscroll [down]\n```') == Command(
      'scroll', text='down'
  )


@pytest.mark.parametrize(
    'text, form',
    (
        ('click', 'click [id]'),
        ('click [-1]', 'click [id]'),
        ('click [1.5]', 'click [id]'),
        ('click [٣]', 'click [id]'),
        ('click [1234567890]', 'click [id]'),
        ('click 5', 'click [id]'),
        ('type [5] text', 'type [id] [text] [press_enter: 0 or 1]'),
        ('type [x] [text]', 'type [id] [text] [press_enter: 0 or 1]'),
        ('scroll [left]', 'scroll [up or down]'),
        ('tab_focus [a]', 'tab_focus [index]'),
        ('scroll', 'scroll [up or down]'),
        ('scroll []', 'scroll [up or down]'),
        ('scroll down twice', 'scroll [up or down]'),
        ('scroll [Down]', 'scroll [up or down]'),
        ('stop 12', 'stop [answer]'),
        ('stop [12', 'stop [answer]'),
        ('press', 'press [keys]'),
        ('goto http://shop/', 'goto [url]'),
        ('', 'no command'),
        ('Click [1]', 'no command'),
        ('swim [1]', 'no command'),
        ('```', 'no command'),
    ),
)
def test_a_refusal_shows_the_form(text, form):
  with pytest.raises(Refused) as refusal:
    commands.parse(text)
  assert form in str(refusal.value)


@pytest.mark.parametrize(
    'form', ('type [1] [{}] [0]', 'goto [{}]', 'stop [{}]')
)
def test_texts_have_at_most_10000_characters(form):
  longest = 'x' * commands.MAX_TEXT
  assert commands.parse(form.format(longest)).text == longest
  with pytest.raises(Refused, match='10001 characters; at most 10000'):
    commands.parse(form.format(longest + 'x'))
