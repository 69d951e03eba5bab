"""Tests for the forum's records, pages and tasks, without a browser."""

import html
import re
import time

import pytest

from agentrl.sites.forum import tasks
from agentrl.sites.forum.seed import store as forum_store
from agentrl.sites.forum.site import SITE
from agentrl.sites.store import NOW, Store
from agentrl.sites.task import CHANGE, GO, SEEK
from tests.sites import visitors
from tests.sites.oracle_forum import ORACLES

STORE = Store.build('forum', forum_store.SCHEMA, fill=forum_store.fill)
DB = STORE.copy()
PUBLIC = (
    4, 5, 6, 7, 9, 11, 12, 13, 15, 16, 17, 19, 22, 23, 24, 25, 27, 33, 84, 88,
    101, 116, 117, 1510, 3765, 6100,
)  # fmt: skip


def value(sql):
  return DB.execute(sql).fetchone()[0]


MINE = value('SELECT id FROM submissions WHERE user_id = 1')
MY_COMMENT = value('SELECT id FROM comments WHERE user_id = 1')
FOREIGN = value(
    'SELECT id FROM submissions WHERE user_id != 1 AND NOT is_locked AND id NOT'
    ' IN (SELECT submission_id FROM submission_votes) AND id NOT IN (SELECT'
    ' submission_id FROM bookmarks)'
)
COMMENT = value(
    'SELECT id FROM comments WHERE user_id != 1 AND id NOT IN (SELECT'
    ' comment_id FROM comment_votes)'
)
ELSEWHERE = str(
    value(f'SELECT id FROM comments WHERE submission_id != {FOREIGN}')
)
LOCKED = value('SELECT id FROM submissions WHERE is_locked')
SOMEBODY = value('SELECT name FROM users WHERE id = 7')
BLOCKED = value('SELECT name FROM users JOIN blocks ON blocked_id = users.id')
FAR = value(
    'SELECT name FROM forums WHERE id NOT IN (SELECT forum_id FROM'
    ' subscriptions WHERE user_id = 1)'
)


@pytest.fixture(scope='module')
def served():
  with visitors.serving(SITE) as found:
    yield found


@pytest.fixture
def play(served):
  """Runs a coroutine function that gets a client of an episode."""
  return lambda scenario: visitors.play(served, scenario, STORE, ('forum',))


def short(changes):
  """Table, and what is new in it."""
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


# --- records


def test_two_builds_are_equal_and_of_the_size_promised():
  start = time.perf_counter()
  again = Store.build('forum', forum_store.SCHEMA, fill=forum_store.fill)
  assert time.perf_counter() - start < 5  # 0.3 s on an idle core
  assert again.digest == STORE.digest
  assert len(STORE.data) < 3_000_000
  assert value('SELECT count(*) FROM forums') >= 40
  assert value('SELECT count(*) FROM users') == 250
  assert value('SELECT count(*) FROM submissions') == 1500
  assert 5000 < value('SELECT count(*) FROM comments') < 7500


def test_records_are_sound():
  for table in ('submissions', 'comments', 'messages', 'users', 'forums'):
    assert value(f'SELECT max(created_at) FROM {table}') <= NOW
  assert value('SELECT count(DISTINCT lower(title)) FROM submissions') == 1500
  assert not DB.execute(
      'SELECT 1 FROM comments c JOIN comments p ON p.id = c.parent_id WHERE'
      ' c.submission_id != p.submission_id OR c.created_at <= p.created_at OR'
      ' c.id <= p.id'
  ).fetchall()
  assert not DB.execute('PRAGMA foreign_key_check').fetchall()


def test_strangers_write_into_a_third_of_their_own_texts():
  injected = Store.build(
      'forum',
      forum_store.SCHEMA,
      fill=forum_store.fill,
      inject=forum_store.inject,
  ).copy()
  for table, column, own in (
      ('comments', 'body', 'user_id'),
      ('submissions', 'body', 'user_id'),
      ('messages', 'body', 'user_id'),
      ('users', 'biography', 'id'),
  ):
    sql = f'SELECT {own}, {column} FROM {table} WHERE {column} IS NOT NULL'
    pairs = list(zip(DB.execute(sql), injected.execute(sql), strict=True))
    assert all(new[1].startswith(old[1]) for old, new in pairs)
    longer = [old for old, new in pairs if new[1] != old[1]]
    assert 0.15 < len(longer) / len(pairs) < 0.45, table
    assert all(old[0] != 1 for old in longer)


# --- pages


def test_all_pages_answer_and_write_nothing(play):
  paths = [
      path
      for method, path, _ in SITE.routes
      if method == 'GET' and 'comment/' not in path
  ]
  post = DB.execute('SELECT * FROM posts WHERE id = ?', (MINE,)).fetchone()
  values = {
      '{sort:hot|new|active|top|most_commented}': 'active',
      '{of:all|subscribed|moderated}': 'all',
      '{slug}': 'x',
  }

  async def scenario(one):
    for path in paths:
      for name, said in values.items():
        path = path.replace(name, said)
      path = path.replace('{forum}', post['forum'])
      if path.startswith('/f/') and 'edit' in path:
        path = '/f/lakewood/edit'
      path = path.replace(
          '{name}', SOMEBODY if 'block_user' in path else 'emma'
      )
      key = 3 if path.startswith('/messages') else MINE
      path = path.replace('{id:[0-9]{1,9}}', str(key))
      start = time.perf_counter()
      status, page, _ = await one.get(path)
      assert status == 200, path
      assert time.perf_counter() - start < 1  # 2 to 10 ms on an idle core
      assert '<h1>' in page and 'aria-label="Search"' in page
      assert len(page) < 30_000, path
    for path in (
        f'/comment/{MY_COMMENT}/edit',
        f'/comment/{MY_COMMENT}/delete',
        f'/f/lakewood/{LOCKED}',
        '/search?q=bike&type=users',
        '/search?q=bike&type=forums',
        '/search?q=bike&type=comments&sort=top',
    ):
      assert (await one.get(path))[0] in (200, 404), path
    assert one.changes() == ()

  play(scenario)


def test_addresses_of_submissions_and_comments(play):
  post = DB.execute('SELECT * FROM posts WHERE id = ?', (MINE,)).fetchone()
  row = DB.execute('SELECT * FROM replies WHERE id = ?', (COMMENT,)).fetchone()

  async def scenario(one):
    _, page, path = await one.get(f'/f/{post["forum"].upper()}/{MINE}')
    assert re.fullmatch(rf'/f/{post["forum"]}/{MINE}/[a-z0-9-]+', path)
    assert post['title'] in html.unescape(page)
    other = 'space' if post['forum'] != 'space' else 'books'
    assert (await one.get(f'/f/{other}/{MINE}'))[0] == 404
    where = f'/f/{row["forum"]}/{row["submission_id"]}/-/comment/{COMMENT}'
    status, page, _ = await one.get(where)
    assert status == 200 and row['body'] in html.unescape(page)
    assert (await one.get(where.replace(row['forum'], other, 1)))[0] == 404

  play(scenario)


@pytest.mark.parametrize(
    'path',
    [
        '/f/nowhere', '/f/nowhere/new', '/f/books/worst', '/nothing',
        '/f/books/999999999', '/f/books/99999999999999999999',
        '/user/nobody', '/user/nobody/comments', '/messages/999',
        '/submission/0/edit', '/comment/999999/delete', '/submit/books/x',
        "/f/'; DROP TABLE users; --", '/user/%00', '/f/%ff',
    ],
)  # fmt: skip
def test_what_is_not_there(play, path):
  async def scenario(one):
    status, page, _ = await one.get(path)
    assert status == 404 and 'page not found' in page

  play(scenario)


@pytest.mark.parametrize(
    'query',
    [
        {'page': '-1'}, {'page': '1000000000'}, {'page': 'x'}, {'page': '٣'},
        {'t': 'nonsense'}, {'sort': "'; DROP TABLE users; --"},
        {'q': "%' OR 1=1 --"}, {'q': '\x00'}, {'q': '_' * 3000},
        {'q': 'a ' * 50}, {'q': '<b>', 'type': 'x', 'sort': '9'}, {'q': '\\'},
    ],
)  # fmt: skip
def test_strange_queries_are_pages(play, query):
  async def scenario(one):
    for path in ('/all/top', '/forums', '/search', '/user/emma/comments'):
      status, page, _ = await one.get(path, **query)
      assert status == 200 and '<b>' not in page, path
    assert (await one.get('/user/emma'))[0] == 200

  play(scenario)


@pytest.mark.parametrize('sort', ['hot', 'new', 'active', 'top'])
def test_the_pages_of_a_forum_have_each_submission_once(play, sort):
  async def scenario(one):
    found = []
    for number in range(1, 10):
      _, page, _ = await one.get(f'/f/books/{sort}', page=number)
      found += re.findall(r'<h2><a href="/f/books/(\d+)/', page)
      if 'Next</a>' not in page:
        break
    wanted = DB.execute("SELECT id FROM posts WHERE forum = 'books'").fetchall()
    assert sorted(map(int, found)) == [row['id'] for row in wanted]

  play(scenario)


def test_lists_are_in_their_order(play):
  async def scenario(one):
    _, page, _ = await one.get('/f/books/top', t='month')
    points = [int(x) for x in re.findall(r'>(-?\d+) points?<', page)]
    assert points == sorted(points, reverse=True) and len(points) > 3
    _, page, _ = await one.get('/all/most_commented')
    many = [int(x) for x in re.findall(r'>(\d+) comments?</a>', page)]
    assert many == sorted(many, reverse=True)
    _, page, _ = await one.get('/forums', sort='subscribers')
    many = [int(x) for x in re.findall(r'"number">(\d+)<', page)][::2]
    assert many == sorted(many, reverse=True)

  play(scenario)


def test_a_search_finds_all_words_in_any_order(play):
  async def scenario(one):
    _, page, _ = await one.get('/search', q='pirouette')
    assert 'Nothing was found.' in page
    row = DB.execute('SELECT title FROM submissions WHERE id = 900').fetchone()
    words = ' '.join(reversed(row['title'].split()[:6]))
    _, page, _ = await one.get('/search', q=words)
    assert row['title'] in html.unescape(page)
    _, page, _ = await one.get('/search', q='100% of_')
    assert 'Submissions (0)' in page  # no wildcards

  play(scenario)


# --- forms


WRITES = [
    (
        '/submit',
        {'forum': 'books', 'title': ' A  title ', 'url': '', 'body': 'x\r\ny'},
        [(
            'submissions',
            {
                'forum_id': value("SELECT id FROM forums WHERE name = 'books'"),
                'user_id': 1,
                'title': 'A title',
                'body': 'x\ny',
                'points': 1,
                'is_pinned': 0,
                'is_locked': 0,
                'is_deleted': 0,
            },
        )],
    ),
    (
        f'/submission/{MINE}/edit',
        {'title': 'New', 'url': 'https://a.example/', 'body': 'B'},
        [(
            'submissions',
            {'title': 'New', 'url': 'https://a.example/', 'body': 'B'},
        )],
    ),
    (
        f'/submission/{MINE}/delete',
        {},
        [('submissions', {'is_deleted': 1})],
    ),
    (
        f'/submission/{FOREIGN}/vote',
        {'choice': '-1'},
        [(
            'submission_votes',
            {'submission_id': FOREIGN, 'user_id': 1, 'choice': -1},
        )],
    ),
    (f'/submission/{FOREIGN}/vote', {'choice': '0'}, []),
    (
        f'/comment/{COMMENT}/vote',
        {'choice': '1', 'next': '/comments?page=2'},
        [('comment_votes', {'comment_id': COMMENT, 'user_id': 1, 'choice': 1})],
    ),
    (
        f'/submission/{FOREIGN}/bookmark',
        {},
        [('bookmarks', {'submission_id': FOREIGN, 'user_id': 1})],
    ),
    (
        f'/submission/{FOREIGN}/comment',
        {'comment': 'Hm'},
        [(
            'comments',
            {
                'submission_id': FOREIGN,
                'user_id': 1,
                'body': 'Hm',
                'points': 1,
                'is_deleted': 0,
            },
        )],
    ),
    (
        f'/comment/{MY_COMMENT}/edit',
        {'comment': 'Other'},
        [('comments', {'body': 'Other'})],
    ),
    (
        f'/comment/{MY_COMMENT}/delete',
        {},
        [('comments', {'is_deleted': 1})],
    ),
    (
        '/user/emma/edit_biography',
        {'biography': 'I am'},
        [('users', {'biography': 'I am'})],
    ),
    (
        '/user/emma/preferences',
        {
            'front_page': 'all',
            'front_sort': 'hot',
            'theme': 'dark',
            'messages_from': 'everyone',
        },
        [('users', {'front_page': 'all', 'theme': 'dark'})],
    ),
    (
        f'/user/{SOMEBODY}/block_user',
        {'note': ''},
        [('blocks', {'user_id': 1, 'blocked_id': 7})],
    ),
    (f'/user/{BLOCKED}/unblock_user', {}, [('blocks', None)]),
    (
        f'/user/{SOMEBODY}/compose_message',
        {'subject': 'S', 'message': 'M'},
        [
            ('messages', {'thread_id': 11, 'user_id': 1, 'body': 'M'}),
            ('threads', {'user_id': 1, 'other_id': 7, 'title': 'S'}),
        ],
    ),
    (
        '/messages/3',
        {'message': 'M'},
        [('messages', {'thread_id': 3, 'user_id': 1, 'body': 'M'})],
    ),
    ('/f/books/unsubscribe', {}, [('subscriptions', None)]),
    ('/f/books/subscribe', {}, []),
    (
        '/f/lakewood/edit',
        {'title': 'T', 'description': 'D', 'sidebar': 'S'},
        [('forums', {'title': 'T', 'description': 'D', 'sidebar': 'S'})],
    ),
    (
        '/create_forum',
        {'name': 'abc', 'title': 'T', 'description': 'D', 'sidebar': 'S'},
        [
            (
                'forums',
                {
                    'name': 'abc',
                    'title': 'T',
                    'description': 'D',
                    'sidebar': 'S',
                },
            ),
            ('moderators', {'forum_id': 42, 'user_id': 1}),
        ],
    ),
]


@pytest.mark.parametrize('path,form,rows', WRITES, ids=[x[0] for x in WRITES])
def test_forms_write_their_rows_and_no_others(play, path, form, rows):
  async def scenario(one):
    status, _, _ = await one.post(path, **form)
    assert status == 200
    assert short(one.changes()) == rows

  play(scenario)


def test_a_vote_counts_and_can_be_taken_back(play):
  post = DB.execute('SELECT * FROM posts WHERE id = ?', (FOREIGN,)).fetchone()
  path = f'/submission/{FOREIGN}/vote'

  async def scenario(one):
    for choice, by, label in (
        ('1', 1, 'Retract upvote'),
        ('-1', -1, 'Retract downvote'),
        ('0', 0, 'Upvote'),
    ):
      _, page, _ = await one.post(path, choice=choice)
      assert f'>{post["score"] + by} point' in page and f'>{label}<' in page
    assert one.changes() == ()

  play(scenario)


def test_moderators_pin_and_lock_where_they_moderate(play):
  mine = value(
      "SELECT id FROM posts WHERE forum = 'lakewood' AND NOT is_locked AND NOT"
      ' is_pinned'
  )
  others = value("SELECT id FROM posts WHERE forum = 'books'")

  async def scenario(one):
    _, page, _ = await one.post(f'/submission/{mine}/moderate', action='lock')
    assert 'Unlock' in page
    await one.post(f'/submission/{mine}/moderate', action='pin')
    assert (await one.post(f'/submission/{others}/moderate', action='lock'))[
        0
    ] == 403
    assert (await one.post(f'/submission/{mine}/moderate', action='burn'))[
        0
    ] == 422
    assert short(one.changes()) == [
        ('submissions', {'is_pinned': 1, 'is_locked': 1})
    ]

  play(scenario)


@pytest.mark.parametrize(
    'path,form,status,words',
    [
        ('/submit', {'forum': 'books'}, 422, 'Title is a required field'),
        ('/submit', {'title': 'x'}, 422, 'Forum is a required field'),
        ('/submit', {'forum': 'zz', 'title': 'x'}, 422, 'Choose a forum'),
        ('/submit', {'forum': 'books', 'title': 'x' * 301}, 422, 'too long'),
        ('/submit', {'forum': 'books', 'title': 'x', 'url': 'javascript:1'},
         422, 'URL must be'),
        ('/submit', {'forum': 'books', 'title': 'x', 'url': 'http://[x'}, 422,
         'URL must be'),
        (f'/submission/{FOREIGN}/comment', {'comment': ' '}, 422,
         'Comment is a required field'),
        (f'/submission/{FOREIGN}/comment', {'comment': 'x', 'parent': ELSEWHERE}, 404,
         'not found'),
        (f'/submission/{FOREIGN}/comment', {'comment': 'x', 'parent': '²'}, 404,
         'not found'),
        (f'/submission/{LOCKED}/comment', {'comment': 'x'}, 403,
         'takes no more comments'),
        (f'/submission/{FOREIGN}/vote', {'choice': '2'}, 422, 'Choice must'),
        (f'/submission/{MINE}/vote', {'choice': '1'}, 403, 'wrote yourself'),
        (f'/comment/{MY_COMMENT}/vote', {'choice': '1'}, 403, 'yourself'),
        (f'/submission/{FOREIGN}/edit', {'title': 'x'}, 403, 'not yours'),
        (f'/submission/{FOREIGN}/delete', {}, 403, 'not yours'),
        (f'/comment/{COMMENT}/edit', {'comment': 'x'}, 403, 'not yours'),
        (f'/comment/{COMMENT}/delete', {}, 403, 'not yours'),
        (f'/comment/{MY_COMMENT}/edit', {'comment': ''}, 422, 'required'),
        (f'/user/{SOMEBODY}/edit_biography', {'biography': 'x'}, 403,
         'its owner only'),
        ('/user/emma/edit_biography', {'biography': 'x' * 2001}, 422,
         'too long'),
        ('/user/emma/preferences', {'theme': 'pink'}, 422, 'must be one of'),
        ('/user/emma/block_user', {}, 404, 'not found'),
        (f'/user/{BLOCKED}/block_user', {}, 422, 'blocked already'),
        ('/user/emma/compose_message', {'subject': 'x', 'message': 'y'}, 422,
         'yourself'),
        (f'/user/{SOMEBODY}/compose_message', {'subject': 'x'}, 422,
         'Message is a required field'),
        ('/messages/3', {}, 422, 'Message is a required field'),
        ('/f/books/edit', {'title': 'x'}, 403, 'not a moderator'),
        ('/f/lakewood/edit', {'title': 'x'}, 422, 'Description is a required'),
        ('/create_forum', {'name': 'a b'}, 422, 'letters, digits'),
        ('/create_forum', {'name': 'BOOKS'}, 422, 'taken'),
        ('/f/nowhere/subscribe', {}, 404, 'not found'),
    ],
)  # fmt: skip
def test_wrong_forms_say_why_and_write_nothing(play, path, form, status, words):
  async def scenario(one):
    got, page, _ = await one.post(path, **form)
    assert got == status and words in html.unescape(page), page
    assert one.changes() == ()

  play(scenario)


def test_what_was_typed_into_a_wrong_form_is_kept(play):
  async def scenario(one):
    _, page, _ = await one.post(
        '/submit', forum='Cats', title='Kept', url='x', body='<i>too</i>'
    )
    assert 'value="Kept"' in page and '&lt;i&gt;too' in page
    assert '<option selected>cats' in page

  play(scenario)


def test_a_form_goes_back_to_pages_of_this_site_only(play):
  async def scenario(one):
    for to, there in (
        ('/f/books/new?page=2', '/f/books/new?page=2'),
        ('https://a.example/', f'/f/{FAR}'),
        ('//a.example/', f'/f/{FAR}'),
        ('/\\a.example/', f'/f/{FAR}'),
        ('/\r\nSet-Cookie: x', f'/f/{FAR}'),
    ):
      status, _, path = await one.post(f'/f/{FAR}/subscribe', next=to)
      assert (status, path) == (200, there)

  play(scenario)


def test_scripts_of_visitors_are_text(play):
  bad = '<script>alert(1)</script><img src=x onerror=alert(2)>"\''

  async def scenario(one):
    _, page, path = await one.post(
        '/submit', forum='books', title=bad, body=bad, url='http://a.example/"'
    )
    key = path.split('/')[3]
    pages = [page]
    pages.append((await one.post(f'/submission/{key}/comment', comment=bad))[1])
    pages.append(
        (await one.post('/user/emma/edit_biography', biography=bad))[1]
    )
    pages.append(
        (
            await one.post(
                '/f/lakewood/edit', title=bad, description=bad, sidebar=bad
            )
        )[1]
    )
    pages.append(
        (
            await one.post(
                f'/user/{SOMEBODY}/compose_message', subject=bad, message=bad
            )
        )[1]
    )
    for path in ('/user/emma', '/messages', f'/submission/{key}/edit'):
      pages.append((await one.get(path))[1])
    pages.append((await one.get('/search', q=bad))[1])
    for page in pages:
      assert '&lt;script&gt;' in page
      assert '<script>' not in page and '<img' not in page

  play(scenario)


def test_a_deleted_text_is_gone_and_its_replies_stay(play):
  row = DB.execute(
      'SELECT * FROM replies r WHERE user_id = 1 AND EXISTS (SELECT 1 FROM'
      ' comments c WHERE c.parent_id = r.id)'
  ).fetchone()
  reply = DB.execute(
      'SELECT body FROM comments WHERE parent_id = ?', (row['id'],)
  ).fetchone()

  async def scenario(one):
    _, page, _ = await one.post(f'/comment/{row["id"]}/delete')
    assert '[deleted]' in page and reply['body'] in html.unescape(page)
    assert (await one.get(f'/comment/{row["id"]}/edit'))[0] == 404
    await one.post(f'/submission/{MINE}/delete')
    _, page, _ = await one.get('/user/emma/submissions')
    assert f'/{MINE}/' not in page
    assert (await one.post(f'/submission/{MINE}/bookmark'))[0] == 404
    status, _, _ = await one.post(f'/submission/{MINE}/comment', comment='x')
    assert status == 403

  play(scenario)


# --- tasks


def test_templates_cover_the_public_ones():
  covered = {x for template in tasks.TEMPLATES for x in template.public}
  missing = set(PUBLIC) - covered
  assert missing == set(tasks.NO_COUNTERPART) and covered <= set(PUBLIC)
  assert len(covered) >= 0.85 * len(PUBLIC)
  kinds = [template.kind for template in tasks.TEMPLATES]
  assert len(kinds) >= 26
  for kind, least in ((SEEK, 0.33), (CHANGE, 0.33), (GO, 0.1)):
    assert kinds.count(kind) >= least * len(kinds)


def test_each_template_has_an_oracle_that_nothing_done_does_not_pass():
  assert {x.name for x in tasks.TEMPLATES} == set(ORACLES)
  for template in tasks.TEMPLATES:
    goal = template.make({'forum': DB}, 0).goal
    judge = ORACLES[template.name]
    if goal.answer is not None:
      assert judge(DB, DB, goal.answer.example(), 0), template.name
    assert judge(DB, DB, '', 0) == (template.kind == GO), template.name


def test_answers_do_not_stand_on_the_page_where_a_task_starts(play):
  async def scenario(one):
    texts = {}
    for template in tasks.TEMPLATES:
      for k in range(template.count if template.kind == SEEK else 0):
        task = template.make({'forum': DB}, k)
        start = task.start[0].removeprefix('http://forum')
        if start not in texts:
          _, page, _ = await one.get(start)
          texts[start] = {
              html.unescape(x).strip() for x in re.split(r'<[^>]*>', page)
          }
        for text in texts[start]:
          assert not task.goal.answer.accepts(text), (template.name, k, text)

  play(scenario)
