"""People and groups, and the visitor's own account."""

from agentrl.sites import picking as pick, seed_data, task as t
from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.tasks import paths
from agentrl.sites.forge.tasks.paths import change
from agentrl.sites.goals import New, added, changed, removed

_VALUES = seed_data.read(__file__)


def _follow(db: t.Db, k: int) -> t.Task:
  users = db.rows(
      f'SELECT * FROM users WHERE id != {EMMA} AND id NOT IN (SELECT'
      f' followed_id FROM follows WHERE user_id = {EMMA}) ORDER BY id',
  )
  count = 1 + k % 3
  people = [
      pick.kth_shuffled(users, 3 * k + place, 'follow')
      for place in range(count)
  ]
  steps = []
  for each in people:
    steps += [
        t.fill(paths.SEARCH, each['name'], role='searchbox', enter=True),
        t.link('Found users'),
        t.link(each['name']),
        t.button('Follow'),
    ]
  return change(
      f'Follow {paths.named(people, at="@")}.',
      [
          added('forge.follows', user_id=EMMA, followed_id=x['id'])
          for x in people
      ],
      *steps,
  )


def _unfollow(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'unfollow',
      'SELECT f.id, u.name, u.username FROM follows f JOIN users u ON u.id ='
      f' f.followed_id WHERE f.user_id = {EMMA} ORDER BY f.id',
  )
  return change(
      f'Stop following @{row["username"]}.',
      removed('forge.follows', row['id']),
      *paths.menu('Your profile'),
      t.link('Following'),
      t.link(row['name']),
      t.button('Unfollow'),
  )


def _group(db: t.Db, k: int) -> t.Task:
  name = ('n-lab', 'x-lab', 'crew', 'webagent', 'coding-friends')[k]
  people = paths.people_not_in(db, 0, 2 + k % 3, k + 5)
  group = New('forge.groups')
  members = [(EMMA, 50), *((x['id'], 30) for x in people)]
  return change(
      f'Create a new private group "{name}", and add {paths.named(people)} as'
      ' developers.',
      (
          added(
              'forge.groups',
              path=name,
              name=name,
              description='',
              visibility='private',
          ),
          *(
              added(
                  'forge.group_members', group_id=group, user_id=key, role=role
              )
              for key, role in members
          ),
      ),
      t.click_on('DisclosureTriangle', 'Create new'),
      t.link('New group'),
      t.fill('Group name', name),
      t.button('Create group'),
      *paths.invited(people, 'Developer'),
  )


def _profile(
    text: str,
    field: str,
    column: str,
    words: str,
    button: str = 'Update profile settings',
) -> t.Task:
  return change(
      f'{words} "{text}".',
      changed('forge.users', EMMA, **{column: text}),
      *paths.menu('Edit profile'),
      t.fill(field, text),
      t.button(button),
  )


def _homepage(_: t.Db, k: int) -> t.Task:
  text = _VALUES['homepage'][k]
  return _profile(
      text, 'Website url', 'website', 'Set the homepage on my profile to'
  )


def _place(_: t.Db, k: int) -> t.Task:
  text = ('Oakhaven', 'Port Ellery', 'Upper Marsh', 'Stonefield', 'Westquay')[k]
  return _profile(
      text,
      'Location',
      'location',
      'I have moved. Set the location on my profile to',
  )


def _status(_: t.Db, k: int) -> t.Task:
  text = _VALUES['status'][k]
  words = 'Set my status to'
  return _profile(text, 'Your status', 'status', words, 'Set status')


def _revoke(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k,
      'token',
      f'SELECT * FROM access_tokens WHERE user_id = {EMMA} ORDER BY id',
  )
  return change(
      f'Revoke my access token {row["name"]}.',
      removed('forge.access_tokens', row['id']),
      *paths.menu('Access tokens'),
      t.button(f'Revoke {row["name"]}'),
  )


def _key(db: t.Db, k: int) -> t.Task:
  row = db.row_shuffled(
      k, 'SSH key', f'SELECT * FROM ssh_keys WHERE user_id = {EMMA} ORDER BY id'
  )
  return change(
      f'Remove the SSH key "{row["title"]}" from my account.',
      removed('forge.ssh_keys', row['id']),
      *paths.menu('SSH keys'),
      t.link(f'Remove key {row["title"]}'),
      t.button('Remove key'),
  )


TEMPLATES = (
    t.Template('forge/follow', t.CHANGE, _follow, 5, (330,)),
    t.Template('forge/unfollow', t.CHANGE, _unfollow, 5),
    t.Template('forge/create-group', t.CHANGE, _group, 5, (600,)),
    t.Template('forge/homepage', t.CHANGE, _homepage, 5, (331,)),
    t.Template('forge/location', t.CHANGE, _place, 5),
    t.Template('forge/status', t.CHANGE, _status, 5, (361,)),
    t.Template('forge/revoke-token', t.CHANGE, _revoke, 3),
    t.Template('forge/remove-key', t.CHANGE, _key, 5),
)
