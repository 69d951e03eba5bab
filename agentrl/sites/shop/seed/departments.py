"""The shop's categories, and what its products are called and made of."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.sites import seed_data


@dataclasses.dataclass(frozen=True)
class Leaf:
  """A category that holds products.

  Attributes:
    name: of the category.
    kinds: nouns for its products, singular.
    low: price from, in dollars.
    high: price to.
    options: names of what a buyer has to choose.
    measure: an attribute that counts: its name, its unit, and its values.
    in_name: whether the measure stands in products' names.
  """

  name: str
  kinds: Sequence[str]
  low: int
  high: int
  options: Sequence[str] = ()
  measure: tuple[str, str, Sequence[int]] | None = None
  in_name: bool = False


@dataclasses.dataclass(frozen=True)
class Group:
  """A category of the middle level.

  Attributes:
    name: of the category.
    leaves: the categories in it.
    materials: that its products are made of, or hold.
    uses: whom or what they are recommended for.
  """

  name: str
  leaves: Sequence[Leaf]
  materials: Sequence[str]
  uses: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Department:
  """A category at the top.

  Attributes:
    name: of the category.
    groups: the categories in it.
    brands: of its products.
  """

  name: str
  groups: Sequence[Group]
  brands: Sequence[str]


def _department(values: Mapping[str, Any]) -> Department:
  groups = (
      Group(**{**group, 'leaves': tuple(Leaf(**x) for x in group['leaves'])})
      for group in values['groups']
  )
  return Department(**{**values, 'groups': tuple(groups)})


DEPARTMENTS = tuple(map(_department, seed_data.read(__file__)['departments']))
