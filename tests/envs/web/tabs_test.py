"""Every command on pages of our own, in a real Chromium."""

import time

import pytest

from agentrl.envs.web.commands import Refused

pytestmark = pytest.mark.browser

# Says what happened to it, in order.
SAY = """<pre id=log></pre><script>
const say = x => { document.getElementById('log').textContent += x + ' '; };
</script>"""


def said(page):
  """The words of `SAY` on a page."""
  return page.script('document.getElementById("log").textContent').split()


# --- click


def test_buttons_links_and_texts_are_clicked(visit, server):
  server.pages['/next'] = '<title>Next</title><p>arrived</p>'
  page = visit(
      SAY
      + '<button onclick="say(\'pressed\')">Go</button>'
      '<div onclick="say(\'text\')">plain words</div>'
      '<a href="/next">away</a>'
  )
  page.click('Go')
  page.click('plain words')
  assert said(page) == ['pressed', 'text']
  assert 'arrived' in page.click('away')
  assert page.view.url == f'{server.url}/next'
  assert page.view.titles == ('Next',)


def test_icons_without_a_role_are_clicked(visit):
  page = visit(
      SAY
      + '<span id=trash style="display:block;width:9px;height:9px"></span>'
      '<script>trash.addEventListener("click", () => say("thrown"))</script>'
  )
  assert page.node('trash').role == 'clickable'
  page.click('trash')
  assert said(page) == ['thrown']


def test_checkboxes_and_radios_change_their_state(visit):
  page = visit(
      '<label><input type=checkbox>Salt</label>'
      '<label><input type=radio name=r>Red</label>'
      '<label><input type=radio name=r checked>Blue</label>'
  )
  assert page.node('Salt').state('checked') == 'false'
  page.click('Salt', 'checkbox')
  page.click('Red', 'radio')
  assert page.node('Salt').state('checked') == 'true'
  assert page.node('Red').state('checked') == 'true'
  assert page.node('Blue').state('checked') == 'false'
  page.click('Salt', 'checkbox')
  assert page.node('Salt').state('checked') == 'false'


def test_options_are_chosen(visit):
  page = visit(
      SAY
      + '<select id=s onchange="say(this.value)" oninput="say(\'in\')">'
      '<option>one<option>two<option disabled>three'
      '<optgroup label=g disabled><option>four</optgroup></select>'
      '<select id=m multiple onchange="say([...this.selectedOptions].map('
      'o => o.text).join())"><option>red<option>green<option>blue</select>'
  )
  page.click('two', 'option')
  assert said(page) == ['in', 'two']
  assert page.script('s.value') == 'two'
  for name in ('three', 'four'):
    with pytest.raises(Refused, match='disabled'):
      page.click(name, 'option')
  assert page.script('s.value') == 'two'
  page.click('red')
  page.click('blue')
  assert said(page)[-1] == 'red,blue'
  assert page.node('blue').state('selected') == 'true'
  assert page.script('m.selectedOptions.length') == 2
  page.click('red')
  assert page.script('m.value') == 'blue'


def test_clicking_a_select_leaves_its_list_closed(visit):
  page = visit(
      '<select aria-label=size><option>small<option>large</select>'
      '<button onclick="this.textContent=\'ok\'">b</button>'
  )
  page.click('size')
  assert page.node('size').state('focused') == 'true'
  assert 'ok' in page.click('b')


def test_what_cannot_be_clicked_is_refused(visit):
  page = visit(
      SAY
      + '<button disabled onclick="say(\'d\')">off</button>'
      '<fieldset disabled><button onclick="say(\'f\')">held</button>'
      '<a href="javascript:say(\'link\')">link</a></fieldset>'
      '<button style="position:absolute;left:-900px">out</button>'
  )
  for name, why in (('off', 'disabled'), ('held', 'disabled'), ('out', 'edge')):
    with pytest.raises(Refused, match=why):
      page.click(name)
  page.click('link')
  assert said(page) == ['link']


def test_an_element_that_is_hidden_or_gone_since_is_refused(visit):
  page = visit(
      '<button id=a>a</button><button id=b>b</button>'
      '<p onclick="a.style.display=\'none\'; b.remove()">x</p>'
  )
  numbers = page.number('a'), page.number('b')
  page.script('document.querySelector("p").click()')
  for number, why in zip(numbers, ('cannot be seen', 'gone'), strict=True):
    with pytest.raises(Refused, match=why):
      page.do(f'click [{number}]')
  assert '[1]' in page.look()


def test_numbers_of_a_page_that_was_left_are_refused_or_its_successors(visit):
  page = visit('<button onclick="location.reload()">again</button>')
  page.click('again')
  assert 'again' in page.click('again')
  for number in (0, 99, 999_999_999):
    with pytest.raises(Refused, match=f'no element \\[{number}\\]'):
      page.do(f'click [{number}]')


def test_what_covers_an_element_gets_the_click(visit):
  page = visit(
      SAY
      + '<button onclick="say(\'under\')">under</button>'
      '<div onclick="say(\'cover\')" style="position:fixed;inset:0"></div>'
  )
  page.click('under')
  assert said(page) == ['cover']


def test_elements_far_below_are_scrolled_to(visit):
  page = visit(
      SAY
      + '<div style="height:5000px"></div>'
      '<button onclick="say(\'deep\')">deep down</button>'
      '<div style="height:100px;overflow:auto"><div style="height:900px"></div>'
      '<button onclick="say(\'deeper\')">inside</button></div>'
      '<div onclick="say(\'tall\')" style="height:3000px">tall</div>'
  )
  for name in ('deep down', 'inside', 'tall'):
    page.click(name)
  assert said(page) == ['deep', 'deeper', 'tall']


# --- type


def test_typing_replaces_what_a_field_holds(visit):
  page = visit(
      SAY
      + '<form onsubmit="say(\'sent\' + q.value); return false">'
      '<input id=q aria-label=query value=old oninput="say(\'i\')"></form>'
      '<textarea aria-label=area>old lines</textarea>'
      '<div contenteditable aria-label=rich role=textbox>old <b>words</b></div>'
  )
  page.type('query', 'new')
  assert page.node('query').value == 'new'
  assert 'sentnew' not in said(page)
  page.do(f'type [{page.number("query")}] [newer]')  # Enter follows
  assert said(page)[-1] == 'sentnewer'
  page.type('area', 'one\ntwo')
  assert page.script('document.querySelector("textarea").value') == 'one\ntwo'
  page.type('rich', 'fresh')
  assert page.script('document.querySelector("[role]").innerText') == 'fresh'
  page.type('query', '')
  assert page.node('query').value == ''
  page.type('query', 'x', enter=1)
  assert said(page).count('sentx') == 1


def test_typing_sends_keys(visit):
  page = visit(SAY + '<input aria-label=q onkeydown="say(event.key)">')
  page.type('q', 'aB?')
  assert said(page) == ['Control', 'a', 'a', 'B', '?']


@pytest.mark.parametrize(
    'text',
    ('zażółć 漢字 🎉', 'tab\there', '"quotes" \\ <b>', '] [1', '\x00\x07'),
)
def test_any_text_is_typed(visit, text):
  page = visit('<textarea aria-label=q></textarea>')
  page.type('q', text)
  typed = page.script('document.querySelector("textarea").value')
  if text.isprintable():
    assert typed == text


def test_a_text_may_be_long(visit):
  page = visit('<textarea aria-label=q></textarea>')
  page.type('q', 'x' * 10_000)
  assert page.script('document.querySelector("textarea").value.length') == 10000
  with pytest.raises(Refused, match='10001'):
    page.type('q', 'x' * 10_001)


def test_typing_at_what_is_no_field_does_no_harm(visit):
  page = visit(
      '<h1>head</h1><select aria-label=size><option>small<option>large</select>'
      '<input type=checkbox aria-label=box><input type=file aria-label=file>'
      '<input type=range aria-label=slide><input type=date aria-label=day>'
      '<input type=color aria-label=paint><input readonly aria-label=r value=v>'
  )
  for name in ('head', 'size', 'box', 'slide', 'day', 'paint', 'r', 'file'):
    page.type(name, 'l')
  assert page.node('r').value == 'v'


# --- hover, press, scroll


def test_menus_open_under_the_pointer(visit):
  page = visit(
      SAY
      + '<style>ul ul{display:none} li:hover ul{display:block}</style>'
      '<ul><li>File<ul><li onclick="say(\'saved\')">Save</ul></ul>'
  )
  assert 'Save' not in page.text
  page.do(f'hover [{page.number("File")}]')
  page.click('Save')
  assert said(page) == ['saved']


@pytest.mark.parametrize(
    'keys, seen',
    (
        ('Enter', 'Enter'),
        ('enter', 'Enter'),
        ('return', 'Enter'),
        ('page_down', 'PageDown'),
        ('up', 'ArrowUp'),
        ('shift+tab', 'Shift Tab'),
        ('ctrl+a', 'Control a'),
        ('Ctrl+A', 'Control a'),
        ('ctrl+shift+k', 'Control Shift'),
        ('F5', 'F5'),
        ('x', 'x'),
        ('X', 'X'),
        ('+', '+'),
        ('ctrl++', 'Control +'),
        ('space', '_'),
    ),
)
def test_keys_have_the_usual_names(visit, keys, seen):
  page = visit(
      SAY + '<script>onkeydown = e => say(e.key.replace(" ", "_"));</script>'
  )
  page.do(f'press [{keys}]')
  assert ' '.join(said(page)).startswith(seen)


@pytest.mark.parametrize(
    'keys', ('nokey', 'ctrl+nokey', 'shift+ctrl+', 'é', '漢', '', 'a b', '++')
)
def test_unknown_keys_are_refused_and_nothing_stays_pressed(visit, keys):
  page = visit(
      SAY + '<button onclick="say(event.ctrlKey || event.shiftKey)">b</button>'
  )
  page.script('onkeydown = e => say(e.key), 1')
  with pytest.raises(Refused):
    page.do(f'press [{keys}]')
  page.click('b')
  assert said(page) == ['false']


def test_each_episode_has_its_own_clipboard(episode, server):
  server.pages['/'] = (
      '<input aria-label=from value=secret><input aria-label=to>'
      '<textarea aria-label=area></textarea>'
  )
  one, two = episode(), episode()
  for page in (one, two):
    page.open(server.url)

  one.click('from')
  one.do('press [ctrl+a]')
  one.do('press [ctrl+c]')
  for keys in ('ctrl+v', 'ctrl+shift+v', 'shift+insert'):
    two.click('to')
    two.do(f'press [{keys}]')
    assert two.node('to').value == '', keys
  one.click('to')
  one.do('press [cmd+v]')
  assert one.node('to').value == 'secret'
  one.do('press [ctrl+a]')
  one.do('press [ctrl+x]')
  assert one.node('to').value == ''
  one.do('press [ctrl+x]')  # of nothing
  one.click('area')
  one.do('press [shift+insert]')
  one.do('press [ctrl+v]')
  assert one.node('area').value == 'secretsecret'


def test_cutting_without_a_selection_cuts_nothing(visit):
  page = visit('<input aria-label=q value=words>')
  page.click('q')
  page.do('press [home]')
  page.do('press [ctrl+x]')
  assert page.node('q').value == 'words'


def test_scrolling_moves_by_a_screen(visit):
  page = visit(
      '<html style="scroll-behavior:smooth">'
      + ''.join(f'<p style="height:60px">line {k}</p>' for k in range(40)),
      observe='viewport',
  )
  assert 'line 0' in page.text and 'line 9' not in page.text
  page.do('scroll [down]')
  assert 'line 0' not in page.text
  assert page.script('scrollY') == 320
  page.do('scroll [up]')
  page.do('scroll [up]')
  assert page.script('scrollY') == 0


# --- tabs and history


def test_tabs_open_are_focused_and_close(visit, server):
  server.pages['/b'] = '<title>B</title>b'
  page = visit('<title>A</title>a')
  page.do('new_tab')
  assert page.view.titles == ('A', '')
  page.do('goto [http://site/b]')
  assert page.view.titles == ('A', 'B') and page.view.current == 1
  page.do('tab_focus [0]')
  assert page.view.current == 0 and "'a'" in page.text
  with pytest.raises(Refused, match='no tab 2'):
    page.do('tab_focus [2]')
  page.do('close_tab')
  assert page.view.titles == ('B',) and "'b'" in page.text
  page.do('close_tab')
  assert page.view.titles == ('',) and page.view.url == 'about:blank'
  page.do('goto [http://site/]')
  assert page.view.titles == ('A',)


def test_there_are_at_most_eight_tabs(visit):
  page = visit(
      '<button onclick="for (let i=0; i<20; i++) window.open(\'/\')">b</button>'
  )
  page.click('b')
  assert len(page.view.titles) <= 8
  while len(page.view.titles) < 8:
    page.do('new_tab')
  with pytest.raises(Refused, match='8 tabs'):
    page.do('new_tab')


@pytest.mark.parametrize(
    'link',
    (
        '<a href="/new" target=_blank>go</a>',
        '<a href="/new" target=_blank rel=opener>go</a>',
        '<button onclick="window.open(\'/new\')">go</button>',
        '<form action="/new" target=_blank><button>go</button></form>',
    ),
)
def test_pages_open_tabs(visit, server, link):
  server.pages['/new'] = '<title>New</title><p>fresh</p>'
  page = visit(f'<title>Old</title>{link}')
  assert 'fresh' in page.click('go')
  assert page.view.titles == ('Old', 'New') and page.view.current == 1
  page.do('close_tab')
  assert page.view.titles == ('Old',)


def test_pages_close_tabs(visit, server):
  server.pages['/new'] = (
      '<title>New</title><button onclick="window.close()">close</button>'
  )
  page = visit(
      '<title>Old</title><button onclick="window.open(\'/new\')">go</button>'
  )
  page.click('go')
  page.click('close')
  assert page.view.titles == ('Old',)
  page.script('window.open("/new", "w"); 1')
  page.do('scroll [up]')
  page.script('setTimeout(() => close(), 10); 1')
  began = time.monotonic()
  page.do('scroll [up]')
  assert page.view.titles == ('Old',) and not page.view.notes
  assert time.monotonic() - began < 2  # nothing waits for a closed page


@pytest.mark.parametrize(
    ('event', 'command'),
    (
        ('onmousedown', 'click [{}]'),
        ('onclick', 'type [{}] [text] [1]'),
        ('onkeydown', 'type [{}] [text] [1]'),
        ('onmousemove', 'hover [{}]'),
        ('onfocus', 'press [Tab]'),
    ),
)
def test_pages_close_amid_a_command(visit, server, event, command):
  server.pages['/new'] = f'<input {event}="window.close()" aria-label=last>'
  page = visit(
      '<title>Old</title><button onclick="window.open(\'/new\')">go</button>'
      '<input aria-label=first>'
  )
  page.click('first')
  page.script('document.querySelector("button").click()')
  page.do('scroll [up]')
  page.do(command.format(page.number('last')))
  assert page.view.titles == ('Old',) and not page.view.notes
  assert page.script('document.querySelector("input").value') == ''


def test_the_last_tab_may_be_closed_by_its_page(visit):
  page = visit('<button onclick="window.close()">close</button>')
  page.click('close')
  # Chromium obeys scripts of windows that have no history.
  if page.view.url == 'about:blank':
    page.do('goto [http://site/]')
  assert 'close' in page.text


def test_history_goes_to_its_ends(visit, server):
  server.pages['/b'] = '<p>page b</p>'
  page = visit('<p>page a</p>', path='/a')
  for command in ('go_back', 'go_forward'):
    with pytest.raises(Refused, match='no page to go'):
      page.do(command)
  page.do('goto [http://site/b]')
  assert 'page a' in page.do('go_back')
  with pytest.raises(Refused, match='go back'):
    page.do('go_back')
  assert 'page b' in page.do('go_forward')
  with pytest.raises(Refused, match='go forward'):
    page.do('go_forward')


def test_goto_says_why_not(visit, server):
  page = visit('<p>here</p>')
  for url in (
      'http://127.0.0.1:9/', 'file:///etc/passwd', 'javascript:alert(1)',
      'about:blank', 'chrome://version', 'http://example.com', '',
      'view-source:http://site/', 'data:text/html,x', '\ud800', 'a b',
  ):  # fmt: skip
    with pytest.raises(Refused):
      page.do(f'goto [{url}]')
  assert page.view.url == f'{server.url}/'
  assert 'no such page' in page.do('goto [http://site/none]')
  assert 'here' in page.do('goto [site]')
  assert 'here' in page.do(f'goto [{server.url}/#part]')
