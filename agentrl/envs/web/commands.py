"""A policy's browser commands: WebArena's action set (arXiv:2307.13854)."""

import dataclasses
import re

_FENCED = re.compile('```(.*?)```', re.DOTALL)
_WORD = re.compile(r'[a-z_]+')
_SURROGATE = re.compile('[\ud800-\udfff]')  # JSON can have it, UTF-8 cannot
MAX_TEXT = 10_000  # characters of a typed text, an address or an answer
_SHOWN = 80  # of a command that is refused


class Refused(Exception):
  """A command that cannot be done; the message is for the policy."""


@dataclasses.dataclass(frozen=True)
class Command:
  """One command.

  Attributes:
    name: a key of `FORMS`.
    number: of an element or a tab, where it has one.
    text: what to type or press, the direction, the address or the answer.
    enter: whether Enter follows the typed text.
  """

  name: str
  number: int | None = None
  text: str = ''
  enter: bool = False


FORMS = {
    'click': 'click [id]',
    'type': 'type [id] [text] [press_enter: 0 or 1]',
    'hover': 'hover [id]',
    'press': 'press [keys]',
    'scroll': 'scroll [up or down]',
    'new_tab': 'new_tab',
    'tab_focus': 'tab_focus [index]',
    'close_tab': 'close_tab',
    'goto': 'goto [url]',
    'go_back': 'go_back',
    'go_forward': 'go_forward',
    'stop': 'stop [answer]',
}
_NUMBERED = ('click', 'type', 'hover', 'tab_focus')
_TEXT = ('press', 'goto', 'stop')


def parse(text: str) -> Command:
  """Reads a command; of a text with fences, that in the first pair.

  Args:
    text: such as `click [12]`, or a completion with it between ``` fences.

  Raises:
    Refused: it is none; the message shows the form.
  """
  fenced = _FENCED.search(text)
  line = (fenced[1] if fenced else text).strip()
  word = _WORD.match(line)
  name = word[0] if word else ''
  if name not in FORMS:
    raise Refused(
        f'{_shown(line)} is no command; the commands are'
        f' {"; ".join(FORMS.values())}.'
    )
  try:
    command = _read(name, line[len(name) :].strip())
  except ValueError:
    raise Refused(
        f'{_shown(line)} cannot be read; the form is {FORMS[name]}.'
    ) from None
  if len(command.text) > MAX_TEXT:
    raise Refused(
        f'The text has {len(command.text)} characters; at most {MAX_TEXT} are'
        ' read.'
    )
  if _SURROGATE.search(command.text):
    raise Refused('The text has half a character (a lone surrogate).')
  return command


def _read(name: str, rest: str) -> Command:
  if name == 'type':
    # The text may have brackets of its own.
    match = re.fullmatch(
        r'\[([0-9]{1,9})\]\s*\[(.*?)\](?:\s*\[([01])\])?',
        rest,
        re.DOTALL,
    )
    if match is None:
      raise ValueError
    number, text, enter = match.groups()
    # As WebArena has it, Enter follows unless the command says otherwise.
    return Command(name, int(number), text, enter != '0')
  if name == 'stop' and not rest:  # most tasks need no answer
    return Command(name)
  if name == 'scroll':  # WebArena reads the direction with and without brackets
    match = re.fullmatch(r'\[?\s*(up|down)\s*\]?', rest)
    if match is None:
      raise ValueError
    return Command(name, text=match[1])
  if name in _NUMBERED or name in _TEXT:
    if not (rest.startswith('[') and rest.endswith(']')):
      raise ValueError
    inside = rest[1:-1].strip()
    if name in _TEXT:
      return Command(name, text=inside)
    if not re.fullmatch(r'[0-9]{1,9}', inside):
      raise ValueError
    return Command(name, int(inside))
  if rest:
    raise ValueError
  return Command(name)


def _shown(line: str) -> str:
  cut = line if len(line) <= _SHOWN else f'{line[:_SHOWN]}...'
  return repr(cut)
