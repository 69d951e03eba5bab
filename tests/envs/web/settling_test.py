"""What a page shows when a command returns, however it got there."""

import asyncio
import time

import pytest

from agentrl.envs.web import tab
from tests.envs.web import sites

pytestmark = pytest.mark.browser


@pytest.fixture(autouse=True)
def pages(server):
  async def data(request):
    await asyncio.sleep(float(request.query.get('s', 0.3)))
    return sites.answer(request.query.get('say', 'data'))

  server.pages.clear()
  server.pages['/data'] = data
  server.pages['/never'] = sites.never
  server.pages['/slow'] = sites.late(0.7, '<p>slow page</p>')
  server.pages['/moved'] = sites.moved('/slow')
  return server.pages


@pytest.fixture
def act(visit):
  """Opens a page with a button that does this, and clicks it."""

  def go(script, head='', **options):
    page = visit(
        f'{head}<button id=b onclick="{script}">go</button>', **options
    )
    page.click('go')
    return page

  return go


# What it does -> what the button then says.
DONE = {
    'fetch': (
        'fetch("/data").then(r => r.text()).then(x => b.textContent = x)',
        'data',
    ),
    'request': (
        (
            'x = new XMLHttpRequest(); x.open("GET", "/data"); x.onload = () =>'
            ' b.textContent = x.responseText; x.send()'
        ),
        'data',
    ),
    'fetch, timer, fetch': (
        (
            'fetch("/data").then(() => setTimeout(() => fetch("/data?say=two")'
            '.then(r => r.text()).then(x => b.textContent = x), 300))'
        ),
        'two',
    ),
    'image': (
        (
            'i = new Image(); i.onerror = () => b.textContent = "no image";'
            ' i.src = "/data"'
        ),
        'no image',
    ),
    'transition': (
        (
            'b.style.transition = "opacity 600ms"; b.ontransitionend = () =>'
            ' b.textContent = "ended"; b.style.opacity = 0.5'
        ),
        'ended',
    ),
    'animation': (
        (
            'b.animate([{opacity: 0}, {opacity: 1}], 500).finished.then(() =>'
            ' b.textContent = "ended")'
        ),
        'ended',
    ),
    'drawn frames': (
        (
            'n = 0; f = () => { if (++n < 10) requestAnimationFrame(f); else'
            ' b.textContent = "drawn"; }; f()'
        ),
        'drawn',
    ),
    'interval': (
        'n = 0; setInterval(() => b.textContent = ++n, 100)',
        '10',
    ),
    'polling': (
        (
            'n = 0; setInterval(() => fetch("/data?s=0.01").then(() => n += 1),'
            ' 100); setTimeout(() => b.textContent = "after " + (n > 2), 500)'
        ),
        'after true',
    ),
    'timers without a delay': (
        (
            'n = 0; (f = () => { n += 1; setTimeout(f, 0); })();'
            ' setTimeout(() => b.textContent = n > 9, 500)'
        ),
        'true',
    ),
    'messages without an end': (
        (
            'c = new MessageChannel(); c.port1.onmessage = () =>'
            ' c.port2.postMessage(0); c.port2.postMessage(0);'
            ' setTimeout(() => b.textContent = "later", 500)'
        ),
        'later',
    ),
    'tasks without an end': (
        (
            'f = () => scheduler.postTask(f); f();'
            ' setTimeout(() => b.textContent = "later", 500)'
        ),
        'later',
    ),
    'idle tasks without an end': (
        (
            'f = () => requestIdleCallback(f); f();'
            ' setTimeout(() => b.textContent = "later", 500)'
        ),
        'later',
    ),
    'a blob': (
        'new Blob(["blob"]).text().then(x => b.textContent = x)',
        'blob',
    ),
}


@pytest.mark.parametrize('kind', DONE)
def test_what_a_click_sets_off_has_ended(act, kind):
  script, end = DONE[kind]
  page = act(script.replace('"', "'"))
  assert page.view.nodes[-1].name == end
  assert not page.view.notes


@pytest.mark.parametrize('path', ('/slow', '/moved'))
@pytest.mark.parametrize('host', ('', 'other'))
def test_slow_documents_are_waited_for(act, server, path, host):
  """The other host is another site: the page gets another process."""
  url = (server.other_url if host else '') + path
  page = act(f"location='{url}'")
  assert 'slow page' in page.text
  assert page.view.url == (server.other_url if host else server.url) + '/slow'
  assert 'go' in page.do('go_back')
  assert 'slow page' in page.do('go_forward')
  assert 'slow page' in page.do(f'goto [{server.other_url}{path}]')


def test_time_goes_on_in_another_process(act, server, pages):
  pages['/clock'] = (
      '<p id=p></p><script>n = 0; p.textContent = "0";'
      ' setInterval(() => p.textContent = ++n, 100)</script>'
  )
  page = act(f"location='{server.other_url}/clock'")
  first = int(page.view.nodes[-1].name)
  assert 0 < first <= 10
  page.do('scroll [up]')
  time.sleep(0.3)
  assert int(page.view.nodes[-1].name) == first + 10
  page.look()
  assert int(page.view.nodes[-1].name) == first + 10


def test_time_stands_still_between_commands(act):
  page = act('setInterval(() => { b.textContent = Date.now(); }, 7)')
  before = page.view.nodes[-1].name
  time.sleep(0.5)
  page.look()
  assert page.view.nodes[-1].name == before
  page.do('scroll [up]')
  assert int(page.view.nodes[-1].name) - int(before) in range(900, 1010)


def test_a_request_without_an_answer_is_left_running(act, monkeypatch):
  monkeypatch.setattr(tab, '_SETTLE_S', 1.0)
  page = act(
      "fetch('/never'); n = 0; setInterval(() => b.textContent = ++n, 100)"
  )
  assert 'still loads after 1 s' in page.notes
  assert page.view.nodes[-1].name == '10'
  began = time.monotonic()
  for count in (20, 30):
    page.do('scroll [up]')
    assert page.view.nodes[-1].name == str(count)
    assert not page.view.notes
  assert time.monotonic() - began < 1.5
  # A later request is waited for nevertheless.
  page.script(
      'fetch("/data").then(() => { clearInterval(1); b.textContent = "came";'
      ' }), 1'
  )
  page.do('scroll [up]')
  assert not page.view.notes
  # So is the next document.
  page.script('location = "/slow", 1')
  assert 'slow page' in page.do('scroll [up]')


def test_a_document_that_never_comes_is_given_up(act, server, monkeypatch):
  monkeypatch.setattr(tab, '_SETTLE_S', 0.5)
  monkeypatch.setattr(tab, 'LOAD_S', 1.5)
  page = act("location='/never'")
  assert 'did not come within 1.5 s' in page.notes and 'go' in page.text
  page.do(f'goto [{server.url}/never]')
  assert 'did not come within 1.5 s' in page.notes and 'go' in page.text
  assert 'slow page' in page.do(f'goto [{server.url}/slow]')
  assert not page.view.notes


def test_a_tab_whose_page_never_comes_is_not_waited_for(act, monkeypatch):
  monkeypatch.setattr(tab, '_SETTLE_S', 0.5)
  monkeypatch.setattr(tab, 'LOAD_S', 1.5)
  page = act("window.open('/never')")
  assert 'A new tab' in page.notes and len(page.view.titles) == 1
  began = time.monotonic()
  page.do('scroll [up]')
  assert time.monotonic() - began < 1.0 and not page.view.notes


FRAMES = """<style>iframe {{ margin: 20px }}</style><p>outside</p>
<iframe src="{0}/frame?a" style="margin-left: 150px"></iframe>
<iframe src="{1}/frame?b"></iframe>"""
FRAME = """<button onclick="fetch('/data').then(() => setTimeout(() => {
  this.textContent = 'done' + location.search; }, 300))">in</button>
<script>document.querySelector('button').textContent += location.search;
</script><input aria-label=field>"""


def test_frames_of_any_site_are_read_and_clicked(visit, server, pages):
  pages['/frame'] = FRAME
  page = visit(FRAMES.format(server.url, server.other_url))
  for name in ('in?a', 'in?b'):
    assert name.replace('in', 'done') in page.click(name)
  fields = lambda: [x for x in page.view.nodes if x.name == 'field']
  for k in range(2):
    page.do(f'type [{fields()[k].number}] [word {k}] [0]')
  assert [x.value for x in fields()] == ['word 0', 'word 1']
  html = sites.Episode(page.browser, page.tabs._hosts, 'html')
  html.open(server.url)
  assert [x.name for x in html.view.nodes if x.role == 'button'] == [
      'in?a', 'in?b'
  ]  # fmt: skip
  html.close()


def test_frames_settle_with_their_page(visit, server, pages):
  pages['/frame'] = (
      '<p id=p></p><b id=b style="transition: opacity'
      ' 600ms">b</b><script>setTimeout(() => p.textContent = "timer " +'
      ' location.search, 400);b.ontransitionend = () => { b.textContent ='
      ' "moved" + location.search; };requestAnimationFrame(() => {'
      ' b.style.opacity = 0.5; })</script>'
  )
  page = visit(
      # Frames of other sites that are out of view draw nothing.
      '<style>iframe { height: 40px }</style>page'
      '<iframe src="file:///etc/passwd"></iframe>'
      + FRAMES.format(server.url, server.other_url)
  )
  for text in ('timer ?a', 'timer ?b', 'moved?a', 'moved?b'):
    assert text in page.text
  assert 'root:' not in page.text


def test_only_what_is_in_view_of_frames_is_shown(visit, server, pages):
  pages['/frame'] = ''.join(f'<p>line {k}</p>' for k in range(20))
  page = visit(
      '<iframe src="/frame" style="margin-top:200px;height:80px"></iframe>'
      '<iframe src="/frame" style="margin-top:900px"></iframe>',
      observe='viewport',
  )
  assert page.text.count("'line 0'") == 1
  assert 'line 15' not in page.text


def test_shadow_trees_are_read_and_clicked(visit):
  page = visit(
      '<div id=host></div><div id=shut></div><script>'
      'for (const [e, mode] of [[host, "open"], [shut, "closed"]]) {'
      '  const root = e.attachShadow({mode});'
      '  root.innerHTML = `<button>${mode}</button><input aria-label=f${mode}'
      ' value=old>`;'
      '  root.firstChild.onclick = () =>'
      '    root.firstChild.textContent = mode + " done";'
      '}</script><input aria-label=plain>'
  )
  for mode in ('open', 'closed'):
    assert f'{mode} done' in page.click(mode)
    page.type(f'f{mode}', f'in {mode}')
    assert page.node(f'f{mode}').value == f'in {mode}'
  page.click('fopen')
  page.do('press [ctrl+a]')
  page.do('press [ctrl+x]')
  assert page.node('fopen').value == ''
  page.click('plain')
  page.do('press [ctrl+v]')
  assert page.node('plain').value == 'in open'


def test_a_page_is_the_same_each_time(episode, server, pages):
  pages['/frame'] = FRAME
  pages['/'] = (
      FRAMES.format(server.url, server.other_url)
      + '<p id=r></p><p id=t></p><p id=m></p><button id=b>go</button><script>'
      'r.textContent = Math.random(); t.textContent = new Date();'
      'let n = 0; (function f() { m.textContent = ++n; '
      'requestAnimationFrame(f); })(); b.onclick = () => fetch("/data").then('
      '() => b.textContent = n + " " + Math.random());</script>'
  )
  seen = []
  for _ in range(3):
    page = episode()
    texts = [page.open(server.url)]
    texts.append(page.click('go'))
    texts.append(page.click('in?b'))
    seen.append(texts)
  assert seen[0] == seen[1] == seen[2]
