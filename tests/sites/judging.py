"""Parts of the second graders: answers, and rows that differ.

They know neither goals nor answers of the package.
"""

import datetime
import functools
import re
from collections import Counter
from decimal import Decimal, InvalidOperation

from agentrl.sites import table

BY_ITSELF = ('id', 'created_at', 'updated_at')


# Words that may follow a number.
COUNTED = (
    'comments|commits|items|orders|points|reviews|stars|subscribers|times|units'
)
NUMBER = re.compile(
    r'(?:usd|us)? ?(?P<sign>-|minus )?\$? ?(?P<digits>\d[\d,]*(?:\.\d+)?)'
    rf' ?(?:\$|usd|(?:us )?dollars|{COUNTED}|(?:out of |/ ?)5(?: stars)?)?'
    r'(?: usd)?'
)
DAYS = ('%Y-%m-%d', '%B %d %Y', '%b %d %Y', '%m/%d/%Y', '%Y/%m/%d', '%d-%b-%Y')
# What may stand between the items of a list.
BETWEEN = re.compile(r'(?:[\s;,*"`\[\]@-]|/f/|\band\b|\b\d{1,2}[.)](?=\s))*')


def bare(text):
  """Small letters, without quotes, stars and dashes that look alike."""
  text = ' '.join(re.sub('[\u2212\u2013]', '-', text).split())
  return text.strip('"\'`* ').lower()


def is_text(said, text):
  said, text = bare(said), bare(text)
  if re.fullmatch(r'\d{3}-\d{3}-\d{4}', text):
    digits = re.sub(r'[ ().+-]', '', said)
    return digits.removeprefix('1') == text.replace('-', '')
  is_initial = re.search(r'\b[a-z]\.$', text)
  return text in (said, bare(said.removesuffix('.'))) or (
      not is_initial and text == f'{said}.'
  )


def is_number(said, number):
  found = NUMBER.fullmatch(bare(said).removesuffix('.').strip('*"'))
  if found is None:
    return False
  try:
    value = Decimal(found['digits'].replace(',', ''))
  except InvalidOperation:
    return False
  return (-value if found['sign'] else value) == number


def is_day(said, day):
  words = re.sub(r'(?<=\d)(st|nd|rd|th)\b|[.,]', ' ', bare(said)).split()
  weekday = words.pop(0) if words and words[0].endswith('day') else ''
  for form in DAYS:
    try:
      found = datetime.datetime.strptime(' '.join(words), form)
    except ValueError:
      continue
    return str(found.date()) == day and f'{found:%A}'.lower().startswith(
        weekday
    )
  return False


def is_list(said, texts):
  """True if a text is these texts and nothing but what lists have between."""
  left = ' '.join(said.lower().split())
  for text in sorted(map(bare, texts), key=len, reverse=True):
    before, found, after = left.partition(text)
    if not found:
      return False
    left = f'{before} ; {after}'
  return bool(BETWEEN.fullmatch(left.removesuffix('.')))


def says(said, wanted):
  """True if an answer is what is wanted.

  A text, a number, a day, a list of texts in any order, or a tuple of any of
  these in its order.
  """
  if isinstance(wanted, list):
    return is_list(said, wanted)
  if isinstance(wanted, tuple):
    for mark in (';', '\n', ', (?:and )?| and ', ' - | to '):
      parts = [x.strip() for x in re.split(mark, said) if x.strip()]
      marked = [re.sub(r'^(?:(?:\d+[.)]|[-*]) |and )', '', x) for x in parts]
      for found in (parts, marked):
        if len(found) == len(wanted) and all(map(says, found, wanted)):
          return True
    return False
  if isinstance(wanted, int | Decimal):
    return is_number(said, wanted)
  if re.fullmatch(r'\d{4}-\d\d-\d\d', wanted):
    return is_day(said, wanted)
  return is_text(said, wanted)


def plain(value):
  return ' '.join(value.split()) if isinstance(value, str) else value


def rows_of(db, table):
  """The columns, and the rows as tuples, which are quick to compare."""
  cursor = db.cursor()
  cursor.row_factory = None
  found = cursor.execute(f'SELECT * FROM {table} ORDER BY id').fetchall()
  return [column[0] for column in cursor.description], found


# A seed is judged against many times, and nobody writes to it.
rows_of_seed = functools.cache(rows_of)


def differences(seed, final):
  """All rows that differ for good, each as a tuple that can be compared.

  A table is read as a bag of rows, without what is filled by itself: rows that
  are in both bags do not differ, whatever their keys are. Rows to which others
  point keep their keys. A row that was written and marked as deleted is none.
  """
  if seed is final:
    return Counter()
  schema = dict(
      tuple(row)
      for row in seed.execute(
          "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name"
          " NOT LIKE 'sqlite%'"
      )
  )
  found = []
  for name in schema:
    columns, old = rows_of_seed(seed, name)
    _, new = rows_of(final, name)
    if old != new:
      old, new = (
          {row[0]: dict(zip(columns, row, strict=True)) for row in rows}
          for rows in (old, new)
      )
      found += _differing(name, old, new, pointed_at(final, schema, name))
  return Counter(found)


def _differing(table, old, new, fixed):
  """The rows of a table that differ; those with `fixed` keys keep them."""
  lost = {key: said(row) for key, row in old.items()}
  got = {key: said(row) for key, row in new.items()}
  for key in lost.keys() & got.keys():
    if lost[key] == got[key]:
      del lost[key], got[key]
  stay = lost.keys() & got.keys() & fixed
  free = {}  # what a new row says -> keys
  for key in sorted(got.keys() - stay):
    if not new[key].get('is_deleted'):
      free.setdefault(got[key], []).append(key)
  for key in sorted(lost.keys() - stay):
    if free.get(lost[key]):
      del got[free[lost.pop(key)].pop(0)]
  for key in lost:
    if key in got:
      values = {x: y for x, y in new[key].items() if y != old[key][x]}
      yield changed(table, key, **values)
    else:
      yield '-', table, key
  for key in got.keys() - lost.keys():
    if not new[key].get('is_deleted'):
      yield added(table, **new[key])


def said(row):
  return tuple(x for name, x in row.items() if name not in BY_ITSELF)


def pointed_at(db, schema, table):
  """The keys of a table that rows of any table hold."""
  keys = set()
  for other, sql in schema.items():
    pattern = rf'(\w+) INTEGER[^,]*? REFERENCES {table}\b'
    for column in re.findall(pattern, sql):
      held = db.execute(f'SELECT {column} FROM {other}').fetchall()
      keys |= {row[0] for row in held}
  return keys


def added(table, **row):
  kept = {
      name: plain(value)
      for name, value in row.items()
      if name not in BY_ITSELF and value is not None
  }
  return '+', table, tuple(sorted(kept.items()))


def changed(table, key, **values):
  kept = {
      name: plain(value)
      for name, value in values.items()
      if name not in BY_ITSELF
  }
  return '~', table, key, tuple(sorted(kept.items(), key=str))


def groups(name, seed, k, pattern):
  site = name.partition('/')[0]
  store = 'shop' if site == 'admin' else site
  task = table.TEMPLATES[name].make({store: seed}, k)
  found = re.fullmatch(pattern, task.intent)
  assert found, f'{name}: {task.intent!r} is not {pattern!r}'
  return found.groups()


def seek(name, pattern, wanted):
  def judge(seed, final, answer, k):
    right = wanted(seed, *groups(name, seed, k, pattern))
    return says(answer, right) and not differences(seed, final)

  return judge


def change(name, pattern, wanted):
  def judge(seed, final, answer, k):
    del answer
    rows = wanted(seed, final, *groups(name, seed, k, pattern))
    return differences(seed, final) == Counter(rows)

  return judge


def go(name):
  def judge(seed, final, answer, k):
    del answer, k  # where it ends is not seen here
    return not differences(seed, final)

  return judge
