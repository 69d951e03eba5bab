"""The forge's records."""

import random
import sqlite3
from collections.abc import Sequence
from typing import Any

from agentrl.sites import seed_data
from agentrl.sites.forge.seed import history, sources, strangers, tracker, words
from agentrl.sites.forge.seed.records import DAY, EMMA, USERS, Made
from agentrl.sites.forge.seed.topics import GROUPS, TOPICS, Topic
from agentrl.sites.store import ago, day_in
from agentrl.sites.writes import insert_all

SCHEMA = seed_data.sql(__file__)
inject = strangers.inject

_FORKS = 11
# Emma's roles in groups; she is no member of the others.
_ROLES = {'harbor-labs': 40, 'open-meadow': 30, 'tundra-ui': 30, 'railyard': 20}
_PRIVATE = ('paper-trail', 'budget-jar', 'opening-quiz')


def fill(db: sqlite3.Connection, chance: random.Random) -> None:
  """Inserts the records."""
  _users(db, chance)
  _groups(db, chance)
  projects = _projects(db, chance)
  history.fill(db, chance, projects)
  tracker.fill(db, chance, projects)
  _emma(db, chance)


def _users(db: sqlite3.Connection, chance: random.Random) -> None:
  names = [f'{first} {last}' for first in words.FIRST for last in words.LAST]
  names = ['Emma Brookfield', *chance.sample(names, USERS - 1)]
  taken = {'emma', *(path for path, _, _ in GROUPS)}
  rows = []
  for key, name in enumerate(names, 1):
    first, last = name.lower().split()
    forms = [first, f'{first}{last[0]}', f'{first}-{last}', f'{last}{key}']
    chance.shuffle(forms)
    username = 'emma' if key == EMMA else None
    username = username or next(x for x in forms if x not in taken)
    taken.add(username)
    some = lambda values: chance.choice(values) if chance.random() < 0.6 else ''
    company = some(words.COMPANIES)
    rows.append((
        username,
        name,
        f'{first}.{last}@{chance.choice(("mail", "post", "inbox"))}.example',
        some(words.JOBS),
        company,
        some(words.PLACES),
        f'https://{last}.example' if chance.random() < 0.4 else '',
        chance.choice(words.STATUSES) if chance.random() < 0.2 else '',
        int(chance.random() < 0.1),
        ago(chance.randrange(900, 2600) * DAY, chance.randrange(3600)),
    ))
  insert_all(
      db,
      'users',
      'username, name, email, job_title, organization, location, website,'
      ' status, is_busy, created_at',
      rows,
  )
  pairs = {
      (chance.randrange(2, USERS + 1), chance.randrange(1, USERS + 1))
      for _ in range(400)
  }
  pairs |= {(EMMA, key) for key in chance.sample(range(2, USERS + 1), 9)}
  insert_all(
      db,
      'follows',
      'user_id, followed_id',
      sorted((a, b) for a, b in pairs if a != b),
  )


def _groups(db: sqlite3.Connection, chance: random.Random) -> None:
  insert_all(
      db,
      'groups',
      'path, name, description, visibility, created_at',
      (
          (*each, 'public', ago(chance.randrange(1000, 1600) * DAY))
          for each in GROUPS
      ),
  )
  rows = []
  for key, (path, _, _) in enumerate(GROUPS, 1):
    people = chance.sample(range(2, USERS + 1), chance.randrange(6, 13))
    roles = [50, 40, *chance.sample([20, 30, 30, 40, 10, 30] * 3, len(people))]
    pairs = list(zip(people, roles, strict=False))
    if path in _ROLES:
      pairs.append((EMMA, _ROLES[path]))
    rows += [_member(chance, key, *pair) for pair in pairs]
  insert_all(
      db,
      'group_members',
      'group_id, user_id, role, expires_on, created_at',
      rows,
  )


def _member(
    chance: random.Random, of: int, user: int, role: int
) -> tuple[Any, ...]:
  expires = None
  if role < 50 and user != EMMA and chance.random() < 0.3:
    expires = day_in(chance.randrange(5, 500))
  return of, user, role, expires, ago(chance.randrange(3, 1000) * DAY)


def _projects(db: sqlite3.Connection, chance: random.Random) -> Sequence[Made]:
  groups = {path: key for key, (path, _, _) in enumerate(GROUPS, 1)}
  owners = chance.sample(range(2, USERS + 1), len(TOPICS))
  topics = list(zip(TOPICS, owners, strict=True))
  chance.shuffle(topics)
  rows, members, projects = [], [], []
  for key, (topic, owner) in enumerate(topics, 1):
    group = groups.get(topic.space)
    owner = EMMA if topic.space == 'emma' else owner
    age = chance.randrange(120, 1200) * DAY + chance.randrange(DAY)
    visibility = 'private' if topic.path in _PRIVATE else 'public'
    rows.append((
        None if group else owner,
        group,
        topic.path,
        sources.title_of(topic.path),
        topic.description,
        topic.topics,
        visibility,
        ago(age),
    ))
    users = [x for x in range(2, USERS + 1) if x != owner]
    team = [(x, 30) for x in chance.sample(users, chance.randrange(2, 7))]
    team = [(x, chance.choice((10, 20, 30, 30, 40))) for x, _ in team]
    if not group:
      team.insert(0, (owner, 50))
    of_group = db.execute(
        'SELECT user_id, role FROM group_members WHERE group_id = ?', (group,)
    ).fetchall()
    group_users = {row[0] for row in of_group}
    team = [pair for pair in team if pair[0] not in group_users]
    members += [_member(chance, key, *pair) for pair in team]
    able = [x for x, role in [*team, *map(tuple, of_group)] if role >= 30]
    projects.append(Made(key, topic, age, tuple(able), topic.path in _PRIVATE))
  columns = (
      'user_id, group_id, path, name, description, topics, visibility,'
      ' created_at'
  )
  insert_all(db, 'projects', columns, rows)
  insert_all(
      db,
      'members',
      'project_id, user_id, role, expires_on, created_at',
      members,
  )
  _forks(db, chance, topics)
  count = len(topics) + _FORKS
  stars = []
  for key, many in enumerate(chance.sample(range(2, 146), count), 1):
    if key > len(topics):
      many %= 4
    elif projects[key - 1].is_private:
      many = 0
    stars += [(key, user) for user in chance.sample(range(2, USERS + 1), many)]
  pairs = {(key, user) for key, user in stars}
  stars += [
      (key, EMMA)
      for key in chance.sample(range(1, len(topics)), 8)
      if (key, EMMA) not in pairs
  ]
  insert_all(db, 'stars', 'project_id, user_id', stars)
  return projects


def _forks(
    db: sqlite3.Connection,
    chance: random.Random,
    topics: Sequence[tuple[Topic, int]],
) -> None:
  """Forks of projects by others; they have a branch and files, no issues."""
  places = [k for k, (topic, _) in enumerate(topics) if topic.space != 'emma']
  for number in range(_FORKS):
    # Some are forked more than once.
    place = places[chance.randrange(6) if number < 6 else number]
    topic = topics[place][0]
    db.execute(
        'INSERT INTO projects (user_id, forked_from_id, path, name,'
        ' description, topics, visibility, created_at)'
        " VALUES (?, ?, ?, ?, ?, ?, 'public', ?)",
        (
            3 + 12 * number,
            place + 1,
            topic.path,
            sources.title_of(topic.path),
            topic.description,
            topic.topics,
            ago(chance.randrange(5, 100) * DAY),
        ),
    )
    key = db.execute('SELECT last_insert_rowid()').fetchone()[0]
    insert_all(
        db,
        'members',
        'project_id, user_id, role, expires_on, created_at',
        [_member(chance, key, 3 + 12 * number, 50)],
    )


def _emma(db: sqlite3.Connection, chance: random.Random) -> None:
  """The account of the visitor who is signed in."""
  letters = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789'
  secret = lambda: ''.join(chance.choice(letters) for _ in range(20))
  db.execute(
      'UPDATE users SET job_title = ?, organization = ?, location = ?,'
      " website = ?, status = '', is_busy = 0, bio = ?, email = ? WHERE id = ?",
      (
          'Frontend developer', 'Harbor Labs', 'Lakewood',
          'https://brookfield.example', 'Maps, tides and small tools.',
          'emma.brookfield@mail.example', EMMA,
      ),
  )  # fmt: skip
  insert_all(
      db,
      'account_tokens',
      'user_id, feed, incoming_email, static_object',
      [(EMMA, secret(), secret(), secret())],
  )
  insert_all(
      db,
      'ssh_keys',
      'user_id, title, key, expires_on, created_at',
      (
          (
              EMMA,
              title,
              f'ssh-ed25519 AAAA{secret()}{secret()} emma',
              expires,
              day,
          )
          for title, expires, day in (
              ('Laptop', day_in(97), ago(400 * DAY)),
              ('Workstation', day_in(212), ago(310 * DAY)),
              ('Old netbook', day_in(19), ago(700 * DAY)),
              ('Build server', day_in(341), ago(35 * DAY)),
              ('Tablet', None, ago(88 * DAY)),
          )
      ),
  )
  insert_all(
      db,
      'access_tokens',
      'user_id, name, scopes, expires_on, created_at',
      (
          (EMMA, name, scopes, day_in(days), ago(60 * DAY))
          for name, scopes, days in (
              ('backup-script', 'read_repository', 44),
              ('status-lamp', 'read_api', 133),
              ('calendar-sync', 'api', 8),
          )
      ),
  )
