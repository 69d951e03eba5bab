"""Issues, merge requests and what belongs to them, as the forge begins."""

import random
import sqlite3
from collections.abc import Sequence

from agentrl.sites import seed_data
from agentrl.sites.forge.seed import words
from agentrl.sites.forge.seed.records import DAY, USERS, Made, Rows, since
from agentrl.sites.store import ago, day_in

_DATA = seed_data.read(__file__)
_LABELS = _DATA['labels']
_MORE = _DATA['more']


def fill(
    db: sqlite3.Connection, chance: random.Random, projects: Sequence[Made]
) -> None:
  """Inserts labels, milestones, issues, merge requests, comments, to-dos."""
  rows = Rows()
  for each in projects:
    labels = _labels(each, chance, rows)
    milestones = _milestones(each, chance, rows)
    _issues(each, chance, rows, labels, milestones)
    branches = db.execute(
        'SELECT b.name, b.created_at, max(c.author_id) AS author FROM branches'
        ' b LEFT JOIN commits c ON c.branch_id = b.id WHERE b.project_id = ?'
        ' GROUP BY b.id ORDER BY is_default DESC, b.id',
        (each.id,),
    ).fetchall()
    _merge_requests(each, chance, rows, branches, milestones)
  rows.insert(db)


def _labels(each: Made, chance: random.Random, rows: Rows) -> dict[str, int]:
  names = {kind: chance.choice(forms) for kind, forms in _LABELS.items()}
  names |= {name: name for name in chance.sample(_MORE, chance.randrange(2, 5))}
  return {
      kind: rows.add(
          'labels',
          project_id=each.id,
          name=name,
          description='' if kind == name else f'{kind.capitalize()}s',
          color=chance.choice(_DATA['colors']),
      )
      for kind, name in names.items()
  }


def _milestones(each: Made, chance: random.Random, rows: Rows) -> Sequence[int]:
  major = chance.randrange(1, 4)
  titles = [f'v{major}.{minor}' for minor in range(3)]
  titles += chance.sample(_DATA['milestones'], 2)
  titles = chance.sample(titles, chance.randrange(1, 5))
  keys = []
  for title in titles:
    starts = chance.randrange(-200, 60)
    due = starts + chance.randrange(14, 90)
    keys.append(
        rows.add(
            'milestones',
            project_id=each.id,
            title=title,
            description=f'Work on the {chance.choice(each.topic.parts)}.',
            state='closed' if due < -40 else 'active',
            starts_on=day_in(starts),
            due_on=day_in(due),
            created_at=ago(each.age // 2),
        )
    )
  return keys


def _issues(
    each: Made,
    chance: random.Random,
    rows: Rows,
    labels: dict[str, int],
    milestones: Sequence[int],
) -> None:
  count = chance.randrange(12, 62)
  ages = sorted(chance.randrange(60, each.age) for _ in range(count))[::-1]
  titles: set[str] = set()
  for number, age in enumerate(ages, 1):
    kind = chance.choice(words.KINDS[:2] + words.KINDS)
    title, description = words.issue(kind, chance, each.topic.parts)
    while title in titles:
      title, description = words.issue(kind, chance, each.topic.parts)
    titles.add(title)
    author = _somebody(each, chance)
    mine = chance.random() < 0.3 and 1 in each.members
    assignee = chance.choice(each.members) if chance.random() < 0.4 else None
    is_open = chance.random() < 0.42
    late = _comments(each, chance, rows, age, author, 'issues')
    if not is_open:
      late = max(1, late - chance.randrange(5, 9000))
    key = rows.add(
        'issues',
        project_id=each.id,
        number=number,
        author_id=author,
        assignee_id=1 if mine and assignee else assignee,
        milestone_id=chance.choice(milestones)
        if chance.random() < 0.3
        else None,
        title=title,
        description=description,
        state='opened' if is_open else 'closed',
        due_on=day_in(chance.randrange(-60, 200))
        if chance.random() < 0.25
        else None,
        created_at=ago(age, chance.randrange(60)),
        updated_at=ago(late),
    )
    label_ids = {labels[kind]: 0} if chance.random() < 0.8 else {}
    if chance.random() < 0.3:
      label_ids[chance.choice(list(labels.values()))] = 0
    for label in label_ids:
      rows.add('issue_labels', issue_id=key, label_id=label)
    if assignee and mine and is_open and chance.random() < 0.5:
      _todo(chance, rows, each, 'assigned', age, issue_id=key)
    elif is_open and 1 in each.members and chance.random() < 0.04:
      _todo(chance, rows, each, 'mentioned', age, issue_id=key)


def _comments(
    each: Made,
    chance: random.Random,
    rows: Rows,
    age: int,
    author: int,
    table: str,
) -> int:
  """Adds comments on the row that comes next; returns when it ended, by age."""
  people = [author, *chance.sample(each.members, min(2, len(each.members)))]
  people.append(_somebody(each, chance))
  is_review = table == 'merge_requests'
  key = rows.next_id(table)
  late = age
  counts = (1, 2, 3, 4) if is_review else (0, 0, 1, 1, 2, 3)
  for _ in range(chance.choice(counts)):
    late = max(2, late - chance.randrange(10, 6000))
    say = words.review if is_review else words.reply
    rows.add(
        'comments',
        issue_id=None if is_review else key,
        merge_request_id=key if is_review else None,
        author_id=chance.choice(people),
        body=say(chance, each.topic.parts),
        created_at=ago(late, chance.randrange(60)),
    )
  return late


def _merge_requests(
    each: Made,
    chance: random.Random,
    rows: Rows,
    branches: Sequence[sqlite3.Row],
    milestones: Sequence[int],
) -> None:
  default, *others = branches
  # The last branch waits for somebody to open a merge request.
  open_ones = list(others[:-1])
  past = chance.randrange(3, 12)
  ages = sorted(
      chance.randrange(95 * DAY, max(96 * DAY, each.age)) for _ in range(past)
  )
  plan: list[tuple[int, sqlite3.Row | None]] = [
      (age, None) for age in ages[::-1]
  ]
  for source in sorted(open_ones, key=lambda x: x['created_at']):
    plan.append((since(source['created_at']) - 5, source))
  titles: set[str] = set()
  for number, (age, branch) in enumerate(plan, 1):
    title, description = words.change(chance, each.topic.parts)
    while title in titles:
      title, description = words.change(chance, each.topic.parts)
    titles.add(title)
    author = branch['author'] if branch else _somebody(each, chance)
    reviewers = [x for x in each.members if x != author]
    reviewer = chance.choice(reviewers) if reviewers else None
    if 1 in reviewers and branch and chance.random() < 0.6:
      reviewer = 1
    assignee = chance.choice(each.members) if chance.random() < 0.5 else None
    if 1 in each.members and chance.random() < 0.3:
      assignee = 1
    late = _comments(each, chance, rows, age, author, 'merge_requests')
    part = chance.choice(each.topic.parts).replace(' ', '-')
    state = (
        'opened' if branch else chance.choice(('merged', 'merged', 'closed'))
    )
    key = rows.add(
        'merge_requests',
        project_id=each.id,
        number=number,
        author_id=author,
        assignee_id=assignee,
        reviewer_id=reviewer,
        milestone_id=chance.choice(milestones)
        if chance.random() < 0.2
        else None,
        source_branch=branch['name'] if branch else f'work-on-{part}',
        target_branch=default['name'],
        title=title,
        description=description,
        state=state,
        created_at=ago(age, chance.randrange(60)),
        updated_at=ago(late),
    )
    if (
        reviewer
        and reviewer != 1
        and (state == 'merged' or chance.random() < 0.3)
    ):
      rows.add('approvals', merge_request_id=key, user_id=reviewer)
    if reviewer == 1 and branch and chance.random() < 0.7:
      _todo(chance, rows, each, 'review requested', age, merge_request_id=key)


def _todo(
    chance: random.Random,
    rows: Rows,
    each: Made,
    kind: str,
    age: int,
    **of: int,
) -> None:
  others = [x for x in each.members if x != 1]
  rows.add(
      'todos',
      user_id=1,
      author_id=chance.choice(others),
      issue_id=of.get('issue_id'),
      merge_request_id=of.get('merge_request_id'),
      kind=kind,
      state='done' if chance.random() < 0.4 else 'pending',
      created_at=ago(max(1, age - 1), chance.randrange(60)),
  )


def _somebody(each: Made, chance: random.Random) -> int:
  draw = chance.random()
  if draw < 0.06:
    return 1
  if draw < 0.5 or each.is_private:
    return chance.choice(each.members)
  return chance.randrange(2, USERS + 1)
