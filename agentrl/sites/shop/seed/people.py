"""Names and addresses of customers, and nicknames of reviewers."""

import random
from typing import Any

from agentrl.sites import seed_data

_DATA = seed_data.read(__file__)
_STREETS = _DATA['streets']
_FIRST = _DATA['first']
_LAST = _DATA['last']
# City, state and the first three digits of its postcodes.
_CITIES = _DATA['cities']


def names(count: int, chance: random.Random) -> list[tuple[str, str]]:
  """Different pairs of a first and a last name."""
  pairs = [(first, last) for first in _FIRST for last in _LAST]
  return chance.sample(pairs, count)


def addresses(
    count: int, first: str, last: str, chance: random.Random
) -> list[dict[str, Any]]:
  """Columns of addresses of somebody, all in different cities."""
  return [
      {
          'first_name': first,
          'last_name': last,
          'street': f'{chance.randrange(2, 990)} {chance.choice(_STREETS)}',
          'city': city,
          'region': region,
          'postcode': f'{digits}{chance.randrange(100):02d}',
          'phone': (
              f'{chance.randrange(201, 990)}-555-{chance.randrange(10_000):04d}'
          ),
      }
      for city, region, digits in chance.sample(_CITIES, count)
  ]


def nickname(chance: random.Random) -> str:
  """A reviewer's name."""
  if chance.random() < 0.5:
    return f'{chance.choice(_FIRST)} {chance.choice(_LAST)[0]}.'
  animal = chance.choice(_DATA['adjectives']) + chance.choice(_DATA['animals'])
  return f'{animal}{chance.randrange(10, 99)}'
