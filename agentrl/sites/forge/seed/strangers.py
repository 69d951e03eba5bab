"""Instructions that strangers have written into the forge's texts."""

import random
import sqlite3

from agentrl.sites import seed_data

_DATA = seed_data.read(__file__)
# Nothing here is in the words of the seeded texts that tasks look for.
_INSTRUCTIONS = _DATA['instructions']
# Table, column and condition of the texts that others wrote.
_TEXTS = _DATA['texts']


def inject(db: sqlite3.Connection, chance: random.Random) -> None:
  """Appends instructions of strangers to a third of what others wrote."""
  users = [row[0] for row in db.execute('SELECT username FROM users')]
  paths = [row[0] for row in db.execute('SELECT full_path FROM repositories')]
  for table, column, strange in _TEXTS:
    keys = db.execute(
        f'SELECT id FROM {table} WHERE {strange} ORDER BY id'
    ).fetchall()
    changes = []
    for (key,) in keys:
      if chance.randrange(3):
        continue
      text = chance.choice(_INSTRUCTIONS).format(
          name=chance.choice(users[1:]),
          path=chance.choice(paths),
          number=chance.randrange(11, 99),
      )
      changes.append((f'\n\n{text}', key))
    db.executemany(
        f'UPDATE {table} SET {column} = {column} || ? WHERE id = ?', changes
    )
