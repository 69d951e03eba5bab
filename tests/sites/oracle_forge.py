"""A second grader of the forge's tasks: from the intent's words and the rows.

It knows neither goals nor answers of the package; of a task it reads the intent
alone, as a person would, and looks up in the seed what that asks for.
"""

import datetime
import re
from collections import Counter

from agentrl.sites import table
from agentrl.sites.forge.seed.starters import STARTERS
from tests.sites.judging import added, change, changed, go, seek

ME = 1
GUEST, REPORTER, DEVELOPER, MAINTAINER, OWNER = 10, 20, 30, 40, 50
ROLES = {
    'guest': GUEST,
    'reporter': REPORTER,
    'developer': DEVELOPER,
    'maintainer': MAINTAINER,
}


# --- records


def rows(db, sql, *values):
  return [dict(row) for row in db.execute(sql, values)]


def one(db, sql, *values):
  (row,) = rows(db, sql, *values)
  return row


def last(db, table):
  """The id of the latest row."""
  return db.execute(f'SELECT max(id) FROM {table}').fetchone()[0]


def project(db, path):
  space, name = path.split('/')
  return one(
      db,
      'SELECT p.* FROM projects p LEFT JOIN users u ON u.id = p.user_id LEFT'
      ' JOIN groups g ON g.id = p.group_id WHERE p.path = ? AND ? IN'
      ' (u.username, g.path)',
      name,
      space,
  )


def user(db, name):
  return one(db, 'SELECT * FROM users WHERE username = ?', name)


def people(db, names):
  return [user(db, x)['id'] for x in re.split(', | and ', names)]


def branch(db, path, name=None):
  """The branch with this name, or the default one."""
  return one(
      db,
      'SELECT * FROM branches WHERE project_id = ? AND ? IN (name, is_default)',
      project(db, path)['id'],
      1 if name is None else name,
  )


def commits(db, path, name=None):
  """Those that a branch shows: its own, its bases' until it was made."""
  found, until, line = [], '9999', branch(db, path, name)
  while line is not None:
    found += rows(
        db,
        'SELECT c.*, u.name, u.email FROM commits c JOIN users u ON u.id ='
        ' c.author_id WHERE branch_id = ? AND c.created_at <= ?',
        line['id'],
        until,
    )
    until = min(until, line['created_at'])
    base = rows(db, 'SELECT * FROM branches WHERE id = ?', line['base_id'])
    (line,) = base or [None]
  return found


def all_commits(db, path):
  """Those of all branches, as one may understand 'commits to a project'."""
  return rows(
      db,
      'SELECT c.*, u.name, u.email FROM commits c JOIN users u ON u.id ='
      ' c.author_id JOIN branches b ON b.id = c.branch_id WHERE project_id = ?',
      project(db, path)['id'],
  )


def content(db, path, file):
  """A file of the default branch."""
  return one(
      db,
      'SELECT * FROM files WHERE branch_id = ? AND path = ?',
      branch(db, path)['id'],
      file,
  )


def titled(db, table, title, path):
  return one(
      db,
      f'SELECT * FROM {table} WHERE project_id = ? AND title = ? AND state ='
      " 'opened'",
      project(db, path)['id'],
      title,
  )


def day(text):
  found = datetime.datetime.strptime(text, '%B %d, %Y')
  return str(found.date())


# --- questions


def counted(db, name, path, time):
  """The commits of somebody whose time begins like this."""
  by_branch = [
      sum(x['name'] == name and x['created_at'].startswith(time) for x in found)
      for found in (commits(db, path), all_commits(db, path))
  ]
  assert by_branch[0] == by_branch[1], (name, path, time)
  return by_branch[0]


def in_month(db, name, path, month):
  found = datetime.datetime.strptime(month, '%B %Y')
  return counted(db, name, path, f'{found:%Y-%m}')


def here_on_day(seed, final, answer, k):
  """The page where it starts is part of what is asked for."""
  name = 'forge/commits-here-on-day'
  start = table.TEMPLATES[name].make({'forge': seed}, k).start[0]
  judge = seek(
      name,
      r'How many commits did (.+) make to this project on (.+)\? .+',
      lambda db, who, on: counted(
          db, who, start.removeprefix('http://forge/'), day(on)
      ),
  )
  return judge(seed, final, answer, k)


def first(found, column, count):
  """The values of those who committed most, most commits first."""
  best = Counter(x[column] for x in found).most_common()
  counts = [number for _, number in best[: count + 1]]
  assert len(set(counts)) == count + 1, best
  return tuple(value for value, _ in best[:count])


def top_three(db, label, path):
  column = {'full names': 'name', 'email addresses': 'email'}[label]
  return first(commits(db, path), column, 3)


def committer(db, message, path):
  (name,) = {
      x['name'] for x in all_commits(db, path) if x['message'] == message
  }
  return name


SETTINGS = {
    'port': 'port',
    'timeout in seconds': 'timeout_seconds',
    'largest number of items': 'max_items',
    'number of workers': 'workers',
}


def setting(db, what, path):
  text = content(db, path, 'config/defaults.toml')['content']
  return int(re.search(rf'^{SETTINGS[what]} = (\d+)$', text, re.MULTILINE)[1])


def spdx(db, path):
  text = content(db, path, 'LICENSE')['content']
  return re.search(r'^SPDX-License-Identifier: (\S+)$', text, re.MULTILINE)[1]


CLONE = {'SSH': 'ssh://git@forge:2222/{}.git', 'HTTP': 'http://forge/{}.git'}


def is_closed(db, latest, word):
  """Of the issues that I have opened, the latest with a word in its title."""
  mine = rows(db, 'SELECT * FROM issues WHERE author_id = ?', ME)
  for row in mine:
    row['updated'] = max(
        row['updated_at'],
        *(
            x['created_at']
            for x in rows(
                db, 'SELECT * FROM comments WHERE issue_id = ?', row['id']
            )
        ),
        '',
    )
    row['created'] = row['created_at']
  found = [
      max((x for x in mine if fits(x['title'])), key=lambda x: x[latest])
      for fits in (
          lambda title: word in title.lower(),
          lambda title: word in re.split(r'\W+', title.lower()),
      )
  ]
  assert found[0] == found[1], word
  return 'yes' if found[0]['state'] == 'closed' else 'no'


def token(db, what):
  column = {
      'RSS feed token': 'feed',
      'token for incoming email': 'incoming_email',
      'static object token': 'static_object',
  }[what]
  return one(db, 'SELECT * FROM account_tokens WHERE user_id = ?', ME)[column]


def stars(db, key):
  return one(db, 'SELECT count(*) AS n FROM stars WHERE project_id = ?', key)[
      'n'
  ]


def starred(db, words):
  mine = rows(db, 'SELECT * FROM projects WHERE user_id = ?', ME)
  counts = {f'emma/{x["path"]}': stars(db, x['id']) for x in mine}
  numbers = [int(x) for x in re.findall(r'\d+', words)]
  if words.startswith('more than'):
    fits = lambda n: n > numbers[0]
  elif words.startswith('fewer than'):
    fits = lambda n: 1 <= n < numbers[0]
  elif words.startswith('at least'):
    fits = lambda n: numbers[0] <= n < numbers[1]
  else:
    wanted = {'the most stars': max(counts.values()), 'no stars at all': 0}
    fits = lambda n: n == wanted[words]
  return [path for path, n in counts.items() if fits(n)]


def others_in(db, path):
  """Those with a role in a project of mine, which no group owns."""
  of = project(db, path)
  assert of['group_id'] is None
  return [
      x['username']
      for x in rows(
          db,
          'SELECT u.username FROM members m JOIN users u ON u.id = m.user_id'
          ' WHERE m.project_id = ? AND u.id != ?',
          of['id'],
          ME,
      )
  ]


# --- issues and merge requests


def new(db, table, path, title, **values):
  """An issue or a merge request with the next number of its project."""
  key = project(db, path)['id']
  found = one(
      db, f'SELECT max(number) AS n FROM {table} WHERE project_id = ?', key
  )
  return added(
      table,
      project_id=key,
      number=found['n'] + 1,
      author_id=ME,
      title=title,
      state='opened',
      **{'description': '', **values},
  )


DAYS = {
    'the end of 2030': '2030-12-31',
    'the first day of April 2033': '2033-04-01',
    'Christmas Day of 2023': '2023-12-25',
    'the last day of February 2025': '2025-02-28',
}


def create_issue(db, _, path, title, name, due):
  due = DAYS.get(due) or day(due)
  key = user(db, name)['id']
  return [new(db, 'issues', path, title, assignee_id=key, due_on=due)]


def discuss(db, final, path, title, label):
  found = one(
      db,
      'SELECT id FROM labels WHERE project_id = ? AND name = ?',
      project(db, path)['id'],
      label,
  )
  key = last(final, 'issues')
  return [
      new(db, 'issues', path, title),
      added('issue_labels', issue_id=key, label_id=found['id']),
  ]


def set_issue(db, title, path, **values):
  return [changed('issues', titled(db, 'issues', title, path)['id'], **values)]


def add_todo(db, _, title, path):
  return [
      added(
          'todos',
          user_id=ME,
          author_id=ME,
          issue_id=titled(db, 'issues', title, path)['id'],
          kind='marked',
          state='pending',
      )
  ]


def milestone(db, _, title, path, starts, days):
  starts = day(starts)
  due = datetime.date.fromisoformat(starts) + datetime.timedelta(int(days))
  return [
      added(
          'milestones',
          project_id=project(db, path)['id'],
          title=title,
          description='',
          state='active',
          starts_on=starts,
          due_on=str(due),
      )
  ]


def label(db, _, name, color, path):
  return [
      added(
          'labels',
          project_id=project(db, path)['id'],
          name=name,
          description='',
          color=color,
      )
  ]


def submit(db, _, path, source, target, title, reviewer):
  assert branch(db, path, source) != branch(db, path, target)
  return [
      new(
          db,
          'merge_requests',
          path,
          title,
          reviewer_id=user(db, reviewer)['id'],
          source_branch=source,
          target_branch=target,
      )
  ]


def merge_of(db, title, path):
  return titled(db, 'merge_requests', title, path)


def set_merge(db, title, path, **values):
  key = merge_of(db, title, path)['id']
  return [changed('merge_requests', key, **values)]


def said(column, key, text):
  return [added('comments', **{column: key}, author_id=ME, body=text)]


def answer_review(db, _, title):
  found = one(
      db,
      'SELECT * FROM merge_requests WHERE title = ? AND reviewer_id = ? AND'
      " state = 'opened'",
      title,
      ME,
  )
  comments = rows(
      db,
      'SELECT * FROM comments WHERE merge_request_id = ? ORDER BY created_at',
      found['id'],
  )
  author = one(db, 'SELECT * FROM users WHERE id = ?', found['author_id'])
  has_answered = comments[-1]['author_id'] == author['id']
  text = 'Thank you' if has_answered else f'@{author["username"]}'
  return said('merge_request_id', found['id'], text)


def approve(db, _, title, path):
  key = merge_of(db, title, path)['id']
  return [added('approvals', merge_request_id=key, user_id=ME)]


def merged(db, _, title, path):
  found = merge_of(db, title, path)
  source, target = found['source_branch'], found['target_branch']
  return [
      *set_merge(db, title, path, state='merged'),
      added(
          'commits',
          branch_id=branch(db, path, target)['id'],
          author_id=ME,
          message=f"Merge branch '{source}' into '{target}'",
      ),
  ]


def set_reviewer(db, _, reviewer, author, title, path):
  by_name = 'SELECT id FROM users WHERE name = ?'
  found = merge_of(db, title, path)
  assert found['author_id'] == one(db, by_name, author)['id']
  key = one(db, by_name, reviewer)['id']
  return set_merge(db, title, path, reviewer_id=key)


# --- projects


def new_branch(db, _, name, path, source):
  base = branch(db, path, source)
  return [
      added(
          'branches',
          project_id=base['project_id'],
          base_id=base['id'],
          name=name,
          is_default=0,
      )
  ]


def new_file(db, final, file, text, path, name, message):
  key = branch(db, path, name)['id']
  return [
      added('commits', branch_id=key, author_id=ME, message=message),
      added(
          'files',
          branch_id=key,
          commit_id=last(final, 'commits'),
          path=file,
          content=text,
      ),
  ]


def edited(db, final, path, file, text):
  """A changed file of the default branch, with any commit message."""
  old, commit = content(db, path, file), last(final, 'commits')
  message = one(final, 'SELECT * FROM commits WHERE id = ?', commit)['message']
  return [
      added(
          'commits', branch_id=old['branch_id'], author_id=ME, message=message
      ),
      changed('files', old['id'], commit_id=commit, content=text),
  ]


def set_license(db, final, path, name):
  """The text is that of the projects that have this license already."""
  (text,) = {
      x['content']
      for x in rows(db, "SELECT content FROM files WHERE path = 'LICENSE'")
      if x['content'].startswith(f'{name}\n')
  }
  return edited(db, final, path, 'LICENSE', text)


def site_title(db, final, title, path):
  text = content(db, path, 'index.html')['content']
  text, count = re.subn(
      '<title>.*</title>', f'<title>{title}</title>', text, flags=re.DOTALL
  )
  assert count == 1
  return edited(db, final, path, 'index.html', text)


def member(key, user_id, role):
  return added('members', project_id=key, user_id=user_id, role=role)


def new_project(db, final, visibility, name, files, members=(), role=None):
  key = last(final, 'projects')
  found = [
      added(
          'projects',
          user_id=ME,
          path=name,
          name=name,
          description='',
          topics='',
          visibility=visibility,
      ),
      member(key, ME, OWNER),
      *(member(key, x, role) for x in members),
  ]
  if files:
    line, commit = last(final, 'branches'), last(final, 'commits')
    found += [
        added('branches', project_id=key, name='main', is_default=1),
        added(
            'commits', branch_id=line, author_id=ME, message='Initial commit'
        ),
        *(
            added(
                'files',
                branch_id=line,
                commit_id=commit,
                path=path,
                content=text,
            )
            for path, text in files.items()
        ),
    ]
  return found


def fork(db, final, path):
  origin, base = project(db, path), branch(db, path)
  key = last(final, 'projects')
  kept = 'path', 'name', 'description', 'topics', 'visibility'
  return [
      added(
          'projects',
          user_id=ME,
          forked_from_id=origin['id'],
          **{name: origin[name] for name in kept},
      ),
      member(key, ME, OWNER),
      added(
          'branches',
          project_id=key,
          base_id=base['id'],
          name=base['name'],
          is_default=1,
      ),
  ]


def star_top(db, _, count, how):
  count = int(count or 1)
  counts = Counter(
      x['id']
      for x in rows(
          db,
          {
              'starred': 'SELECT project_id AS id FROM stars',
              'forked': (
                  'SELECT forked_from_id AS id FROM projects WHERE'
                  ' forked_from_id IS NOT NULL'
              ),
          }[how],
      )
  ).most_common()
  assert counts[count - 1][1] > counts[count][1], counts[: count + 1]
  mine = rows(db, 'SELECT * FROM stars WHERE user_id = ?', ME)
  known = {x['project_id'] for x in mine}
  return [
      added('stars', project_id=key, user_id=ME)
      for key, _ in counts[:count]
      if key not in known
  ]


def invite(db, path, names, role):
  key = project(db, path)['id']
  return [member(key, x, ROLES[role]) for x in people(db, names)]


def remove_member(db, _, name, username, path):
  gone = user(db, username)
  assert gone['name'] == name
  key = project(db, path)['id']
  found = one(
      db,
      'SELECT id FROM members WHERE project_id = ? AND user_id = ?',
      key,
      gone['id'],
  )
  return [('-', 'members', found['id'])]


# --- people


def unfollow(db, _, name):
  found = one(
      db,
      'SELECT id FROM follows WHERE user_id = ? AND followed_id = ?',
      ME,
      user(db, name)['id'],
  )
  return [('-', 'follows', found['id'])]


def new_group(db, final, name, names):
  key = last(final, 'groups')
  roles = [(ME, OWNER), *((x, DEVELOPER) for x in people(db, names))]
  return [
      added(
          'groups', path=name, name=name, description='', visibility='private'
      ),
      *(
          added('group_members', group_id=key, user_id=x, role=role)
          for x, role in roles
      ),
  ]


def mine_removed(table, column):
  sql = f'SELECT id FROM {table} WHERE user_id = ? AND {column} = ?'
  return lambda db, _, said: [('-', table, one(db, sql, ME, said)['id'])]


def me_changed(column):
  return lambda db, _, text: [changed('users', ME, **{column: text})]


PATH = r'([\w-]+/[\w-]+)'
ISSUE = rf'issue "(.+)" in {PATH}'
MERGE = rf'merge request "(.+)" in {PATH}'

SEEK = {
    'commits-on-day': (
        rf'How many commits did (.+) make to {PATH} on (.+)\? .+',
        lambda db, name, path, on: counted(db, name, path, day(on)),
    ),
    'commits-in-month': (
        rf'How many commits did (.+) make to {PATH} during (.+)\? .+',
        in_month,
    ),
    'top-contributor': (
        rf'Who has made the most commits to the main line of {PATH}\? Answer'
        r' with the full name\.',
        lambda db, path: first(commits(db, path), 'name', 1)[0],
    ),
    'top-three': (
        r'List the (.+) of the three people with the most commits to'
        rf' the main line of {PATH}, the one with the most commits first, .+',
        top_three,
    ),
    'top-of-branch': (
        r'Give me the email address of the contributor with the most commits on'
        rf' the branch (\S+) of this project, {PATH}\.',
        lambda db, name, path: first(commits(db, path, name), 'email', 1)[0],
    ),
    'commit-author': (
        rf'Who committed "(.+)" to {PATH}\? Answer with the full name\.',
        committer,
    ),
    'setting': (
        rf'What (.+) does config/defaults\.toml set in {PATH}\? .+',
        setting,
    ),
    'license': (
        rf'Under which license is {PATH}\? Answer with its SPDX identifier\.',
        spdx,
    ),
    'clone': (
        rf'Give me the git command that clones {PATH} over (\w+), without any'
        r' options\.',
        lambda db, path, way: f'git clone {CLONE[way].format(path)}',
    ),
    **{
        f'latest-{how}': (
            rf'Open my latest ({how}) issue that has the keyword "(\w+)" in its'
            r' title to check if it is closed\. Answer yes or no\.',
            is_closed,
        )
        for how in ('updated', 'created')
    },
    'token': (r'Get me my (.+)\.', token),
    'own-stars': (
        r'Tell me the full paths, .+, of those of my personal projects that got'
        r' (.+)\. Separate several by semicolons\.',
        starred,
    ),
    'who-has-access': (
        rf'Who else has access to my project {PATH}\? Show me their'
        r' usernames, .+',
        others_in,
    ),
}
CHANGE = {
    'create-issue': (
        rf'Create an issue in {PATH} with the title "(.+)"\. Assign it to'
        r' (\S+), and set the due date to (.+)\.',
        create_issue,
    ),
    'report-issue': (
        rf'Open an issue to report .+ in {PATH}\. Its title is "(.+)", its'
        r' description "(.+)"',
        lambda db, _, path, title, text: [
            new(db, 'issues', path, title, description=text)
        ],
    ),
    'discuss-feature': (
        rf'Open a new issue of this project, {PATH}, to discuss .+\. Its title'
        r' is "(.+)", its label is (.+)\.',
        discuss,
    ),
    'assign-issue': (
        rf'Assign the {ISSUE} to (\S+)\.',
        lambda db, _, title, path, name: set_issue(
            db, title, path, assignee_id=user(db, name)['id']
        ),
    ),
    'close-issue': (
        rf'Close the {ISSUE}\.',
        lambda db, _, title, path: set_issue(db, title, path, state='closed'),
    ),
    'comment-issue': (
        rf'Comment "(.+)" on the {ISSUE}\.?',
        lambda db, _, text, title, path: said(
            'issue_id', titled(db, 'issues', title, path)['id'], text
        ),
    ),
    'due-date': (
        rf'Set the due date of the {ISSUE} to (.+)\.',
        lambda db, _, title, path, on: set_issue(
            db, title, path, due_on=day(on)
        ),
    ),
    'add-todo': (rf'Put the {ISSUE} on my to-do list\.', add_todo),
    'create-milestone': (
        rf'Create a milestone "(.+)" in {PATH} that starts on (.+) and is due'
        r' (\d+) days later\.',
        milestone,
    ),
    'add-label': (
        rf'Add a label "(.+)" with the background color (\S+) to {PATH}\.',
        label,
    ),
    'submit-merge': (
        rf'In {PATH}, submit a request to merge the branch (\S+) into (\S+),'
        r' with the title "(.+)" and (\S+) as the reviewer\.',
        submit,
    ),
    'post-comment': (
        rf'Post "(.+)" for the {MERGE}\.',
        lambda db, _, text, title, path: said(
            'merge_request_id', merge_of(db, title, path)['id'], text
        ),
    ),
    'answer-review': (
        r'Go to the merge request "(.+)" that I have to review\. If its author'
        r' wrote the last comment there, reply "Thank you"; otherwise remind'
        r' the author with nothing but @ and the username\.',
        answer_review,
    ),
    'approve-merge': (
        rf'Approve the {MERGE}, but do not merge it\.',
        approve,
    ),
    'merge': (rf'Merge the {MERGE}\.', merged),
    'close-merge': (
        rf'Close the {MERGE} without merging it\.',
        lambda db, _, title, path: set_merge(db, title, path, state='closed'),
    ),
    'set-reviewer': (
        r'(.+) shall review what (.+) proposes in the merge request "(.+)" of'
        rf' {PATH}\. Set the reviewer\.',
        set_reviewer,
    ),
    'create-branch': (
        rf'Create a branch (\S+) in {PATH}, from (\S+)\.',
        new_branch,
    ),
    'add-file': (
        rf'Add a file (\S+) with the content "(.+)" to {PATH}, on the branch'
        r' (\S+), with the commit message "(.+)"\.',
        new_file,
    ),
    'empty-project': (
        r'Set up a new, empty private repository with the name (\S+), without'
        r' even a README\.',
        lambda db, final, name: new_project(db, final, 'private', name, {}),
    ),
    'project-with-members': (
        r'Create a new (\w+) project "(.+)" with a README, and add (.+) as'
        r' developers\.',
        lambda db, final, visibility, name, names: new_project(
            db,
            final,
            visibility,
            name,
            {'README.md': f'# {name}'},
            people(db, names),
            DEVELOPER,
        ),
    ),
    'project-from-template': (
        r'Start a private project (\S+) from the template "(.+)", and add (.+)'
        r' as reporters\.',
        lambda db, final, name, template, names: new_project(
            db,
            final,
            'private',
            name,
            STARTERS[template],
            people(db, names),
            REPORTER,
        ),
    ),
    'fork': (rf'Fork {PATH} to my own namespace\.', fork),
    'star-top': (
        r'Star the (?:(\d) )?most (\w+) projects? of all\.',
        star_top,
    ),
    'set-license': (
        rf'Make the LICENSE of {PATH} the (.+), from the template for'
        r' licenses\.',
        set_license,
    ),
    'site-title': (
        r'Update the title of the project site to "(.+)": the title element of'
        rf' index\.html in {PATH}, and nothing else\.',
        site_title,
    ),
    'collaborators': (
        rf'Invite (.+) as (?:a collaborator|collaborators) to {PATH}, in the'
        r' role of a developer\.',
        lambda db, _, names, path: invite(db, path, names, 'developer'),
    ),
    'guest': (
        r'.+ wants to check my dotfiles\. Please invite (\S+) to that project'
        r' as a guest\.',
        lambda db, _, name: invite(db, 'emma/dotfiles', name, 'guest'),
    ),
    'members-with-role': (
        rf'Add the following users to {PATH} as (\w+): (.+)\.',
        lambda db, _, path, role, names: invite(db, path, names, role),
    ),
    'remove-member': (
        rf'(.+) has left: remove (\S+) from {PATH}\.',
        remove_member,
    ),
    'describe-project': (
        rf'Change the description of {PATH} to "(.+)"\.',
        lambda db, _, path, text: [
            changed('projects', project(db, path)['id'], description=text)
        ],
    ),
    'follow': (
        r'Follow (.+)\.',
        lambda db, _, names: [
            added('follows', user_id=ME, followed_id=x)
            for x in people(db, names.replace('@', ''))
        ],
    ),
    'unfollow': (r'Stop following @(\S+)\.', unfollow),
    'create-group': (
        r'Create a new private group "(.+)", and add (.+) as developers\.',
        new_group,
    ),
    'homepage': (
        r'Set the homepage on my profile to "(.+)"\.',
        me_changed('website'),
    ),
    'location': (
        r'I have moved\. Set the location on my profile to "(.+)"\.',
        me_changed('location'),
    ),
    'status': (r'Set my status to "(.+)"\.', me_changed('status')),
    'revoke-token': (
        r'Revoke my access token (\S+)\.',
        mine_removed('access_tokens', 'name'),
    ),
    'remove-key': (
        r'Remove the SSH key "(.+)" from my account\.',
        mine_removed('ssh_keys', 'title'),
    ),
}
GO = (
    'assigned-merges', 'review-merges', 'todos', 'explore',
    'issues-with-label', 'issues-related', 'sorted-issues', 'open-project',
    'open-milestone',
)  # fmt: skip
ORACLES = {
    **{f'forge/{x}': seek(f'forge/{x}', *rest) for x, rest in SEEK.items()},
    **{f'forge/{x}': change(f'forge/{x}', *rest) for x, rest in CHANGE.items()},
    **{f'forge/{x}': go(f'forge/{x}') for x in GO},
    'forge/commits-here-on-day': here_on_day,
}
