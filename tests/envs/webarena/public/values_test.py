"""Tests for values, read by schema and compared."""

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.envs.webarena.public import values
from agentrl.envs.webarena.public.addresses import Places
from tests.envs.webarena.public import pairs
from tests.envs.webarena.public.traces import URLS

PLACES = Places(URLS)
FORUM = URLS['reddit']


def equal(kind, expected, actual):
  a = values.read(kind, expected, PLACES, expected=True)
  b = values.read(kind, actual, PLACES, expected=False)
  return values.same(a, b, PLACES)


@pytest.mark.parametrize(
    'kind,expected,actual,same',
    [
        ('string', 'Quest Lumaflex™ Band', '"quest lumaflex band".', True),
        ('string', 'Ann', 'Bob', False),
        ('string', '^ann( lee)?$', 'Ann Lee', True),
        ('string', '^ann( lee)?$', 'Ann Bo', False),
        # An answer's pattern stands for itself.
        ('string', 'Ann', '^.*$', False),
        ('string', 'Ann', '^ann$', False),
        ('url', '__REDDIT__/', '^.*$', False),
        ('string', '^[$', '^[$', True),  # no regular expression: itself
        ('string', ['Ann', 'Bob'], 'bob', True),
        ('string', f'see {FORUM}/a', 'see __REDDIT__/a', True),
        ('number', 7, 'seven', True),
        ('number', 7, '7.5', False),
        ('integer', 1234, '1,234', True),
        ('boolean', True, 'yes', True),
        ('boolean', True, 0, False),
        ('currency', '$12.99', '12.99 USD', True),
        ('currency', 12.99, 13.09, True),  # up to 0.1
        ('currency', 12.99, 13.1, False),
        ('currency', [5, 9], 9, False),  # there, only the first counts
        ('date', '2023-06-15', 'June 15, 2023', True),
        ('date', '2023-06-15', '2023-06-16', False),
        ('month', 'January', 1, True),
        ('duration', '60 min', '1:06:00', True),  # up to 10%
        ('duration', '60 min', '68 min', False),
        ('duration', '1 min', '4 min', True),  # and up to 3 minutes
        ('distance', '1000 m', '1.02km', True),  # up to 2%
        ('distance', '1000 m', '1.03km', False),
        ('distance', '5 m', '15 m', True),  # and up to 10 m
        ('coordinates', [40.5, -80.0], '40.500001, -80.0', True),
        ('coordinates', [40.5, -80.0], [40.6, -80.0], False),
        ('location-name', 'University of Pittsburgh', 'Pittsburgh University of',
         True),
        ('string_list', 'a, b', 'b,a', True),
        ('string_list', 'a, b', 'a', False),
        ('json', '{"a": [1, 2]}', '{ "a":[1,2] }', True),
        ('json', '{"a": [1, 2]}', '{"a":[2,1]}', False),
        ('markdown', '- a\n- b', '* a\r\n* b', True),
        ('markdown', '- a', '- A', False),
        ('url', '__REDDIT__/f/a?x=1&y=2', f'{FORUM}/f/a/?y=2&x=1', True),
        ('url', '__REDDIT__/f/a?x=1', f'{FORUM}/f/a?x=2', False),
        ('url', '__REDDIT__/f/a', f'{FORUM}/f/a?x=2', False),
        ('url', '__REDDIT__/f/a?x=', f'{FORUM}/f/a', True),
        ('url', '__REDDIT__/f/a?x=^.*b$', f'{FORUM}/f/a?x=ab', True),
    ],
)  # fmt: skip
def test_same(kind, expected, actual, same):
  assert equal(kind, expected, actual) is same


@pytest.mark.parametrize('kind', sorted(values.KINDS))
@pytest.mark.parametrize('raw', [[], ['a', 'b'], ['a'], [['a'], 'b']])
def test_an_answers_list_is_no_value(kind, raw):
  # Two places are a point, if they are numbers.
  with pytest.raises(ValueError):
    values.read(kind, raw, PLACES, expected=False)


@given(
    st.sampled_from(sorted(values.KINDS)),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    ),
)
@settings(max_examples=300)
def test_whatever_is_answered_is_read_or_refused(kind, raw):
  try:
    found = values.read(kind, raw, PLACES, expected=False)
  except ValueError:
    return
  assert found.kind == kind and len(found.options) == 1


@pytest.mark.parametrize('kind', sorted(pairs.KINDS))
def test_an_answer_in_any_form_equals_itself(kind):
  """In the forms that the slow test compares with webarena-verified."""
  read = 0
  for name, raw, _ in pairs.pairs(50, 1):
    if name == kind:
      try:
        found = values.read(kind, raw, PLACES, expected=False)
      except ValueError:
        continue
      read += 1
      assert values.same(found, found, PLACES)
  assert read > 10


# --- lists and objects

NUMBERS = {'type': 'array', 'items': {'type': 'number'}}
PEOPLE = {
    'type': 'array',
    'items': {
        'type': 'object',
        'properties': {
            'name': {'type': 'string'},
            'born': {'type': 'string', 'format': 'date'},
            'tags': {'type': 'array', 'items': {'type': 'string'}},
        },
    },
}
ANN = {'name': 'Ann', 'born': '2001-02-03', 'tags': ['A', 'B']}


@pytest.mark.parametrize(
    'schema,expected,actual,ordered,same',
    [
        (NUMBERS, [1, 2], ['two', '1'], False, True),
        (NUMBERS, [1, 2], ['two', '1'], True, False),
        (NUMBERS, [1, 2], ['1', 'two'], True, True),
        (NUMBERS, [1, 1], [1, 2], False, False),
        (NUMBERS, [1, 2], [1, 2, 2], False, False),
        (NUMBERS, [1], ['many'], False, False),
        (NUMBERS, [1], [[1]], False, False),
        (NUMBERS, [[1, 2]], [2], False, True),  # alternatives
        (
            PEOPLE,
            [ANN],
            [{'tags': ['b', 'a'], 'born': 'Feb 3, 2001', 'name': '"ann"'}],
            False,
            True,
        ),
        (PEOPLE, [ANN], [{**ANN, 'more': 1}], False, False),
        (PEOPLE, [ANN], [{'name': 'Ann'}], False, False),
        (PEOPLE, [ANN], [{**ANN, 'born': None}], False, False),
        (PEOPLE, [{**ANN, 'born': None}], [{**ANN, 'born': None}], False, True),
        (PEOPLE, [ANN], ['Ann'], False, False),
        (PEOPLE, [ANN], ['{"name": "Ann"}'], False, False),
    ],
)
def test_lists(schema, expected, actual, ordered, same):
  a = values.read_list(expected, schema, PLACES, expected=True)
  b = values.read_list(actual, schema, PLACES, expected=False)
  assert values.same(a, b, PLACES, ordered=ordered) is same


def test_an_object_may_have_more_where_that_is_asked_for():
  a, b = (
      values.read_object(raw, {}, PLACES, expected=True)
      for raw in ({'a': '1'}, {'a': '1', 'b': '2'})
  )
  assert not values.same(a, b, PLACES)
  assert values.same(a, b, PLACES, more=True)
  assert not values.same(b, a, PLACES, more=True)


def test_an_object_in_a_text_is_read():
  found = values.read_object('{"a": "X "}', {}, PLACES, expected=False)
  assert found == values.read_object({'a': 'x'}, {}, PLACES, expected=False)
  for raw in ('[1]', '{', '[' * 100_000):
    assert values.read_object(raw, {}, PLACES, expected=False) == raw
    with pytest.raises(ValueError, match='is no object'):
      values.read_object(raw, {}, PLACES, expected=True)


def test_a_task_whose_value_cannot_be_read_is_an_error():
  with pytest.raises(ValueError):
    values.read_list(['many'], NUMBERS, PLACES, expected=True)
  with pytest.raises(ValueError, match='Nothing was asked for'):
    values.read_list(['x'], {'type': 'null'}, PLACES, expected=False)


@given(st.lists(st.integers(0, 5), max_size=6), st.randoms())
def test_order_does_not_count_unless_it_does(numbers, chance):
  mixed = list(numbers)
  chance.shuffle(mixed)
  a, b = (
      values.read_list(raw, NUMBERS, PLACES, expected=True)
      for raw in (numbers, mixed)
  )
  assert values.same(a, b, PLACES)
  assert values.same(a, b, PLACES, ordered=True) is (numbers == mixed)
