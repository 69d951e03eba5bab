"""Groups: lists, their pages, new ones, settings."""

from agentrl.sites.forge.pages import access, lists, people
from agentrl.sites.forge.pages.access import OWNER
from agentrl.sites.site import Page, Redirect, Visit, Wrong
from agentrl.sites.store import NOW

# First parts of addresses that are no owners of projects.
_TAKEN = ('dashboard', 'explore', 'groups', 'projects', 'search', 'users')


def space(visit: Visit) -> Page:
  """A group's page, or a user's."""
  path = visit.match['space']
  if visit.has('groups', path=path):
    return show(visit)
  return people.profile(visit)


def show(visit: Visit) -> Page:
  """A group's page with its projects."""
  row, role = access.group(visit)
  values = lists.projects(visit, 'group_id = ?', row['id'])
  return Page.of('group.html', group=row, role=role, **values)


def issues(visit: Visit) -> Page:
  """The issues of a group's projects."""
  row, role = access.group(visit)
  values = lists.items(visit, 'issue_items', 'i.group_id = ?', row['id'])
  return Page.of('group_items.html', group=row, role=role, **values)


def listing(visit: Visit) -> Page:
  """All groups, or those of the visitor."""
  where = "(visibility != 'private' OR id IN (SELECT group_id FROM"
  where += ' group_members WHERE user_id = ?))'
  is_mine = visit.path.startswith('/dashboard')
  if is_mine:
    where = 'id IN (SELECT group_id FROM group_members WHERE user_id = ?)'
  rows, paging = visit.shown(
      visit.value(f'SELECT count(*) FROM groups WHERE {where}', visit.user),
      'SELECT g.*, (SELECT count(*) FROM projects p WHERE p.group_id = g.id) AS'
      ' projects, (SELECT count(*) FROM group_members m WHERE m.group_id ='
      f' g.id) AS members FROM groups g WHERE {where} ORDER BY name',
      visit.user,
  )
  heading = 'Your groups' if is_mine else 'Explore groups'
  return Page.of('groups.html', groups=rows, paging=paging, heading=heading)


def new(_: Visit) -> Page:
  """The form that adds a group."""
  return Page.of('group_form.html', group=None)


def create(visit: Visit) -> Redirect:
  """Adds a group, which the visitor then owns."""
  name = visit.text('group_name', most=100)
  path = access.path_of(visit.text('group_path', needed=False) or name)
  if (
      path in _TAKEN
      or visit.has('groups', path=path)
      or visit.has('users', username=path)
  ):
    raise Wrong('Group path has already been taken.')
  key = visit.insert(
      'groups',
      path=path,
      name=name,
      description=visit.text('description', most=500, needed=False),
      visibility=access.visibility(visit),
      created_at=NOW,
  )
  visit.insert(
      'group_members',
      group_id=key,
      user_id=visit.user,
      role=OWNER,
      created_at=NOW,
  )
  return Redirect(f'/{path}', 'The group was created.')


def edit(visit: Visit) -> Page:
  """The form that changes a group."""
  row, role = access.group(visit, OWNER)
  return Page.of('group_form.html', group=row, role=role)


def save(visit: Visit) -> Redirect:
  """Changes a group."""
  row, _ = access.group(visit, OWNER)
  visit.update(
      'groups',
      row['id'],
      name=visit.text('group_name', most=100),
      description=visit.text('description', most=500, needed=False),
      visibility=access.visibility(visit),
  )
  return Redirect(f'/{row["path"]}', 'The group was updated.')
