"""Texts of the forum's visitors, composed from lists of words."""

import random
import re

from agentrl.sites import seed_data
from agentrl.sites.forum.seed.topics import Topic

_DATA = seed_data.read(__file__)
PLACES = _DATA['places']
_PICTURES = ('pictures.example', 'shutterbox.example')
_VOWEL = re.compile('(?!uni|one)[aeiou]', re.IGNORECASE)


def names(chance: random.Random, count: int) -> list[str]:
  """Different names of visitors, such as `calm_otter` or `OddQuill31`."""
  pairs = [(a, b) for a in _DATA['first'] for b in _DATA['second']]
  usernames = []
  for first, second in chance.sample(pairs, count):
    forms = (
        f'{first}_{second}',
        f'{first}{second}{chance.randrange(10, 99)}',
        f'{first.capitalize()}{second.capitalize()}',
        f'the_{first}_{second}',
    )
    usernames.append(chance.choice(forms))
  return usernames


def title(chance: random.Random, topic: Topic, kind: str) -> str:
  """The title of a submission.

  Args:
    chance: of the draws.
    topic: of its forum.
    kind: 'ask', 'tell', 'link' or 'show'.
  """
  forms = _DATA[f'{kind}ing']  # such as 'asking'
  text = _filled(chance, topic, chance.choice(forms))
  return text[0].upper() + text[1:]


def body(chance: random.Random, topic: Topic) -> str:
  """The text of a submission, one or two paragraphs."""
  lines = [
      _filled(chance, topic, form)
      for form in chance.sample(_DATA['body'], chance.randrange(2, 5))
  ]
  cut = chance.randrange(1, len(lines) + 1)
  parts = (' '.join(lines[:cut]), ' '.join(lines[cut:]))
  return '\n\n'.join(part for part in parts if part)


def comment(chance: random.Random, topic: Topic) -> str:
  """The text of a comment, in one line."""
  parts = ('openers', 'middles', 'closers')
  forms = (chance.choice(_DATA[part]) for part in parts)
  return ' '.join(_filled(chance, topic, form) for form in forms).strip()


def biography(chance: random.Random, topic: Topic) -> str:
  """What a visitor says of himself or herself."""
  return _filled(chance, topic, chance.choice(_DATA['biographies']))


def sidebar(chance: random.Random, topic: Topic) -> str:
  """The text beside a forum's submissions."""
  return _filled(chance, topic, chance.choice(_DATA['sidebar']))


def address(chance: random.Random, title_of: str, *, picture: bool) -> str:
  """An address that a submission links to; nothing is there."""
  host = chance.choice(_PICTURES if picture else _DATA['links'])
  words = ''.join(c if c.isalnum() else ' ' for c in title_of.lower()).split()
  name = '-'.join(words[:6])
  number = chance.randrange(1000, 10000)
  if picture:
    return f'https://{host}/{name}-{number}.jpg'
  return f'https://{host}/{number}/{name}'


def _filled(chance: random.Random, topic: Topic, form: str) -> str:
  things = chance.sample(topic.things, 2)
  kinds = chance.sample(topic.kinds, 2)
  text = form.format(
      thing=things[0],
      thing2=things[1],
      kind=kinds[0],
      kind2=kinds[1],
      task=chance.choice(topic.tasks),
      n=chance.randrange(3, 40),
      month=chance.choice(_DATA['months']),
      year=chance.randrange(2026, 2041),
      place=chance.choice(PLACES),
  )
  words = text.split(' ')
  for place, word in enumerate(words[:-1]):
    if word in ('a', 'A') and _VOWEL.match(words[place + 1]):
      words[place] += 'n'
  return ' '.join(words)
