"""Seeded pairs of values of each kind, near to each other and far."""

import random

_MONTHS = (
    'January', 'February', 'March', 'April', 'May', 'June', 'July', 'August',
    'September', 'October', 'November', 'December',
)  # fmt: skip
_WORDS = 'zero one two three four five six seven eight nine ten'.split()


def pairs(count, seed):
  """`count` triples of each kind: kind, expected and actual value."""
  found = []
  for kind, (make, forms) in KINDS.items():
    for k in range(count):
      rng = random.Random(f'{seed}/{kind}/{k}')
      value = make(rng)
      expected = rng.choice(forms)(value, rng)
      if rng.random() < 0.3:
        value = make(rng)
      found.append([kind, expected, rng.choice(forms)(value, rng)])
  return found


def _price(rng):
  return round(rng.choice([5, 100, 3000, 10**6]) * rng.random(), 2)


def _near(value, rng):
  return value + rng.choice([-0.11, -0.1, -0.05, 0.05, 0.1, 0.11, 1])


_MONEY = (
    lambda x, r: x,
    lambda x, r: round(_near(x, r), 2),
    lambda x, r: int(x),
    lambda x, r: f'{x:.2f}',
    lambda x, r: f'${x:,.2f}',
    lambda x, r: f'${x:.1f}',
    lambda x, r: f'$ {x:,.0f}',
    lambda x, r: f'{x:.2f} USD',
    lambda x, r: f'US${x:,.2f}',
    lambda x, r: f'€{x:.2f}',
    lambda x, r: f'{x:.2f}€',
    lambda x, r: f'£{x:,.2f}'.replace(',', "'"),
    lambda x, r: f'{x:,.2f}'.translate(str.maketrans(',.', '.,')),
    lambda x, r: f'{x:,.2f}'.replace(',', ' '),
    lambda x, r: f'-${x:.2f}',
    lambda x, r: f'$-{x:.2f}',
    lambda x, r: f'(${x:.2f})',
    lambda x, r: f'Total: ${x:.2f}',
    lambda x, r: f'{x:.2f}%',
    lambda x, r: f'{x:.0f}% of ${x:.2f}',
    lambda x, r: f'between ${x:.2f} and ${x + 5:.2f}',
    lambda x, r: f'.{x:.0f}',
    lambda x, r: f'{x:.0f}.',
    lambda x, r: f'{x:.0f},-',
    lambda x, r: f'{x:.3e}',
    lambda x, r: r.choice(['free', 'n/a', '', None, True, 0, '0', 'ten', []]),
)


def _number(rng):
  return rng.choice(
      [rng.randrange(12), rng.randrange(10**6), rng.random() * 50]
  )


def _spelt(x, r):
  x = int(x)
  if x < 11:
    return r.choice([_WORDS[x], _WORDS[x].upper(), f'{_WORDS[x]} of them'])
  return r.choice([
      f'twenty {_WORDS[x % 10]}', f'thirty-{_WORDS[x % 10]}',
      f'{_WORDS[x % 9 + 1]} hundred', f'{_WORDS[x % 9 + 1]} hundred and four',
      f'{_WORDS[x % 9 + 1]} thousand', 'a hundred', 'hundred', 'thousand',
      f'{_WORDS[x % 9 + 1]} thousand two hundred and six',
      f'one million {_WORDS[x % 9 + 1]} thousand', 'two point five',
      f'{_WORDS[x % 9 + 1]} point zero five', 'six hundred thousand and one',
      'thousand thousand', 'one thousand two million', 'ninety nine',
      'one hundred twenty three', 'one billion', 'point five', 'nothing',
      'two million three', 'nineteen eighty',
  ])  # fmt: skip


_NUMBERS = (
    lambda x, r: x,
    lambda x, r: int(x),
    lambda x, r: float(x),
    lambda x, r: str(x),
    lambda x, r: f'{x:,}',
    lambda x, r: f'{int(x):,}'.replace(',', ' '),
    lambda x, r: f'{x:.1f}',
    lambda x, r: f' {x} ',
    lambda x, r: f'+{x}',
    lambda x, r: -x,
    lambda x, r: f'-{x}',
    lambda x, r: f'{x:.3e}',
    lambda x, r: f'{x} items',
    lambda x, r: f'#{x}',
    lambda x, r: f'{x}%',
    lambda x, r: f'${x}',
    lambda x, r: f'{x}.',
    lambda x, r: f'１{x}',
    _spelt,
    _spelt,
    lambda x, r: r.choice(['', None, True, False, 'inf', 'N/A', {}, '1_000']),
)


def _seconds(rng):
  return rng.choice(
      [rng.randrange(300), rng.randrange(9000), rng.randrange(10**5)]
  )


_TIMES = (
    lambda x, r: f'{x // 60}min',
    lambda x, r: f'{x // 60} minutes',
    lambda x, r: f'{x // 60}m{x % 60}s',
    lambda x, r: f'{x // 3600}h {x % 3600 // 60}min',
    lambda x, r: f'{x // 3600} hours, {x % 3600 // 60} mins',
    lambda x, r: f'{x // 3600} hr / {x % 3600 // 60} min',
    lambda x, r: f'{x // 3600}h{x % 3600 // 60}',
    lambda x, r: f'{x // 3600} hours and {x % 3600 // 60} minutes',
    lambda x, r: f'{x / 3600:.2f} hours',
    lambda x, r: f'{x / 60:.1f} mins',
    lambda x, r: f'{x} seconds',
    lambda x, r: f'{x} secs',
    lambda x, r: f'{x // 3600}:{x % 3600 // 60:02}:{x % 60:02}',
    lambda x, r: f'0{x // 3600}:{x % 3600 // 60:02}:{x % 60:02}',
    lambda x, r: f'{x // 60}:{x % 60:02}',
    lambda x, r: f'{x // 3600}:{x % 3600 // 60:02} hours',
    lambda x, r: f'{x // 3600}:{x % 3600 // 60:02} h',
    lambda x, r: f':{x % 60:02}',
    lambda x, r: f'{x // 86400}d {x % 86400 // 3600}h',
    lambda x, r: f'{x // 86400} days {x % 86400 // 3600}:05:07',
    lambda x, r: f'{x // 86400}:{x % 86400 // 3600:02}:05:07.5',
    lambda x, r: f'1w{x // 86400}d',
    lambda x, r: f'{x % 5}y',
    lambda x, r: f'{x % 5} months',
    lambda x, r: '2 mos',
    lambda x, r: '1 yr 2 weeks',
    lambda x, r: f'{x}ms',
    lambda x, r: f'-{x // 60} min',
    lambda x, r: f'- {x // 60} min',
    lambda x, r: f'about {x // 60} min',
    lambda x, r: f'{x // 60} min.',
    lambda x, r: f'{x // 60} min walk',
    lambda x, r: f'{x // 60}MIN',
    lambda x, r: f'5 min {x // 3600} h',
    lambda x, r: f'{x // 60}..5 min',
    lambda x, r: x,
    lambda x, r: str(x),
    lambda x, r: r.choice(['', None, 'soon', '5 m i n', '1.2.3 h', 'h', True]),
)


def _length(rng):
  return rng.choice(
      [rng.randrange(100), rng.randrange(3000), rng.randrange(10**6)]
  )


_LENGTHS = (
    lambda x, r: f'{x}m',
    lambda x, r: f'{x} m',
    lambda x, r: f'{x:,} m',
    lambda x, r: f'{x} meters',
    lambda x, r: f'{x} metre',
    lambda x, r: f'{x / 1000}km',
    lambda x, r: f'{x / 1000:.1f} km',
    lambda x, r: f'{x / 1000:.0f} Kilometers',
    lambda x, r: f'{x / 1000:.1f}k',
    lambda x, r: f'{x / 1000:.0f} k',
    lambda x, r: f'{x / 1609.344:.1f} miles',
    lambda x, r: f'{x / 1609.344:.2f} mi',
    lambda x, r: f'{x / 0.3048:,.0f} ft',
    lambda x, r: f'{x / 0.3048:.0f} feet',
    lambda x, r: f'{x / 0.9144:.0f} yards',
    lambda x, r: f'{x * 100} cm',
    lambda x, r: f'{x / 0.0254:.0f} inches',
    lambda x, r: f'{x + 9} m',
    lambda x, r: f'{x + 11} m',
    lambda x, r: f'{x * 1.02:.3f} m',
    lambda x, r: f'{x // 1000} km + {x % 1000} m',
    lambda x, r: f'{x // 1000} km {x % 1000} m',
    lambda x, r: f'~{x} m',
    lambda x, r: f'{x} m.',
    lambda x, r: f'about {x} m',
    lambda x, r: f'{x} m away',
    lambda x, r: f'-{x} m',
    lambda x, r: f'{x} min',
    lambda x, r: f'{x} kms',
    lambda x, r: f'{x} nmi',
    lambda x, r: f'{x:.2e} m',
    lambda x, r: x,
    lambda x, r: str(x),
    lambda x, r: r.choice(['', None, 'far', '5 apples', 'five km', '5 km/h']),
)


def _date(rng):
  return rng.randrange(1995, 2030), rng.randrange(1, 13), rng.randrange(1, 29)


def _st(day):
  return {1: 'st', 2: 'nd', 3: 'rd', 21: 'st', 22: 'nd', 23: 'rd'}.get(
      day, 'th'
  )


_DATES = (
    lambda x, r: '{}-{:02}-{:02}'.format(*x),
    lambda x, r: f'{x[1]}/{x[2]}/{x[0]}',
    lambda x, r: f'{x[1]:02}/{x[2]:02}/{x[0] % 100:02}',
    lambda x, r: '{}/{}/{}'.format(*x),
    lambda x, r: f'{x[2]}.{x[1]}.{x[0]}',
    lambda x, r: f'{_MONTHS[x[1] - 1]} {x[2]}, {x[0]}',
    lambda x, r: f'{_MONTHS[x[1] - 1]} {x[2]},{x[0]}',
    lambda x, r: f'{_MONTHS[x[1] - 1][:3]} {x[2]} {x[0]}',
    lambda x, r: f'{_MONTHS[x[1] - 1][:3]}. {x[2]}, {x[0]}',
    lambda x, r: f'{x[2]} {_MONTHS[x[1] - 1]} {x[0]}',
    lambda x, r: f'{x[2]}-{_MONTHS[x[1] - 1][:3]}-{x[0]}',
    lambda x, r: f'{x[2]}{_st(x[2])} of {_MONTHS[x[1] - 1]} {x[0]}',
    lambda x, r: f'{_MONTHS[x[1] - 1]} {x[2]}{_st(x[2])}, {x[0]}',
    lambda x, r: f'Monday, {_MONTHS[x[1] - 1]} {x[2]}, {x[0]}',
    lambda x, r: '{}-{:02}-{:02}T10:20:30'.format(*x),
    lambda x, r: '{}-{:02}-{:02} 23:59:59Z'.format(*x),
    lambda x, r: f'{x[1]}/{x[2]}/{x[0]}, 5:07:12 PM',
    lambda x, r: '{}{:02}{:02}'.format(*x),
    lambda x, r: f'on {_MONTHS[x[1] - 1]} {x[2]}, {x[0]}',
    lambda x, r: f'{_MONTHS[x[1] - 1]} {x[0]}, day {x[2]}',
    lambda x, r: r.choice(['', None, 'yesterday', 20230101, '2023-02-30', '?']),
)
_NAMES = (
    lambda x, r: _MONTHS[x[1] - 1],
    lambda x, r: _MONTHS[x[1] - 1].upper(),
    lambda x, r: _MONTHS[x[1] - 1][:3],
    lambda x, r: _MONTHS[x[1] - 1][:4],
    lambda x, r: x[1],
    lambda x, r: float(x[1]),
    lambda x, r: x[1] + 0.5,
    lambda x, r: x[1] + 12,
    lambda x, r: str(x[1]),
    lambda x, r: f'0{x[1]}',
    lambda x, r: f'{_MONTHS[x[1] - 1]} {x[0]}',
    lambda x, r: '{}-{:02}'.format(*x),
    lambda x, r: f'{x[1]}/{x[0]}',
    lambda x, r: f'in {_MONTHS[x[1] - 1]}',
    lambda x, r: r.choice(['', None, 'spring', 0, '0', '13', True, 'Q1']),
)


def _point(rng):
  return rng.randrange(-9000, 9000) / 100, rng.randrange(-18000, 18000) / 100


_POINTS = (
    lambda x, r: {'latitude': x[0], 'longitude': x[1]},
    lambda x, r: {'lat': str(x[0]), 'lon': str(x[1])},
    lambda x, r: {'LAT': x[0], 'lng': x[1]},
    lambda x, r: {'long': x[1], 'lati': x[0]},
    lambda x, r: {'latitude': x[0] + 9e-6, 'longitude': x[1]},
    lambda x, r: {'latitude': x[0], 'longitude': x[1] + 2e-5},
    lambda x, r: {'latitude': x[0], 'longitude': x[1] + 360},
    lambda x, r: {'latitude': x[0] + 100, 'longitude': x[1]},
    lambda x, r: {'x': x[0], 'y': x[1]},
    lambda x, r: {'latitude': x[0]},
    lambda x, r: list(x),
    lambda x, r: [str(each) for each in x],
    lambda x, r: f'{x[0]}, {x[1]}',
    lambda x, r: f'{x[0]},{x[1]}',
    lambda x, r: f'{x[0]} {x[1]}',
    lambda x, r: f'{x[0]} / {x[1]}',
    lambda x, r: f'{x[0]}; {x[1]}',
    lambda x, r: f'({x[0]}, {x[1]})',
    lambda x, r: f'at {x[0]}, {x[1]}',
    lambda x, r: f'{x[0]}, {x[1]}, 2 km',
    lambda x, r: f'{abs(x[0])} N, {abs(x[1])} W',
    lambda x, r: f'{x[0]}\u00b0, {x[1]}\u00b0',
    lambda x, r: f'{int(x[0])} 30m 15s, {int(x[1])} 6m 36s',
    lambda x, r: f"{int(x[0])} 30' 15\", {int(x[1])} 6'",
    lambda x, r: f'\u2212{abs(x[0])}, {x[1]}',
    lambda x, r: r.choice(['', None, 'here', '40', [1, 2, 3], [None, 2], {}]),
)
_TRUTHS = (
    lambda x, r: x,
    lambda x, r: str(x),
    lambda x, r: int(x),
    lambda x, r: 'yes' if x else 'No',
    lambda x, r: 'on' if x else 'off ',
    lambda x, r: 'T' if x else 'f',
    lambda x, r: str(int(x)),
    lambda x, r: r.choice(['', None, 'maybe', 2, 0.0, 'yes!', '"true"', []]),
)


def _name(rng):
  words = 'north park grand coffee house museum of the old town café st river'
  return rng.sample(words.split(), rng.randrange(1, 6))


_PLACES = (
    lambda x, r: ' '.join(x),
    lambda x, r: ' '.join(x).title(),
    lambda x, r: ' '.join(reversed(x)),
    lambda x, r: ' '.join(x[:-1]),
    lambda x, r: ' '.join([*x, 'new']),
    lambda x, r: ', '.join(x),
    lambda x, r: '-'.join(x),
    lambda x, r: ''.join(x),
    lambda x, r: ' '.join(x).replace('o', '0'),
    lambda x, r: ' '.join(each[:-1] for each in x),
    lambda x, r: ' '.join(x) + '!?',
    lambda x, r: r.choice(['', None, '!!!', 5, '_', {}]),
)
_STRINGS = (
    *_PLACES,
    lambda x, r: f'"{" ".join(x)}".',
    lambda x, r: f'\u2018{" ".join(x)}\u2019',
    lambda x, r: ' '.join(x).upper(),
    lambda x, r: '\u2014'.join(x),
    lambda x, r: ' \u2013 '.join(x),
    lambda x, r: '\u00a0'.join(x),
    lambda x, r: ' '.join(x).replace('e', 'e\u0301'),
    lambda x, r: ' '.join(x).replace('s', '\u00df'),
    lambda x, r: ' '.join(x) + '\u00ae\u2122',
    lambda x, r: ' '.join(x) + '\U0001f600',
    lambda x, r: '\u00ab' + ' '.join(x) + '\u00bb',
    lambda x, r: ' '.join(x) + '\u2026',
    lambda x, r: ' '.join(x) + ' \u00bd',
    lambda x, r: ' '.join(x) + ' 1/2',
    lambda x, r: ' '.join(x) + ' 20\u00b0',
    lambda x, r: '\u200b'.join(x),
    lambda x, r: '\n'.join(x),
)
_LISTS = (
    lambda x, r: ','.join(x),
    lambda x, r: ' , '.join(x),
    lambda x, r: ','.join(reversed(x)),
    lambda x, r: ','.join(x) + ',',
    lambda x, r: ','.join(x).upper(),
    lambda x, r: ','.join(x[1:]),
    lambda x, r: ' '.join(x),
    lambda x, r: r.choice(['', None, ',', 5, ' ']),
)


def _outline(rng):
  return [rng.choice(['one', 'two words', '[a b](http://x.test/a)', 'three'])
          for _ in range(3)]  # fmt: skip


_MARKDOWN = (
    lambda x, r: '# T\n\n' + '\n'.join(f'- {each}' for each in x),
    lambda x, r: '#  T\n\n\n\n' + '\n'.join(f'* {each}' for each in x),
    lambda x, r: '# T\r\n\r\n' + '\r\n'.join(f'+ {each}  ' for each in x),
    lambda x, r: '# T\n' + '\n'.join(f'- {each}' for each in x),
    lambda x, r: '# T\n\n' + '\n'.join(f'    - {each}' for each in x),
    lambda x, r: '# T\n\n' + '\n'.join(f' -{each}' for each in x),
    lambda x, r: '# T\n\n' + '\n'.join(f'\t* {each}' for each in x) + '\n\n',
    lambda x, r: '# T\n\n'
    + '\n'.join(f'- {each}'.replace('a b', 'a\nb') for each in x),
    lambda x, r: '# T\n\n'
    + '\n'.join(f'- {each}'.replace('[a b](', '[ a  b ]( ') for each in x),
    lambda x, r: '# T\n\n' + '\n'.join(f'- {each.upper()}' for each in x),
    lambda x, r: '#\tT\n \n' + '\n'.join(f'*\t{each}' for each in x),
    lambda x, r: '#T\n\n' + '\n'.join(f'-  {each}' for each in x),
    lambda x, r: r.choice(['', None, 5, ' ', '# T']),
)
_JSON = (
    lambda x, r: f'{{"a": "{x[0]}", "b": [1, 2]}}',
    lambda x, r: f'{{"b":[1,2],"a":"{x[0]}"}}',
    lambda x, r: f'{{"b": [2, 1], "a": "{x[0]}"}}',
    lambda x, r: f'{{"A": "{x[0].upper()}", "b": [1, 2]}}',
    lambda x, r: f'{{"a": "{x[0]}", "b": [1.0, 2]}}',
    lambda x, r: f'{{"a": "{x[0]}", "b": {{"d": 1, "c": 2}}}}',
    lambda x, r: f'{{"b": {{"c": 2, "d": 1}}, "a": "{x[0]}"}}',
    lambda x, r: f'{{"a": "{x[0]}"',
    lambda x, r: r.choice(['', None, 5, '[]', '5', "{'a': 1}"]),
)
KINDS = {
    'currency': (_price, _MONEY),
    'number': (_number, _NUMBERS),
    'duration': (_seconds, _TIMES),
    'distance': (_length, _LENGTHS),
    'date': (_date, _DATES),
    'month': (_date, _NAMES),
    'coordinates': (_point, _POINTS),
    'boolean': (lambda rng: rng.random() < 0.5, _TRUTHS),
    'location-name': (_name, _PLACES),
    'string': (_name, _STRINGS),
    'string_list': (_name, _LISTS),
    'markdown': (_outline, _MARKDOWN),
    'json': (_name, _JSON),
}
