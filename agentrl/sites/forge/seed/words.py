"""Word lists of which the forge's texts are composed."""

import random
from collections.abc import Sequence

from agentrl.sites import seed_data

_DATA = seed_data.read(__file__)
FIRST = _DATA['first']
LAST = _DATA['last']
PLACES = _DATA['places']
JOBS = _DATA['jobs']
COMPANIES = _DATA['companies']
STATUSES = _DATA['statuses']
FEATURES = _DATA['features']
_TITLES = _DATA['titles']
KINDS = tuple(_TITLES)
_DETAILS = _DATA['details']
_CHANGES = _DATA['changes']
_COMMITS = (
    *_CHANGES,
    'Bump version to {version}',
    'Fix typo in the {part}',
    'Fix lint warnings',
    'Use {number} as the default of the {part}',
    'Add a changelog entry for the {part}',
    'Revert "Speed up the {part}"',
    'Simplify the {part}',
    'Log more about the {part}',
)
LICENSES = _DATA['licenses']


def license_text(name: str) -> str:
  """The content of a LICENSE file.

  Args:
    name: a key of `LICENSES`.
  """
  return (
      f'{name}\n\nSPDX-License-Identifier: {LICENSES[name]}\n\nThe authors'
      ' share this work under the terms of this license.'
  )


def compose(form: str, chance: random.Random, parts: Sequence[str]) -> str:
  """Fills a form of the lists above for a project with these parts."""
  part = chance.choice(parts)
  return form.format(
      part=part,
      Part=part.capitalize(),
      feature=chance.choice(FEATURES),
      fails=chance.choice(_DATA['fails']),
      when=chance.choice(_DATA['when']),
      version=f'{chance.randrange(4)}.{chance.randrange(12)}',
      number=chance.randrange(3, 90),
  )


def issue(
    kind: str, chance: random.Random, parts: Sequence[str]
) -> tuple[str, str]:
  """Title and description of an issue of a kind of `KINDS`."""
  part = (chance.choice(parts),)
  title = compose(chance.choice(_TITLES[kind]), chance, part)
  paragraphs = [chance.choice(_DATA['openings'][kind])]
  paragraphs += chance.sample(_DETAILS, chance.randrange(1, 3))
  return title, '\n\n'.join(compose(x, chance, part) for x in paragraphs)


def change(chance: random.Random, parts: Sequence[str]) -> tuple[str, str]:
  """Title and description of a merge request."""
  part = (chance.choice(parts),)
  title = compose(chance.choice(_CHANGES), chance, part)
  return title, compose(chance.choice(_DETAILS), chance, part)


def reply(chance: random.Random, parts: Sequence[str]) -> str:
  """A comment on an issue."""
  return compose(chance.choice(_DATA['replies']), chance, parts)


def review(chance: random.Random, parts: Sequence[str]) -> str:
  """A comment on a merge request."""
  return compose(chance.choice(_DATA['reviews']), chance, parts)


def commit(chance: random.Random, parts: Sequence[str]) -> str:
  """The message of a commit."""
  return compose(chance.choice(_COMMITS), chance, parts)
