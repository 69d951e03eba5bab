"""Projects that are made, forked, starred and changed."""

import sqlite3
from collections.abc import Sequence

from agentrl.sites.forge.seed import words
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.seed.starters import STARTERS
from agentrl.sites.forge.tasks.picking import (
    FREELY,
    change,
    named,
    people_not_in,
    pick,
    rows,
    shown,
    to_project,
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

_PROJECT = New('forge.projects')


def _project(name: str, visibility: str) -> Row:
  values = {
      'user_id': EMMA,
      'path': name,
      'name': name,
      'description': '',
      'topics': '',
      'visibility': visibility,
  }
  return Row('forge.projects', ADDED, values)


def _member(key: int, role: int) -> Row:
  values = {'project_id': _PROJECT, 'user_id': key, 'role': role}
  return Row('forge.members', ADDED, values)


def _files(files: dict[str, str]) -> Sequence[Row]:
  """A first branch with a first commit of these files."""
  branch, commit = New('forge.branches'), New('forge.commits')
  return (
      Row(
          'forge.branches',
          ADDED,
          {'project_id': _PROJECT, 'name': 'main', 'is_default': 1},
      ),
      Row(
          'forge.commits',
          ADDED,
          {
              'branch_id': branch,
              'author_id': EMMA,
              'message': 'Initial commit',
          },
      ),
      *(
          Row(
              'forge.files',
              ADDED,
              {
                  'branch_id': branch,
                  'commit_id': commit,
                  'path': path,
                  'content': content,
              },
          )
          for path, content in files.items()
      ),
  )


def _new(kind: str) -> Sequence[Step]:
  return (
      click_on('DisclosureTriangle', 'Create new'),
      click_on('link', 'New project'),
      click_on('link', kind),
  )


def _invited(names: Sequence[str], role: str) -> Sequence[Step]:
  return (
      click_on('link', 'Members'),
      click_on('link', 'Invite members'),
      fill('Username', ', '.join(names)),
      choose('Role', role),
      click_on('button', 'Invite'),
  )


def _strangers(stores: Stores, count: int, k: int) -> Sequence[sqlite3.Row]:
  """Users that the visitor does not know yet."""
  return people_not_in(stores, 0, count, k)


def _empty(stores: Stores, k: int) -> Task:
  del stores
  name = (
      'chat-plugin',
      'awesome-agents',
      'cat-feeder',
      'rain-radar',
      'seedbox',
  )[k]
  return change(
      f'Set up a new, empty private repository with the name {name}, without'
      ' even a README.',
      (_project(name, 'private'), _member(EMMA, 50)),
      (
          *_new('Create blank project'),
          fill('Project name', name),
          click_on('checkbox', 'Initialize repository with a README'),
          click_on('button', 'Create project'),
      ),
  )


def _team(stores: Stores, k: int) -> Task:
  visibility = 'public' if k % 2 else 'private'
  name = ('planner', 'web-arena', 'night-train', 'lamp-post', 'agentic')[k]
  people = _strangers(stores, 2 + k % 2, k)
  return change(
      f'Create a new {visibility} project "{name}" with a README, and add'
      f' {named(people)} as developers.',
      (
          _project(name, visibility),
          _member(EMMA, 50),
          *(_member(x['id'], 30) for x in people),
          *_files({'README.md': f'# {name}'}),
      ),
      (
          *_new('Create blank project'),
          fill('Project name', name),
          click_on('radio', visibility.capitalize()),
          click_on('button', 'Create project'),
          *_invited([x['username'] for x in people], 'Developer'),
      ),
  )


def _template(stores: Stores, k: int) -> Task:
  template = list(STARTERS)[k]
  name = ('agent-app', 'agent-home', 'agent-tools', 'agent-hub', 'agent-kit')[k]
  people = _strangers(stores, 2, k + 9)
  return change(
      f'Start a private project {name} from the template "{template}", and add'
      f' {named(people)} as reporters.',
      (
          _project(name, 'private'),
          _member(EMMA, 50),
          *(_member(x['id'], 20) for x in people),
          *_files(STARTERS[template]),
      ),
      (
          *_new('Create from template'),
          choose('Template', template),
          fill('Project name', name),
          click_on('button', 'Create project'),
          *_invited([x['username'] for x in people], 'Reporter'),
      ),
  )


def _fork(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'fork',
      'SELECT * FROM repositories WHERE id NOT IN (SELECT project_id FROM'
      " grants WHERE user_id = ?) AND visibility = 'public' AND forked_from_id"
      ' IS NULL AND path NOT IN (SELECT path FROM projects WHERE user_id = ?)'
      ' ORDER BY id',
      EMMA,
      EMMA,
  )
  return change(
      f'Fork {row["full_path"]} to my own namespace.',
      (
          Row(
              'forge.projects',
              ADDED,
              {
                  'user_id': EMMA,
                  'forked_from_id': row['id'],
                  **{
                      name: row[name]
                      for name in (
                          'path',
                          'name',
                          'description',
                          'topics',
                          'visibility',
                      )
                  },
              },
          ),
          _member(EMMA, 50),
          Row(
              'forge.branches',
              ADDED,
              {
                  'project_id': _PROJECT,
                  'base_id': row['branch_id'],
                  'name': row['branch'],
                  'is_default': 1,
              },
          ),
      ),
      (
          *to_project(row['full_path']),
          click_on('link', 'Fork'),
          click_on('button', 'Fork project'),
      ),
  )


def _star(stores: Stores, k: int) -> Task:
  # Behind these, no project has as many stars or forks.
  count = (2, 3, 2, 1)[k]
  sort, words, steps = (
      (
          'stars',
          'starred',
          (click_on('link', 'Explore'), click_on('link', 'Most stars')),
      ),
      (
          'forks',
          'forked',
          (
              click_on('link', 'Explore'),
              choose('Sort by', 'Most forks'),
              click_on('button', 'Apply'),
          ),
      ),
  )[k == 2]
  found = rows(
      stores,
      "SELECT id, full_path FROM repositories WHERE visibility = 'public' ORDER"
      f' BY {sort} DESC, id LIMIT ?',
      count,
  )
  already = {
      row[0]
      for row in rows(
          stores, 'SELECT project_id FROM stars WHERE user_id = ?', EMMA
      )
  }
  new = [row for row in found if row['id'] not in already]
  which = (
      f'the {count} most {words} projects'
      if count > 1
      else f'the most {words} project'
  )
  moves = []
  for row in new:
    moves += [
        *steps,
        click_on('link', shown(row['full_path'])),
        click_on('button', 'Star'),
    ]
  return change(
      f'Star {which} of all.',
      [
          Row('forge.stars', ADDED, {'project_id': row['id'], 'user_id': EMMA})
          for row in new
      ],
      moves,
  )


def _license(stores: Stores, k: int) -> Task:
  name = list(words.LICENSES)[k % 2]
  row = pick(
      stores,
      k,
      'license to change',
      'SELECT p.branch_id, p.full_path, f.id FROM repositories p JOIN files f'
      " ON f.branch_id = p.branch_id AND f.path = 'LICENSE' JOIN grants g ON"
      ' g.project_id = p.id AND g.user_id = ? AND g.role >= 30 WHERE NOT'
      ' instr(f.content, ?) ORDER BY p.id',
      EMMA,
      name,
  )
  commit = {
      'branch_id': row['branch_id'],
      'author_id': EMMA,
      'message': FREELY,
  }
  file = {
      'commit_id': New('forge.commits'),
      'content': words.license_text(name),
  }
  return change(
      f'Make the LICENSE of {row["full_path"]} the {name}, from the template'
      ' for licenses.',
      (
          Row('forge.commits', ADDED, commit),
          Row('forge.files', CHANGED, file, row['id']),
      ),
      (
          *to_project(row['full_path']),
          click_on('link', 'LICENSE'),
          click_on('link', 'Edit file'),
          choose('License template', name),
          click_on('button', 'Commit changes'),
      ),
  )


def _title(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'site title',
      'SELECT p.branch_id, p.full_path, f.id, f.content FROM repositories p'
      " JOIN files f ON f.branch_id = p.branch_id AND f.path = 'index.html'"
      ' JOIN grants g ON g.project_id = p.id AND g.user_id = ? AND g.role >= 30'
      ' ORDER BY p.id',
      EMMA,
  )
  title = (
      'GIVE ME SPACE', 'Welcome to my site', 'Under the open sky',
      'Not an interesting site', 'Title wanted',
  )[k]  # fmt: skip
  before, _, rest = row['content'].partition('<title>')
  text = f'{before}<title>{title}</title>{rest.partition("</title>")[2]}'
  commit = {
      'branch_id': row['branch_id'],
      'author_id': EMMA,
      'message': FREELY,
  }
  file = {'commit_id': New('forge.commits'), 'content': text}
  return change(
      'Update the title of the project site to'
      f' "{title}": the title element of index.html in {row["full_path"]}, and'
      ' nothing else.',
      (
          Row('forge.commits', ADDED, commit),
          Row('forge.files', CHANGED, file, row['id']),
      ),
      (
          *to_project(row['full_path']),
          click_on('link', 'index.html'),
          click_on('link', 'Edit file'),
          fill('File content', ' '.join(text.split())),
          click_on('button', 'Commit changes'),
      ),
  )


_ROLES = {'guest': 10, 'reporter': 20, 'developer': 30, 'maintainer': 40}
_OWN = 'SELECT id, full_path FROM repositories WHERE user_id = ? ORDER BY id'


def _add(
    project: int, path: str, people: Sequence[sqlite3.Row], role: str, said: str
) -> Task:
  rows_ = [
      Row(
          'forge.members',
          ADDED,
          {'project_id': project, 'user_id': x['id'], 'role': _ROLES[role]},
      )
      for x in people
  ]
  names = [x['username'] for x in people]
  return change(
      said, rows_, (*to_project(path), *_invited(names, role.capitalize()))
  )


def _collaborators(stores: Stores, k: int) -> Task:
  project, path = pick(stores, k, 'own project', _OWN, EMMA)
  people = people_not_in(stores, project, 1 + k % 3, k)
  noun = 'a collaborator' if len(people) == 1 else 'collaborators'
  return _add(
      project,
      path,
      people,
      'developer',
      f'Invite {named(people)} as {noun} to {path}, in the role of a'
      ' developer.',
  )


def _guest(stores: Stores, k: int) -> Task:
  (project,) = rows(
      stores, "SELECT id FROM paths WHERE full_path = 'emma/dotfiles'"
  )[0]
  people = people_not_in(stores, project, 1, k + 20)
  return _add(
      project,
      'emma/dotfiles',
      people,
      'guest',
      f'{people[0]["name"]} wants to check my dotfiles. Please invite'
      f' {people[0]["username"]} to that project as a guest.',
  )


def _with_role(stores: Stores, k: int) -> Task:
  project, path = pick(stores, k + 6, 'own project', _OWN, EMMA)
  role = ('developer', 'maintainer', 'reporter', 'guest', 'developer')[k]
  people = people_not_in(stores, project, 2 + k % 2, k)
  return _add(
      project,
      path,
      people,
      role,
      f'Add the following users to {path} as {role}: {named(people)}.',
  )


def _remove(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'member to remove',
      'SELECT m.id, p.full_path, u.name, u.username FROM members m JOIN'
      ' repositories p ON p.id = m.project_id JOIN users u ON u.id = m.user_id'
      ' WHERE p.user_id = ? AND m.role < 50 ORDER BY m.id',
      EMMA,
  )
  return change(
      f'{row["name"]} has left: remove {row["username"]} from'
      f' {row["full_path"]}.',
      (Row('forge.members', 'removed', key=row['id']),),
      (
          *to_project(row['full_path']),
          click_on('link', 'Members'),
          click_on('link', f'Remove member {row["username"]}'),
          click_on('button', 'Remove member'),
      ),
  )


def _describe(stores: Stores, k: int) -> Task:
  project, path = pick(stores, k + 3, 'own project', _OWN, EMMA)
  del project
  row = rows(stores, 'SELECT * FROM repositories WHERE full_path = ?', path)[0]
  text = (
      'Maintained again since this summer',
      'A hobby of rainy days',
      'Looking for somebody who takes this over',
      'Moved here from another host',
      'Reviews are welcome',
  )[k]
  return change(
      f'Change the description of {path} to "{text}".',
      (Row('forge.projects', CHANGED, {'description': text}, row['id']),),
      (
          *to_project(path),
          click_on('link', 'Settings'),
          fill('Project description', text),
          click_on('button', 'Save changes'),
      ),
  )


TEMPLATES = (
    Template('forge/empty-project', CHANGE, _empty, 5, (292,)),
    Template('forge/project-with-members', CHANGE, _team, 5, (332,)),
    Template('forge/project-from-template', CHANGE, _template, 5, (2100,)),
    Template('forge/fork', CHANGE, _fork, 5, (352,)),
    Template('forge/star-top', CHANGE, _star, 4, (354,)),
    Template('forge/set-license', CHANGE, _license, 5, (355,)),
    Template('forge/site-title', CHANGE, _title, 5, (308,)),
    Template('forge/collaborators', CHANGE, _collaborators, 5, (293,)),
    Template('forge/guest', CHANGE, _guest, 5, (294,)),
    Template('forge/members-with-role', CHANGE, _with_role, 5, (351,)),
    Template('forge/remove-member', CHANGE, _remove, 5),
    Template('forge/describe-project', CHANGE, _describe, 5),
)
