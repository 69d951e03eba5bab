"""The forum's records."""

import datetime
import random
import sqlite3
from collections.abc import Sequence

from agentrl.sites import seed_data
from agentrl.sites.forum.seed import strangers, texts
from agentrl.sites.forum.seed.topics import TOPICS, Topic
from agentrl.sites.store import NOW, ago
from agentrl.sites.writes import insert_all

SCHEMA = seed_data.sql(__file__)
inject = strangers.inject

EMMA = 1
_USERS, _SUBMISSIONS = 250, 1500
_MINUTE = 60
_NOW = datetime.datetime.fromisoformat(NOW)
_YEAR = 365 * 24 * 60  # minutes
_MODERATED = ('lakewood', 'birdwatching')
_DATA = seed_data.read(__file__)
_SUBSCRIBED = _DATA['subscribed']
_BLOCKED = ('spam', 'rude messages', 'keeps posting adverts', 'stole a picture',
            'insults newcomers', 'off-topic links')  # fmt: skip
# Subject, what the other one writes, and what is answered.
_LETTERS = _DATA['letters']
BOOKS = _DATA['books']


def fill(db: sqlite3.Connection, chance: random.Random) -> None:
  """Inserts the records."""
  topics = list(TOPICS)
  chance.shuffle(topics)
  _fill_users(db, chance)
  _fill_forums(db, chance, topics)
  _fill_submissions(db, chance, topics)
  _fill_comments(db, chance, topics)
  _fill_emma(db, chance)
  _fill_messages(db, chance)


def _fill_users(db: sqlite3.Connection, chance: random.Random) -> None:
  rows: list[tuple[str, str | None, str]] = [
      ('emma', 'Birds, books and bicycles.', ago(823 * 1440 + 77))
  ]
  for name in texts.names(chance, _USERS - 1):
    about = None
    if chance.random() < 0.6:
      about = texts.biography(chance, chance.choice(TOPICS))
    days = chance.randrange(370, 1600)
    rows.append((name, about, ago(1440 * days, chance.randrange(80_000))))
  insert_all(db, 'users', 'name, biography, created_at', rows)


def _fill_forums(
    db: sqlite3.Connection, chance: random.Random, topics: Sequence[Topic]
) -> None:
  days = sorted(chance.sample(list(range(900, 1700)), len(topics)))[::-1]
  others = list(range(2, _USERS + 1))
  for key, (topic, day) in enumerate(zip(topics, days, strict=True), 1):
    db.execute(
        'INSERT INTO forums VALUES (?, ?, ?, ?, ?, ?)',
        (
            key,
            topic.forum,
            topic.title,
            topic.about,
            texts.sidebar(chance, topic),
            ago(1440 * day, chance.randrange(80_000)),
        ),
    )
    moderators = chance.sample(others, chance.randrange(2, 5))
    if topic.forum in _MODERATED:
      moderators[0] = EMMA
    members = chance.sample(others, 12 * topic.size + chance.randrange(40))
    if topic.forum in _SUBSCRIBED:
      members.append(EMMA)
    rows = [(key, user) for user in moderators]
    insert_all(db, 'moderators', 'forum_id, user_id', rows)
    insert_all(
        db,
        'subscriptions',
        'forum_id, user_id, created_at',
        ((key, x, ago(1440 * chance.randrange(1, 360))) for x in members),
    )


def _fill_submissions(
    db: sqlite3.Connection, chance: random.Random, topics: Sequence[Topic]
) -> None:
  weighted = [
      key for key, topic in enumerate(topics) for _ in range(topic.size)
  ]
  recent = _YEAR // 6
  minutes = chance.sample(list(range(90, recent)), _SUBMISSIONS // 2)
  minutes += chance.sample(list(range(recent, _YEAR)), _SUBMISSIONS // 2)
  # Most visitors write where they are at home.
  homes = [chance.sample(weighted, 3) for _ in range(_USERS + 1)]
  at_home: dict[int, list[int]] = {}
  for user in range(2, _USERS + 1):
    for key in homes[user]:
      at_home.setdefault(key, []).append(user)
  seen: set[str] = set()
  rows = []
  for minute in sorted(minutes, reverse=True):
    place = chance.choice(weighted)
    topic = topics[place]
    kind = chance.choice(('ask', 'ask', 'tell', 'tell', 'link', 'link'))
    if topic.photos:
      kind = 'show'
    title = texts.title(chance, topic, kind)
    while title.lower() in seen:
      title = texts.title(chance, topic, kind)
    seen.add(title.lower())
    url = body = None
    if kind in ('link', 'show'):
      url = texts.address(chance, title, picture=kind == 'show')
    if kind in ('ask', 'tell') or chance.random() < 0.15:
      body = texts.body(chance, topic)
    home = at_home.get(place) or list(range(2, _USERS + 1))
    user = chance.choice(home)
    if chance.random() < 0.25:
      user = chance.randrange(2, _USERS + 1)
    if chance.random() < 0.02 or (
        topic.forum in _SUBSCRIBED and chance.random() < 0.04
    ):
      user = EMMA
    rows.append((
        place + 1,
        user,
        title,
        url,
        body,
        _points(chance),
        ago(minute, chance.randrange(_MINUTE)),
    ))
  columns = 'forum_id, user_id, title, url, body, points, created_at'
  insert_all(db, 'submissions', columns, rows)


def _points(chance: random.Random) -> int:
  """Mostly a few dozen, at times thousands, seldom less than 0."""
  if chance.random() < 0.06:
    return -chance.randrange(1, 30)
  large = chance.randrange(1, 80) * chance.randrange(1, 60)
  return 1 + large // chance.randrange(1, 16)


def _fill_comments(
    db: sqlite3.Connection, chance: random.Random, topics: Sequence[Topic]
) -> None:
  # Their comments are seldom liked.
  sour = set(chance.sample(list(range(2, _USERS + 1)), 30))
  # Time, place in this list, place of the parent, ...
  comments: list[tuple[str, int, int | None, int, int, str, int]] = []
  for submission in db.execute(
      'SELECT id, forum_id, user_id, created_at FROM submissions'
  ).fetchall():
    topic = topics[submission['forum_id'] - 1]
    since = datetime.datetime.fromisoformat(submission['created_at'])
    left = int((_NOW - since).total_seconds()) - 600
    many = chance.randrange(0, 6)
    if chance.random() < 0.16:
      many += chance.randrange(4, 17)
    thread: list[tuple[int, int, int]] = []  # place, depth, second
    bodies: set[str] = set()
    for _ in range(many):
      parent, depth, second = None, 0, 0
      if thread and chance.random() < 0.5:
        parent, depth, second = chance.choice(thread)
        depth += 1
      if depth > 4:
        parent, depth, second = None, 0, 0
      low = second + 60
      if low >= left:
        continue
      second = min(chance.randrange(low, low + 40_000), left)
      user = chance.randrange(2, _USERS + 1)
      draw = chance.random()
      if draw < 0.12:
        user = submission['user_id']
      elif draw < 0.15:
        user = EMMA
      body = texts.comment(chance, topic)
      if body in bodies:
        continue
      bodies.add(body)
      points = 1 + chance.randrange(1, 30) * chance.randrange(0, 8) // 3
      if chance.random() < (0.45 if user in sour else 0.05):
        points = -chance.randrange(1, 25)
      thread.append((len(comments), depth, second))
      comments.append((
          str(since + datetime.timedelta(seconds=second)),
          len(comments),
          parent,
          submission['id'],
          user,
          body,
          points,
      ))
  keys = {row[1]: key for key, row in enumerate(sorted(comments), 1)}
  insert_all(
      db,
      'comments',
      'id, parent_id, submission_id, user_id, body, points, created_at',
      [
          (
              keys[place],
              None if parent is None else keys[parent],
              submission,
              user,
              body,
              points,
              time,
          )
          for time, place, parent, submission, user, body, points in sorted(
              comments
          )
      ],
  )


def _fill_emma(db: sqlite3.Connection, chance: random.Random) -> None:
  """What the visitor who is signed in has voted for, marked and blocked."""
  for table, column in (
      ('submission', 'submissions'),
      ('comment', 'comments'),
  ):
    keys = _keys(db, f'SELECT id FROM {column} WHERE user_id != 1')
    db.executemany(
        f'INSERT INTO {table}_votes ({table}_id, user_id, choice) VALUES'
        ' (?, 1, ?)',
        [
            (key, chance.choice((1, 1, 1, -1)))
            for key in sorted(chance.sample(keys, 90))
        ],
    )
  keys = _keys(db, 'SELECT id FROM submissions WHERE user_id != 1')
  db.executemany(
      'INSERT INTO bookmarks (submission_id, user_id, created_at) VALUES'
      ' (?, 1, ?)',
      [
          (key, ago(1440 * (14 - n), chance.randrange(40_000)))
          for n, key in enumerate(sorted(chance.sample(keys, 14)))
      ],
  )
  others = chance.sample(list(range(2, _USERS + 1)), len(_BLOCKED))
  db.executemany(
      'INSERT INTO blocks (user_id, blocked_id, note, created_at) VALUES'
      ' (1, ?, ?, ?)',
      [
          (user, note, ago(1440 * (80 - 9 * n), chance.randrange(40_000)))
          for n, (user, note) in enumerate(zip(others, _BLOCKED, strict=True))
      ],
  )
  for key in chance.sample(_keys(db, 'SELECT id FROM forums'), 20):
    db.execute(
        'UPDATE submissions SET is_pinned = 1 WHERE id = (SELECT id FROM'
        ' submissions WHERE forum_id = ? AND user_id != 1 ORDER BY points DESC'
        ' LIMIT 1)',
        (key,),
    )
  for key in chance.sample(keys, 25):
    db.execute('UPDATE submissions SET is_locked = 1 WHERE id = ?', (key,))


def _fill_messages(db: sqlite3.Connection, chance: random.Random) -> None:
  others = chance.sample(list(range(2, _USERS + 1)), len(_LETTERS))
  codes = chance.sample(list(range(10_000, 99_999)), len(_LETTERS))
  for key, (title, form) in enumerate(_LETTERS, 1):
    days = 3 * (len(_LETTERS) - key) + 1
    other, seconds = others[key - 1], chance.randrange(30_000)
    fact = form.format(
        place=chance.choice(texts.PLACES),
        hour=chance.randrange(13, 20),
        half=chance.choice(('15', '30', '45')),
        dollars=chance.randrange(21, 90),
        people=chance.randrange(11, 30),
        book=BOOKS[key % len(BOOKS)],
        game=chance.choice(('red dice', 'long rule book', 'card sleeves')),
        code=codes[key - 1],
    )
    db.execute(
        'INSERT INTO threads VALUES (?, ?, ?, ?, ?)',
        (key, other, EMMA, title, ago(1440 * days + 300, seconds)),
    )
    bodies = (
        (other, 'Hello Emma, I hope you are well. More soon.', 300),
        (EMMA, 'Thanks for writing! Just tell me the details.', 200),
        (other, f'{fact} See you!', 100),
    )
    db.executemany(
        'INSERT INTO messages (thread_id, user_id, body, created_at) VALUES'
        ' (?, ?, ?, ?)',
        [
            (key, user, body, ago(1440 * days + minutes, seconds))
            for user, body, minutes in bodies
        ],
    )


def _keys(db: sqlite3.Connection, sql: str) -> list[int]:
  return [row[0] for row in db.execute(sql)]
