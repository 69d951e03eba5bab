"""How values are shown on the forge's pages."""

import datetime
import hashlib
import re

# Ids and the first 8 digits of hashes, one to one: a multiplication modulo
# 2**32 can be undone.
_FACTOR, _SHIFT = 2654435761, 2024
_BACK = pow(_FACTOR, -1, 2**32)
ROLES = {
    10: 'Guest',
    20: 'Reporter',
    30: 'Developer',
    40: 'Maintainer',
    50: 'Owner',
}


def day(time: str | None) -> str:
  """'Jun 15, 2023' of a day or a time; '' of None."""
  if not time:
    return ''
  date = datetime.date.fromisoformat(time[:10])
  return f'{date:%b} {date.day}, {date.year}'


def when(time: str | None) -> str:
  """'Jun 15, 2023 at 12:00'; '' of None."""
  return f'{day(time)} at {time[11:16]}' if time else ''


def sha(commit: int) -> str:
  """The 40 digits of a commit's hash, of its id."""
  short = f'{(commit * _FACTOR + _SHIFT) % 2**32:08x}'
  return short + hashlib.sha256(short.encode()).hexdigest()[:32]


def commit_of(digits: str) -> int:
  """The id of the commit whose hash begins with 8 or more digits."""
  return (int(digits[:8], 16) - _SHIFT) * _BACK % 2**32


def secret(table: str, key: int) -> str:
  """The 20 letters of a token that is shown once, of its row's id."""
  return hashlib.sha256(f'{table} {key}'.encode()).hexdigest()[:20]


def role(number: int) -> str:
  """The name of a role."""
  return ROLES[number]


def many(count: int, noun: str) -> str:
  """'1 commit', '2 commits', '3 branches'."""
  ending = '' if count == 1 else 'es' if noun.endswith('ch') else 's'
  return f'{count} {noun}{ending}'


def ssh(full_path: str) -> str:
  """The address for clones over SSH."""
  return f'ssh://git@forge:2222/{full_path}.git'


def https(full_path: str) -> str:
  """The address for clones over HTTP."""
  return f'http://forge/{full_path}.git'


def blocks(text: str) -> list[tuple[str, str]]:
  """Headings, items and paragraphs of a Markdown text, as (tag, text)."""
  elements: list[tuple[str, str]] = []
  for piece in re.split(r'\n{2,}', text.strip()):
    for line in piece.split('\n'):
      marks = re.match(r'(#{1,3}|[-*]) +(.*)', line)
      if marks and marks[1][0] == '#':
        elements.append((f'h{len(marks[1]) + 1}', marks[2]))
      elif marks:
        elements.append(('li', marks[2]))
      elif elements and elements[-1][0] == 'p' and line != piece.split('\n')[0]:
        elements[-1] = ('p', f'{elements[-1][1]}\n{line}')
      elif line:
        elements.append(('p', line))
  return elements
