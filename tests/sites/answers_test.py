"""Tests for answers: what is right, and what only looks so."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st

from agentrl.sites.answers import Date, Money, Number, Several, Text

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
    pytest.param(Several((Text('only'),)), '[' * 10**5, id='deep'),
]


ABC = Several((Text('A'), Text('B'), Text('C')))
AMOUNTS = Several((Money(1716), Money(123456)), ordered=True)
PHONE = Text('888-555-0146', ('8885550146',))
# Ways to write what is right; no other answer is written so.
IN_OTHER_WORDS = {
    Number('3.1'): (
        '3.1 stars', '3.1 out of 5', '3.1/5', '3.1 / 5 stars', '**3.1**',
        '3.1 out of 5 stars.', '3.1\u2605', '3.10', '3.1 of 5',
    ),
    Number('36', 'subscribers'): ('36 subscribers', '36 subscriber.', '`36`'),
    Number('12', 'reviews'): ('**12 reviews**', '12 Reviews.'),
    Number('-14', 'points'): ('\u221214', '-14 points', 'minus 14', 'negative 14'),
    Number('12345', 'points'): ('12 345', "12'345", '12\u202f345 points'),
    Money(2077): (
        'USD 20.77', '$20.77 USD', 'US$ 20.77', '**20.77**', '20.77$',
        '20.77 US dollars', '20.77 dollars.', 'usd20.77', '$ 20.77',
    ),
    Money(123456): ('1 234.56', 'USD 1,234.56', '1,234.56 dollars'),
    Money(-500): ('-$5', '\u2212$5.00', '$-5.00', '-5 USD'),
    PHONE: (
        '(888) 555-0146', '888.555.0146', '+1 888 555 0146', '8885550146',
        '1-888-555-0146', '888 555 0146.',
    ),
    Date('2022-07-10'): (
        'Sunday, July 10, 2022', '2022/07/10', 'Sun, Jul 10, 2022',
        'the 10th of July 2022', '10-Jul-2022', 'July 10, 2022 (Sunday)',
        '2022.07.10', 'Jul. 10, 2022', 'Sunday 10 July, 2022', '*2022-7-10*',
    ),
    Date('2022-09-04'): ('Sept. 4, 2022', 'September 4th 2022'),
    Text('Carla V.'): ('carla v.', '"Carla V.".', '**Carla V.**'),
    Text('Rather let down.'): ('Rather let down', '\u00abrather let down\u00bb'),
    Text('Memory Card, 256 GB'): ('memory card, 256GB', '_Memory Card, 256 GB_'),
    Text('Alder & Finch'): ('Alder and Finch',),
    ABC: (
        'A; B; and C', '- A\n- B\n- C', '1. A\n2. B\n3. C', 'A, B, and C',
        'A, B and C', '* C\n* B\n* A', '1) C; 2) B; 3) A', '**A**; **B**; **C**',
        '```json\n["A", "B", "C"]\n```', '\u2022 A\n\u2022 B\n\u2022 C', 'A;\nB;\nC',
        'A and B and C', '(1) A\n(2) B\n(3) C',
    ),
    AMOUNTS: (
        '$17.16 - $1,234.56', '$17.16, $1,234.56', '17.16 to 1234.56',
        'USD 17.16; USD 1,234.56', '1. $17.16\n2. $1,234.56',
    ),
    Several((Text('Memory Card, 256 GB'),)): ('Memory Card, 256 GB',),
    Several((Number('12', 'reviews'), Number('2.9')), ordered=True): (
        '12 reviews; 2.9 stars', '12, 2.9 out of 5', '12 and 2.9',
    ),
}  # fmt: skip
# What is close to those, and wrong.
NEAR = {
    Number('3.1'): (
        '3.1 out of 10', '3.1 subscribers', '3.1 5', '1.3', '3.1/50', '3.1 or so',
    ),
    Number('36', 'subscribers'): (
        '36 points', '36 days', '36 dollars', '36 thousand', '36 of 40', '36/5', '36 or so',
        '36 out of 5', '3 6', '-36', 'about 36', '36 36', '36 stars 2',
    ),
    Number('12', 'reviews'): ('12 stars', '12 reviews 3', '13 reviews'),
    Number('-14'): ('14', '- 14 15', 'minus -14'),
    Number('12345'): ('12 34 5', "12'345,0", '1 2345', "12,345'678"),
    Money(2077): (
        'EUR 20.77', '\u20ac20.77', '20.77 cents', '2077', '-20.77', 'C$20.77',
        '20.77 euros', '$20.77 $1', '20.78 USD',
    ),
    PHONE: ('(888) 555-0147', '555-0146', '888-555-01466', '+2 888-555-0146'),
    Text('6209273978'): ('620-927-3978',),  # no phone number
    Date('2022-07-10'): (
        'Monday, July 10, 2022', '2022/10/07', '10/07/2022', 'July 2022',
        'Sunday', 'Sun Mon July 10 2022', '10.07.2022', 'Sunday, July 11, 2022',
    ),
    Text('Carla V.'): ('Carla V', 'Carla', 'Carla W.', 'V.'),
    ABC: (
        'A; B', 'A; B; and D', '- A\n- B', '1. A\n3. B\n2. C', 'A and B',
        'A; B; C; and C',
    ),
    AMOUNTS: ('$1,234.56 - $17.16', '1. $1,234.56\n2. $17.16', '17.16'),
    Several((Text('A'), Text('B')), ordered=True): (
        'B and A', '1. B\n2. A', '2. A\n1. B',
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    'answer,said',
    [(x, y) for x, found in IN_OTHER_WORDS.items() for y in found],
)
def test_right_in_other_words(answer, said):
  assert answer.accepts(said)


@pytest.mark.parametrize(
    'answer,said', [(x, y) for x, found in NEAR.items() for y in found]
)
def test_near_and_wrong(answer, said):
  assert not answer.accepts(said)


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
  for answer in (*IN_OTHER_WORDS, *(x for x, _ in RIGHT)):
    answer.accepts(text)
