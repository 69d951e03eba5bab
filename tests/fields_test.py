"""Tests for agentrl.fields."""

import dataclasses
import math
import types
from typing import Any

import pytest
from hypothesis import given, strategies as st

from agentrl import fields
from agentrl.errors import ConfigError
from agentrl.fields import Meaning

TEXTS = tuple[str, ...]
# type -> its values, as a config or a JSON file may hold them.
VALUES = {
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False),
    str: st.text(),
    TEXTS: st.lists(st.text()).map(tuple),
    tuple[int, ...]: st.lists(st.integers()).map(tuple),
    dict[str, Any]: st.dictionaries(st.text(), st.integers()),
    float | None: st.none() | st.floats(allow_nan=False),
    str | TEXTS | None: st.none() | st.text() | st.lists(st.text()).map(tuple),
    TEXTS
    | dict[str, Any]: (
        st.lists(st.text()).map(tuple)
        | st.dictionaries(st.text(), st.booleans())
    ),
}
KINDS = pytest.mark.parametrize('kind', VALUES, ids=str)


@KINDS
@given(data=st.data())
def test_a_value_of_its_type_stays_as_it_is(kind, data):
  value = data.draw(VALUES[kind])
  found = fields.convert('a', value, kind)
  assert type(found) is type(value) and found == value
  # What JSON makes of a tuple comes back.
  if isinstance(value, tuple):
    assert fields.convert('a', list(value), kind) == value


@KINDS
@given(data=st.data())
def test_what_converts_converts_again_to_itself(kind, data):
  value = data.draw(st.one_of(list(VALUES.values())))
  try:
    once = fields.convert('a', value, kind)
  except ConfigError as error:
    stem = f'a is {fields.describe(kind)}, got {value!r}'
    assert str(error).startswith((f'{stem}.', f'{stem}; a list is'))
    return
  twice = fields.convert('a', once, kind)
  assert type(twice) is type(once) and twice == once


@pytest.mark.parametrize(
    'value, kind, expected',
    [
        (3, float, 3.0),
        (3, float | None, 3.0),
        ([1, 2], tuple[float, ...], (1.0, 2.0)),
        ((), TEXTS, ()),
        (types.MappingProxyType({'a': 1}), dict[str, Any], {'a': 1}),
        ('a', str | TEXTS | None, 'a'),
        ([1, None], Any, [1, None]),
    ],
)
def test_values_that_stand_for_another_type(value, kind, expected):
  found = fields.convert('a', value, kind)
  assert type(found) is type(expected) and found == expected


@pytest.mark.parametrize(
    'value, kind, said',
    [
        # Booleans are numbers in Python, and texts are sequences.
        (True, int, 'a.b is a whole number, got True.'),
        (True, float, 'a.b is a number, got True.'),
        (1, bool, 'a.b is True or False, got 1.'),
        (1.0, int, 'a.b is a whole number, got 1.0.'),
        ('1', int, "a.b is a whole number, got '1'."),
        (None, str, 'a.b is a text, got None.'),
        (
            'x',
            TEXTS,
            "a.b is a list of texts, got 'x'; a list is written as in ('x',).",
        ),
        (('x', 1), TEXTS, "a.b is a list of texts, got ('x', 1)."),
        (((1,),), tuple[int, ...], 'a list of whole numbers, got ((1,),)'),
        ('x', float | None, "a.b is a number or None, got 'x'."),
        (1, str | TEXTS | None, 'a text or a list of texts or None, got 1'),
        ([('a', 1)], dict[str, Any], "a.b is a dict, got [('a', 1)]."),
    ],
)
def test_other_types_are_refused_in_words(value, kind, said):
  with pytest.raises(ConfigError) as error:
    fields.convert('a.b', value, kind)
  assert said in str(error.value)


@pytest.mark.parametrize(
    'kind, base, optional',
    [
        (int, int, False),
        (int | None, int, True),
        (TEXTS, tuple, False),
        (TEXTS | None, tuple, True),
        (str | TEXTS | None, object, True),
        (dict[str, Any], object, False),
        (Any, object, True),
    ],
)
def test_the_type_of_a_flag(kind, base, optional):
  assert fields.base_type(kind) is base
  assert fields.is_optional(kind) == optional


BOUNDS = {
    'ge': ('at least', float.__ge__),
    'gt': ('above', float.__gt__),
    'le': ('at most', float.__le__),
    'lt': ('below', float.__lt__),
}


@pytest.mark.parametrize('name', BOUNDS)
@given(
    value=st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False),
    bound=st.integers(-3, 3),
)
def test_bounds(name, value, bound):
  words, holds = BOUNDS[name]
  meaning = Meaning('', **{name: bound})
  assert meaning.constraint == f'{words} {bound}'
  if holds(float(value), float(bound)):
    fields.check('a.b', value, meaning)
    return
  with pytest.raises(ConfigError) as error:
    fields.check('a.b', value, meaning)
  assert str(error.value) == f'a.b must be {words} {bound}, got {value}.'


@pytest.mark.parametrize(
    'value, meaning, said',
    [
        ('c', Meaning('', one_of=('a', 'b')), "Unknown x='c'; known: a, b."),
        (('a', 'c'), Meaning('', one_of=('a',)), "Unknown x='c'; known: a."),
        (2, Meaning('', one_of=(0, 1)), 'Unknown x=2; known: 0, 1.'),
        (math.nan, Meaning(''), 'x must be a finite number, got nan.'),
        (math.nan, Meaning('', ge=0), 'x must be a finite number, got nan.'),
        (math.inf, Meaning('', ge=0), 'x must be a finite number, got inf.'),
        ((1.0, -math.inf), Meaning(''), 'x must be a finite number, got -inf.'),
        (
            {'a': [math.inf]},
            Meaning(''),
            'x.a must be a finite number, got inf',
        ),
        (2, Meaning('', ge=0, le=1), 'must be at most 1, got 2.'),
        (-1, Meaning('', ge=0, le=1), 'must be at least 0, got -1.'),
    ],
)
def test_what_breaks_a_constraint_is_refused(value, meaning, said):
  with pytest.raises(ConfigError) as error:
    fields.check('x', value, meaning)
  assert said in str(error.value)


@pytest.mark.parametrize(
    'value, meaning',
    [
        (None, Meaning('', one_of=('a',), gt=0)),  # if its type allows it
        ((), Meaning('', one_of=('a',))),
        (('a', 'a'), Meaning('', one_of=('a', 'b'))),
        (1, Meaning('', ge=0, le=1)),
        (1e300, Meaning('', ge=0)),
        ('b', Meaning('')),
    ],
)
def test_what_keeps_a_constraint_passes(value, meaning):
  fields.check('x', value, meaning)


@dataclasses.dataclass(frozen=True)
class Inner:
  options: dict[str, Any] = fields.field({}, 'of the environment')
  on: bool = fields.field(False, 'whether it does')


@dataclasses.dataclass(frozen=True)
class Outer:
  name: str = fields.field('a', 'which', one_of=('a', 'b'))
  size: int = fields.field(
      1, 'rows', ge=1, lt=9, acts_if=fields.when('name', 'b', 'c')
  )
  share: float = fields.field(
      0.5,
      'of them',
      acts_if=(
          fields.when('name', 'b'),
          fields.when_set('inner.on', True, 'inner.on=False leaves it out'),
      ),
  )
  inner: Inner = fields.section(Inner)


def meaning_of(name):
  [field] = [f for f in dataclasses.fields(Outer) if f.name == name]
  return fields.meaning(field)


def test_constraints_in_words():
  assert meaning_of('name').constraint == 'one of a, b'
  assert (
      meaning_of('size').constraint == "at least 1; below 9; acts with name='b'"
  )
  assert (
      meaning_of('share').constraint
      == "acts with name='b'; acts with inner.on=True"
  )


def test_fields_act_under_their_witness_and_say_the_way_out():
  default = Outer()
  for act in meaning_of('size').acts_if + meaning_of('share').acts_if:
    assert not act.test(default)
  witness = Outer(name='b', inner=Inner(on=True))
  for act in meaning_of('size').acts_if + meaning_of('share').acts_if:
    assert act.test(witness)
    for path, value in act.witness.items():
      assert fields.get(witness, path) == value
  [size] = meaning_of('size').acts_if
  assert size.test(Outer(name='c'))
  assert size.reason == "it acts with name='b' or name='c'"
  assert meaning_of('share').acts_if[1].reason == 'inner.on=False leaves it out'
  unless = fields.unless_set('inner.on', False, 'inner.on is for the rest')
  assert unless.test(default) and not unless.test(witness)
  assert fields.get(default, 'inner.on') is unless.witness['inner.on']
  assert fields.when('name', 'b', reason='name is not b').reason == (
      'name is not b'
  )


def test_defaults_are_those_of_the_dataclass_and_not_shared():
  assert {
      field.name: fields.default(field) for field in dataclasses.fields(Outer)
  } == {'name': 'a', 'size': 1, 'share': 0.5, 'inner': Inner()}
  Outer().inner.options['changed'] = True
  assert Outer().inner.options == {}
