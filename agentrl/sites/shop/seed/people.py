"""Names and addresses of customers, and nicknames of reviewers."""

import random
from typing import Any

_FIRST = [
    'Ada', 'Amir', 'Bea', 'Bruno', 'Carla', 'Cyrus', 'Dalia', 'Dmitri', 'Edda',
    'Emil', 'Farah', 'Felix', 'Greta', 'Gustav', 'Hanna', 'Hugo', 'Ines',
    'Ivan', 'Jana', 'Joel', 'Kira', 'Kofi', 'Lena', 'Luca', 'Mara', 'Milo',
    'Nadia', 'Nils', 'Odile', 'Omar', 'Petra', 'Quentin', 'Rosa', 'Rafael',
    'Selma', 'Stefan', 'Tessa', 'Theo', 'Uma', 'Viktor', 'Wanda', 'Yusuf',
    'Zoe', 'Zahra',
]  # fmt: skip
_LAST = [
    'Abbot', 'Alvarsson', 'Barrow', 'Bellweather', 'Carrow', 'Castellan',
    'Dunmore', 'Eastlake', 'Fairweather', 'Farrow', 'Galloway', 'Grantham',
    'Hallam', 'Holloway', 'Ingram', 'Jessop', 'Kellerman', 'Kirkwood',
    'Lindqvist', 'Lockhart', 'Marchetti', 'Merriweather', 'Norrington',
    'Okonjo', 'Ostberg', 'Pemberton', 'Quillon', 'Rademaker', 'Rosewood',
    'Santorini', 'Silverton', 'Thackeray', 'Tiernan', 'Underhill', 'Valcourt',
    'Vandermeer', 'Whitlock', 'Winslow', 'Yarborough', 'Zeller',
]  # fmt: skip
_STREETS = [
    'Maple Avenue', 'Orchard Lane', 'Station Road', 'Mill Street', 'Hillcrest'
    ' Drive', 'Quarry Road', 'Canal Street', 'Elm Court', 'Lighthouse Way',
    'Foundry Street', 'Meadow Lane', 'Chestnut Boulevard', 'Harbor View',
    'Bridge Street', 'Juniper Road', 'Old Market Square',
]  # fmt: skip
# City, state and the first three digits of its postcodes.
_CITIES = [
    ('Portland', 'Oregon', '972'), ('Madison', 'Wisconsin', '537'),
    ('Burlington', 'Vermont', '054'), ('Tucson', 'Arizona', '857'),
    ('Savannah', 'Georgia', '314'), ('Boise', 'Idaho', '837'),
    ('Duluth', 'Minnesota', '558'), ('Asheville', 'North Carolina', '288'),
    ('Santa Fe', 'New Mexico', '875'), ('Ithaca', 'New York', '148'),
    ('Galveston', 'Texas', '775'), ('Spokane', 'Washington', '992'),
    ('Lansing', 'Michigan', '489'), ('Dayton', 'Ohio', '454'),
    ('Salem', 'Massachusetts', '019'), ('Eureka', 'California', '955'),
]  # fmt: skip
_ADJECTIVES = [
    'Quiet', 'Brave', 'Sleepy', 'Curious', 'Lucky', 'Dusty', 'Merry', 'Rapid',
    'Gentle', 'Sunny', 'Clever', 'Mellow',
]  # fmt: skip
_ANIMALS = [
    'Otter', 'Heron', 'Badger', 'Fox', 'Marten', 'Finch', 'Lynx', 'Hare',
    'Wombat', 'Puffin', 'Gecko', 'Moose',
]  # fmt: skip


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
  animal = chance.choice(_ADJECTIVES) + chance.choice(_ANIMALS)
  return f'{animal}{chance.randrange(10, 99)}'
