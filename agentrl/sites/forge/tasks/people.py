"""People and groups, and the visitor's own account."""

from agentrl.sites.forge.seed.records import EMMA
from agentrl.sites.forge.tasks.picking import (
    SEARCH,
    change,
    menu,
    named,
    nth,
    people_not_in,
    pick,
    rows,
)
from agentrl.sites.goals import ADDED, CHANGED, REMOVED, New, Row
from agentrl.sites.task import (
    CHANGE,
    Stores,
    Task,
    Template,
    choose,
    click_on,
    fill,
)


def _follow(stores: Stores, k: int) -> Task:
  found = rows(
      stores,
      'SELECT * FROM users WHERE id != ? AND id NOT IN (SELECT followed_id FROM'
      ' follows WHERE user_id = ?) ORDER BY id',
      EMMA,
      EMMA,
  )
  count = 1 + k % 3
  people = [nth(found, 3 * k + place, 'follow') for place in range(count)]
  steps = []
  for each in people:
    steps += [
        fill(SEARCH, each['name'], role='searchbox', enter=True),
        click_on('link', 'Found users'),
        click_on('link', each['name']),
        click_on('button', 'Follow'),
    ]
  return change(
      f'Follow {named(people, at="@")}.',
      [
          Row('forge.follows', ADDED, {'user_id': EMMA, 'followed_id': x['id']})
          for x in people
      ],
      steps,
  )


def _unfollow(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'unfollow',
      'SELECT f.id, u.name, u.username FROM follows f JOIN users u ON u.id ='
      ' f.followed_id WHERE f.user_id = ? ORDER BY f.id',
      EMMA,
  )
  return change(
      f'Stop following @{row["username"]}.',
      (Row('forge.follows', REMOVED, key=row['id']),),
      (
          *menu('Your profile'),
          click_on('link', 'Following'),
          click_on('link', row['name']),
          click_on('button', 'Unfollow'),
      ),
  )


def _group(stores: Stores, k: int) -> Task:
  name = ('n-lab', 'x-lab', 'crew', 'webagent', 'coding-friends')[k]
  people = people_not_in(stores, 0, 2 + k % 3, k + 5)
  group = New('forge.groups')
  values = {
      'path': name,
      'name': name,
      'description': '',
      'visibility': 'private',
  }
  members = [(EMMA, 50), *((x['id'], 30) for x in people)]
  return change(
      f'Create a new private group "{name}", and add {named(people)} as'
      ' developers.',
      (
          Row('forge.groups', ADDED, values),
          *(
              Row(
                  'forge.group_members',
                  ADDED,
                  {'group_id': group, 'user_id': key, 'role': role},
              )
              for key, role in members
          ),
      ),
      (
          click_on('DisclosureTriangle', 'Create new'),
          click_on('link', 'New group'),
          fill('Group name', name),
          click_on('button', 'Create group'),
          click_on('link', 'Members'),
          click_on('link', 'Invite members'),
          fill('Username', ', '.join(x['username'] for x in people)),
          choose('Role', 'Developer'),
          click_on('button', 'Invite'),
      ),
  )


def _profile(text: str, field: str, column: str, said: str) -> Task:
  return change(
      f'{said} "{text}".',
      (Row('forge.users', CHANGED, {column: text}, EMMA),),
      (
          *menu('Edit profile'),
          fill(field, text),
          click_on('button', 'Update profile settings'),
      ),
  )


def _homepage(stores: Stores, k: int) -> Task:
  del stores
  text = (
      'https://egg.example', 'https://helloworld.example',
      'https://emma.example/start', 'http://tides.example', 'https://a.example/b',
  )[k]  # fmt: skip
  return _profile(
      text, 'Website url', 'website', 'Set the homepage on my profile to'
  )


def _place(stores: Stores, k: int) -> Task:
  del stores
  text = ('Oakhaven', 'Port Ellery', 'Upper Marsh', 'Stonefield', 'Westquay')[k]
  return _profile(
      text,
      'Location',
      'location',
      'I have moved. Set the location on my profile to',
  )


def _status(stores: Stores, k: int) -> Task:
  del stores
  text = (
      'Away', 'Enjoying life', 'Playing badminton', 'Resting due to a cold',
      'Out of office',
  )[k]  # fmt: skip
  return change(
      f'Set my status to "{text}".',
      (Row('forge.users', CHANGED, {'status': text}, EMMA),),
      (
          *menu('Edit profile'),
          fill('Your status', text),
          click_on('button', 'Set status'),
      ),
  )


def _revoke(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'token',
      'SELECT * FROM access_tokens WHERE user_id = ? ORDER BY id',
      EMMA,
  )
  return change(
      f'Revoke my access token {row["name"]}.',
      (Row('forge.access_tokens', REMOVED, key=row['id']),),
      (*menu('Access tokens'), click_on('button', f'Revoke {row["name"]}')),
  )


def _key(stores: Stores, k: int) -> Task:
  row = pick(
      stores,
      k,
      'SSH key',
      'SELECT * FROM ssh_keys WHERE user_id = ? ORDER BY id',
      EMMA,
  )
  return change(
      f'Remove the SSH key "{row["title"]}" from my account.',
      (Row('forge.ssh_keys', REMOVED, key=row['id']),),
      (
          *menu('SSH keys'),
          click_on('link', f'Remove key {row["title"]}'),
          click_on('button', 'Remove key'),
      ),
  )


TEMPLATES = (
    Template('forge/follow', CHANGE, _follow, 5, (330,)),
    Template('forge/unfollow', CHANGE, _unfollow, 5),
    Template('forge/create-group', CHANGE, _group, 5, (600,)),
    Template('forge/homepage', CHANGE, _homepage, 5, (331,)),
    Template('forge/location', CHANGE, _place, 5),
    Template('forge/status', CHANGE, _status, 5, (361,)),
    Template('forge/revoke-token', CHANGE, _revoke, 3),
    Template('forge/remove-key', CHANGE, _key, 5),
)
