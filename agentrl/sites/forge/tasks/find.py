"""Lists to open, and questions that a list or a page of the account answers."""

import urllib.parse

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.answers import Several, Text
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.tasks import paths
from agentrl.sites.forge.tasks.paths import go, seek

_VALUES = seed_data.read(__file__)


def _merges(k: int, what: str, entry: str, field: str) -> t.Task:
  state, words = _VALUES['states'][k]
  query = {field: 'emma'} | ({'state': state} if state else {})
  steps: tuple[t.Step, ...] = (
      t.click_on('DisclosureTriangle', 'Merge requests'),
      t.link(entry),
  )
  if state:
    steps += (t.link(state.capitalize()),)
  return go(
      f'Show me the merge requests {what} {words}'.strip() + '.',
      f'dashboard/merge_requests?{urllib.parse.urlencode(query)}',
      *steps,
  )


def _assigned(_: t.Db, k: int) -> t.Task:
  return _merges(k, 'assigned to me', 'Assigned to you', 'assignee_username')


def _reviews(_: t.Db, k: int) -> t.Task:
  return _merges(
      k,
      'that I am to review' if k == 0 else 'I was to review',
      'Review requests for you',
      'reviewer_username',
  )


def _todos(_: t.Db, k: int) -> t.Task:
  words, query, shown = _VALUES['todos'][k]
  opened = [t.link('To-Do List')]
  if shown == 'Done':
    opened.append(t.link('Done'))
  elif shown:
    opened += [t.choose('Action', shown), t.button('Apply')]
  return go(f'{words}.', f'dashboard/todos?{query}'.rstrip('?'), *opened)


def _explore(_: t.Db, k: int) -> t.Task:
  words, at, steps = (
      ('See all public projects', 'explore', ()),
      (
          'Show all projects, those with the most stars first',
          'explore/projects/starred',
          (t.link('Most stars'),),
      ),
      (
          'Show me the groups that there are',
          'explore/groups',
          (t.link('Explore groups'),),
      ),
      (
          'Show all projects, those with the most forks first',
          'explore?sort=forks_desc',
          (t.choose('Sort by', 'Most forks'), t.button('Apply')),
      ),
      (
          'Show all projects, the oldest first',
          'explore?sort=created_asc',
          (
              t.choose('Sort by', 'Created date, oldest first'),
              t.button('Apply'),
          ),
      ),
  )[k]
  return go(f'{words}.', at, t.link('Explore'), *steps)


_KINDS = _VALUES['kinds']


def _labelled(db: t.Db, k: int, at_home: bool) -> t.Task:
  name = list(_KINDS)[(k * 3 + at_home) % len(_KINDS)]
  rows = db.rows(
      'SELECT p.full_path FROM labels l JOIN paths p ON p.id = l.project_id'
      ' JOIN issue_labels x ON x.label_id = l.id JOIN issues i ON i.id ='
      " x.issue_id WHERE l.name = ? AND i.state = 'opened' AND p.visibility ="
      " 'public' GROUP BY p.id HAVING count(*) > 1 ORDER BY p.id",
      name,
  )
  path = pick.kth_shuffled(rows, k % len(rows), name)[0]
  query = urllib.parse.urlencode({'label_name[]': name})
  steps = (t.link('Issues'), t.choose('Label', name), t.button('Apply'))
  if at_home:
    words = (
        f'Display the list of issues in {path} that have labels related to'
        f' {_KINDS[name][1]}.'
    )
    return go(
        words, f'{path}/-/issues?{query}', *paths.to_project(path), *steps
    )
  words = (
      f'List all open issues of this project, {path}, that {_KINDS[name][0]}.'
  )
  return go(words, f'{path}/-/issues?{query}', *steps, start=path)


def _issues_with(db: t.Db, k: int) -> t.Task:
  return _labelled(db, k, False)


def _issues_related(db: t.Db, k: int) -> t.Task:
  return _labelled(db, k, True)


def _sorted(db: t.Db, k: int) -> t.Task:
  path = db.row_shuffled(
      k,
      'issue list',
      "SELECT full_path FROM paths WHERE visibility = 'public' AND id IN"
      " (SELECT project_id FROM issues WHERE state = 'opened' GROUP BY 1 HAVING"
      ' count(*) > 4) ORDER BY id',
  )[0]
  words, key, label = _VALUES['sorted'][k]
  return go(
      f'Check out the open issues of this project, {path}, those {words}.'
      if k < 4
      else (
          f'Check out the open issues of this project, {path}, sorted {words}.'
      ),
      f'{path}/-/issues?sort={key}',
      t.link('Issues'),
      t.choose('Sort by', label),
      t.button('Apply'),
      start=path,
  )


_WORDS = ('add', 'flaky', 'bug', 'search', 'dark', 'docs', 'crash', 'clock')


def _mine(db: t.Db, k: int, column: str, sort: str, verb: str) -> t.Task:
  choices = []
  for word in _WORDS:
    mine = db.rows(
        f'SELECT title, state, number, full_path, {column} AS at FROM'
        f' issue_items WHERE author_id = {EMMA} AND instr(lower(title), ?)'
        f' ORDER BY {column} DESC LIMIT 2',
        word,
    )
    if mine and (len(mine) == 1 or mine[0]['at'] != mine[1]['at']):
      choices.append((word, mine[0]))
  word, issue = choices[k]
  is_closed = issue['state'] == 'closed'
  answer = Text(
      'yes' if is_closed else 'no', ('closed',) if is_closed else ('open',)
  )
  at = f'{issue["full_path"]}/-/issues/{issue["number"]}'
  return seek(
      f'Open my latest {verb} issue that has the keyword "{word}" in its title'
      ' to check if it is closed. Answer yes or no.',
      answer,
      t.goto('http://forge/dashboard/issues'),
      t.fill('Author', 'emma'),
      t.fill('Search or filter', word, role='searchbox'),
      t.choose('Sort by', sort),
      t.button('Apply'),
      t.link('All'),
      t.link(issue['title']),
      at=at,
  )


def _latest_updated(db: t.Db, k: int) -> t.Task:
  return _mine(db, k, 'touched_at', 'Updated date', 'updated')


def _latest_created(db: t.Db, k: int) -> t.Task:
  return _mine(db, k, 'created_at', 'Created date', 'created')


def _token(db: t.Db, k: int) -> t.Task:
  row = db.first(f'SELECT * FROM account_tokens WHERE user_id = {EMMA}')
  words, column = _VALUES['token'][k]
  return seek(
      f'Get me my {words}.',
      Text(row[column]),
      *paths.menu('Access tokens'),
      start=paths.PLAIN,
  )


def _starred(db: t.Db, k: int) -> t.Task:
  mine = db.rows(
      'SELECT full_path, stars FROM repositories WHERE user_id ='
      f' {EMMA} ORDER BY stars DESC, id'
  )
  words, fits = (
      ('more than 95 stars', lambda n: n > 95),
      ('the most stars', lambda n: n == mine[0]['stars']),
      ('fewer than 40 stars, but at least one', lambda n: 0 < n < 40),
      ('no stars at all', lambda n: n == 0),
      ('at least 70 stars, but fewer than 100', lambda n: 70 <= n < 100),
  )[k]
  full_paths = [x['full_path'] for x in mine if fits(x['stars'])]
  return seek(
      'Tell me the full paths, such as emma/project, of those of my personal'
      f' projects that got {words}. Separate several by semicolons.',
      Several([Text(path) for path in full_paths]),
      t.link('Projects'),
      t.link('Personal'),
      t.choose('Sort by', 'Most stars'),
      t.button('Apply'),
      start=paths.PLAIN,
  )


def _access(db: t.Db, k: int) -> t.Task:
  groups = db.rows(
      'SELECT p.full_path, p.id FROM projects r JOIN paths p ON p.id = r.id'
      f' JOIN members m ON m.project_id = r.id WHERE r.user_id = {EMMA} GROUP'
      ' BY p.id HAVING count(*) BETWEEN 3 AND 6 ORDER BY p.id',
  )
  path, key = pick.kth_shuffled(groups, k, 'access')
  others = db.rows(
      'SELECT username FROM users WHERE id IN (SELECT user_id FROM members'
      f' WHERE project_id = ?) AND id != {EMMA} ORDER BY id',
      key,
  )
  return seek(
      f'Who else has access to my project {path}? Show me their usernames,'
      ' separated by semicolons.',
      Several([Text(x[0], (f'@{x[0]}',)) for x in others]),
      *paths.to_project(path),
      t.link('Members'),
  )


def _open_project(db: t.Db, k: int) -> t.Task:
  (path,) = db.row_shuffled(
      k,
      'open project',
      'SELECT full_path FROM repositories WHERE forked_from_id IS NULL AND'
      f" visibility = 'public' AND user_id IS NOT {EMMA} ORDER BY id",
  )
  return go(
      f'Open the project {path}.',
      path,
      *paths.to_project(path),
      start='explore',
  )


def _milestone_due(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'milestone',
      'SELECT m.title, m.id, p.full_path, m.due_on FROM milestones m JOIN paths'
      " p ON p.id = m.project_id WHERE m.state = 'active' AND p.visibility ="
      " 'public' ORDER BY m.id",
  )
  return go(
      f'Open the milestone "{row["title"]}" of {row["full_path"]}.',
      f'{row["full_path"]}/-/milestones/{row["id"]}',
      *paths.to_project(row['full_path']),
      t.link('Milestones'),
      t.link(row['title']),
  )


TEMPLATES = (
    t.Template('forge/assigned-merges', t.GO, _assigned, 3, (290,)),
    t.Template('forge/review-merges', t.GO, _reviews, 3, (291,)),
    t.Template('forge/todos', t.GO, _todos, 5, (303,)),
    t.Template('forge/explore', t.GO, _explore, 5, (325,)),
    t.Template('forge/issues-with-label', t.GO, _issues_with, 5, (299,)),
    t.Template('forge/issues-related', t.GO, _issues_related, 5, (349,)),
    t.Template('forge/sorted-issues', t.GO, _sorted, 5, (300,)),
    t.Template('forge/latest-updated', t.SEEK, _latest_updated, 5, (310,)),
    t.Template('forge/latest-created', t.SEEK, _latest_created, 5, (500,)),
    t.Template('forge/token', t.SEEK, _token, 3, (312,)),
    t.Template('forge/own-stars', t.SEEK, _starred, 5, (289,)),
    t.Template('forge/who-has-access', t.SEEK, _access, 5, (298,)),
    t.Template('forge/open-project', t.GO, _open_project, 40),
    t.Template('forge/open-milestone', t.GO, _milestone_due, 5),
)
