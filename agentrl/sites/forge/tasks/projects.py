"""Projects that are made, forked, starred and changed."""

import sqlite3
from collections.abc import Sequence

from agentrl.sites import seed_data, task as t
from agentrl.sites.forge.seed import words
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.seed.starters import STARTERS
from agentrl.sites.forge.tasks import paths
from agentrl.sites.forge.tasks.paths import change
from agentrl.sites.goals import New, Row, added, changed, removed

_VALUES = seed_data.read(__file__)
_PROJECT = New('forge.projects')


def _project(name: str, visibility: str) -> Row:
  return added(
      'forge.projects',
      user_id=EMMA,
      path=name,
      name=name,
      description='',
      topics='',
      visibility=visibility,
  )


def _member(key: int, role: int) -> Row:
  return added('forge.members', project_id=_PROJECT, user_id=key, role=role)


def _files(files: dict[str, str]) -> Sequence[Row]:
  """A first branch with a first commit of these files."""
  branch, commit = New('forge.branches'), New('forge.commits')
  return (
      added('forge.branches', project_id=_PROJECT, name='main', is_default=1),
      paths.commit(branch, 'Initial commit'),
      *(
          added(
              'forge.files',
              branch_id=branch,
              commit_id=commit,
              path=path,
              content=content,
          )
          for path, content in files.items()
      ),
  )


def _new(kind: str) -> Sequence[t.Step]:
  return (
      t.click_on('DisclosureTriangle', 'Create new'),
      t.link('New project'),
      t.link(kind),
  )


def _empty(_: t.Db, k: int) -> t.Task:
  name = _VALUES['empty'][k]
  return change(
      f'Set up a new, empty private repository with the name {name}, without'
      ' even a README.',
      (_project(name, 'private'), _member(EMMA, 50)),
      *_new('Create blank project'),
      t.fill('Project name', name),
      t.click_on('checkbox', 'Initialize repository with a README'),
      t.button('Create project'),
  )


def _team(db: t.Db, k: int) -> t.Task:
  visibility = 'public' if k % 2 else 'private'
  name = ('planner', 'web-arena', 'night-train', 'lamp-post', 'agentic')[k]
  people = paths.people_not_in(db, 0, 2 + k % 2, k)
  return change(
      f'Create a new {visibility} project "{name}" with a README, and add'
      f' {paths.named(people)} as developers.',
      (
          _project(name, visibility),
          _member(EMMA, 50),
          *(_member(x['id'], 30) for x in people),
          *_files({'README.md': f'# {name}'}),
      ),
      *_new('Create blank project'),
      t.fill('Project name', name),
      t.click_on('radio', visibility.capitalize()),
      t.button('Create project'),
      *paths.invited(people, 'Developer'),
  )


def _template(db: t.Db, k: int) -> t.Task:
  template = list(STARTERS)[k]
  name = ('agent-app', 'agent-home', 'agent-tools', 'agent-hub', 'agent-kit')[k]
  people = paths.people_not_in(db, 0, 2, k + 9)
  return change(
      f'Start a private project {name} from the template "{template}", and add'
      f' {paths.named(people)} as reporters.',
      (
          _project(name, 'private'),
          _member(EMMA, 50),
          *(_member(x['id'], 20) for x in people),
          *_files(STARTERS[template]),
      ),
      *_new('Create from template'),
      t.choose('Template', template),
      t.fill('Project name', name),
      t.button('Create project'),
      *paths.invited(people, 'Reporter'),
  )


def _fork(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'fork',
      'SELECT * FROM repositories WHERE id NOT IN (SELECT project_id FROM'
      f" grants WHERE user_id = {EMMA}) AND visibility = 'public' AND"
      ' forked_from_id IS NULL AND path NOT IN (SELECT path FROM projects'
      f' WHERE user_id = {EMMA}) ORDER BY id',
  )
  copied = 'path name description topics visibility'
  return change(
      f'Fork {row["full_path"]} to my own namespace.',
      (
          added(
              'forge.projects',
              user_id=EMMA,
              forked_from_id=row['id'],
              **{name: row[name] for name in copied.split()},
          ),
          _member(EMMA, 50),
          added(
              'forge.branches',
              project_id=_PROJECT,
              base_id=row['branch_id'],
              name=row['branch'],
              is_default=1,
          ),
      ),
      *paths.to_project(row['full_path']),
      t.link('Fork'),
      t.button('Fork project'),
  )


def _star(db: t.Db, k: int) -> t.Task:
  # Behind these, no project has as many stars or forks.
  count = (2, 3, 2, 1)[k]
  sort, words, steps = (
      ('stars', 'starred', (t.link('Explore'), t.link('Most stars'))),
      (
          'forks',
          'forked',
          (
              t.link('Explore'),
              t.choose('Sort by', 'Most forks'),
              t.button('Apply'),
          ),
      ),
  )[k == 2]
  rows = db.rows(
      "SELECT id, full_path FROM repositories WHERE visibility = 'public' ORDER"
      f' BY {sort} DESC, id LIMIT ?',
      count,
  )
  already = {
      row[0]
      for row in db.rows(f'SELECT project_id FROM stars WHERE user_id = {EMMA}')
  }
  new = [row for row in rows if row['id'] not in already]
  which = (
      f'the {count} most {words} projects'
      if count > 1
      else f'the most {words} project'
  )
  moves = []
  for row in new:
    moves += [*steps, t.link(paths.shown(row['full_path'])), t.button('Star')]
  return change(
      f'Star {which} of all.',
      [added('forge.stars', project_id=row['id'], user_id=EMMA) for row in new],
      *moves,
  )


def _rewritten(row: sqlite3.Row, content: str) -> Sequence[Row]:
  """A commit to a branch that changes a file."""
  commit = New('forge.commits')
  return (
      paths.commit(row['branch_id']),
      changed('forge.files', row['id'], commit_id=commit, content=content),
  )


def _license(db: t.Db, k: int) -> t.Task:
  name = list(words.LICENSES)[k % 2]
  row = db.row_shuffled(
      k,
      'license to change',
      'SELECT p.branch_id, p.full_path, f.id FROM repositories p JOIN files f'
      " ON f.branch_id = p.branch_id AND f.path = 'LICENSE' JOIN grants g ON"
      f' g.project_id = p.id AND g.user_id = {EMMA} AND g.role >= 30 WHERE NOT'
      ' instr(f.content, ?) ORDER BY p.id',
      name,
  )
  return change(
      f'Make the LICENSE of {row["full_path"]} the {name}, from the template'
      ' for licenses.',
      _rewritten(row, words.license_text(name)),
      *paths.to_project(row['full_path']),
      t.link('LICENSE'),
      t.link('Edit file'),
      t.choose('License template', name),
      t.button('Commit changes'),
  )


def _title(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'site title',
      'SELECT p.branch_id, p.full_path, f.id, f.content FROM repositories p'
      " JOIN files f ON f.branch_id = p.branch_id AND f.path = 'index.html'"
      f' JOIN grants g ON g.project_id = p.id AND g.user_id = {EMMA} AND g.role'
      ' >= 30 ORDER BY p.id',
  )
  title = _VALUES['title'][k]
  before, _, rest = row['content'].partition('<title>')
  text = f'{before}<title>{title}</title>{rest.partition("</title>")[2]}'
  return change(
      'Update the title of the project site to'
      f' "{title}": the title element of index.html in {row["full_path"]}, and'
      ' nothing else.',
      _rewritten(row, text),
      *paths.to_project(row['full_path']),
      t.link('index.html'),
      t.link('Edit file'),
      t.fill('File content', ' '.join(text.split())),
      t.button('Commit changes'),
  )


_ROLES = {'guest': 10, 'reporter': 20, 'developer': 30, 'maintainer': 40}
_OWN = (
    f'SELECT id, full_path FROM repositories WHERE user_id = {EMMA} ORDER BY id'
)


def _add(
    project: int, path: str, people: Sequence[sqlite3.Row], role: str, text: str
) -> t.Task:
  rows_ = [
      added(
          'forge.members',
          project_id=project,
          user_id=x['id'],
          role=_ROLES[role],
      )
      for x in people
  ]
  steps = (*paths.to_project(path), *paths.invited(people, role.capitalize()))
  return change(text, rows_, *steps)


def _collaborators(db: t.Db, k: int) -> t.Task:
  project, path = db.row_shuffled(k, 'own project', _OWN)
  people = paths.people_not_in(db, project, 1 + k % 3, k)
  noun = 'a collaborator' if len(people) == 1 else 'collaborators'
  return _add(
      project,
      path,
      people,
      'developer',
      f'Invite {paths.named(people)} as {noun} to {path}, in the role of a'
      ' developer.',
  )


def _guest(db: t.Db, k: int) -> t.Task:
  path = 'emma/dotfiles'
  project = db.value('SELECT id FROM paths WHERE full_path = ?', path)
  people = paths.people_not_in(db, project, 1, k + 20)
  return _add(
      project,
      path,
      people,
      'guest',
      f'{people[0]["name"]} wants to check my dotfiles. Please invite'
      f' {people[0]["username"]} to that project as a guest.',
  )


def _with_role(db: t.Db, k: int) -> t.Task:
  project, path = db.row_shuffled(k + 6, 'own project', _OWN)
  role = ('developer', 'maintainer', 'reporter', 'guest', 'developer')[k]
  people = paths.people_not_in(db, project, 2 + k % 2, k)
  return _add(
      project,
      path,
      people,
      role,
      f'Add the following users to {path} as {role}: {paths.named(people)}.',
  )


def _remove(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'member to remove',
      'SELECT m.id, p.full_path, u.name, u.username FROM members m JOIN'
      ' repositories p ON p.id = m.project_id JOIN users u ON u.id = m.user_id'
      f' WHERE p.user_id = {EMMA} AND m.role < 50 ORDER BY m.id',
  )
  return change(
      f'{row["name"]} has left: remove {row["username"]} from'
      f' {row["full_path"]}.',
      removed('forge.members', row['id']),
      *paths.to_project(row['full_path']),
      t.link('Members'),
      t.link(f'Remove member {row["username"]}'),
      t.button('Remove member'),
  )


def _describe(db: t.Db, k: int) -> t.Task:
  project, path = db.row_shuffled(k + 3, 'own project', _OWN)
  del project
  row = db.first('SELECT * FROM repositories WHERE full_path = ?', path)
  text = _VALUES['describe'][k]
  return change(
      f'Change the description of {path} to "{text}".',
      changed('forge.projects', row['id'], description=text),
      *paths.to_project(path),
      t.link('Settings'),
      t.fill('Project description', text),
      t.button('Save changes'),
  )


TEMPLATES = (
    t.Template('forge/empty-project', t.CHANGE, _empty, 5, (292,)),
    t.Template('forge/project-with-members', t.CHANGE, _team, 5, (332,)),
    t.Template('forge/project-from-template', t.CHANGE, _template, 5, (2100,)),
    t.Template('forge/fork', t.CHANGE, _fork, 5, (352,)),
    t.Template('forge/star-top', t.CHANGE, _star, 4, (354,)),
    t.Template('forge/set-license', t.CHANGE, _license, 5, (355,)),
    t.Template('forge/site-title', t.CHANGE, _title, 5, (308,)),
    t.Template('forge/collaborators', t.CHANGE, _collaborators, 5, (293,)),
    t.Template('forge/guest', t.CHANGE, _guest, 5, (294,)),
    t.Template('forge/members-with-role', t.CHANGE, _with_role, 5, (351,)),
    t.Template('forge/remove-member', t.CHANGE, _remove, 5),
    t.Template('forge/describe-project', t.CHANGE, _describe, 5),
)
