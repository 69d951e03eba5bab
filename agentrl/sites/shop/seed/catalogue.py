"""The shop's products, composed from lists of words."""

import random
import re
from typing import Any

from agentrl.sites import seed_data
from agentrl.sites.shop.seed.departments import Department, Group, Leaf

PER_LEAF = 36  # products

_DATA = seed_data.read(__file__)
_ENDINGS = _DATA['endings']

_SERIES = _DATA['series']


def slug(text: str) -> str:
  """A text as a part of an address."""
  return re.sub('[^a-z0-9]+', '-', text.lower().replace("'", '')).strip('-')


def products(
    department: Department, group: Group, leaf: Leaf, chance: random.Random
) -> list[dict[str, Any]]:
  """The products of a category, without ids.

  Returns:
    For each the values of its columns, and `attributes` and `options` as
    pairs of a name and a value.
  """
  rows: list[dict[str, Any]] = []
  names: set[tuple[str, str, str]] = set()
  while len(rows) < PER_LEAF:
    brand = chance.choice(list(department.brands))
    kind = chance.choice(list(leaf.kinds))
    series = chance.choice(_SERIES)
    adjective = chance.choice([x for x in _DATA['adjectives'] if x not in kind])
    if (brand, series, kind) in names:
      continue
    names.add((brand, series, kind))
    material = chance.choice(list(group.materials))
    attributes = [('Material', material)]
    name = f'{brand} {series} {adjective} {kind}'
    if leaf.measure is not None:
      label, unit, values = leaf.measure
      value = f'{chance.choice(list(values))} {unit}'.strip()
      attributes.append((label, value))
      if leaf.in_name:
        name += f', {_measured(label, value)}'
    use = chance.choice(list(group.uses))
    attributes.append(('Recommended For', use))
    # Few are dear: the cube leans prices to the lower end.
    share = chance.random()
    cents = int(100 * (leaf.low + (leaf.high - leaf.low) * share**2))
    price = cents + chance.randrange(100)
    reduced = chance.random() < 0.12
    opening = chance.choice(_DATA['openings']).format(kind=kind, series=series)
    detail = chance.choice(_DATA['details']).format(material=material)
    rows.append({
        'name': name,
        'kind': kind,
        'brand': brand,
        'price_cents': price,
        'list_cents': (
            price * chance.randrange(112, 165) // 100 if reduced else None
        ),
        'description': (
            f'{opening} {detail} Recommended for {use}.'
            f' {chance.choice(_ENDINGS)}'
        ),
        'attributes': attributes,
        'options': [
            (option, value)
            for option in leaf.options
            for value in _values(option, chance)
        ],
    })
  return rows


def _measured(label: str, value: str) -> str:
  number = value.split()[0]
  if label == 'Pack':
    return f'Pack of {number}' if number != '1' else 'Single Pack'
  return f'for {value}' if label == 'Capacity' else value


def _values(option: str, chance: random.Random) -> list[str]:
  values = _DATA['colours'] if option == 'Colour' else _DATA['options'][option]
  count = chance.randrange(2, min(5, len(values)) + 1)
  places = sorted(chance.sample(list(range(len(values))), count))
  return [values[place] for place in places]
