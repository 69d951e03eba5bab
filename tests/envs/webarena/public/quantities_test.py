"""Tests for numbers, amounts, times and places in answers."""

from decimal import Decimal

import pytest
from hypothesis import assume, given, strategies as st

from agentrl.envs.webarena.public import quantities

CASES = {
    quantities.number: [
        (5, 5), (2.5, 2.5), ('5', 5), ('1,234', 1234), ('1 234.5', 1234.5),
        ('-3', -3), ('1e3', 1000), ('seven', 7), ('twenty-one', 21),
        ('one hundred and four', 104), ('two point five', 2.5),
        ('three million two thousand', 3_002_000), ('Hundred', 100),
        ('six of them', 6), (True, 1),
    ],
    quantities.amount: [
        ('$12.99', Decimal('12.99')), ('1,234.50', Decimal('1234.5')),
        ('1.234,50 €', Decimal('1234.5')), ('12', 12), (12.5, Decimal('12.5')),
        ('Total: $5', 5), ('1,234', Decimal('1.234')), ('free', 0), (0, 0),
        ('-$3.10', Decimal('-3.1')), ("1'000", 1000), ('30% of $5', 5),
    ],
    quantities.metres: [
        ('914km', 914_000), ('2.4 km', 2400), ('500 m', 500),
        ('1 mile', Decimal('1609.344')), ('3 ft', Decimal('0.9144')),
        ('1,200 m', 1200), ('2k', 2000), ('1 km + 200 m', 1200), ('~5 m.', 5),
    ],
    quantities.seconds: [
        ('5 min', 300), ('1h 30min', 5400), ('1 hour, 5 mins', 3900),
        ('1:30', 90), ('1:00:05', 3605), ('1:30 hours', 5400), ('2 days', 172800),
        ('1.5 hours', 5400), ('-5 min', -300), ('1d 2:00:00', 93600),
    ],
    quantities.day: [
        ('2023-06-15', '2023-06-15'), ('June 15, 2023', '2023-06-15'),
        ('6/5/2023', '2023-06-05'), ('15/6/2023', '2023-06-15'),
        ('Jun 15,2023', '2023-06-15'), ('2023-06-15T10:00:00', '2023-06-15'),
    ],
    quantities.month: [
        ('January', 'January'), ('jan', 'January'), (1, 'January'),
        ('12', 'December'), (2.0, 'February'), ('Feb 2023', 'February'),
    ],
    quantities.boolean: [
        ('yes', True), ('n', False), ('on', True), ('0', False), (1, True),
        (False, False),
    ],
    quantities.point: [
        ([40.5, -80], (40.5, -80)), ({'lat': 40.5, 'lng': '-80'}, (40.5, -80)),
        ({'Latitude': 1, 'lon': 2}, (1, 2)), ('40.5, -80', (40.5, -80)),
        ('40.5; -80.0', (40.5, -80)), ([0, 190], (0, -170)), ([1, -180], (1, -180)),
    ],
}  # fmt: skip
WRONG = {
    quantities.number: ['', None, 'many', [], {}, 'thousand thousand'],
    quantities.amount: ['', None, 'n/a', 'ten', []],
    quantities.metres: ['', '5', 5, 'far', '5 apples', '5 km/h', None],
    quantities.seconds: ['', '5', 5, 'soon', None, '1:2', 'h'],
    quantities.day: ['', 'soon', None, '2023-13-45', 5, '9' * 40],
    quantities.month: ['', 'soon', 0, 13, 1.5, '13', None, []],
    quantities.boolean: ['', 'maybe', None, []],
    quantities.point: [
        '', 'here', [1], [1, 2, 3], {'lat': 1}, [91, 0], None, [{'x': 1}, 1],
        [0, float('nan')], [0, float('inf')],
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    'read,value,wanted',
    [(read, *case) for read, cases in CASES.items() for case in cases],
)
def test_forms(read, value, wanted):
  found = read(value)
  assert (
      found == pytest.approx(wanted)
      if read == quantities.seconds
      else (found == wanted)
  )


@pytest.mark.parametrize(
    'read,value',
    [(read, value) for read, values in WRONG.items() for value in values],
)
def test_what_cannot_be_read_is_refused(read, value):
  with pytest.raises(ValueError):
    read(value)


_ONES = (
    'zero one two three four five six seven eight nine ten eleven twelve'
    ' thirteen fourteen fifteen sixteen seventeen eighteen nineteen'
).split()
_TENS = 'twenty thirty forty fifty sixty seventy eighty ninety'.split()


def spelt(number):
  """A number in English words."""
  for scale, name in ((10**6, 'million'), (1000, 'thousand'), (100, 'hundred')):
    if number >= scale:
      rest = f' {spelt(number % scale)}' if number % scale else ''
      return f'{spelt(number // scale)} {name}{rest}'
  if number < 20:
    return _ONES[number]
  return f'{_TENS[number // 10 - 2]}-{_ONES[number % 10]}'.removesuffix('-zero')


@given(st.integers(0, 10**9 - 1))
def test_numbers_are_read_as_they_are_written(number):
  assert quantities.number(f'{number:,}') == number
  assert quantities.number(spelt(number)) == number


@given(st.integers(0, 10**9))
def test_amounts_are_read_in_both_styles(cents):
  text = f'{Decimal(cents) / 100:,.2f}'
  assert quantities.amount(f'${text}') * 100 == cents
  other = text.translate(str.maketrans(',.', '.,'))
  assert quantities.amount(f'{other} €') * 100 == cents


@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 59))
def test_clocks_and_units_agree(hours, minutes, seconds):
  clock = quantities.seconds(f'{hours}:{minutes:02}:{seconds:02}')
  assert clock == quantities.seconds(f'{hours}h {minutes}min {seconds}s')
  assert clock == 3600 * hours + 60 * minutes + seconds


@given(st.dates())
def test_dates_are_read_as_they_are_written(day):
  assume(day.year > 99)
  assert quantities.day(day.isoformat()) == day.isoformat()
  assert quantities.day(f'{day:%B} {day.day}, {day.year:04}') == day.isoformat()
  assert quantities.month(f'{day:%B}') == f'{day:%B}'


@given(st.floats(-90, 90), st.floats(-180, 180))
def test_points_are_read_as_they_are_written(latitude, longitude):
  latitude, longitude = round(latitude, 6), round(longitude, 6)
  text = f'{latitude:.6f}, {longitude:.6f}'
  assert quantities.point(text) == (latitude, longitude)
  assert quantities.point({'lat': latitude, 'lon': longitude}) == (
      latitude,
      longitude,
  )
