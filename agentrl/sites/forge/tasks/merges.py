"""Merge requests that are opened, answered and decided."""

from collections.abc import Sequence

from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.tasks.picking import (
    change,
    one,
    people_in,
    person,
    pick,
    rows,
    to_merge,
    to_project,
    user,
)
from agentrl.sites.goals import ADDED, CHANGED, New, Row
from agentrl.sites.task import (
    CHANGE,
    Step,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
)

# Open merge requests of others, in projects in which the visitor may merge, by
# titles that a list's search finds once.
_OPEN = """
SELECT i.* FROM merge_items i
WHERE i.state = 'opened' AND i.author_id != ? AND i.project_id IN
  (SELECT project_id FROM grants WHERE user_id = ? AND role >= 30)
AND (SELECT count(*) FROM merge_requests o WHERE o.project_id = i.project_id
  AND instr(lower(o.title), lower(i.title))) = 1
ORDER BY i.id
"""
# Branches without a merge request, in projects to which the visitor may push.
_BRANCHES = """
SELECT b.name, d.name AS home, p.id, p.full_path FROM branches b
JOIN branches d ON d.project_id = b.project_id AND d.is_default
JOIN paths p ON p.id = b.project_id
WHERE NOT b.is_default AND p.id IN
  (SELECT project_id FROM grants WHERE user_id = ? AND role >= 30)
AND NOT EXISTS (SELECT 1 FROM merge_requests m WHERE m.project_id = p.id
  AND m.source_branch = b.name AND m.state = 'opened')
ORDER BY b.id
"""


def _to(path: str, title: str) -> Sequence[Step]:
  return (*to_project(path), *to_merge(title))


def _comment(key: int, text: str) -> Row:
  values = {'merge_request_id': key, 'author_id': EMMA, 'body': text}
  return Row('forge.comments', ADDED, values)


def _submit(stores: Stores, k: int) -> Task:
  row = pick(stores, k, 'branch to submit', _BRANCHES, EMMA)
  who = people_in(stores, row['id'])[0]
  title = f'Merge the work on {row["name"].replace("-", " ")}'
  number = one(
      stores,
      'SELECT max(number) + 1 FROM merge_requests WHERE project_id = ?',
      row['id'],
  )
  values = {
      'project_id': row['id'],
      'number': number,
      'author_id': EMMA,
      'reviewer_id': who['id'],
      'source_branch': row['name'],
      'target_branch': row['home'],
      'title': title,
      'description': '',
      'state': 'opened',
  }
  return change(
      f'In {row["full_path"]}, submit a request to merge the branch'
      f' {row["name"]} into {row["home"]}, with the title "{title}" and'
      f' {who["username"]} as the reviewer.',
      (Row('forge.merge_requests', ADDED, values),),
      (
          *to_project(row['full_path']),
          click_on('link', 'Merge requests'),
          click_on('link', 'New merge request'),
          choose('Source branch', row['name']),
          choose('Target branch', row['home']),
          click_on('button', 'Compare branches and continue'),
          fill('Title', title),
          choose('Reviewer', person(who)),
          click_on('button', 'Create merge request'),
      ),
  )


def _post(stores: Stores, k: int) -> Task:
  row = pick(stores, k, 'open merge request', _OPEN, EMMA, EMMA)
  text = (
      'Thanks, working on reviews', 'lgtm', 'Please add a test for this.',
      'Could you rebase it?', 'This one can wait for the next release.',
  )[k]  # fmt: skip
  return change(
      f'Post "{text}" for the merge request "{row["title"]}" in'
      f' {row["full_path"]}.',
      (_comment(row['id'], text),),
      (
          *_to(row['full_path'], row['title']),
          fill('Write a comment', text),
          click_on('button', 'Comment'),
      ),
  )


def _answer(stores: Stores, k: int) -> Task:
  found = rows(
      stores,
      'SELECT i.*, (SELECT c.author_id FROM comments c WHERE c.merge_request_id'
      ' = i.id ORDER BY c.created_at DESC, c.id DESC LIMIT 1) AS last FROM'
      " merge_items i WHERE i.state = 'opened' AND i.reviewer_id = ? AND"
      ' (SELECT count(*) FROM merge_requests o WHERE o.reviewer_id ='
      ' i.reviewer_id AND instr(lower(o.title), lower(i.title))) = 1 ORDER BY'
      ' i.id',
      EMMA,
  )
  has_answered = k % 2 == 0
  fitting = [x for x in found if (x['last'] == x['author_id']) == has_answered]
  row = fitting[k]
  text = 'Thank you' if has_answered else f'@{row["author"]}'
  return change(
      f'Go to the merge request "{row["title"]}" that I have to review. If its'
      ' author wrote the last comment there, reply "Thank you"; otherwise'
      ' remind the author with nothing but @ and the username.',
      (_comment(row['id'], text),),
      (
          click_on('DisclosureTriangle', 'Merge requests'),
          click_on('link', 'Review requests for you'),
          fill('Search or filter', row['title'], role='searchbox', enter=True),
          click_on('link', row['title']),
          fill('Write a comment', text),
          click_on('button', 'Comment'),
      ),
  )


def _approve(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'request to approve',
      _OPEN.replace(
          'ORDER BY',
          'AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.user_id = 1 AND'
          ' a.merge_request_id = i.id) ORDER BY',
      ),
      EMMA,
      EMMA,
  )
  values = {'merge_request_id': row['id'], 'user_id': EMMA}
  return change(
      f'Approve the merge request "{row["title"]}" in {row["full_path"]}, but'
      ' do not merge it.',
      (Row('forge.approvals', ADDED, values),),
      (
          *_to(row['full_path'], row['title']),
          click_on('button', 'Approve'),
      ),
  )


def _merge(stores: Stores, k: int) -> Task:
  row = pick(stores, k + 5, 'open merge request', _OPEN, EMMA, EMMA)
  branch = one(
      stores,
      'SELECT id FROM branches WHERE project_id = ? AND name = ?',
      row['project_id'],
      row['target_branch'],
  )
  source, target = row['source_branch'], row['target_branch']
  commit = {
      'branch_id': branch,
      'author_id': EMMA,
      'message': f"Merge branch '{source}' into '{target}'",
  }
  return change(
      f'Merge the merge request "{row["title"]}" in {row["full_path"]}.',
      (
          Row('forge.merge_requests', CHANGED, {'state': 'merged'}, row['id']),
          Row('forge.commits', ADDED, commit),
      ),
      (*_to(row['full_path'], row['title']), click_on('button', 'Merge')),
  )


def _close(stores: Stores, k: int) -> Task:
  row = pick(stores, k + 10, 'open merge request', _OPEN, EMMA, EMMA)
  return change(
      f'Close the merge request "{row["title"]}" in {row["full_path"]} without'
      ' merging it.',
      (Row('forge.merge_requests', CHANGED, {'state': 'closed'}, row['id']),),
      (
          *_to(row['full_path'], row['title']),
          click_on('button', 'Close merge request'),
      ),
  )


def _reviewer(stores: Stores, k: int) -> Task:
  row = pick(stores, k + 15, 'open merge request', _OPEN, EMMA, EMMA)
  who = next(
      x
      for x in people_in(stores, row['project_id'])
      if x['id'] not in (row['reviewer_id'], row['author_id'])
  )
  author = user(stores, row['author_id'])['name']
  return change(
      f'{who["name"]} shall review what {author} proposes in the merge request'
      f' "{row["title"]}" of {row["full_path"]}. Set the reviewer.',
      (
          Row(
              'forge.merge_requests',
              CHANGED,
              {'reviewer_id': who['id']},
              row['id'],
          ),
      ),
      (
          *_to(row['full_path'], row['title']),
          choose('Reviewer', person(who)),
          click_on('button', 'Save changes'),
      ),
  )


def _branch(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'branch to start from',
      'SELECT b.id, b.name, p.id AS project, p.full_path FROM branches b JOIN'
      ' repositories p ON p.branch_id = b.id WHERE p.user_id = ? ORDER BY b.id',
      EMMA,
  )
  name = ('release-2', 'hotfix', 'try-tabs', 'docs-rewrite', 'next')[k]
  values = {
      'project_id': row['project'],
      'base_id': row['id'],
      'name': name,
      'is_default': 0,
  }
  return change(
      f'Create a branch {name} in {row["full_path"]}, from {row["name"]}.',
      (Row('forge.branches', ADDED, values),),
      (
          *to_project(row['full_path']),
          click_on('link', 'Branches'),
          click_on('link', 'New branch'),
          fill('Branch name', name),
          choose('Create from', row['name']),
          click_on('button', 'Create branch'),
      ),
  )


def _file(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k + 5,
      'project to add a file to',
      'SELECT p.branch_id, p.branch, p.full_path FROM repositories p WHERE'
      ' p.user_id = ? ORDER BY p.id',
      EMMA,
  )
  path, text = (
      ('notes/todo.txt', 'Ask for the new colors.'),
      ('AUTHORS', 'Emma Brookfield'),
      ('docs/faq.md', 'No questions yet.'),
      ('links.txt', 'https://links.example/start'),
      ('VERSION', '2.0.1'),
  )[k]
  file = {
      'branch_id': row['branch_id'],
      'commit_id': New('forge.commits'),
      'path': path,
      'content': text,
  }
  name = path.rpartition('/')[2]
  commit = {
      'branch_id': row['branch_id'],
      'author_id': EMMA,
      'message': f'Add {name}',
  }
  return change(
      f'Add a file {path} with the content "{text}" to {row["full_path"]}, on'
      f' the branch {row["branch"]}, with the commit message "Add {name}".',
      (Row('forge.commits', ADDED, commit), Row('forge.files', ADDED, file)),
      (
          *to_project(row['full_path']),
          click_on('link', 'New file'),
          fill('File name', path),
          fill('File content', text),
          fill('Commit message', f'Add {name}'),
          click_on('button', 'Commit changes'),
      ),
  )


TEMPLATES = (
    Template('forge/submit-merge', CHANGE, _submit, 5, (335,)),
    Template('forge/post-comment', CHANGE, _post, 5, (348,)),
    Template('forge/answer-review', CHANGE, _answer, 5, (360,)),
    Template('forge/approve-merge', CHANGE, _approve, 5),
    Template('forge/merge', CHANGE, _merge, 5),
    Template('forge/close-merge', CHANGE, _close, 5),
    Template('forge/set-reviewer', CHANGE, _reviewer, 5),
    Template('forge/create-branch', CHANGE, _branch, 5),
    Template('forge/add-file', CHANGE, _file, 5),
)
