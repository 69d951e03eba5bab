"""Issues, labels and milestones that change."""

import datetime

from agentrl.sites import seed_data, task as t
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.tasks import paths
from agentrl.sites.forge.tasks.paths import change
from agentrl.sites.goals import New, Row, added, changed

_VALUES = seed_data.read(__file__)
_OWN = (
    f'SELECT id, full_path FROM repositories WHERE user_id = {EMMA} AND'
    " visibility = 'public' ORDER BY id"
)
# Open issues of projects in which the visitor may plan, by titles that a list's
# search finds once.
_ISSUES = f"""
SELECT i.* FROM issue_items i
WHERE i.state = 'opened' AND i.project_id IN
  (SELECT project_id FROM grants WHERE user_id = {EMMA} AND role >= 30)
AND (SELECT count(*) FROM issues o WHERE o.project_id = i.project_id
  AND instr(lower(o.title), lower(i.title))) = 1
ORDER BY i.id
"""
_FEATURES = _VALUES['features']
_REPORTS = _VALUES['reports']


def _next(db: t.Db, project: int) -> int:
  """The number of a project's next issue."""
  return db.value(
      'SELECT max(number) + 1 FROM issues WHERE project_id = ?', project
  )


def _issue(
    db: t.Db,
    project: int,
    title: str,
    *,
    description: str = '',
    **values: object,
) -> Row:
  return added(
      'forge.issues',
      project_id=project,
      number=_next(db, project),
      author_id=EMMA,
      title=title,
      description=description,
      state='opened',
      **values,
  )


def _create(db: t.Db, k: int) -> t.Task:
  project, path = db.row_shuffled(k, 'own public project', _OWN)
  who = paths.people_in(db, project)[0]
  words, due = _VALUES['create'][k]
  title = _VALUES['titles'][k]
  return change(
      f'Create an issue in {path} with the title "{title}". Assign it to'
      f' {who["username"]}, and set the due date to {words}.',
      _issue(db, project, title, assignee_id=who['id'], due_on=due),
      *paths.to_project(path),
      t.link('Issues'),
      t.link('New issue'),
      t.fill('Title', title),
      t.choose('Assignee', paths.person(who)),
      t.fill('Due date', due),
      t.button('Create issue'),
  )


def _report(db: t.Db, k: int) -> t.Task:
  project, path = db.row_shuffled(
      k,
      'project to report to',
      'SELECT id, full_path FROM repositories WHERE id NOT IN (SELECT'
      f' project_id FROM grants WHERE user_id = {EMMA}) AND visibility ='
      " 'public' AND forked_from_id IS NULL ORDER BY id",
  )
  title = f'Report: {_REPORTS[k]}'
  text = 'It happens every time.'
  return change(
      f'Open an issue to report {_REPORTS[k]} in {path}. Its title is'
      f' "{title}", its description "{text}"',
      _issue(db, project, title, description=text),
      *paths.to_project(path),
      t.link('Issues'),
      t.link('New issue'),
      t.fill('Title', title),
      t.fill('Description', text),
      t.button('Create issue'),
  )


def _discuss(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'label to discuss under',
      'SELECT l.id, l.name, p.id AS project, p.full_path FROM labels l JOIN'
      f' repositories p ON p.id = l.project_id WHERE p.user_id = {EMMA} AND'
      " l.name IN ('feature request', 'enhancement') ORDER BY l.id",
  )
  title = f'Discuss the implementation of {_FEATURES[k]}'
  return change(
      f'Open a new issue of this project, {row["full_path"]}, to discuss the'
      f' implementation of {_FEATURES[k]}. Its title is "{title}", its label is'
      f' {row["name"]}.',
      (
          _issue(db, row['project'], title),
          added(
              'forge.issue_labels',
              issue_id=New('forge.issues'),
              label_id=row['id'],
          ),
      ),
      t.link('Issues'),
      t.link('New issue'),
      t.fill('Title', title),
      t.click_on('checkbox', row['name']),
      t.button('Create issue'),
      start=row['full_path'],
  )


def _assign(db: t.Db, k: int) -> t.Task:
  issue = db.row_shuffled(k, 'open issue', _ISSUES)
  who = paths.member_but(db, issue['project_id'], issue['assignee_id'])
  return change(
      f'Assign the issue "{issue["title"]}" in {issue["full_path"]} to'
      f' {who["username"]}.',
      changed('forge.issues', issue['id'], assignee_id=who['id']),
      *paths.to_issue(issue),
      t.choose('Assignee', paths.person(who)),
      t.button('Save changes'),
  )


def _close(db: t.Db, k: int) -> t.Task:
  issue = db.row_shuffled(k + 10, 'open issue', _ISSUES)
  return change(
      f'Close the issue "{issue["title"]}" in {issue["full_path"]}.',
      changed('forge.issues', issue['id'], state='closed'),
      *paths.to_issue(issue),
      t.button('Close issue'),
  )


def _comment(db: t.Db, k: int) -> t.Task:
  issue = db.row_shuffled(k + 20, 'open issue', _ISSUES)
  text = _VALUES['comment'][k]
  return change(
      f'Comment "{text}" on the issue "{issue["title"]}" in'
      f' {issue["full_path"]}.',
      added('forge.comments', issue_id=issue['id'], author_id=EMMA, body=text),
      *paths.to_issue(issue),
      t.fill('Write a comment', text),
      t.button('Comment'),
  )


def _due(db: t.Db, k: int) -> t.Task:
  issue = db.row_shuffled(k + 30, 'open issue', _ISSUES)
  day = _VALUES['due'][k]
  return change(
      f'Set the due date of the issue "{issue["title"]}" in'
      f' {issue["full_path"]} to {paths.long_day(day)}.',
      changed('forge.issues', issue['id'], due_on=day),
      *paths.to_issue(issue),
      t.fill('Due date', day),
      t.button('Save changes'),
  )


def _todo(db: t.Db, k: int) -> t.Task:
  issue = db.row_shuffled(
      k + 40,
      'issue without a to-do',
      _ISSUES.replace(
          'ORDER BY',
          "AND i.id NOT IN (SELECT issue_id FROM todos WHERE state = 'pending'"
          ' AND issue_id IS NOT NULL) ORDER BY',
      ),
  )
  return change(
      f'Put the issue "{issue["title"]}" in {issue["full_path"]} on my to-do'
      ' list.',
      added(
          'forge.todos',
          user_id=EMMA,
          author_id=EMMA,
          issue_id=issue['id'],
          kind='marked',
          state='pending',
      ),
      *paths.to_issue(issue),
      t.button('Add a to do'),
  )


def _milestone(db: t.Db, k: int) -> t.Task:
  project, path = db.row_shuffled(k + 5, 'own public project', _OWN)
  title, starts, days = _VALUES['milestone'][k]
  ends = str(
      datetime.date.fromisoformat(starts) + datetime.timedelta(days=days)
  )
  return change(
      f'Create a milestone "{title}" in {path} that starts on'
      f' {paths.long_day(starts)} and is due {days} days later.',
      added(
          'forge.milestones',
          project_id=project,
          title=title,
          description='',
          state='active',
          starts_on=starts,
          due_on=ends,
      ),
      *paths.to_project(path),
      t.link('Milestones'),
      t.link('New milestone'),
      t.fill('Title', title),
      t.fill('Start date', starts),
      t.fill('Due date', ends),
      t.button('Create milestone'),
  )


def _label(db: t.Db, k: int) -> t.Task:
  project, path = db.row_shuffled(k, 'own public project', _OWN)
  name, color = _VALUES['label'][k]
  return change(
      f'Add a label "{name}" with the background color {color} to {path}.',
      added(
          'forge.labels',
          project_id=project,
          name=name,
          description='',
          color=color,
      ),
      *paths.to_project(path),
      t.link('Labels'),
      t.link('New label'),
      t.fill('Title', name),
      t.fill('Background color', color),
      t.button('Create label'),
  )


TEMPLATES = (
    t.Template('forge/create-issue', t.CHANGE, _create, 5, (327,)),
    t.Template('forge/report-issue', t.CHANGE, _report, 5, (328,)),
    t.Template('forge/discuss-feature', t.CHANGE, _discuss, 5, (337,)),
    t.Template('forge/assign-issue', t.CHANGE, _assign, 5, (999,)),
    t.Template('forge/close-issue', t.CHANGE, _close, 40),
    t.Template('forge/comment-issue', t.CHANGE, _comment, 5),
    t.Template('forge/due-date', t.CHANGE, _due, 5),
    t.Template('forge/add-todo', t.CHANGE, _todo, 5),
    t.Template('forge/create-milestone', t.CHANGE, _milestone, 5, (339,)),
    t.Template('forge/add-label', t.CHANGE, _label, 5),
)
