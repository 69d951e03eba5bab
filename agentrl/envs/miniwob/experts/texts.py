"""Experts of the pages where a text is read, made up or typed."""

import re
from collections.abc import Sequence

from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import (
    Situation,
    Stuck,
    click,
    fill,
    press,
    type_into,
)

_STYLES = {
    'bold': 'ql-bold',
    'italics': 'ql-italic',
    'underlined': 'ql-underline',
}
# The first row of the editor's palette, whose items have no names.
_PALETTE = ('black', 'red', 'orange', 'yellow', 'green', 'blue', 'purple')


def _answer(at: Situation, text: str) -> str:
  """Types the answer into the field of one line, then submits it."""
  for field in at.all('textbox'):
    if not field.state('multiline'):
      return fill([(field, text)], at.one('button', 'Submit'))
  raise Stuck('there is no field for the answer.')


def _area(at: Situation, place: int = 1) -> Node:
  """The text area at a place, from 1."""
  areas = [box for box in at.all('textbox') if box.state('multiline')]
  if len(areas) < place:
    raise Stuck(f'there is no text area number {place}.')
  return areas[place - 1]


def _enter(at: Situation) -> str:
  (text,) = at.find('Enter "(.*)" into')
  return _answer(at, text)


def _enter_in_case(at: Situation) -> str:
  text, case = at.find('Type "(.*)" in all (upper|lower) case')
  return _answer(at, text.upper() if case == 'upper' else text.lower())


def _password(at: Situation) -> str:
  (text,) = at.find('the password "(.*)" into')
  fields = at.all('textbox')
  return fill([(field, text) for field in fields], at.one('button', 'Submit'))


def _login(at: Situation) -> str:
  if at.all('button', 'Cancel'):  # of a dialog that bars the way
    return click(at.one('button', 'Cancel'))
  texts = at.find('username "(.*)" and the password "(.*)" into')
  fields = at.nth('textbox', 1), at.nth('textbox', 2)
  return fill(zip(fields, texts, strict=True), at.nth('button', -1))


def _focus(at: Situation) -> str:
  return click(at.one('textbox'))


def _focus_nth(at: Situation) -> str:
  (place,) = at.find(r'the (\d+)\w\w input')
  return click(at.nth('textbox', int(place)))


def _copy(at: Situation) -> str:
  return _answer(at, _area(at).value)


def _copy_nth(at: Situation) -> str:
  (place,) = at.find(r'the (\d+)\w\w text area')
  return _answer(at, _area(at, int(place)).value)


def _transformed(at: Situation) -> str:
  # What was typed is a text inside of the field.
  letters = [node.name for node in at.all('StaticText') if node.depth == 1]
  return _answer(at, ''.join(letters))


def _arithmetic(at: Situation) -> str:
  a, sign, b = _matching(at, r'(\d+) ([-+x]) (\d+) =').groups()
  a, b = int(a), int(b)
  return _answer(at, str({'+': a + b, '-': a - b, 'x': a * b}[sign]))


def _algebra(at: Situation) -> str:
  a, sign, b, c = _matching(at, r'(\w+) ([-+]) (\w+) = (\d+)').groups()
  if sign == '+':
    x = int(c) - int(b if a == 'x' else a)
  else:
    x = int(c) + int(b) if a == 'x' else int(a) - int(c)
  return _answer(at, str(x))


def _word(at: Situation) -> str:
  (place,) = at.find(r'the (\d+)\w\w word')
  words = at.one('StaticText').name.split()
  return _answer(at, words[int(place) - 1].strip('.,'))


def _last_word(at: Situation) -> str:
  return _answer(at, _area(at).value.split()[-1].strip('.,'))


def _scroll(at: Situation) -> str:
  (end,) = at.find('to the (bottom|top)')
  area = _area(at)
  done = at.since(click(area))
  if done is None:
    return click(area)
  key = press('ctrl+End' if end == 'bottom' else 'ctrl+Home')
  return click(at.one('button', 'Submit')) if key in done else key


def _terminal(at: Situation) -> str:
  prompt = at.one('textbox')
  listings = at.all('StaticText', 'ls')
  if not listings:
    return type_into(prompt, 'ls', enter=True)
  files = at.following(listings[-1], 'StaticText').name.split()
  if 'no file extension' in at.objective:
    good = [file for file in files if '.' not in file]
  else:
    (end,) = at.find(r'the extension \.(\S+)')
    good = [file for file in files if file.endswith(f'.{end}')]
    # The page looks where the extension first occurs: 'puppy.py' fails.
    good.sort(key=lambda file: file.index(end) + len(end) != len(file))
  if not good:
    raise Stuck(f'no file of {files} is asked for.')
  return type_into(prompt, f'rm {good[0]}', enter=True)


def _editor(at: Situation) -> str:
  """Selects the text, by keys, and gives it the style or the color."""
  colors = [node for node in at.nodes if node.name.startswith('ql-picker-item')]
  wanted = at.find(r'the (?:style|color) (\w+)')[0]
  if colors:  # the palette is open
    return click(colors[_PALETTE.index(wanted)])
  submit = at.one('button', 'Submit')
  text = [node for node in at.all('StaticText') if node.number < submit.number]
  keys = ['ctrl+a']
  if 'everything' not in at.objective:
    (word,) = at.find(r'the text (\S+) the')
    keys = _select(' '.join(node.name for node in text).split(), word)
  done = at.since(press(keys[0]))
  if done is None:
    there = click(text[0])
    return press(keys[0]) if at.past[-1:] == (there,) else there
  left = keys[1 + len(done) :]
  if left:
    return press(left[0])
  if len(done) >= len(keys):
    return click(submit)
  return click(_styling(at, _STYLES.get(wanted, 'ql-picker-label')))


def _styling(at: Situation, name: str) -> Node:
  for node in at.nodes:
    if node.name.startswith(name):  # more follows where it is active
      return node
  raise Stuck(f'the editor has no {name}.')


def _select(words: Sequence[str], word: str) -> list[str]:
  """The keys that select a word: steps end after words and after marks."""
  if word not in words:
    raise Stuck(f'{word!r} is not in {words}.')
  steps = lambda text: len(re.findall(r'\w+|[^\w\s]+', text))
  before = ' '.join(words[: words.index(word)])
  return [
      'ctrl+Home',
      *['ctrl+ArrowRight'] * steps(before),
      *['ctrl+shift+ArrowRight'] * steps(word),
  ]


def _matching(at: Situation, pattern: str) -> re.Match:
  """The match of the first text that a regular expression matches."""
  for node in at.all('StaticText'):
    match = re.match(pattern, node.name)
    if match:
      return match
  raise Stuck(f'there is no text {pattern!r}.')


EXPERTS = {
    'copy-paste': _copy,
    'copy-paste-2': _copy_nth,
    'enter-password': _password,
    'enter-text': _enter,
    'enter-text-2': _enter_in_case,
    'enter-text-dynamic': _enter,
    'find-word': _word,
    'focus-text': _focus,
    'focus-text-2': _focus_nth,
    'login-user': _login,
    'login-user-popup': _login,
    'scroll-text': _last_word,
    'scroll-text-2': _scroll,
    'simple-algebra': _algebra,
    'simple-arithmetic': _arithmetic,
    'terminal': _terminal,
    'text-editor': _editor,
    'text-transform': _transformed,
}
