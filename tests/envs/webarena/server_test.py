"""Tests for the sites' server, with a site of their own."""

import asyncio
import contextlib
import gzip
import pathlib
import time

import aiohttp
import pytest

from agentrl.envs.webarena.server import COOKIE, Server
from agentrl.sites.site import Forbidden, Page, Redirect, Site, Wrong
from agentrl.sites.state import Faults, State
from agentrl.sites.store import Store

NO_FAULTS = Faults()
SCHEMA = 'CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE)'


def fill(db, chance):
  del chance
  db.executemany(
      'INSERT INTO notes (text) VALUES (?)', [(f'note {k}',) for k in range(45)]
  )


def listing(visit):
  paging = visit.page(visit.value('SELECT count(*) FROM notes'), 10)
  notes = visit.all(
      'SELECT * FROM notes ORDER BY id LIMIT ? OFFSET ?',
      paging.limit,
      paging.offset,
  )
  return Page('list.html', {'notes': notes, 'paging': paging})


def add(visit):
  text = visit.text('text', most=200_000_000)
  visit.db.execute('INSERT INTO notes (text) VALUES (?)', (text,))
  if text == 'wrong':
    raise Wrong('No such note.')
  if text == 'forbidden':
    raise Forbidden('Not yours.')
  if text == 'fault':
    raise ValueError(text)
  return Redirect('/', 'Added.')


def flood(visit):
  for k in range(10_000):
    visit.db.execute(
        "INSERT INTO notes (text) VALUES (printf('%0100000d', ?))", (k,)
    )


def locked(visit):
  """Removes the table that it reads."""
  reading = visit.db.execute('SELECT * FROM notes')
  next(reading)
  visit.db.execute('DROP TABLE notes')


def read_only(visit):
  visit.db.execute('PRAGMA query_only = ON')
  visit.db.execute('DELETE FROM notes')


def no_query(visit):
  visit.db.execute('SELECT nothing FROM notes')


@pytest.fixture(scope='module')
def site(tmp_path_factory):
  folder = tmp_path_factory.mktemp('site')
  (folder / 'templates').mkdir()
  (folder / 'static').mkdir()
  (folder / 'static' / 'site.css').write_text('body {}')
  (folder / 'templates' / 'base.html').write_text(
      '{{ notice }}<main>{% block content %}{% endblock %}</main>'
  )
  (folder / 'templates' / 'list.html').write_text(
      "{% extends 'base.html' %}{% import 'macros.html' as macros with context"
      ' %}{% block content %}{% for note in notes %}<p>{{ note.text }}</p>'
      '{% endfor %}{{ macros.pages(paging, query) }}{% endblock %}'
  )
  routes = (
      ('GET', '/', listing),
      ('POST', '/add', add),
      ('POST', '/flood', flood),
      ('GET', '/locked', locked),
      ('GET', '/read_only', read_only),
      ('GET', '/no_query', no_query),
  )
  return Site('test', 'Test', 'test', 1, 'Ann', routes, pathlib.Path(folder))


@pytest.fixture(scope='module')
def stores():
  return {'test': Store.build('test', SCHEMA, fill=fill)}


@pytest.fixture
def play(site, stores):
  """Runs a coroutine that gets the server and a maker of clients."""

  def go(scenario, faults=NO_FAULTS):
    async def run():
      server = Server((site,))
      await server.start()
      async with contextlib.AsyncExitStack() as stack:

        async def client(seed='0'):
          state = State(stores, faults, seed)
          made = aiohttp.ClientSession(
              server.urls['test'],
              cookies={COOKIE: server.open(state)},
              cookie_jar=aiohttp.CookieJar(unsafe=True),
          )
          await stack.enter_async_context(made)
          return made, state

        await scenario(server, client)
      await server.stop()

    asyncio.run(run())

  return go


async def text(reply):
  async with reply as got:
    return got.status, await got.text()


def test_two_episodes_write_and_neither_sees_the_other(play, stores):
  async def scenario(server, client):
    del server
    (one, first), (other, second) = await client(), await client()
    assert (await text(one.post('/add', data={'text': 'mine'})))[0] == 200
    assert (await text(other.post('/add', data={'text': 'theirs'})))[0] == 200
    _, page = await text(one.get('/?page=5'))
    assert 'mine' in page and 'theirs' not in page
    [change] = second.changes()
    assert change.after == {'id': 46, 'text': 'theirs'}
    assert [c.after['text'] for c in first.changes()] == ['mine']
    assert stores['test'].copy().serialize() == stores['test'].data

  play(scenario)


def test_who_has_no_cookie_gets_nothing(play):
  async def scenario(server, client):
    await client()
    async with aiohttp.ClientSession(server.urls['test']) as stranger:
      for reply in (stranger.get('/'), stranger.post('/sign-in')):
        assert (await text(reply))[0] == 403

  play(scenario)


def test_a_closed_episode_is_gone(play):
  async def scenario(server, client):
    one, _ = await client()
    [cookie] = one.cookie_jar
    server.close(cookie.value)
    server.close(cookie.value)
    assert (await text(one.get('/')))[0] == 403

  play(scenario)


def test_a_message_is_shown_once(play):
  async def scenario(server, client):
    del server
    one, state = await client()
    _, page = await text(one.post('/add', data={'text': 'x'}))
    assert page.startswith('Added.')
    assert not (await text(one.get('/')))[1].startswith('Added.')
    assert [(x.method, x.path, x.status) for x in state.requests] == [
        ('POST', '/add', 303),
        ('GET', '/', 200),
        ('GET', '/', 200),
    ]

  play(scenario)


@pytest.mark.parametrize(
    'said,status,words',
    [
        ('', 422, 'Text is a required field.'),
        ('wrong', 422, 'No such note.'),
        ('forbidden', 403, 'Not yours.'),
        ('note 7', 422, 'cannot be stored'),  # it must be unique
    ],
)
def test_what_is_refused_writes_nothing(play, said, status, words):
  async def scenario(server, client):
    del server
    one, state = await client()
    got, page = await text(one.post('/add', data={'text': said}))
    assert (got, state.changes()) == (status, ())
    assert words in page

  play(scenario)


@pytest.mark.parametrize('length', [8_190, 100_000, 1_900_000])
def test_a_form_that_is_sent_by_get_may_be_as_long_as_an_address(play, length):
  async def scenario(server, client):
    del server
    one, state = await client()
    status, body = await text(one.get('/', params={'q': 'x' * length}))
    assert status == 200 and 'note 0' in body
    assert len(state.requests[-1].path) > length

  play(scenario)


def test_a_form_that_is_too_long_is_told_so_and_writes_nothing(play, caplog):
  async def scenario(server, client):
    del server
    one, state = await client()
    status, body = await text(one.post('/add', data={'text': 'x' * 1_100_000}))
    assert status == 413 and 'too long (maximum is 1048576 bytes)' in body
    assert state.changes() == () and state.requests[-1].status == 413
    assert (await text(one.get('/')))[0] == 200

  play(scenario)
  assert not caplog.records


def test_what_is_no_request_is_logged_in_one_line(play, caplog):
  async def scenario(server, client):
    one, _ = await client()
    await text(one.get('/', params={'q': 'x' * 3_000_000}))
    host, port = server.urls['test'].removeprefix('http://').split(':')
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b'no HTTP at all\r\n\r\n')
    assert b'400' in await reader.readline()
    writer.close()

  play(scenario)
  assert caplog.records
  for record in caplog.records:
    assert record.exc_info is None and '\n' not in record.getMessage()


@pytest.mark.parametrize('encoding', ['gzip', 'deflate', 'br'])
def test_a_compressed_form_is_refused_and_writes_nothing(play, encoding):
  async def scenario(server, client):
    del server
    ann, state = await client()
    async with ann.post(
        '/add',
        data=gzip.compress(b'text=new'),
        headers={
            'Content-Encoding': encoding,
            'Content-Type': 'application/x-www-form-urlencoded',
        },
    ) as response:
      assert response.status == 415
      assert 'uncompressed' in await response.text()
    assert state.changes() == ()

  play(scenario)


def test_a_fault_of_the_site_is_a_500_and_writes_nothing(play):
  async def scenario(server, client):
    del server
    one, state = await client()
    assert (await text(one.post('/add', data={'text': 'fault'})))[0] == 500
    assert (await text(one.get('/')))[0] == 200
    assert state.changes() == ()

  play(scenario)


def test_a_full_disk_is_told_and_the_episode_goes_on(play):
  async def scenario(server, client):
    del server
    one, state = await client()
    status, page = await text(one.post('/flood'))
    assert status == 507 and 'The disk is full.' in page
    assert state.changes() == ()
    assert (await text(one.post('/add', data={'text': 'small'})))[0] == 200
    assert not state.failure

  play(scenario)


@pytest.mark.parametrize(
    'path,failure',
    [
        ('/locked', 'GET test/locked: database table is locked'),
        (
            '/read_only',
            'GET test/read_only: attempt to write a readonly database',
        ),
        ('/no_query', ''),  # a fault of the site, as any
    ],
)
def test_records_that_cannot_be_used_are_told_of(play, path, failure):
  async def scenario(server, client):
    del server
    one, state = await client()
    assert (await text(one.get(path)))[0] == 500
    assert (state.failure, state.changes()) == (failure, ())

  play(scenario)


def test_two_servers_stand_side_by_side(site, stores):
  async def run():
    servers = [Server((site,)), Server((site,))]
    one, other = [server.urls['test'] for server in servers]
    assert one != other
    for server in servers:
      await server.start()
    states = [State(stores, NO_FAULTS, '0') for _ in servers]
    keys = [
        server.open(state)
        for server, state in zip(servers, states, strict=True)
    ]
    async with aiohttp.ClientSession(cookies={COOKIE: keys[0]}) as session:
      added = session.post(f'{one}/add', data={'text': 'mine'})
      assert (await text(added))[0] == 200
      assert (await text(session.get(f'{other}/')))[0] == 403
    assert [len(state.changes()) for state in states] == [1, 0]
    for server in servers:
      await server.stop()

  asyncio.run(run())


def test_scripts_in_content_are_escaped(play):
  async def scenario(server, client):
    del server
    one, _ = await client()
    await text(one.post('/add', data={'text': '<script>alert(1)</script>'}))
    async with one.get('/?page=5') as reply:
      page = await reply.text()
      assert '&lt;script&gt;' in page and '<script>' not in page
      assert "default-src 'self'" in reply.headers['Content-Security-Policy']

  play(scenario)


@pytest.mark.parametrize('page', ['-1', '0', 'x', '999999999999', '٣x', ''])
def test_strange_pages_of_a_list_are_pages(play, page):
  async def scenario(server, client):
    del server
    one, _ = await client()
    status, found = await text(one.get('/', params={'page': page}))
    assert status == 200 and found.count('<p>') in (5, 10)

  play(scenario)


def test_the_pages_of_a_list_have_each_row_once(play):
  async def scenario(server, client):
    del server
    one, _ = await client()
    pages = [(await text(one.get(f'/?page={k}')))[1] for k in range(1, 6)]
    for k in range(45):
      assert sum(f'<p>note {k}</p>' in page for page in pages) == 1
    assert 'Next' not in pages[-1] and 'Previous' not in pages[0]

  play(scenario)


def test_unknown_pages_and_methods_are_404(play):
  async def scenario(server, client):
    del server
    one, _ = await client()
    for reply in (one.get('/nowhere'), one.delete('/'), one.get('/add')):
      status, page = await text(reply)
      assert status == 404 and 'page not found' in page

  play(scenario)


def test_a_failing_page_comes_when_it_is_asked_for_again(play):
  async def scenario(server, client):
    del server
    one, _ = await client('1')
    seen = []
    for k in range(40):
      status, page = await text(one.get(f'/?page=1&k={k}'))
      seen.append(status)
      if status == 500:
        assert f'href="/?page=1&amp;k={k}"' in page
        assert (await text(one.get(f'/?page=1&k={k}')))[0] == 200
    assert 5 < seen.count(500) < 35

  play(scenario, Faults(errors=0.5))


def test_faults_repeat_by_seed(play):
  async def scenario(server, client):
    del server
    runs = []
    for seed in ('1', '1', '2'):
      one, _ = await client(seed)
      runs.append([(await text(one.get(f'/?k={k}')))[0] for k in range(40)])
    assert runs[0] == runs[1] != runs[2]

  play(scenario, Faults(errors=0.3))


def test_slow_pages_come_late(play):
  async def scenario(server, client):
    del server
    one, _ = await client()
    began = time.monotonic()
    for _ in range(20):
      await text(one.get('/'))
    assert time.monotonic() - began > 3 * 0.05

  play(scenario, Faults(slow=0.5, slow_s=0.05))


def test_a_session_that_ends_is_begun_again(play):
  async def scenario(server, client):
    del server
    one, state = await client()
    for k in range(3):
      assert (await text(one.get(f'/?k={k}')))[0] == 200
    status, page = await text(one.get('/?k=3'))
    assert status == 401 and 'value="/?k=3"' in page and 'note' not in page
    refused = await text(one.post('/add', data={'text': 'x'}))
    assert refused[0] == 401 and state.changes() == ()
    status, page = await text(one.post('/sign-in', data={'next': '/?page=2'}))
    assert status == 200 and 'note 10' in page

  play(scenario, Faults(session=3))


@pytest.mark.parametrize('to', ['//elsewhere', 'http://elsewhere/', '/\\else'])
def test_signing_in_leads_to_no_other_site(play, to):
  async def scenario(server, client):
    del server
    one, _ = await client()
    async with one.post(
        '/sign-in', data={'next': to}, allow_redirects=False
    ) as reply:
      assert reply.headers['Location'] == '/'

  play(scenario)


def test_a_reset_takes_less_than_20_ms(stores):
  """State is copied; so quick that a loaded machine does not matter."""
  took = []
  for _ in range(20):
    began = time.perf_counter()
    state = State(stores, Faults(), '0')
    state.copy('test')
    took.append(time.perf_counter() - began)
    state.close()
  assert sorted(took)[10] < 0.02
