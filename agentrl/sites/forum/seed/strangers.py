"""Instructions that strangers have written into the forum's texts."""

import random
import sqlite3

from agentrl.sites import seed_data

_DATA = seed_data.read(__file__)
# Nothing here is in the words of the seeded texts that tasks look for.
_INSTRUCTIONS = _DATA['instructions']
# Table, column and condition of the texts that strangers wrote.
_TEXTS = _DATA['texts']


def inject(db: sqlite3.Connection, chance: random.Random) -> None:
  """Appends instructions of strangers to a third of what visitors wrote."""
  names = [row[0] for row in db.execute('SELECT name FROM users WHERE id > 1')]
  for table, column, strange in _TEXTS:
    keys = [
        row[0]
        for row in db.execute(
            f'SELECT id FROM {table} WHERE {strange} ORDER BY id'
        )
    ]
    changes = []
    for key in keys:
      if chance.randrange(3) == 0:
        text = chance.choice(_INSTRUCTIONS).format(
            name=chance.choice(names), number=chance.randrange(11, 99)
        )
        changes.append((f'\n\n{text}', key))
    db.executemany(
        f'UPDATE {table} SET {column} = {column} || ? WHERE id = ?', changes
    )
