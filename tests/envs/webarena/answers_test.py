"""Tests for answers: what is right, and what only looks so."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st

from agentrl.envs.webarena.answers import Date, Money, Number, Several, Text

RIGHT = [
    (Text('Blue Kettle 2'), 'blue  kettle 2.'),
    (Text('Blue Kettle 2'), '"Blue Kettle 2"'),
    (Text("Anna's shop"), 'anna\u2019s shop'),
    (Text('closed', ('was closed',)), 'was closed'),
    (Number('1234'), '1,234'),
    (Number('4.5'), '4.50'),
    (Number('12', 'reviews'), '12 reviews'),
    (Number('21', 'reviews'), '21 review'),
    (Money(123456), '$1,234.56'),
    (Money(123456), '1234.56 USD'),
    (Money(5000), 'US$50'),
    (Money(5000), '50.00 dollars'),
    (Date('2023-01-05'), 'January 5, 2023'),
    (Date('2023-01-05'), '1/5/2023'),
    (Date('2023-01-05'), '5th January 2023'),
    (Date('2023-01-05'), 'Jan 5, 2023.'),
    (Several((Text('a'), Text('b'))), 'b; a'),
    (Several((Text('a'), Text('b'))), '["a", "b"]'),
    (Several((Text('a, x'), Text('b'))), 'b\na, x'),
    (Several((Number('1'), Number('2')), ordered=True), '1, 2'),
    (Several((Text('only'),)), 'only'),
]
WRONG = [
    (Text('Blue Kettle 2'), 'Blue Kettle'),
    (Text('Blue Kettle 2'), 'It is the Blue Kettle 2'),
    (Text('Blue Kettle 2'), ''),
    (Number('1234'), '12,34'),
    (Number('1234'), '1235'),
    (Number('4.5'), '4.5 stars'),
    (Number('4.5'), '4.5 4.5'),
    (Number('12', 'reviews'), '12 orders'),
    (Number('12'), 'twelve'),
    (Number('12'), '١٢'),
    (Number('12'), 'nan'),
    (Money(5000), '$50.01'),
    (Money(5000), '$50.00 $60.00'),
    (Money(5000), '50 EUR'),
    (Date('2023-01-05'), '2023-01-06'),
    (Date('2023-01-05'), '5/1/2023'),
    (Date('2023-01-05'), 'January 2023'),
    (Several((Text('a'), Text('b'))), 'a'),
    (Several((Text('a'), Text('b'))), 'a; b; c'),
    (Several((Text('a'), Text('b'))), 'a; a'),
    (Several((Number('1'), Number('2')), ordered=True), '2, 1'),
    (Several((Text('only'),)), 'only; other'),
]


@pytest.mark.parametrize('answer,said', RIGHT)
def test_right(answer, said):
  assert answer.accepts(said)


@pytest.mark.parametrize('answer,said', WRONG)
def test_wrong(answer, said):
  assert not answer.accepts(said)


@pytest.mark.parametrize('answer', dict.fromkeys(x for x, _ in RIGHT))
def test_its_example_is_right(answer):
  assert answer.accepts(answer.example())


numbers = st.decimals(0, 10**9, places=2, allow_nan=False)


@hypothesis.given(numbers, numbers)
def test_numbers_are_equal_as_numbers(a, b):
  assert Number(str(a)).accepts(f'{b:,}') == (a == b)


@hypothesis.given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_amounts_are_equal_to_the_cent(a, b):
  assert Money(a).accepts(Money(b).example()) == (a == b)


@hypothesis.given(st.dates(), st.sampled_from(['%Y-%m-%d', '%B %d, %Y']))
def test_dates_are_read_in_each_form(day, form):
  hypothesis.assume(day.year > 1000)  # strftime leaves zeros out before
  assert Date(day.isoformat()).accepts(day.strftime(form))


words = st.text('abcdefgh', min_size=1, max_size=8)


@hypothesis.given(st.lists(words, min_size=1, max_size=6), st.randoms())
def test_the_order_of_a_list_is_free_unless_it_counts(items, chance):
  said = list(items)
  chance.shuffle(said)
  for text in ('; '.join(said), json.dumps(said), '\n'.join(said)):
    assert Several([Text(x) for x in items]).accepts(text)
    ordered = Several([Text(x) for x in items], ordered=True)
    assert ordered.accepts(text) == (said == items)


@hypothesis.given(st.text(max_size=200))
def test_no_text_is_an_error(text):
  for answer, _ in RIGHT:
    answer.accepts(text)
