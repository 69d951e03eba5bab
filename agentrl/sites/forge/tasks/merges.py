"""Merge requests that are opened, answered and decided."""

from agentrl.sites import seed_data, task as t
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.tasks import paths
from agentrl.sites.forge.tasks.paths import change
from agentrl.sites.goals import New, Row, added, changed

_VALUES = seed_data.read(__file__)

# Open merge requests of others, in projects in which the visitor may merge, by
# titles that a list's search finds once.
_OPEN = f"""
SELECT i.* FROM merge_items i
WHERE i.state = 'opened' AND i.author_id != {EMMA} AND i.project_id IN
  (SELECT project_id FROM grants WHERE user_id = {EMMA} AND role >= 30)
AND (SELECT count(*) FROM merge_requests o WHERE o.project_id = i.project_id
  AND instr(lower(o.title), lower(i.title))) = 1
ORDER BY i.id
"""
# Branches without a merge request, in projects to which the visitor may push.
_BRANCHES = f"""
SELECT b.name, d.name AS home, p.id, p.full_path FROM branches b
JOIN branches d ON d.project_id = b.project_id AND d.is_default
JOIN paths p ON p.id = b.project_id
WHERE NOT b.is_default AND p.id IN
  (SELECT project_id FROM grants WHERE user_id = {EMMA} AND role >= 30)
AND NOT EXISTS (SELECT 1 FROM merge_requests m WHERE m.project_id = p.id
  AND m.source_branch = b.name AND m.state = 'opened')
ORDER BY b.id
"""


def _comment(key: int, text: str) -> Row:
  return added(
      'forge.comments', merge_request_id=key, author_id=EMMA, body=text
  )


def _submit(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(k, 'branch to submit', _BRANCHES)
  who = paths.people_in(db, row['id'])[0]
  title = f'Merge the work on {row["name"].replace("-", " ")}'
  number = db.value(
      'SELECT max(number) + 1 FROM merge_requests WHERE project_id = ?',
      row['id'],
  )
  return change(
      f'In {row["full_path"]}, submit a request to merge the branch'
      f' {row["name"]} into {row["home"]}, with the title "{title}" and'
      f' {who["username"]} as the reviewer.',
      added(
          'forge.merge_requests',
          project_id=row['id'],
          number=number,
          author_id=EMMA,
          reviewer_id=who['id'],
          source_branch=row['name'],
          target_branch=row['home'],
          title=title,
          description='',
          state='opened',
      ),
      *paths.to_project(row['full_path']),
      t.link('Merge requests'),
      t.link('New merge request'),
      t.choose('Source branch', row['name']),
      t.choose('Target branch', row['home']),
      t.button('Compare branches and continue'),
      t.fill('Title', title),
      t.choose('Reviewer', paths.person(who)),
      t.button('Create merge request'),
  )


def _post(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(k, 'open merge request', _OPEN)
  text = _VALUES['post'][k]
  return change(
      f'Post "{text}" for the merge request "{row["title"]}" in'
      f' {row["full_path"]}.',
      _comment(row['id'], text),
      *paths.to_merge(row),
      t.fill('Write a comment', text),
      t.button('Comment'),
  )


def _answer(db: t.Db, k: int) -> t.Task:
  rows = db.rows(
      'SELECT i.*, (SELECT c.author_id FROM comments c WHERE'
      ' c.merge_request_id = i.id ORDER BY c.created_at DESC, c.id DESC LIMIT'
      " 1) AS last FROM merge_items i WHERE i.state = 'opened' AND"
      f' i.reviewer_id = {EMMA} AND (SELECT count(*) FROM merge_requests o'
      ' WHERE o.reviewer_id = i.reviewer_id AND instr(lower(o.title),'
      ' lower(i.title))) = 1 ORDER BY i.id',
  )
  has_answered = k % 2 == 0
  fitting = [x for x in rows if (x['last'] == x['author_id']) == has_answered]
  row = fitting[k]
  text = 'Thank you' if has_answered else f'@{row["author"]}'
  return change(
      f'Go to the merge request "{row["title"]}" that I have to review. If its'
      ' author wrote the last comment there, reply "Thank you"; otherwise'
      ' remind the author with nothing but @ and the username.',
      _comment(row['id'], text),
      t.click_on('DisclosureTriangle', 'Merge requests'),
      t.link('Review requests for you'),
      t.fill('Search or filter', row['title'], role='searchbox', enter=True),
      t.link(row['title']),
      t.fill('Write a comment', text),
      t.button('Comment'),
  )


def _approve(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'request to approve',
      _OPEN.replace(
          'ORDER BY',
          'AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.user_id = 1 AND'
          ' a.merge_request_id = i.id) ORDER BY',
      ),
  )
  return change(
      f'Approve the merge request "{row["title"]}" in {row["full_path"]}, but'
      ' do not merge it.',
      added('forge.approvals', merge_request_id=row['id'], user_id=EMMA),
      *paths.to_merge(row),
      t.button('Approve'),
  )


def _merge(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(k + 5, 'open merge request', _OPEN)
  branch = db.value(
      'SELECT id FROM branches WHERE project_id = ? AND name = ?',
      row['project_id'],
      row['target_branch'],
  )
  source, target = row['source_branch'], row['target_branch']
  return change(
      f'Merge the merge request "{row["title"]}" in {row["full_path"]}.',
      (
          changed('forge.merge_requests', row['id'], state='merged'),
          paths.commit(branch, f"Merge branch '{source}' into '{target}'"),
      ),
      *paths.to_merge(row),
      t.button('Merge'),
  )


def _close(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(k + 10, 'open merge request', _OPEN)
  return change(
      f'Close the merge request "{row["title"]}" in {row["full_path"]} without'
      ' merging it.',
      changed('forge.merge_requests', row['id'], state='closed'),
      *paths.to_merge(row),
      t.button('Close merge request'),
  )


def _reviewer(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(k + 15, 'open merge request', _OPEN)
  taken = row['reviewer_id'], row['author_id']
  who = paths.member_but(db, row['project_id'], *taken)
  author = paths.user(db, row['author_id'])['name']
  return change(
      f'{who["name"]} shall review what {author} proposes in the merge request'
      f' "{row["title"]}" of {row["full_path"]}. Set the reviewer.',
      changed('forge.merge_requests', row['id'], reviewer_id=who['id']),
      *paths.to_merge(row),
      t.choose('Reviewer', paths.person(who)),
      t.button('Save changes'),
  )


def _branch(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'branch to start from',
      'SELECT b.id, b.name, p.id AS project, p.full_path FROM branches b JOIN'
      f' repositories p ON p.branch_id = b.id WHERE p.user_id = {EMMA} ORDER BY'
      ' b.id',
  )
  name = ('release-2', 'hotfix', 'try-tabs', 'docs-rewrite', 'next')[k]
  return change(
      f'Create a branch {name} in {row["full_path"]}, from {row["name"]}.',
      added(
          'forge.branches',
          project_id=row['project'],
          base_id=row['id'],
          name=name,
          is_default=0,
      ),
      *paths.to_project(row['full_path']),
      t.link('Branches'),
      t.link('New branch'),
      t.fill('Branch name', name),
      t.choose('Create from', row['name']),
      t.button('Create branch'),
  )


def _file(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k + 5,
      'project to add a file to',
      'SELECT p.branch_id, p.branch, p.full_path FROM repositories p WHERE'
      f' p.user_id = {EMMA} ORDER BY p.id',
  )
  path, text = _VALUES['file'][k]
  name = path.rpartition('/')[2]
  return change(
      f'Add a file {path} with the content "{text}" to {row["full_path"]}, on'
      f' the branch {row["branch"]}, with the commit message "Add {name}".',
      (
          paths.commit(row['branch_id'], f'Add {name}'),
          added(
              'forge.files',
              branch_id=row['branch_id'],
              commit_id=New('forge.commits'),
              path=path,
              content=text,
          ),
      ),
      *paths.to_project(row['full_path']),
      t.link('New file'),
      t.fill('File name', path),
      t.fill('File content', text),
      t.fill('Commit message', f'Add {name}'),
      t.button('Commit changes'),
  )


TEMPLATES = (
    t.Template('forge/submit-merge', t.CHANGE, _submit, 5, (335,)),
    t.Template('forge/post-comment', t.CHANGE, _post, 5, (348,)),
    t.Template('forge/answer-review', t.CHANGE, _answer, 5, (360,)),
    t.Template('forge/approve-merge', t.CHANGE, _approve, 5),
    t.Template('forge/merge', t.CHANGE, _merge, 5),
    t.Template('forge/close-merge', t.CHANGE, _close, 5),
    t.Template('forge/set-reviewer', t.CHANGE, _reviewer, 5),
    t.Template('forge/create-branch', t.CHANGE, _branch, 5),
    t.Template('forge/add-file', t.CHANGE, _file, 5),
)
