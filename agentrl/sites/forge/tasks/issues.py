"""Issues, labels and milestones that change."""

import datetime

from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.tasks.picking import (
    change,
    long_day,
    people_in,
    person,
    pick,
    rows,
    to_issue,
    to_project,
)
from agentrl.sites.goals import ADDED, CHANGED, New, Row
from agentrl.sites.task import (
    CHANGE,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
)

_OWN = (
    'SELECT id, full_path FROM repositories WHERE user_id = ? AND visibility ='
    " 'public' ORDER BY id"
)
# Open issues of projects in which the visitor may plan, by titles that a list's
# search finds once.
_ISSUES = """
SELECT i.* FROM issue_items i
WHERE i.state = 'opened' AND i.project_id IN
  (SELECT project_id FROM grants WHERE user_id = ? AND role >= 30)
AND (SELECT count(*) FROM issues o WHERE o.project_id = i.project_id
  AND instr(lower(o.title), lower(i.title))) = 1
ORDER BY i.id
"""
_TITLES = (
    '401 at the login page', 'Pages load twice', 'Wrong order of the entries',
    'The start page is empty', 'Dates are off by one',
)  # fmt: skip
_FEATURES = (
    'dark mode', 'a plain text export', 'keyboard shortcuts',
    'default plugins', 'two languages',
)  # fmt: skip
_REPORTS = (
    'connection refused at the first start', 'an address that is already in use',
    'a missing file after the update', 'the build that hangs on slow disks',
    'a broken link in the handbook',
)  # fmt: skip


def _next(stores: Stores, project: int) -> int:
  """The number of a project's next issue."""
  return rows(
      stores, 'SELECT max(number) + 1 FROM issues WHERE project_id = ?', project
  )[0][0]


def _issue(stores: Stores, project: int, title: str, **values: object) -> Row:
  return Row(
      'forge.issues',
      ADDED,
      {
          'project_id': project,
          'number': _next(stores, project),
          'author_id': EMMA,
          'title': title,
          'description': '',
          'state': 'opened',
          **values,
      },
  )


def _create(stores: Stores, k: int) -> Task:
  project, path = pick(stores, k, 'own public project', _OWN, EMMA)
  who = people_in(stores, project)[0]
  words, due = (
      ('the end of 2030', '2030-12-31'),
      ('the first day of April 2033', '2033-04-01'),
      ('Christmas Day of 2023', '2023-12-25'),
      ('August 9, 2024', '2024-08-09'),
      ('the last day of February 2025', '2025-02-28'),
  )[k]
  title = _TITLES[k]
  return change(
      f'Create an issue in {path} with the title "{title}". Assign it to'
      f' {who["username"]}, and set the due date to {words}.',
      (_issue(stores, project, title, assignee_id=who['id'], due_on=due),),
      (
          *to_project(path),
          click_on('link', 'Issues'),
          click_on('link', 'New issue'),
          fill('Title', title),
          choose('Assignee', person(who)),
          fill('Due date', due),
          click_on('button', 'Create issue'),
      ),
  )


def _report(stores: Stores, k: int) -> Task:
  project, path = pick(
      stores,
      k,
      'project to report to',
      'SELECT id, full_path FROM repositories WHERE id NOT IN (SELECT'
      " project_id FROM grants WHERE user_id = ?) AND visibility = 'public' AND"
      ' forked_from_id IS NULL ORDER BY id',
      EMMA,
  )
  title = f'Report: {_REPORTS[k]}'
  text = 'It happens every time.'
  return change(
      f'Open an issue to report {_REPORTS[k]} in {path}. Its title is'
      f' "{title}", its description "{text}"',
      (_issue(stores, project, title, description=text),),
      (
          *to_project(path),
          click_on('link', 'Issues'),
          click_on('link', 'New issue'),
          fill('Title', title),
          fill('Description', text),
          click_on('button', 'Create issue'),
      ),
  )


def _discuss(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'label to discuss under',
      'SELECT l.id, l.name, p.id AS project, p.full_path FROM labels l JOIN'
      ' repositories p ON p.id = l.project_id WHERE p.user_id = ? AND l.name IN'
      " ('feature request', 'enhancement') ORDER BY l.id",
      EMMA,
  )
  title = f'Discuss the implementation of {_FEATURES[k]}'
  return change(
      f'Open a new issue of this project, {row["full_path"]}, to discuss the'
      f' implementation of {_FEATURES[k]}. Its title is "{title}", its label is'
      f' {row["name"]}.',
      (
          _issue(stores, row['project'], title),
          Row(
              'forge.issue_labels',
              ADDED,
              {'issue_id': New('forge.issues'), 'label_id': row['id']},
          ),
      ),
      (
          click_on('link', 'Issues'),
          click_on('link', 'New issue'),
          fill('Title', title),
          click_on('checkbox', row['name']),
          click_on('button', 'Create issue'),
      ),
      row['full_path'],
  )


def _assign(stores: Stores, k: int) -> Task:
  issue = pick(stores, k, 'open issue', _ISSUES, EMMA)
  who = next(
      x
      for x in people_in(stores, issue['project_id'])
      if x['id'] != issue['assignee_id']
  )
  return change(
      f'Assign the issue "{issue["title"]}" in {issue["full_path"]} to'
      f' {who["username"]}.',
      (
          Row(
              'forge.issues',
              CHANGED,
              {'assignee_id': who['id']},
              issue['id'],
          ),
      ),
      (
          *to_project(issue['full_path']),
          *to_issue(issue['title']),
          choose('Assignee', person(who)),
          click_on('button', 'Save changes'),
      ),
  )


def _close(stores: Stores, k: int) -> Task:
  issue = pick(stores, k + 10, 'open issue', _ISSUES, EMMA)
  return change(
      f'Close the issue "{issue["title"]}" in {issue["full_path"]}.',
      (Row('forge.issues', CHANGED, {'state': 'closed'}, issue['id']),),
      (
          *to_project(issue['full_path']),
          *to_issue(issue['title']),
          click_on('button', 'Close issue'),
      ),
  )


def _comment(stores: Stores, k: int) -> Task:
  issue = pick(stores, k + 20, 'open issue', _ISSUES, EMMA)
  text = (
      'I can reproduce this.',
      'Which version do you use?',
      'Please try it again with the latest release.',
      'This is planned for the next release.',
      'Good idea, I would help.',
  )[k]
  values = {'issue_id': issue['id'], 'author_id': EMMA, 'body': text}
  return change(
      f'Comment "{text}" on the issue "{issue["title"]}" in'
      f' {issue["full_path"]}.',
      (Row('forge.comments', ADDED, values),),
      (
          *to_project(issue['full_path']),
          *to_issue(issue['title']),
          fill('Write a comment', text),
          click_on('button', 'Comment'),
      ),
  )


def _due(stores: Stores, k: int) -> Task:
  issue = pick(stores, k + 30, 'open issue', _ISSUES, EMMA)
  day = ('2023-09-01', '2023-10-31', '2024-01-15', '2024-03-03', '2023-07-20')[
      k
  ]
  return change(
      f'Set the due date of the issue "{issue["title"]}" in'
      f' {issue["full_path"]} to {long_day(day)}.',
      (Row('forge.issues', CHANGED, {'due_on': day}, issue['id']),),
      (
          *to_project(issue['full_path']),
          *to_issue(issue['title']),
          fill('Due date', day),
          click_on('button', 'Save changes'),
      ),
  )


def _todo(stores: Stores, k: int) -> Task:
  issue = pick(
      stores,
      k + 40,
      'issue without a to-do',
      _ISSUES.replace(
          'ORDER BY',
          "AND i.id NOT IN (SELECT issue_id FROM todos WHERE state = 'pending'"
          ' AND issue_id IS NOT NULL) ORDER BY',
      ),
      EMMA,
  )
  values = {
      'user_id': EMMA,
      'author_id': EMMA,
      'issue_id': issue['id'],
      'kind': 'marked',
      'state': 'pending',
  }
  return change(
      f'Put the issue "{issue["title"]}" in {issue["full_path"]} on my to-do'
      ' list.',
      (Row('forge.todos', ADDED, values),),
      (
          *to_project(issue['full_path']),
          *to_issue(issue['title']),
          click_on('button', 'Add a to do'),
      ),
  )


def _milestone(stores: Stores, k: int) -> Task:
  project, path = pick(stores, k + 5, 'own public project', _OWN, EMMA)
  title, starts, days = (
      ('Product launch', '2023-07-16', 14),
      ('Collective code review', '2023-08-01', 20),
      ('Bug week', '2023-09-04', 6),
      ('Team meeting in person', '2023-10-09', 3),
      ('Winter release', '2023-11-20', 30),
  )[k]
  ends = str(
      datetime.date.fromisoformat(starts) + datetime.timedelta(days=days)
  )
  values = {
      'project_id': project,
      'title': title,
      'description': '',
      'state': 'active',
      'starts_on': starts,
      'due_on': ends,
  }
  return change(
      f'Create a milestone "{title}" in {path} that starts on'
      f' {long_day(starts)} and is due {days} days later.',
      (Row('forge.milestones', ADDED, values),),
      (
          *to_project(path),
          click_on('link', 'Milestones'),
          click_on('link', 'New milestone'),
          fill('Title', title),
          fill('Start date', starts),
          fill('Due date', ends),
          click_on('button', 'Create milestone'),
      ),
  )


def _label(stores: Stores, k: int) -> Task:
  project, path = pick(stores, k, 'own public project', _OWN, EMMA)
  name, color = (
      ('duplicate', '#8fbc8f'),
      ('release blocker', '#dc143c'),
      ('good to know', '#6699cc'),
      ('discussion', '#eee600'),
      ('design', '#9400d3'),
  )[k]
  values = {
      'project_id': project,
      'name': name,
      'description': '',
      'color': color,
  }
  return change(
      f'Add a label "{name}" with the background color {color} to {path}.',
      (Row('forge.labels', ADDED, values),),
      (
          *to_project(path),
          click_on('link', 'Labels'),
          click_on('link', 'New label'),
          fill('Title', name),
          fill('Background color', color),
          click_on('button', 'Create label'),
      ),
  )


TEMPLATES = (
    Template('forge/create-issue', CHANGE, _create, 5, (327,)),
    Template('forge/report-issue', CHANGE, _report, 5, (328,)),
    Template('forge/discuss-feature', CHANGE, _discuss, 5, (337,)),
    Template('forge/assign-issue', CHANGE, _assign, 5, (999,)),
    Template('forge/close-issue', CHANGE, _close, 5),
    Template('forge/comment-issue', CHANGE, _comment, 5),
    Template('forge/due-date', CHANGE, _due, 5),
    Template('forge/add-todo', CHANGE, _todo, 5),
    Template('forge/create-milestone', CHANGE, _milestone, 5, (339,)),
    Template('forge/add-label', CHANGE, _label, 5),
)
