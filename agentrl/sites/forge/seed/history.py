"""Commits, branches and files of the forge's projects."""

import random
import sqlite3
from collections.abc import Mapping, Sequence

from agentrl.sites import seed_data
from agentrl.sites.forge.seed import sources, words
from agentrl.sites.forge.seed.records import DAY, USERS, Made, since
from agentrl.sites.store import ago, day_in
from agentrl.sites.writes import insert_all

_DATA = seed_data.read(__file__)
Commit = tuple[int, int, str, str]  # branch, author, message, time


def fill(
    db: sqlite3.Connection, chance: random.Random, projects: Sequence[Made]
) -> None:
  """Inserts branches, commits and files."""
  branches: list[tuple[int, int, int | None, str, int, str]] = []
  commits: list[Commit] = []
  trees = {}
  for each in projects:
    name = chance.choice(('main', 'main', 'master', 'develop'))
    branches.append((each.id, each.id, None, name, 1, ago(each.age)))
    commits += _commits(each, chance)
    trees[each.id] = sources.files(each.topic, chance)
  for each in projects:
    parts = chance.sample(each.topic.parts, len(each.topic.parts))
    for part in parts[: chance.randrange(2, 5)]:
      name = chance.choice(_DATA['branches']).format(part.replace(' ', '-'))
      key = len(branches) + 1
      age = chance.randrange(3 * DAY, 90 * DAY)
      branches.append((key, each.id, each.id, name, 0, ago(age)))
      author = chance.choice(each.members)
      for _ in range(chance.randrange(1, 5)):
        age = max(30, age - chance.randrange(20, 900))
        text = words.commit(chance, (part,))
        commits.append((key, author, text, ago(age, chance.randrange(60))))
  db.executemany('INSERT INTO branches VALUES (?, ?, ?, ?, ?, ?)', branches)
  first: dict[int, int] = {}  # branch -> id of its first commit
  for key, commit in enumerate(commits, 1):
    first.setdefault(commit[0], key)
  columns = 'branch_id, author_id, message, created_at'
  insert_all(db, 'commits', columns, commits)
  counts: dict[int, int] = {}
  for commit in commits:
    counts[commit[0]] = counts.get(commit[0], 0) + 1
  _files(db, chance, trees, first, counts)
  _forks(db, projects)


def _commits(each: Made, chance: random.Random) -> list[Commit]:
  """Those of the default branch: days on which somebody worked."""
  people = list(each.members)
  others = [x for x in range(2, USERS + 1) if x not in people]
  if not each.is_private:
    people += chance.sample(others, chance.randrange(2, 5))
  chance.shuffle(people)
  if each.topic.space == 'emma':
    people = [1, *(x for x in people if x != 1)]
  people = people[:8]
  weights = [
      x for k, x in enumerate(people) for _ in range(1 + 2 * (9 - k) // (k + 1))
  ]
  days = each.age // (DAY)
  commits = []
  worked = chance.sample(range(1, days), chance.randrange(14, 26))
  for day in sorted(worked)[::-1]:
    for author in dict.fromkeys(chance.choice(weights) for _ in range(2)):
      minute = chance.randrange(8 * 60, 15 * 60)
      for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4, 6))):
        minute += chance.randrange(4, 70)
        commits.append((
            each.id,
            author,
            words.commit(chance, each.topic.parts),
            (
                f'{day_in(-day)}'
                f' {minute // 60:02}:{minute % 60:02}:{chance.randrange(60):02}'
            ),
        ))
  return sorted(commits, key=lambda commit: commit[3])


def _files(
    db: sqlite3.Connection,
    chance: random.Random,
    trees: Mapping[int, Mapping[str, str]],
    first: Mapping[int, int],
    counts: Mapping[int, int],
) -> None:
  # Each file was last changed by one of its branch's commits.
  insert_all(
      db,
      'files',
      'branch_id, commit_id, path, content',
      (
          (branch, first[branch] + chance.randrange(counts[branch]), *file)
          for branch, tree in trees.items()
          for file in tree.items()
      ),
  )


def _forks(db: sqlite3.Connection, projects: Sequence[Made]) -> None:
  """A fork has its original's files and commits, and one commit of its own."""
  forks = db.execute(
      'SELECT * FROM projects WHERE id > ? ORDER BY id', (len(projects),)
  ).fetchall()
  for fork in forks:
    branch = db.execute(
        'INSERT INTO branches (project_id, base_id, name, is_default,'
        ' created_at) SELECT ?, id, name, 1, ? FROM branches WHERE id = ?'
        ' RETURNING id',
        (fork['id'], fork['created_at'], fork['forked_from_id']),
    ).fetchone()[0]
    age = since(fork['created_at'])
    db.execute(
        'INSERT INTO commits (branch_id, author_id, message, created_at)'
        " VALUES (?, ?, 'Say why this fork exists', ?)",
        (branch, fork['user_id'], ago(age // 2)),
    )
