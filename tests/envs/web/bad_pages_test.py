"""Pages that misbehave: a note or a clear error, and the episode goes on."""

import asyncio
import time

import pytest
from aiohttp import web

from agentrl.envs.web import tab
from agentrl.envs.web.commands import Refused
from agentrl.errors import EnvError
from tests.envs.web import sites

pytestmark = pytest.mark.browser

BUTTON = '<title>here</title><button id=b onclick="{}">go</button>'


@pytest.fixture(autouse=True)
def pages(server):
  server.pages.clear()
  server.pages['/fine'] = '<p>all is well</p>'
  return server.pages


@pytest.fixture
def act(visit):
  """Opens a page with a button that does this, and clicks it."""

  def go(script, **options):
    page = visit(BUTTON.format(script), **options)
    page.click('go')
    return page

  return go


def goes_on(page):
  return 'all is well' in page.do('goto [http://site/fine]')


# --- downloads, dialogs, windows


def attached(delay_s=0.0, **headers):
  async def handler(request):
    del request
    await asyncio.sleep(delay_s)
    return web.Response(body=b'%PDF-' + bytes(99), headers=headers)

  return handler


@pytest.mark.parametrize(
    'headers',
    (
        {'Content-Disposition': 'attachment; filename="file.bin"'},
        {'Content-Type': 'application/pdf'},
        {'Content-Type': 'application/x-unknown'},
    ),
)
def test_downloads_are_refused(visit, pages, headers):
  pages['/file'] = attached(**headers)
  page = visit('<a href="/file">fetch</a><a href="/file" download=x.y>save</a>')
  for name in ('fetch', 'save'):
    assert 'fetch' in page.click(name)
    # Pages do not wait for a download: on a busy machine it is told later.
    for _ in range(100):
      if 'A download was refused: ' in page.notes:
        break
      page.do('scroll [up]')
    assert 'A download was refused: ' in page.notes
  page.do('goto [http://site/file]')
  assert 'is no page' in page.notes and 'refused' in page.notes
  assert goes_on(page)


def test_a_download_that_comes_late_is_told_by_the_next_view(visit, pages):
  pages['/file'] = attached(0.5, **{'Content-Type': 'application/pdf'})
  page = visit('<a href="/file" download=x.y>save</a>')
  page.click('save')
  assert not page.notes
  time.sleep(2)
  page.do('scroll [up]')
  assert 'A download was refused: ' in page.notes
  page.do('scroll [up]')
  assert not page.notes


def test_dialogs_are_accepted_and_told(act):
  page = act(
      'alert(`first`); this.textContent = [confirm(`sure?`), prompt(`who?`,'
      ' `me`)].join()'
  )
  assert page.view.notes == (
      'A dialog of kind alert was accepted: first',
      'A dialog of kind confirm was accepted: sure?',
      'A dialog of kind prompt was accepted: who?',
  )
  assert page.view.nodes[-1].name == 'true,'
  page.do('scroll [up]')
  assert not page.view.notes


def test_a_page_cannot_refuse_to_be_left(visit):
  page = visit(
      BUTTON.format('')
      + '<script>onbeforeunload = e => { e.preventDefault();'
      ' return "stay"; };</script>'
  )
  page.click('go')  # else Chromium does not ask
  assert goes_on(page)
  assert 'beforeunload was accepted' in page.notes


def test_dialogs_of_frames_new_tabs_and_loading(visit, pages):
  pages['/says'] = '<title>says</title><script>alert("loaded")</script>'
  page = visit(
      BUTTON.format('window.open(`/says`)') + '<iframe src="/says"></iframe>'
  )
  assert 'alert was accepted: loaded' in page.notes
  page.click('go')
  assert 'alert was accepted: loaded' in page.notes
  assert page.view.titles == ('here', 'says')


def test_notes_are_few(act):
  page = act('for (let k = 0; k < 99; k++) alert(k)')
  assert len(page.view.notes) == 20
  assert goes_on(page)


def test_a_page_cannot_hold_the_policy_in_dialogs(act):
  page = act('')
  page.script('b.onclick = () => { while (true) alert("again"); }, 1')
  with pytest.raises(EnvError, match='did not answer within 2 s'):
    page.do(f'click [{page.number("go")}]', timeout_s=2)


def test_the_last_tab_closed_by_its_page_between_commands(visit):
  page = visit(BUTTON.format(''))
  number = page.number('go')
  page.call(page.tabs.page.close())
  with pytest.raises(Refused, match='no element|gone'):
    page.do(f'click [{number}]')
  page.look()
  assert page.view.url == 'about:blank'
  assert goes_on(page)


def test_a_tab_that_was_replaced_is_not_clicked(visit, server, pages):
  """Another process numbers its elements from the start, too."""
  pages['/other'] = BUTTON.format('this.textContent = `wrong`')
  page = visit(BUTTON.format(''))
  number = page.number('go')
  page.call(
      page.tabs.page.goto(f'{server.other_url}/other', wait_until='commit')
  )
  with pytest.raises(Refused, match='gone'):
    page.do(f'click [{number}]')
  assert 'wrong' not in page.look()


# --- size


@pytest.mark.parametrize('observe', ('page', 'viewport', 'html'))
@pytest.mark.parametrize(
    'content',
    (
        '<i></i>' * 60_000,
        '<b>x</b>' * 30_000,
        '<p>' + 'word ' * 4_000 + '</p>' * 60,
        '<iframe srcdoc="' + '<i></i>' * 50_000 + '"></iframe>',
        '<input value="' + 'x' * 2_000_000 + '">',
        (
            '<div id=d></div><script>d.attachShadow({mode: "open"}).innerHTML ='
            ' "<i></i>".repeat(60000)</script>'
        ),
    ),
    ids=('elements', 'texts', 'few', 'frame', 'field', 'shadow'),
)
def test_large_pages_are_not_read(visit, request, content, observe):
  page = visit(content, observe=observe)
  if 'few' in request.node.name:
    assert page.view.nodes and not page.view.notes
  else:
    assert 'The page is too large to be read' in page.notes
    assert page.view.nodes == ()
  assert goes_on(page)


def test_twenty_megabytes(visit):
  page = visit('<script>/*' + 'x' * 20_000_000 + '*/</script><p>small</p>')
  assert 'small' in page.text
  page = visit(f'<p>{"word " * 66}</p>' * 10_000, path='/words')
  assert 'too large' in page.notes
  assert goes_on(page)


# --- navigation while it is read


@pytest.mark.parametrize(
    'script',
    (
        'setTimeout(() => location.reload(), 5)',
        'setInterval(() => location.reload(), 100)',
        'setTimeout(() => location.href = "/?" + Math.random())',
        'location.replace("/?" + Date.now())',
        'history.pushState(0, "", "/x"); history.back()',
        'setInterval(() => { location.hash = Math.random(); }, 10)',
    ),
)
def test_a_page_that_navigates_all_the_time(visit, monkeypatch, script):
  monkeypatch.setattr(tab, '_SETTLE_S', 2.0)
  monkeypatch.setattr(tab, 'LOAD_S', 3.0)
  page = visit(f'<p>again</p><script>{script}</script>')
  page.do('scroll [up]')
  assert page.view.url.startswith(page.tabs._hosts.names['http://site'])
  assert goes_on(page)


def test_navigation_and_reading_at_once(visit):
  page = visit(BUTTON.format(''))
  # The clock does not hold documents up that are already on their way.
  for _ in range(5):
    page.script('location.reload(), 1')
    assert 'go' in page.do('scroll [up]')


@pytest.mark.parametrize('how', ('cut', 'loop', 'refused'))
def test_addresses_that_are_no_pages(visit, server, pages, how):
  async def cut(request):
    request.transport.close()
    return web.Response()

  pages['/cut'] = cut
  pages['/loop'] = sites.moved('/loop')
  pages['/refused'] = sites.moved('http://127.0.0.1:9/')
  page = visit(f'<a href="/{how}">link</a>')
  page.do(f'goto [{server.url}/{how}]')
  assert 'cannot be loaded' in page.notes or 'no page' in page.notes
  assert goes_on(page)
  page.do(f'goto [{server.url}/]')
  page.click('link')
  assert goes_on(page)
  page.do('go_back')
  assert goes_on(page)


# --- no end


def test_a_script_that_never_ends(visit, episode, server):
  page = visit(BUTTON.format('while (true);'))
  server.pages['/own'] = BUTTON.format('this.textContent = `fine`')
  other = episode()
  other.open(f'{server.url}/own')
  with pytest.raises(EnvError, match='did not answer within 2 s'):
    page.do(f'click [{page.number("go")}]', timeout_s=2)
  began = time.monotonic()
  assert 'fine' in other.click('go')
  assert time.monotonic() - began < 2
  page.close()
  assert goes_on(other)


def test_a_script_that_never_ends_once_the_clock_runs(visit, monkeypatch):
  monkeypatch.setattr(tab, '_SETTLE_S', 0.5)
  monkeypatch.setattr(tab, 'LOAD_S', 1.0)
  page = visit(BUTTON.format('setTimeout(() => { while (true); }, 10)'))
  with pytest.raises(EnvError, match='does not answer'):
    page.click('go')
