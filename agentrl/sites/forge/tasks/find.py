"""Lists to open, and questions that a list or a page of the account answers."""

import urllib.parse

from agentrl.sites.answers import Several, Text
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.tasks.picking import (
    PLAIN,
    ask,
    go,
    menu,
    nth,
    pick,
    rows,
    to_project,
)
from agentrl.sites.goals import Goal
from agentrl.sites.task import (
    GO,
    SEEK,
    Step,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
    goto,
    stop,
)

_STATES = (
    ('', ''),
    ('merged', 'that were merged'),
    ('closed', 'that were closed'),
)


def _merges(k: int, what: str, entry: str, field: str) -> Task:
  state, words = _STATES[k]
  asked = {field: 'emma'} | ({'state': state} if state else {})
  steps: tuple[Step, ...] = (
      click_on('DisclosureTriangle', 'Merge requests'),
      click_on('link', entry),
  )
  if state:
    steps += (click_on('link', state.capitalize()),)
  return go(
      f'Show me the merge requests {what} {words}'.strip() + '.',
      f'dashboard/merge_requests?{urllib.parse.urlencode(asked)}',
      steps,
  )


def _assigned(stores: Stores, k: int) -> Task:
  del stores
  return _merges(k, 'assigned to me', 'Assigned to you', 'assignee_username')


def _reviews(stores: Stores, k: int) -> Task:
  del stores
  return _merges(
      k,
      'that I am to review' if k == 0 else 'I was to review',
      'Review requests for you',
      'reviewer_username',
  )


def _todos(stores: Stores, k: int) -> Task:
  del stores
  words, query, shown = (
      ('Open my to-do list', '', ''),
      ('Show me what I have done on my to-do list', 'state=done', 'Done'),
      (
          'Show the reviews that people requested of me on my to-do list',
          'kind=review+requested',
          'Review requested',
      ),
      (
          'Where am I mentioned? Show that part of my to-do list',
          'kind=mentioned',
          'Mentioned',
      ),
      (
          'Show only the items of my to-do list that were assigned to me',
          'kind=assigned',
          'Assigned',
      ),
  )[k]
  opened = [click_on('link', 'To-Do List')]
  if shown == 'Done':
    opened.append(click_on('link', 'Done'))
  elif shown:
    opened += [choose('Action', shown), click_on('button', 'Apply')]
  return go(f'{words}.', f'dashboard/todos?{query}'.rstrip('?'), opened)


def _explore(stores: Stores, k: int) -> Task:
  del stores
  words, at, steps = (
      ('See all public projects', 'explore', ()),
      (
          'Show all projects, those with the most stars first',
          'explore/projects/starred',
          (click_on('link', 'Most stars'),),
      ),
      (
          'Show me the groups that there are',
          'explore/groups',
          (click_on('link', 'Explore groups'),),
      ),
      (
          'Show all projects, those with the most forks first',
          'explore?sort=forks_desc',
          (choose('Sort by', 'Most forks'), click_on('button', 'Apply')),
      ),
      (
          'Show all projects, the oldest first',
          'explore?sort=created_asc',
          (
              choose('Sort by', 'Created date, oldest first'),
              click_on('button', 'Apply'),
          ),
      ),
  )[k]
  return go(f'{words}.', at, (click_on('link', 'Explore'), *steps))


_KINDS = {
    'bug': ('report bugs', 'bugs'),
    'feature request': ('ask for features', 'requests for features'),
    'question': ('ask questions', 'questions'),
    'documentation': ('are about the documentation', 'documentation'),
    'help wanted': ('want help', 'help that is wanted'),
    'performance': ('are about performance', 'performance'),
    'security': ('are about security', 'security'),
    'accessibility': ('are about accessibility', 'accessibility'),
}


def _labelled(stores: Stores, k: int, at_home: bool) -> Task:
  name = list(_KINDS)[(k * 3 + at_home) % len(_KINDS)]
  found = rows(
      stores,
      'SELECT p.full_path FROM labels l JOIN paths p ON p.id = l.project_id'
      ' JOIN issue_labels x ON x.label_id = l.id JOIN issues i ON i.id ='
      " x.issue_id WHERE l.name = ? AND i.state = 'opened' AND p.visibility ="
      " 'public' GROUP BY p.id HAVING count(*) > 1 ORDER BY p.id",
      name,
  )
  path = nth(found, k % len(found), name)[0]
  asked = urllib.parse.urlencode({'label_name[]': name})
  steps = (
      click_on('link', 'Issues'),
      choose('Label', name),
      click_on('button', 'Apply'),
  )
  if at_home:
    words = (
        f'Display the list of issues in {path} that have labels related to'
        f' {_KINDS[name][1]}.'
    )
    return go(words, f'{path}/-/issues?{asked}', (*to_project(path), *steps))
  words = (
      f'List all open issues of this project, {path}, that {_KINDS[name][0]}.'
  )
  return go(words, f'{path}/-/issues?{asked}', steps, path)


def _issues_with(stores: Stores, k: int) -> Task:
  return _labelled(stores, k, False)


def _issues_related(stores: Stores, k: int) -> Task:
  return _labelled(stores, k, True)


def _sorted(stores: Stores, k: int) -> Task:
  path = pick(
      stores,
      k,
      'issue list',
      "SELECT full_path FROM paths WHERE visibility = 'public' AND id IN"
      " (SELECT project_id FROM issues WHERE state = 'opened' GROUP BY 1 HAVING"
      ' count(*) > 4) ORDER BY id',
  )[0]
  words, key, label = (
      ('updated most recently first', 'updated_desc', 'Updated date'),
      ('oldest first', 'created_asc', 'Created date, oldest first'),
      ('with the most comments first', 'comments_desc', 'Comments'),
      ('due soonest first', 'due_date', 'Due date'),
      ('by title', 'title_asc', 'Title'),
  )[k]
  return go(
      f'Check out the open issues of this project, {path}, those {words}.'
      if k < 4
      else (
          f'Check out the open issues of this project, {path}, sorted {words}.'
      ),
      f'{path}/-/issues?sort={key}',
      (
          click_on('link', 'Issues'),
          choose('Sort by', label),
          click_on('button', 'Apply'),
      ),
      path,
  )


_WORDS = ('add', 'flaky', 'bug', 'search', 'dark', 'docs', 'crash', 'clock')


def _mine(stores: Stores, k: int, column: str, sort: str, verb: str) -> Task:
  found = []
  for word in _WORDS:
    mine = rows(
        stores,
        f'SELECT title, state, number, full_path, {column} AS at FROM'
        ' issue_items WHERE author_id = ? AND instr(lower(title), ?) ORDER BY'
        f' {column} DESC LIMIT 2',
        EMMA,
        word,
    )
    if mine and (len(mine) == 1 or mine[0]['at'] != mine[1]['at']):
      found.append((word, mine[0]))
  word, issue = found[k]
  is_closed = issue['state'] == 'closed'
  said = Text(
      'yes' if is_closed else 'no', ('closed',) if is_closed else ('open',)
  )
  at = f'{issue["full_path"]}/-/issues/{issue["number"]}'
  return ask(
      f'Open my latest {verb} issue that has the keyword "{word}" in its title'
      ' to check if it is closed. Answer yes or no.',
      said,
      (
          goto('http://forge/dashboard/issues'),
          fill('Author', 'emma'),
          fill('Search or filter', word, role='searchbox'),
          choose('Sort by', sort),
          click_on('button', 'Apply'),
          click_on('link', 'All'),
          click_on('link', issue['title']),
      ),
      at=at,
  )


def _latest_updated(stores: Stores, k: int) -> Task:
  return _mine(stores, k, 'touched_at', 'Updated date', 'updated')


def _latest_created(stores: Stores, k: int) -> Task:
  return _mine(stores, k, 'created_at', 'Created date', 'created')


def _token(stores: Stores, k: int) -> Task:
  row = rows(stores, 'SELECT * FROM account_tokens WHERE user_id = ?', EMMA)[0]
  words, column = (
      ('RSS feed token', 'feed'),
      ('token for incoming email', 'incoming_email'),
      ('static object token', 'static_object'),
  )[k]
  return ask(
      f'Get me my {words}.', Text(row[column]), menu('Access tokens'), PLAIN
  )


_OWNED = (
    'SELECT full_path, name, stars FROM repositories WHERE user_id = ? ORDER BY'
    ' stars DESC, id'
)


def _starred(stores: Stores, k: int) -> Task:
  mine = rows(stores, _OWNED, EMMA)
  words, fits = (
      ('more than 95 stars', lambda n: n > 95),
      ('the most stars', lambda n: n == mine[0]['stars']),
      ('fewer than 40 stars, but at least one', lambda n: 0 < n < 40),
      ('no stars at all', lambda n: n == 0),
      ('at least 70 stars, but fewer than 100', lambda n: 70 <= n < 100),
  )[k]
  found = [x['full_path'] for x in mine if fits(x['stars'])]
  answer = Several([Text(path) for path in found])
  return ask(
      'Tell me the full paths, such as emma/project, of those of my personal'
      f' projects that got {words}. Separate several by semicolons.',
      answer,
      (
          click_on('link', 'Projects'),
          click_on('link', 'Personal'),
          choose('Sort by', 'Most stars'),
          click_on('button', 'Apply'),
      ),
      PLAIN,
  )


def _access(stores: Stores, k: int) -> Task:
  groups = rows(
      stores,
      'SELECT p.full_path, p.id FROM projects r JOIN paths p ON p.id = r.id'
      ' JOIN members m ON m.project_id = r.id WHERE r.user_id = ? GROUP BY p.id'
      ' HAVING count(*) BETWEEN 3 AND 6 ORDER BY p.id',
      EMMA,
  )
  path, key = nth(groups, k, 'access')
  others = rows(
      stores,
      'SELECT username FROM users WHERE id IN (SELECT user_id FROM members'
      ' WHERE project_id = ?) AND id != ? ORDER BY id',
      key,
      EMMA,
  )
  return ask(
      f'Who else has access to my project {path}? Show me their usernames,'
      ' separated by semicolons.',
      Several([Text(x[0], (f'@{x[0]}',)) for x in others]),
      (*to_project(path), click_on('link', 'Members')),
  )


def _open_project(stores: Stores, k: int) -> Task:
  path = nth(
      [
          row[0]
          for row in rows(
              stores,
              'SELECT full_path FROM repositories WHERE forked_from_id IS NULL'
              " AND visibility = 'public' AND user_id IS NOT ? ORDER BY id",
              EMMA,
          )
      ],
      k,
      'open project',
  )
  return Task(
      intent=f'Open the project {path}.',
      goal=Goal(url=f'http://forge/{path}'),
      steps=(*to_project(path), stop()),
      start=('http://forge/explore',),
  )


def _milestone_due(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'milestone',
      'SELECT m.title, m.id, p.full_path, m.due_on FROM milestones m JOIN paths'
      " p ON p.id = m.project_id WHERE m.state = 'active' AND p.visibility ="
      " 'public' ORDER BY m.id",
  )
  return go(
      f'Open the milestone "{row["title"]}" of {row["full_path"]}.',
      f'{row["full_path"]}/-/milestones/{row["id"]}',
      (
          *to_project(row['full_path']),
          click_on('link', 'Milestones'),
          click_on('link', row['title']),
      ),
  )


TEMPLATES = (
    Template('forge/assigned-merges', GO, _assigned, 3, (290,)),
    Template('forge/review-merges', GO, _reviews, 3, (291,)),
    Template('forge/todos', GO, _todos, 5, (303,)),
    Template('forge/explore', GO, _explore, 5, (325,)),
    Template('forge/issues-with-label', GO, _issues_with, 5, (299,)),
    Template('forge/issues-related', GO, _issues_related, 5, (349,)),
    Template('forge/sorted-issues', GO, _sorted, 5, (300,)),
    Template('forge/latest-updated', SEEK, _latest_updated, 5, (310,)),
    Template('forge/latest-created', SEEK, _latest_created, 5, (500,)),
    Template('forge/token', SEEK, _token, 3, (312,)),
    Template('forge/own-stars', SEEK, _starred, 5, (289,)),
    Template('forge/who-has-access', SEEK, _access, 5, (298,)),
    Template('forge/open-project', GO, _open_project, 40),
    Template('forge/open-milestone', GO, _milestone_due, 5),
)
