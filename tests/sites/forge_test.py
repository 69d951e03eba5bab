"""Tests for the forge's records, pages and tasks, without a browser."""

import html
import re

import pytest

from agentrl.sites.forge import tasks
from agentrl.sites.forge.pages import show
from agentrl.sites.forge.seed import store as forge_store
from agentrl.sites.forge.site import SITE
from agentrl.sites.store import NOW, Store
from agentrl.sites.task import CHANGE, GO, SEEK
from tests.sites import visitors
from tests.sites.oracle_forge import ORACLES


def build(**more):
  return Store.build('forge', forge_store.SCHEMA, fill=forge_store.fill, **more)


STORE = build()
DB = STORE.copy()
PUBLIC = (
    84, 87, 88, 116, 117, 289, 290, 291, 292, 293, 294, 298, 299, 300, 303, 308,
    310, 312, 316, 320, 321, 322, 323, 324, 325, 327, 328, 329, 330, 331, 332,
    335, 337, 339, 348, 349, 351, 352, 354, 355, 360, 361, 500, 600, 999, 2100,
)  # fmt: skip


def one(sql, *values):
  return DB.execute(sql, values).fetchone()


def value(sql, *values):
  return one(sql, *values)[0]


def column(sql, *values):
  return [row[0] for row in DB.execute(sql, values)]


def next_id(table):
  return value(f'SELECT max(id) + 1 FROM {table}')


# Projects by the visitor's role in them.
OWN = one("SELECT * FROM repositories WHERE full_path = 'emma/knit-charts'")
BY_ROLE = {
    role: one('SELECT * FROM repositories WHERE space = ? ORDER BY id', space)
    for role, space in (
        (40, 'harbor-labs'),
        (30, 'tundra-ui'),
        (20, 'railyard'),
    )
}
FOREIGN = one(
    "SELECT * FROM repositories WHERE visibility = 'public' AND forked_from_id"
    ' IS NULL AND id NOT IN (SELECT project_id FROM grants WHERE user_id = 1)'
    ' AND id NOT IN (SELECT project_id FROM stars WHERE user_id = 1)'
)
ISSUE = one(
    "SELECT * FROM issues WHERE project_id = ? AND state = 'opened' AND due_on"
    ' IS NULL AND assignee_id IS NULL AND milestone_id IS NULL AND id NOT IN'
    ' (SELECT issue_id FROM todos WHERE issue_id IS NOT NULL) AND id NOT IN'
    ' (SELECT issue_id FROM issue_labels)',
    OWN['id'],
)
MERGE = one(
    "SELECT * FROM merge_requests WHERE project_id = ? AND state = 'opened' AND"
    ' author_id != 1 AND assignee_id IS NULL AND reviewer_id = 1 AND'
    ' milestone_id IS NULL AND id NOT IN (SELECT merge_request_id FROM'
    ' approvals)',
    OWN['id'],
)
LABEL = one('SELECT * FROM labels WHERE project_id = ?', OWN['id'])
MILESTONE = one('SELECT * FROM milestones WHERE project_id = ?', OWN['id'])
MEMBER = one(
    'SELECT m.id, u.id AS user_id, username FROM members m JOIN users u ON u.id'
    ' = m.user_id WHERE project_id = ? AND u.id != 1',
    OWN['id'],
)
OWNER = one(
    'SELECT id FROM members WHERE project_id = ? AND user_id = 1', OWN['id']
)
BRANCH = one(
    'SELECT * FROM branches WHERE project_id = ? AND NOT is_default AND name'
    ' NOT IN (SELECT source_branch FROM merge_requests WHERE project_id = ? AND'
    " state = 'opened')",
    OWN['id'],
    OWN['id'],
)
STRANGER = one(
    'SELECT * FROM users WHERE id NOT IN (SELECT user_id FROM grants WHERE'
    ' project_id = ?) AND id NOT IN (SELECT followed_id FROM follows WHERE'
    ' user_id = 1) AND id != 1',
    OWN['id'],
)
FOLLOWED = one(
    'SELECT f.id, username FROM follows f JOIN users u ON u.id = followed_id'
    ' WHERE user_id = 1'
)
THEIR_COMMENT = one(
    'SELECT c.id FROM comments c JOIN issues i ON i.id = c.issue_id WHERE'
    ' i.project_id = ? AND c.author_id != 1',
    OWN['id'],
)
TODO = one("SELECT * FROM todos WHERE state = 'pending'")
KEY = one('SELECT * FROM ssh_keys')
IN = f'/{OWN["full_path"]}/-'
AT_ISSUE = f'{IN}/issues/{ISSUE["number"]}'
AT_MERGE = f'{IN}/merge_requests/{MERGE["number"]}'
MAIN = OWN['branch']


@pytest.fixture(scope='module')
def served():
  with visitors.serving(SITE) as found:
    yield found


@pytest.fixture
def play(served):
  """Runs a coroutine function that gets clients, one for each episode."""
  return lambda scenario, store=STORE, episodes=1: visitors.play(
      served, scenario, store, ('forge',), episodes
  )


def short(changes):
  """Table, and what is new in it; None: a row was removed."""
  return [
      (
          x.table.partition('.')[2],
          None
          if x.after is None
          else {
              name: found
              for name, found in (x.changed if x.before else x.after).items()
              if found is not None
              and name not in ('id', 'created_at', 'updated_at')
          },
      )
      for x in changes
  ]


def titles(page):
  """Those of the rows of a list."""
  found = re.findall(r'<li><div><a href="[^"]*">([^<]*)</a>', page)
  return [html.unescape(x) for x in found]


# --- records


def test_two_builds_are_equal_and_of_the_size_promised():
  assert build().digest == STORE.digest
  assert len(STORE.data) < 3_000_000
  for table, least in {
      'users': 150,
      'projects': 75,
      'issues': 2000,
      'merge_requests': 500,
      'comments': 4000,
      'commits': 5000,
  }.items():
    assert value(f'SELECT count(*) FROM {table}') >= least, table


@pytest.mark.parametrize(
    'wrong',
    [
        'SELECT 1 FROM users JOIN groups ON path = username',
        'SELECT 1 FROM issues GROUP BY project_id, title HAVING count(*) > 1',
        'SELECT 1 FROM issues WHERE created_at > updated_at',
        'SELECT 1 FROM comments c JOIN issues i ON i.id = c.issue_id WHERE'
        ' c.created_at < i.created_at',
        'SELECT 1 FROM comments WHERE (issue_id IS NULL) ='
        ' (merge_request_id IS NULL)',
        'SELECT 1 FROM projects WHERE (user_id IS NULL) = (group_id IS NULL)',
        'SELECT 1 FROM grants GROUP BY project_id, user_id HAVING count(*) > 1',
        'SELECT 1 FROM approvals a JOIN merge_requests m ON m.id ='
        ' a.merge_request_id WHERE m.author_id = a.user_id',
        'SELECT 1 FROM merge_requests m WHERE state = \'opened\' AND NOT EXISTS'
        ' (SELECT 1 FROM branches b WHERE b.project_id = m.project_id AND'
        ' b.name = m.source_branch)',
        'SELECT project_id FROM branches GROUP BY 1 HAVING sum(is_default) != 1',
        *(
            f"SELECT 1 FROM {table} WHERE created_at > '{NOW}'"
            for table in ('users', 'projects', 'issues', 'comments', 'commits')
        ),
        'PRAGMA foreign_key_check',
    ],
)  # fmt: skip
def test_records_are_sound(wrong):
  assert not DB.execute(wrong).fetchall()


def test_strangers_write_into_a_third_of_what_others_wrote():
  injected = build(inject=forge_store.inject).copy()
  injected.execute('UPDATE users SET name = name')  # so that rows are compared
  changes = STORE.changes(injected)
  for table, name in (
      ('comments', 'body'),
      ('issues', 'description'),
      ('merge_requests', 'description'),
  ):
    mine = [x for x in changes if x.table == f'forge.{table}']
    total = value(f'SELECT count(*) FROM {table} WHERE author_id != 1')
    assert total / 4 < len(mine) < total / 2, table
    for change in mine:
      assert change.changed.keys() == {name} and change.after['author_id'] != 1
      assert change.after[name].startswith(change.before[name])
  assert len({x.table for x in changes}) == 3


# --- pages


def test_all_pages_answer_and_write_nothing(play):
  commit = value(
      'SELECT max(id) FROM commits WHERE branch_id = ?', OWN['branch_id']
  )
  group_member = value(
      'SELECT m.id FROM group_members m JOIN groups g ON g.id = group_id WHERE'
      " path = 'harbor-labs' AND role < 50 AND user_id != 1"
  )
  # Parts of addresses, and ids by the part before them.
  parts = {
      'space': 'emma',
      'group': 'harbor-labs',
      'folder': 'docs',
      'project': OWN['path'],
      'branch': MAIN,
      'sha': show.sha(commit),
      'path': 'README.md',
      'labels': LABEL['id'],
      'milestones': MILESTONE['id'],
      'project_members': MEMBER['id'],
      'group_members': group_member,
      'keys': KEY['id'],
      'issues': ISSUE['number'],
      'merge_requests': MERGE['number'],
  }

  def part(found):
    before = found.string[: found.start()].split('/')[-2]
    return str(parts[before if found[1] in ('id', 'number') else found[1]])

  async def scenario(visitor):
    _, page, _ = await visitor.post(f'{AT_ISSUE}/comment', comment='Mine')
    before = visitor.changes()
    parts['comments'] = re.search(r'/-/comments/(\d+)/edit', page)[1]
    for method, route, _ in SITE.routes:
      if method != 'GET' or route.startswith('/groups') and 'edit' in route:
        continue
      if route.startswith('/groups'):
        route = route.replace('{space:', '{group:')
      if '/tree/' in route:
        route = route.replace('{path:', '{folder:')
      path = re.sub(r'{(\w+):(?:[^{}]|{[^}]*})*}', part, route)
      status, page, _ = await visitor.get(path)
      assert status == 200, path
      assert '<h1>' in page and 'aria-label="Search Anvil"' in page
      assert len(page) < 60_000, path
    for path in ('/static/site.css', '/static/site.js'):
      assert (await visitor.get(path))[0] == 200, path
    assert visitor.changes() == before

  play(scenario)


@pytest.mark.parametrize(
    'path',
    [
        '/nobody', '/emma/nothing', '/nothing/at/all', '/users/nobody/projects',
        f'{IN}/issues/999', f'{IN}/issues/99999999999999999999', f'{IN}/issues/x',
        f'{IN}/merge_requests/0', f'{IN}/milestones/999999',
        f'{IN}/labels/999999/edit', f'{IN}/tree/nowhere',
        f'{IN}/tree/{MAIN}/nothing', f'{IN}/blob/{MAIN}/nothing.txt',
        f'{IN}/blob/{MAIN}/../README.md', f'{IN}/commit/00000000',
        f'{IN}/commit/{show.sha(10**6)}', f'{IN}/project_members/999999/remove',
        '/-/profile/keys/999/remove', '/groups/nowhere/-/group_members',
        "/emma/'; DROP TABLE users; --", '/%00', '/emma/%ff',
    ],
)  # fmt: skip
def test_what_is_not_there(play, path):
  async def scenario(visitor):
    status, page, _ = await visitor.get(path)
    assert status == 404 and 'page not found' in page

  play(scenario)


def test_what_belongs_to_another_project_is_not_there(play):
  label, milestone, commit = (
      value(f'SELECT max(id) FROM {table} WHERE {of} = ?', FOREIGN[key])
      for table, of, key in (
          ('labels', 'project_id', 'id'),
          ('milestones', 'project_id', 'id'),
          ('commits', 'branch_id', 'branch_id'),
      )
  )

  async def scenario(visitor):
    for path in (
        f'labels/{label}/edit',
        f'milestones/{milestone}',
        f'commit/{show.sha(commit)}',
    ):
      assert (await visitor.get(f'{IN}/{path}'))[0] == 404, path
    for path in (f'labels/{label}/delete', f'milestones/{milestone}/state'):
      status, _, _ = await visitor.post(f'{IN}/{path}', state='closed')
      assert status == 404, path
    assert visitor.changes() == ()

  play(scenario)


def test_a_fork_has_its_original_s_commits_until_it_was_made(play):
  fork, original, before, after = one(
      'SELECT f.full_path, o.full_path,'
      ' max(c.id) FILTER (WHERE c.created_at <= b.created_at),'
      ' min(c.id) FILTER (WHERE c.created_at > b.created_at) FROM branches b'
      ' JOIN repositories f ON f.id = b.project_id JOIN commits c ON'
      ' c.branch_id = b.base_id JOIN repositories o ON o.branch_id = b.base_id'
      " WHERE o.id != f.id AND o.visibility = 'public' AND f.visibility ="
      " 'public' GROUP BY b.id HAVING count(*) FILTER (WHERE c.created_at <="
      ' b.created_at) > 0 AND max(c.created_at) > b.created_at'
  )

  async def scenario(visitor):
    statuses = {
        (path, commit): (
            await visitor.get(f'/{path}/-/commit/{show.sha(commit)}')
        )[0]
        for path in (fork, original)
        for commit in (before, after)
    }
    assert statuses.pop((fork, after)) == 404
    assert set(statuses.values()) == {200}

  play(scenario)


def test_private_projects_of_others_are_nowhere(play):
  def hide(db, chance):
    del chance
    db.execute(
        "UPDATE projects SET visibility = 'private' WHERE id = ?",
        (FOREIGN['id'],),
    )

  path, name = FOREIGN['full_path'], FOREIGN['name']
  issue, merge, commit = (
      value(f'SELECT {what} FROM {table} WHERE {of} = ?', FOREIGN[key])
      for what, table, of, key in (
          ('title', 'issues', 'project_id', 'id'),
          ('title', 'merge_requests', 'project_id', 'id'),
          ('message', 'commits', 'branch_id', 'branch_id'),
      )
  )

  async def scenario(visitor):
    for rest in ('', '/-/issues', '/-/issues/1', '/-/project_members', '/edit'):
      assert (await visitor.get(f'/{path}{rest}'))[0] == 404, rest
    assert (await visitor.post(f'/{path}/-/star'))[0] == 404
    _, page, _ = await visitor.get('/explore', name=name)
    assert path not in page
    _, page, _ = await visitor.get('/dashboard/issues', search=issue)
    assert path not in page
    for scope, words in (
        ('projects', name),
        ('issues', issue),
        ('merge_requests', merge),
        ('commits', commit),
    ):
      _, page, _ = await visitor.get('/search', scope=scope, search=words)
      assert f'"/{path}' not in page, scope
    assert visitor.changes() == ()

  play(scenario, build(hide=hide))


@pytest.mark.parametrize(
    'query',
    [
        {'page': '-1'}, {'page': '1000000000'}, {'page': '٣'},
        {'sort': "'; DROP TABLE users; --"}, {'state': 'nonsense'},
        {'search': "%' OR 1=1 --"}, {'search': '\x00'}, {'search': '_' * 3000},
        {'search': 'a ' * 50, 'scope': 'x'}, {'author_username': '<b>'},
        {'label_name[]': '\\'}, {'name': '<b>', 'topic': '%'},
        {'author': "'", 'kind': '<b>'},
    ],
)  # fmt: skip
def test_strange_queries_are_pages(play, query):
  async def scenario(visitor):
    for path in (
        '/explore', '/search', '/dashboard/merge_requests', '/dashboard/todos',
        f'{IN}/issues', f'{IN}/commits/{MAIN}', f'{IN}/project_members',
    ):  # fmt: skip
      status, page, _ = await visitor.get(path, **query)
      assert status == 200 and '<b>' not in page, path
    assert visitor.changes() == ()

  play(scenario)


async def all_pages(visitor, path, **query):
  found = []
  for number in range(1, 20):
    _, page, _ = await visitor.get(path, page=number, **query)
    found += titles(page)
    if 'Next</a>' not in page:
      return found
  raise AssertionError(f'{path} does not end.')


@pytest.mark.parametrize(
    'sort,order',
    [
        ('created_date', 'created_at DESC'),
        ('created_asc', 'created_at'),
        ('updated_desc', 'touched_at DESC'),
        ('updated_asc', 'touched_at'),
        ('due_date', "coalesce(due_on, '9999')"),
        ('title_asc', 'title'),
        ('comments_desc', 'comments DESC'),
    ],
)
def test_the_pages_of_a_list_have_each_issue_once_in_order(play, sort, order):
  values = dict(
      tuple(row)
      for row in DB.execute(
          f'SELECT title, dense_rank() OVER (ORDER BY {order}) FROM issue_items'
          ' WHERE project_id = ?',
          (OWN['id'],),
      )
  )

  async def scenario(visitor):
    found = await all_pages(visitor, f'{IN}/issues', sort=sort, state='all')
    assert sorted(found) == sorted(values) and len(found) > 20
    ranks = [values[title] for title in found]
    assert ranks == sorted(ranks)

  play(scenario)


def test_filters_of_a_list(play):
  author = value(
      'SELECT author FROM issue_items WHERE project_id = ? GROUP BY 1 ORDER BY'
      ' count(*) DESC',
      OWN['id'],
  )
  of_label = (
      'SELECT title FROM issues i JOIN issue_labels x ON x.issue_id = i.id'
      ' WHERE x.label_id = ?'
  )
  first, *_, last = ISSUE['title'].split()
  in_project = 'SELECT title FROM issue_items WHERE project_id = ? AND '
  cases = (
      ({'state': 'closed'}, in_project + "state = 'closed'"),
      ({}, in_project + "state = 'opened'"),
      (
          {'state': 'all', 'author_username': author.upper()},
          in_project + f"author = '{author}'",
      ),
      (
          {'state': 'all', 'assignee_username': 'None'},
          in_project + 'assignee IS NULL',
      ),
      (
          {'state': 'all', 'milestone_title': MILESTONE['title']},
          in_project + f"milestone = '{MILESTONE['title']}'",
      ),
      (
          {'state': 'all', 'search': f'{last} {first.upper()}'},
          in_project
          + f"title || description LIKE '%{first}%' AND title || description"
          f" LIKE '%{last}%'",
      ),
  )

  async def scenario(visitor):
    for query, sql in cases:
      found = await all_pages(visitor, f'{IN}/issues', **query)
      assert sorted(found) == sorted(column(sql, OWN['id'])) != [], query
    query = {'label_name[]': LABEL['name'], 'state': 'all'}
    found = await all_pages(visitor, f'{IN}/issues', **query)
    assert sorted(found) == sorted(column(of_label, LABEL['id'])) != []

  play(scenario)


def test_lists_of_projects(play):
  async def scenario(visitor):
    for sort, sign in (('stars_desc', '★'), ('forks_desc', '⑂')):
      _, page, _ = await visitor.get('/explore', sort=sort)
      counts = [int(x) for x in re.findall(rf'{sign} (\d+)', page)]
      assert counts == sorted(counts, reverse=True) and len(counts) == 20
    found = await all_pages(visitor, '/explore')
    assert len(found) == value('SELECT count(*) FROM projects')
    _, page, _ = await visitor.get('/explore', name='CHARTS knit')
    assert titles(page) == ['emma / Knit charts']
    _, page, _ = await visitor.get('/explore', topic='compiler')
    assert len(titles(page)) == 3
    found = await all_pages(visitor, '/dashboard/projects/personal')
    assert len(found) == value(
        'SELECT count(*) FROM projects WHERE user_id = 1'
    )

  play(scenario)


def test_a_search_finds_all_words_in_any_order(play):
  words = ' '.join(reversed(ISSUE['title'].split()))

  async def scenario(visitor):
    _, page, _ = await visitor.get('/search', search='knit-charts')
    assert 'emma / Knit charts' in titles(page)
    _, page, _ = await visitor.get('/search', search=words, scope='issues')
    assert ISSUE['title'] in titles(page)
    _, page, _ = await visitor.get(
        '/search', search='Brookfield', scope='users'
    )
    assert titles(page) == ['Emma Brookfield']
    for nothing in ('100% of_', 'pirouette', ''):
      _, page, _ = await visitor.get('/search', search=nothing)
      assert 'Found projects</a> <span>(0)' in page and titles(page) == []

  play(scenario)


def test_the_commits_of_a_branch(play):
  author, count, day = one(
      'SELECT u.name, count(*) AS n, date(c.created_at) FROM commits c JOIN'
      ' users u ON u.id = c.author_id WHERE c.branch_id = ? GROUP BY u.id, 3'
      ' HAVING n > 1 ORDER BY 3 DESC',
      OWN['branch_id'],
  )
  known = value(
      'SELECT count(*) FROM commits WHERE branch_id = ? OR (branch_id = ? AND'
      ' created_at <= ?)',
      BRANCH['id'],
      OWN['branch_id'],
      BRANCH['created_at'],
  )

  async def scenario(visitor):
    _, page, _ = await visitor.get(f'{IN}/commits/{MAIN}', author=author)
    assert f'<h2>{show.day(day)} ({show.many(count, "commit")})</h2>' in page
    _, page, _ = await visitor.get(f'{IN}/commits/{BRANCH["name"]}')
    assert f'<p>{known} commits on branch' in page
    _, page, _ = await visitor.get(f'{IN}/graphs/{BRANCH["name"]}')
    counts = [int(x) for x in re.findall(r'>(\d+) commits?<', page)]
    assert sum(counts) == known and counts == sorted(counts, reverse=True)

  play(scenario)


# --- forms


def project(path, **more):
  values = {
      'user_id': 1,
      'path': path,
      'name': path,
      'description': '',
      'topics': '',
      'visibility': 'private',
  }
  return 'projects', {**values, **more}


def membership(key, user, role):
  return 'members', {'project_id': key, 'user_id': user, 'role': role}


def commit(branch, message):
  return (
      'commits',
      {'branch_id': branch, 'author_id': 1, 'message': message},
  )


NEW = next_id('projects')
WRITES = [
    (
        f'{IN}/issues',
        {
            'title': ' T ',
            'description': 'a\r\nb',
            'assignee': 'emma',
            'milestone': MILESTONE['title'],
            'labels': LABEL['name'],
            'due_date': '07/01/2023',
        },
        [
            (
                'issue_labels',
                {'issue_id': next_id('issues'), 'label_id': LABEL['id']},
            ),
            (
                'issues',
                {
                    'project_id': OWN['id'],
                    'number': value(
                        'SELECT max(number) + 1 FROM issues WHERE project_id'
                        ' = ?',
                        OWN['id'],
                    ),
                    'author_id': 1,
                    'assignee_id': 1,
                    'milestone_id': MILESTONE['id'],
                    'title': 'T',
                    'description': 'a\nb',
                    'state': 'opened',
                    'due_on': '2023-07-01',
                },
            ),
        ],
    ),
    (
        f'{AT_ISSUE}/edit',
        {'title': 'N', 'description': 'D'},
        [('issues', {'title': 'N', 'description': 'D'})],
    ),
    (f'{AT_ISSUE}/state', {'state': 'closed'}, [('issues', {'state': 'closed'})]),
    (
        f'{AT_ISSUE}/sidebar',
        {'milestone': MILESTONE['title'], 'labels': LABEL['name']},
        [
            (
                'issue_labels',
                {'issue_id': ISSUE['id'], 'label_id': LABEL['id']},
            ),
            ('issues', {'milestone_id': MILESTONE['id']}),
        ],
    ),
    (f'{AT_ISSUE}/sidebar', {}, []),
    (
        f'{AT_ISSUE}/comment',
        {'comment': 'C'},
        [('comments', {'issue_id': ISSUE['id'], 'author_id': 1, 'body': 'C'})],
    ),
    (
        f'{AT_ISSUE}/todo',
        {},
        [(
            'todos',
            {
                'user_id': 1,
                'author_id': 1,
                'issue_id': ISSUE['id'],
                'kind': 'marked',
                'state': 'pending',
            },
        )],
    ),
    (
        f'/dashboard/todos/{TODO["id"]}',
        {},
        [('todos', {'state': 'done'})],
    ),
    (
        f'{IN}/merge_requests',
        {
            'source_branch': BRANCH['name'],
            'target_branch': MAIN,
            'title': 'T',
            'reviewer': MEMBER['username'],
        },
        [(
            'merge_requests',
            {
                'project_id': OWN['id'],
                'number': value(
                    'SELECT max(number) + 1 FROM merge_requests WHERE'
                    ' project_id = ?',
                    OWN['id'],
                ),
                'author_id': 1,
                'reviewer_id': MEMBER['user_id'],
                'source_branch': BRANCH['name'],
                'target_branch': MAIN,
                'title': 'T',
                'description': '',
                'state': 'opened',
            },
        )],
    ),
    (
        f'{AT_MERGE}/approve',
        {},
        [('approvals', {'merge_request_id': MERGE['id'], 'user_id': 1})],
    ),
    (
        f'{AT_MERGE}/merge',
        {},
        [
            commit(
                OWN['branch_id'],
                f"Merge branch '{MERGE['source_branch']}' into '{MAIN}'",
            ),
            ('merge_requests', {'state': 'merged'}),
        ],
    ),
    (
        f'{AT_MERGE}/sidebar',
        {'assignee': MEMBER['username'], 'reviewer': 'emma'},
        [('merge_requests', {'assignee_id': MEMBER['user_id']})],
    ),
    (
        f'{AT_MERGE}/edit',
        {'title': 'N', 'description': 'D'},
        [('merge_requests', {'title': 'N', 'description': 'D'})],
    ),
    (
        f'{AT_MERGE}/comment',
        {'comment': 'C'},
        [(
            'comments',
            {'merge_request_id': MERGE['id'], 'author_id': 1, 'body': 'C'},
        )],
    ),
    (
        f'{IN}/labels',
        {'title': 'L', 'background_color': '#ABCDEF'},
        [(
            'labels',
            {
                'project_id': OWN['id'],
                'name': 'L',
                'description': '',
                'color': '#abcdef',
            },
        )],
    ),
    (
        f'{IN}/labels/{LABEL["id"]}/edit',
        {'title': LABEL['name'], 'background_color': '#000000',
         'description': LABEL['description']},
        [('labels', {'color': '#000000'})],
    ),
    (
        f'{IN}/milestones/{MILESTONE["id"]}/edit',
        {'title': 'M', 'description': MILESTONE['description'],
         'start_date': MILESTONE['starts_on'], 'due_date': MILESTONE['due_on']},
        [('milestones', {'title': 'M'})],
    ),
    (
        f'{IN}/milestones',
        {'title': 'M', 'due_date': '2023-09-01'},
        [(
            'milestones',
            {
                'project_id': OWN['id'],
                'title': 'M',
                'description': '',
                'state': 'active',
                'due_on': '2023-09-01',
            },
        )],
    ),
    (
        f'{IN}/branches',
        {'branch_name': 'next', 'create_from': BRANCH['name']},
        [(
            'branches',
            {
                'project_id': OWN['id'],
                'base_id': BRANCH['id'],
                'name': 'next',
                'is_default': 0,
            },
        )],
    ),
    (
        f'{IN}/new/{MAIN}',
        {'file_name': 'a/b.txt', 'content': 'x\r\ny'},
        [
            commit(OWN['branch_id'], 'Add b.txt'),
            (
                'files',
                {
                    'branch_id': OWN['branch_id'],
                    'commit_id': next_id('commits'),
                    'path': 'a/b.txt',
                    'content': 'x\ny',
                },
            ),
        ],
    ),
    (
        f'{IN}/edit/{MAIN}/README.md',
        {'content': 'x', 'commit_message': 'Why'},
        [
            commit(OWN['branch_id'], 'Why'),
            ('files', {'commit_id': next_id('commits'), 'content': 'x'}),
        ],
    ),
    (
        # A file of the base is not changed by a commit on a branch.
        f'{IN}/edit/{BRANCH["name"]}/README.md',
        {'content': 'x'},
        [
            commit(BRANCH['id'], 'Update README.md'),
            (
                'files',
                {
                    'branch_id': BRANCH['id'],
                    'commit_id': next_id('commits'),
                    'path': 'README.md',
                    'content': 'x',
                },
            ),
        ],
    ),
    (
        f'/{OWN["full_path"]}/edit',
        {
            'project_name': 'N',
            'topics': 'a,  b',
            'visibility': 'internal',
        },
        [(
            'projects',
            {
                'name': 'N',
                'description': '',
                'topics': 'a, b',
                'visibility': 'internal',
            },
        )],
    ),
    (
        '/projects',
        {
            'project_name': 'My tool',
            'namespace': 'emma',
            'visibility': 'private',
        },
        [membership(NEW, 1, 50), project('My-tool', name='My tool')],
    ),
    (
        '/projects',
        {
            'project_name': 'x',
            'namespace': 'emma',
            'visibility': 'private',
            'readme': '1',
        },
        [
            (
                'branches',
                {'project_id': NEW, 'name': 'main', 'is_default': 1},
            ),
            commit(next_id('branches'), 'Initial commit'),
            (
                'files',
                {
                    'branch_id': next_id('branches'),
                    'commit_id': next_id('commits'),
                    'path': 'README.md',
                    'content': '# x',
                },
            ),
            membership(NEW, 1, 50),
            project('x'),
        ],
    ),
    (
        f'/{FOREIGN["full_path"]}/-/forks',
        {'project_name': 'F', 'namespace': 'emma', 'visibility': 'public'},
        [
            (
                'branches',
                {
                    'project_id': NEW,
                    'base_id': FOREIGN['branch_id'],
                    'name': FOREIGN['branch'],
                    'is_default': 1,
                },
            ),
            membership(NEW, 1, 50),
            project(
                FOREIGN['path'],
                name='F',
                forked_from_id=FOREIGN['id'],
                description=FOREIGN['description'],
                topics=FOREIGN['topics'],
                visibility='public',
            ),
        ],
    ),
    (
        f'/{FOREIGN["full_path"]}/-/star',
        {},
        [('stars', {'project_id': FOREIGN['id'], 'user_id': 1})],
    ),
    (f'/{FOREIGN["full_path"]}/-/unstar', {}, []),
    (
        f'{IN}/project_members',
        {'username': f'@{STRANGER["username"]},', 'role': 'Reporter'},
        [membership(OWN['id'], STRANGER['id'], 20)],
    ),
    (
        f'{IN}/project_members/{MEMBER["id"]}/edit',
        {'role': 'Guest', 'expiration_date': '2024-01-01'},
        [('members', {'role': 10, 'expires_on': '2024-01-01'})],
    ),
    (f'{IN}/project_members/{MEMBER["id"]}/remove', {}, [('members', None)]),
    (
        '/groups',
        {'group_name': 'G', 'visibility': 'private'},
        [
            (
                'group_members',
                {'group_id': next_id('groups'), 'user_id': 1, 'role': 50},
            ),
            (
                'groups',
                {
                    'path': 'G',
                    'name': 'G',
                    'description': '',
                    'visibility': 'private',
                },
            ),
        ],
    ),
    (
        f'/users/{STRANGER["username"]}/follow',
        {},
        [('follows', {'user_id': 1, 'followed_id': STRANGER['id']})],
    ),
    (f'/users/{FOLLOWED["username"]}/unfollow', {}, [('follows', None)]),
    (
        '/-/profile/status',
        {'your_status': 'S', 'busy': '1'},
        [('users', {'status': 'S', 'is_busy': 1})],
    ),
    (
        '/-/profile/preferences',
        {'theme': 'dark', 'notification_level': 'participating'},
        [('users', {'theme': 'dark'})],
    ),
    (
        '/-/profile/keys',
        {'title': 'K', 'key': f'ssh-rsa {"A" * 30}'},
        [('ssh_keys', {'user_id': 1, 'title': 'K', 'key': f'ssh-rsa {"A" * 30}'})],
    ),
    (f'/-/profile/keys/{KEY["id"]}/remove', {}, [('ssh_keys', None)]),
    (
        '/-/profile/personal_access_tokens',
        {'token_name': 'T', 'scopes': 'api'},
        [('access_tokens', {'user_id': 1, 'name': 'T', 'scopes': 'api'})],
    ),
    (
        '/-/profile/personal_access_tokens/1/revoke',
        {},
        [('access_tokens', None)],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    'path,form,rows', WRITES, ids=[f'{k} {x[0]}' for k, x in enumerate(WRITES)]
)
def test_forms_write_their_rows_and_no_others(play, path, form, rows):
  async def scenario(visitor):
    status, _, _ = await visitor.post(path, **form)
    assert status == 200
    assert short(visitor.changes()) == rows

  play(scenario)


@pytest.mark.parametrize(
    'path,form,words',
    [
        (f'{IN}/issues', {}, 'Title is a required field'),
        (f'{IN}/issues', {'title': 'x' * 256}, 'Title is too long'),
        (f'{IN}/issues', {'title': 'x', 'assignee': STRANGER['username']},
         'Assignee must be a member'),
        (f'{IN}/issues', {'title': 'x', 'milestone': 'y'}, 'no such milestone'),
        (f'{IN}/issues', {'title': 'x', 'labels': 'y'}, 'no such label'),
        (f'{IN}/issues', {'title': 'x', 'due_date': '2023-02-30'},
         'Due date must be a day'),
        (f'{AT_ISSUE}/state', {'state': 'opened'}, 'in this state already'),
        (f'{AT_ISSUE}/state', {}, 'State is a required field'),
        (f'{AT_ISSUE}/comment', {'comment': ' '}, 'Comment is a required field'),
        (f'{IN}/merge_requests', {'source_branch': MAIN, 'target_branch': MAIN,
                                  'title': 'x'}, 'must be different'),
        (f'{IN}/merge_requests', {'source_branch': MERGE['source_branch'],
                                  'target_branch': MAIN, 'title': 'x'},
         'Another open merge request'),
        (f'{IN}/merge_requests', {'source_branch': 'x', 'target_branch': MAIN},
         'Choose a source branch'),
        (f'{AT_MERGE}/sidebar', {'reviewer': 'nobody'},
         'Reviewer must be a member'),
        (f'{IN}/labels', {'title': 'x', 'background_color': 'red'},
         'Background color must be a code'),
        (f'{IN}/labels', {'title': LABEL['name'].upper(),
                          'background_color': '#000000'},
         'Title has already been taken'),
        (f'{IN}/milestones', {'title': MILESTONE['title']},
         'Title has already been taken'),
        (f'{IN}/milestones', {'title': 'x', 'start_date': '2023-08-01',
                              'due_date': '2023-07-01'},
         'Due date must not be before'),
        (f'{IN}/branches', {'branch_name': 'a b', 'create_from': MAIN},
         'Branch name can have'),
        (f'{IN}/branches', {'branch_name': MAIN, 'create_from': MAIN},
         'already exists'),
        (f'{IN}/branches', {'branch_name': 'x', 'create_from': 'y'},
         'Create from must be'),
        (f'{IN}/branches/{MAIN}/delete', {}, 'cannot be deleted'),
        (f'{IN}/new/{MAIN}', {'file_name': 'README.md'}, 'already exists'),
        (f'{IN}/new/{MAIN}', {'file_name': 'a/../b'}, 'File name is not a path'),
        (f'{IN}/edit/{MAIN}/LICENSE', {'license_template': 'x'},
         'no such license template'),
        (f'/{OWN["full_path"]}/edit', {'project_name': 'x', 'visibility': 'y'},
         'Visibility must be'),
        (f'/{OWN["full_path"]}/delete', {'confirm_path': 'x'},
         'Enter the path of the project'),
        ('/projects', {'project_name': OWN['path'], 'namespace': 'emma',
                       'visibility': 'private'}, 'Path has already been taken'),
        ('/projects', {'project_name': '???', 'namespace': 'emma',
                       'visibility': 'private'}, 'Path can have'),
        ('/projects', {'project_name': 'x', 'namespace': 'seabird',
                       'visibility': 'private'}, 'Namespace is not one'),
        ('/projects', {'project_name': 'x', 'template': 'y'},
         'no such project template'),
        ('/groups', {'group_name': 'EMMA', 'visibility': 'private'},
         'Group path has already been taken'),
        ('/groups', {'group_name': 'explore', 'visibility': 'private'},
         'Group path has already been taken'),
        (f'{IN}/project_members', {'username': 'no-one', 'role': 'Guest'},
         'There is no user no-one'),
        (f'{IN}/project_members', {'username': MEMBER['username'],
                                   'role': 'Guest'}, 'is a member already'),
        (f'{IN}/project_members', {'username': STRANGER['username'],
                                   'role': 'King'}, 'Role must be'),
        ('/users/emma/follow', {}, 'cannot follow yourself'),
        ('/-/profile', {'full_name': 'x', 'website_url': 'javascript:1'},
         'Website url must be'),
        ('/-/profile/preferences', {'theme': 'pink', 'notification_level': 'x'},
         'not one of those listed'),
        ('/-/profile/keys', {'title': 'x', 'key': 'y'}, 'Key must begin'),
        ('/-/profile/keys', {'title': 'x', 'key': KEY['key']},
         'Key has already been taken'),
        ('/-/profile/personal_access_tokens', {'token_name': 'x'},
         'Select at least one scope'),
        ('/-/profile/personal_access_tokens', {'scopes': 'api'},
         'Token name is a required field'),
    ],
)  # fmt: skip
def test_wrong_forms_say_why_and_write_nothing(play, path, form, words):
  async def scenario(visitor):
    status, page, _ = await visitor.post(path, **form)
    assert status == 422 and words in html.unescape(page), page
    assert visitor.changes() == ()

  play(scenario)


@pytest.mark.parametrize(
    'role,method,rest',
    [
        (0, 'GET', '/edit'), (0, 'GET', '/-/labels/new'),
        (0, 'GET', '/-/merge_requests/new'), (0, 'GET', '/-/branches/new'),
        (0, 'GET', '/-/new/{branch}'), (0, 'GET', '/-/edit/{branch}/README.md'),
        (0, 'GET', '/-/project_members/invite'),
        (0, 'POST', '/-/issues/{issue}/state'),
        (0, 'POST', '/-/issues/{issue}/edit'),
        (0, 'POST', '/-/issues/{issue}/sidebar'),
        (0, 'POST', '/-/merge_requests/{merge}/merge'),
        (0, 'POST', '/-/merge_requests/{merge}/approve'),
        (0, 'POST', '/-/merge_requests/{merge}/state'),
        (0, 'POST', '/-/merge_requests/{merge}/sidebar'),
        (0, 'POST', '/-/labels'), (0, 'POST', '/-/milestones'),
        (0, 'POST', '/-/branches'), (0, 'POST', '/-/new/{branch}'),
        (0, 'POST', '/-/edit/{branch}/README.md'),
        (0, 'POST', '/-/project_members'), (0, 'POST', '/edit'),
        (0, 'POST', '/delete'),
        (20, 'POST', '/-/branches'), (20, 'POST', '/-/new/{branch}'),
        (20, 'POST', '/-/merge_requests'),
        (20, 'POST', '/-/merge_requests/{merge}/approve'),
        (30, 'POST', '/-/project_members'), (30, 'POST', '/edit'),
        (40, 'POST', '/delete'),
    ],
)  # fmt: skip
def test_what_a_role_does_not_allow_is_refused(play, role, method, rest):
  of = BY_ROLE.get(role, FOREIGN)
  numbers = {
      name: value(
          f'SELECT number FROM {table} WHERE project_id = ? AND state ='
          " 'opened' AND author_id != 1",
          of['id'],
      )
      for name, table in (('issue', 'issues'), ('merge', 'merge_requests'))
  }
  path = f'/{of["full_path"]}{rest.format(branch=of["branch"], **numbers)}'

  async def scenario(visitor):
    ask = visitor.get if method == 'GET' else visitor.post
    status, page, _ = await ask(path)
    assert status == 403 and 'could not be done' in page
    assert visitor.changes() == ()

  play(scenario)


def test_what_a_role_allows(play):
  reporter, developer, maintainer = (
      f'/{BY_ROLE[role]["full_path"]}' for role in (20, 30, 40)
  )
  issue = value(
      "SELECT number FROM issues WHERE project_id = ? AND state = 'opened'",
      BY_ROLE[20]['id'],
  )
  guest = {'username': STRANGER['username'], 'role': 'Guest'}

  async def scenario(visitor):
    for path, form in (
        (f'/{FOREIGN["full_path"]}/-/issues', {'title': 'x'}),
        (f'{reporter}/-/issues/{issue}/state', {'state': 'closed'}),
        (f'{reporter}/-/milestones', {'title': 'x'}),
        (
            f'{developer}/-/branches',
            {'branch_name': 'x', 'create_from': BY_ROLE[30]['branch']},
        ),
        (f'{maintainer}/-/project_members', guest),
    ):
      assert (await visitor.post(path, **form))[0] == 200, path
    owner = {**guest, 'role': 'Owner'}
    at = f'{maintainer}/-/project_members'
    assert (await visitor.post(at, **owner))[0] == 403
    assert len(visitor.changes()) == 5

  play(scenario)


def test_what_is_of_others_is_refused(play):
  async def scenario(visitor):
    comment = f'{IN}/comments/{THEIR_COMMENT["id"]}'
    for path, form, status in (
        (f'{comment}/edit', {'comment': 'x'}, 403),
        (f'{comment}/delete', {}, 403),
        (f'{IN}/project_members/{OWNER["id"]}/remove', {}, 403),
        (f'{IN}/project_members/{OWNER["id"]}/edit', {'role': 'Guest'}, 403),
        ('/groups/harbor-labs/-/edit', {'group_name': 'x'}, 403),
        ('/-/profile/keys/999/remove', {}, 404),
        ('/-/profile/personal_access_tokens/999/revoke', {}, 404),
        ('/dashboard/todos/999', {}, 404),
    ):
      assert (await visitor.post(path, **form))[0] == status, path
    row = one(
        "SELECT * FROM merge_items WHERE author_id = 1 AND state = 'opened' AND"
        ' project_id IN (SELECT project_id FROM grants WHERE user_id = 1)'
    )
    at = f'/{row["full_path"]}/-/merge_requests/{row["number"]}'
    status, page, _ = await visitor.post(f'{at}/approve')
    assert status == 422 and 'your own merge request' in page
    assert visitor.changes() == ()

  play(scenario)


def test_what_is_undone_leaves_no_trace(play):
  key = TODO['id']

  async def scenario(visitor):
    for paths in (
        (
            f'/{FOREIGN["full_path"]}/-/star',
            f'/{FOREIGN["full_path"]}/-/unstar',
        ),
        (
            f'/users/{STRANGER["username"]}/follow',
            f'/users/{STRANGER["username"]}/unfollow',
        ),
        (f'{AT_MERGE}/approve', f'{AT_MERGE}/revoke'),
        (f'/dashboard/todos/{key}', f'/dashboard/todos/{key}'),
    ):
      for path in paths:
        assert (await visitor.post(path))[0] == 200, path
    await visitor.post(f'{IN}/branches', branch_name='x', create_from=MAIN)
    await visitor.post(f'{IN}/branches/x/delete')
    assert visitor.changes() == ()

  play(scenario)


def test_a_file_of_a_branch_and_of_a_fork(play):
  name = BRANCH['name']

  async def scenario(visitor):
    await visitor.post(f'{IN}/edit/{name}/README.md', content='Only here')
    _, page, _ = await visitor.get(f'{IN}/blob/{name}/README.md')
    assert 'Only here' in page
    _, page, _ = await visitor.get(f'{IN}/blob/{MAIN}/README.md')
    assert 'Only here' not in page
    _, page, path = await visitor.post(
        f'/{FOREIGN["full_path"]}/-/forks',
        project_name='F',
        namespace='emma',
        visibility='private',
    )
    assert path == f'/emma/{FOREIGN["path"]}' and 'README.md' in page
    assert f'Forked from <a href="/{FOREIGN["full_path"]}"' in page
    at = f'{path}/-/edit/{FOREIGN["branch"]}/README.md'
    await visitor.post(at, content='Forked')
    _, page, _ = await visitor.get(f'/{FOREIGN["full_path"]}')
    assert 'Forked' not in page

  play(scenario)


@pytest.mark.parametrize(
    'name', ['a b.txt', 'c#1.md', 'what?.txt', '100%.csv', 'größe.txt', 'a/&.x']
)
def test_any_file_name_leads_to_its_page(play, name):
  async def scenario(visitor):
    status, page, _ = await visitor.post(
        f'{IN}/new/{MAIN}', file_name=name, content='Found'
    )
    assert status == 200 and f'<h1>{html.escape(name)}</h1>' in page
    _, page, _ = await visitor.get(f'{IN}/tree/{MAIN}')
    folder, _, last = name.rpartition('/')
    if folder:
      _, page, _ = await visitor.get(f'{IN}/tree/{MAIN}/{folder}')
    (link,) = re.findall(
        rf'<a href="([^"]*)">{re.escape(html.escape(last))}</a>', page
    )
    async with visitor._session.get(html.unescape(link)) as reply:
      assert reply.status == 200 and 'Found' in await reply.text()

  play(scenario)


def test_a_project_goes_with_all_that_belongs_to_it(play):
  path = OWN['full_path']

  async def scenario(visitor):
    status, _, _ = await visitor.post(f'/{path}/delete', confirm_path=path)
    assert status == 200
    db = visitor._state.copy('forge')
    assert not db.execute('PRAGMA foreign_key_check').fetchall()
    changes = visitor.changes()
    assert all(x.after is None for x in changes)
    assert {'projects', 'issues', 'comments', 'files', 'members'} <= {
        x.table.partition('.')[2] for x in changes
    }
    assert (await visitor.get(f'/{path}'))[0] == 404

  play(scenario)


BAD = '<script>alert(1)</script><img src=x onerror=alert(2)>"\''


def test_scripts_of_visitors_are_text(play):
  async def scenario(visitor):
    pages = []
    for path, form in (
        (f'{IN}/issues', {'title': BAD, 'description': BAD}),
        (f'{AT_ISSUE}/comment', {'comment': BAD}),
        (f'{AT_MERGE}/edit', {'title': BAD, 'description': BAD}),
        (f'{AT_MERGE}/comment', {'comment': BAD}),
        (f'{IN}/labels', {'title': BAD, 'description': BAD,
                          'background_color': '#000000'}),
        (f'{IN}/milestones', {'title': BAD, 'description': BAD}),
        (f'{IN}/new/{MAIN}', {'file_name': BAD, 'content': BAD,
                              'commit_message': BAD}),
        (f'{IN}/edit/{MAIN}/README.md', {'content': f'# {BAD}\n\n- {BAD}'}),
        (f'/{OWN["full_path"]}/edit', {'project_name': BAD, 'topics': BAD,
                                       'project_description': BAD,
                                       'visibility': 'public'}),
        ('/groups', {'group_name': BAD, 'group_path': 'x', 'description': BAD,
                     'visibility': 'public'}),
        ('/-/profile', {'full_name': BAD, 'bio': BAD, 'location': BAD}),
        ('/-/profile/status', {'your_status': BAD}),
        ('/-/profile/personal_access_tokens', {'token_name': BAD,
                                               'scopes': 'api'}),
    ):  # fmt: skip
      status, page, _ = await visitor.post(path, **form)
      assert status == 200, path
      pages.append((path, page))
    for path in (
        f'/{OWN["full_path"]}', f'{IN}/tree/{MAIN}', f'{IN}/commits/{MAIN}',
        f'{IN}/issues', f'{IN}/issues/new', f'{IN}/merge_requests',
        f'{IN}/labels', f'{IN}/milestones', f'{IN}/graphs/{MAIN}',
        f'{IN}/project_members', '/emma', '/explore?sort=latest_activity_desc',
        '/explore/groups', '/dashboard/issues?author_username=emma',
    ):  # fmt: skip
      pages.append((path, (await visitor.get(path))[1]))
    pages.append(('', (await visitor.get('/search', search=BAD))[1]))
    for path, page in pages:
      assert '&lt;script&gt;' in page, path
      assert '<script>' not in page and '<img' not in page, path

  play(scenario)


def test_what_one_episode_writes_no_other_one_sees(play):
  async def scenario(first, second):
    await first.post(f'{AT_ISSUE}/comment', comment='Only mine')
    await first.post(f'{AT_ISSUE}/state', state='closed')
    await second.post(f'{AT_ISSUE}/todo')
    _, page, _ = await second.get(AT_ISSUE)
    assert 'Only mine' not in page and 'Close issue' in page
    tables = [[x.table for x in client.changes()] for client in (first, second)]
    assert tables == [['forge.comments', 'forge.issues'], ['forge.todos']]

  play(scenario, episodes=2)


# --- tasks


def test_templates_cover_the_public_ones():
  covered = {x for template in tasks.TEMPLATES for x in template.public}
  # The others lead to two sites at once.
  assert covered == set(PUBLIC) - {84, 87, 88, 116, 117}
  kinds = [template.kind for template in tasks.TEMPLATES]
  assert len(kinds) >= 60
  for kind, least in ((SEEK, 0.2), (CHANGE, 0.5), (GO, 0.1)):
    assert kinds.count(kind) >= least * len(kinds)


def test_each_template_has_an_oracle_that_nothing_done_does_not_pass():
  assert {x.name for x in tasks.TEMPLATES} == set(ORACLES)
  for template in tasks.TEMPLATES:
    goal = template.make({'forge': DB}, 0).goal
    judge = ORACLES[template.name]
    if goal.answer is not None:
      assert judge(DB, DB, goal.answer.example(), 0), template.name
    assert judge(DB, DB, '', 0) == (template.kind == GO), template.name


def test_answers_do_not_stand_on_the_page_where_a_task_starts(play):
  async def scenario(visitor):
    texts = {}
    for template in tasks.TEMPLATES:
      for k in range(template.count if template.kind == SEEK else 0):
        task = template.make({'forge': DB}, k)
        start = task.start[0].removeprefix('http://forge')
        if start not in texts:
          _, page, _ = await visitor.get(start)
          texts[start] = {
              html.unescape(x).strip() for x in re.split(r'<[^>]*>', page)
          }
        for text in texts[start]:
          assert not task.goal.answer.accepts(text), (template.name, k, text)

  play(scenario)
