"""Plain texts as webarena-verified compares them.

Its transliteration is a table of all scripts; here, Latin letters lose their
accents, common signs are spelt as there, and pictures are dropped. Letters of
other scripts stay: such a text equals itself and nothing else.
"""

import json
import re
import unicodedata

_MARKS = dict.fromkeys(map(ord, '™®℠©'))
_HYPHENS = '[-\u2010-\u2015\u2212\u00ad]'
# Beside a letter a hyphen is a space; between digits it stays.
_HYPHEN = re.compile(f'(?<=[a-zA-Z]){_HYPHENS}|{_HYPHENS}(?=[a-zA-Z])')
_SIGNS = {
    '‘': "'", '’': "'", '‚': ',', '“': '"', '”': '"', '„': ',,', '′': "'",
    '‐': '-', '‒': '-', '–': '-', '—': '--', '―': '--', '−': '-', '⁄': '/',
    '•': '*', '·': '*', '×': 'x', '÷': '/', '°': 'deg', '«': '<<', '»': '>>',
    '‹': '<', '›': '>', '¡': '!', '¿': '?', '§': 'SS', '¶': 'P', '¦': '|',
    '¬': '!', '±': '+-', '†': '+', '‡': '++', '€': 'EUR', '£': 'PS',
    '¥': 'Y=', '¢': 'C/', '¤': '$?', '₹': 'Rs', 'ƒ': 'f', 'ß': 'ss',
    'æ': 'ae', 'Æ': 'AE', 'œ': 'oe', 'Œ': 'OE', 'ø': 'o', 'Ø': 'O', 'ł': 'l',
    'Ł': 'L', 'đ': 'd', 'Đ': 'D', 'ð': 'd', 'Ð': 'D', 'þ': 'th', 'Þ': 'Th',
    'ı': 'i', '→': '-', '←': '-', '✓': '', '★': '', '☆': '',
}  # fmt: skip
_TABLE = str.maketrans(_SIGNS)
_DROPPED = ('Mn', 'So')  # accents, and pictures such as emoji
_EDGES = '\'"`.,;:!?'


def is_pattern(value: object) -> bool:
  """True for a text that the benchmark reads as a regular expression."""
  return (
      isinstance(value, str)
      and len(value) >= 2
      and value.startswith('^')
      and value.endswith('$')
  )


def plain(text: str) -> str:
  """`text` without case, accents, trade marks and repeated spaces."""
  text = unicodedata.normalize('NFKC', text.translate(_MARKS))
  text = _HYPHEN.sub(' ', text)
  text = ''.join(
      ' ' if c in '\t\n\r' else c
      for c in text
      if c in '\t\n\r' or not unicodedata.category(c).startswith('C')
  )
  text = unicodedata.normalize('NFKD', text.translate(_TABLE))
  text = ''.join(c for c in text if unicodedata.category(c) not in _DROPPED)
  return ' '.join(text.split()).casefold()


def same(expected: str, actual: str) -> bool:
  """True if two plain texts are equal up to quotes and stops around them."""
  return expected == actual or expected.strip(_EDGES) == actual.strip(_EDGES)


def alike(expected: str, actual: str) -> bool:
  """True if two names of places are equal, or similar by at least 80%.

  Similarity is that of their sorted words: twice the longest common
  subsequence over the sum of the lengths.
  """
  if not expected or not actual:
    return expected == actual
  a, b = (
      ' '.join(sorted(re.sub(r'[\W_]', ' ', text).lower().split()))
      for text in (expected, actual)
  )
  if not a and not b:
    return True
  return round(200 * _common(a, b) / (len(a) + len(b))) >= 80


def _common(a: str, b: str) -> int:
  """Length of the longest common subsequence."""
  row = [0] * (len(b) + 1)
  for x in a:
    before = 0
    for k, y in enumerate(b, 1):
      before, row[k] = row[k], before + 1 if x == y else max(row[k], row[k - 1])
  return row[-1]


def items(text: str) -> tuple[str, ...]:
  """The items between commas, sorted.

  Raises:
    ValueError: there are none.
  """
  parts = sorted(filter(None, (item.strip() for item in text.split(','))))
  if not parts:
    raise ValueError('The list is empty.')
  return tuple(parts)


def json_text(text: str) -> str:
  """The JSON value in `text`, written with sorted keys and without spaces.

  Raises:
    ValueError: it is no JSON.
  """
  return json.dumps(json.loads(text), sort_keys=True, separators=(',', ':'))


def markdown(text: str) -> str:
  """`text` with one form of line ends, blank lines, lists and links.

  Raises:
    ValueError: it is empty.
  """
  text = text.strip()
  if not text:
    raise ValueError('The text is empty.')
  text = text.replace('\r\n', '\n').replace('\r', '\n')
  text = '\n'.join(_markdown_line(line) for line in text.split('\n'))
  text = re.sub(r'\n\n\n+', '\n\n', text)
  # An indented list item is indented by two, whatever was there.
  text = re.sub(r'(?m)^[ \t]+-', '  -', text)
  text = re.sub(r'\[([^\]]+)\]', lambda m: f'[{" ".join(m[1].split())}]', text)
  text = re.sub(r'\(([^)]+)\)', lambda m: f'({m[1].strip()})', text)
  return text.strip()


def _markdown_line(line: str) -> str:
  line = line.rstrip(' \t')
  line = re.sub(r'^(\s*#{1,6})[ \t]+', r'\1 ', line)
  return re.sub(r'^(\s*)[*+][ \t]+', r'\1- ', line)
