"""What addresses pages may reach, as a check of what policies write."""

import re
import urllib.parse

import pytest
from hypothesis import example, given, strategies as st

from agentrl.envs.web.commands import Refused
from agentrl.envs.web.hosts import Hosts
from agentrl.errors import ConfigError

REAL = 'http://127.0.0.1:8080'
SHOP = 'http://127.0.0.1:7770'
SITES = Hosts.of({'http://site': REAL, 'http://shop': SHOP})

HOSTILE = (
    # Other schemes.
    'javascript:alert(1)', 'javascript://site/%0aalert(1)', 'JavaScript:1',
    'data:text/html,x', 'data:text/html;base64,eA==', 'file:///etc/passwd',
    'file://site/etc/passwd', 'view-source:http://site/', 'about:blank',
    'view-source:http://127.0.0.1:8080/', 'blob:http://127.0.0.1:8080/1-2-3',
    'filesystem:http://site/temporary/x', 'chrome://version', 'chrome:version',
    'ws://127.0.0.1:8080', 'ftp://127.0.0.1:8080', 'http:/site', 'http:site',
    'devtools://devtools', 'about:srcdoc', '//site', '///site', 'http://',
    # Other names of the same machine, and other machines.
    'http://localhost:8080', 'http://0.0.0.0:8080', 'http://0:8080',
    'http://2130706433:8080', 'http://0x7f000001:8080', 'http://0x7f.1:8080',
    'http://017700000001:8080', 'http://127.1:8080', 'http://127.0.1:8080',
    'http://127.0.0.1.:8080', 'http://0127.0.0.1:8080', 'http://[::1]:8080',
    'http://[::ffff:127.0.0.1]:8080', 'http://[::]:8080', 'http://site.',
    'http://127.0.0.2:8080', 'http://example.com', 'http://10.0.0.1:8080',
    'http://169.254.169.254/latest/meta-data', 'http://127.0.0.1.nip.io:8080',
    # Other ports.
    'http://127.0.0.1', 'http://127.0.0.1:80', 'http://127.0.0.1:9',
    'http://127.0.0.1:80800', 'http://127.0.0.1:8080808', 'http://site:8080',
    'http://127.0.0.1:0', 'http://127.0.0.1:-1', 'http://127.0.0.1:８０８０',
    'http://127.0.0.1:8080x', 'https://site', 'http://127.0.0.1: 8080',
    # What begins or ends like an allowed address.
    'http://127.0.0.1:8080@evil:80/', 'http://127.0.0.1:8080:80@evil/',
    'http://evil@127.0.0.1:8080/', 'http://@127.0.0.1:8080/', 'http://:@site/',
    'http://site@evil', 'http://site:x@evil', 'http://site.evil', 'http://sit',
    'http://sitex/', 'http://evilsite', 'http://evil/http://site/',
    'http://evil?http://site', 'http://evil#@site', 'http://evil#site',
    'http://127.0.0.1:8080\\@evil', 'http://evil\\@127.0.0.1:8080',
    'http://site\\.evil', 'http:\\\\site', 'http://evil\\.site/',
    'http://127.0.0.1:8080;@evil', 'http://127.0.0.1:8080%2f@evil',
    'http://127.0.0.1%00:8080', 'http://127.0.0.1%2eevil:8080',
    'http://[127.0.0.1]:8080', 'http://[site]', 'http://[', 'http://]',
    # White space and control characters, of which parsers drop some.
    ' http://127.0.0.1:8080', 'http://127.0.0.1:80\t80', 'http://127.0.0.1\n',
    'java\tscript://site', '\x00http://site', 'http://si\nte', 'http://site\x00',
    'http://ev\u00adil/', 'http://site\u3000.evil', 'http://site /',
    # Characters that become others.
    'http://ｓｉｔｅ', 'http://127。0。0。1:8080', 'http://１２７.0.0.1:8080',
    'http://ſite', 'http://sıte', 'http://s\u200dite', 'http://ѕite',
    'http://site⁄', 'http://site∕x', 'http://evil／@site', 'http://site℀.evil',
    'http://xn--', '', '.', ':', '@', '\ud800', 'http://\ud800',
)  # fmt: skip


def leads_elsewhere(url):
  """Whether Chromium would leave the sites for an address that was let pass."""
  # As the WHATWG's standard has it, told apart by hand: scheme, then what is
  # before a slash, a backslash, `?` or `#`.
  found = re.fullmatch(r'http://([^/\\?#]*)([/?#].*)?', url, re.DOTALL)
  return found is None or found[1] not in ('127.0.0.1:8080', '127.0.0.1:7770')


@pytest.mark.parametrize('url', HOSTILE)
def test_addresses_elsewhere_are_refused(url):
  with pytest.raises(Refused) as refusal:
    SITES.check(url)
  assert len(str(refusal.value)) < 400


PARTS = st.sampled_from(
    ['http://', 'https://', 'HTTP://', 'javascript:', 'site', 'shop', 'evil',
     '127.0.0.1:8080', '127.0.0.1', ':8080', ':7770', ':80', ':', '/', '//',
     '\\', '@', '?', '#', '.', '%2f', '%40', '[', ']', '::1', ' ', '\t', '\n',
     '\x00', '。', '／', '℀', 'ſ', '\u00ad', '\u200b', '\ud800', ';', 'x']
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(PARTS).map(''.join)))
@example('http://site')
@example('HTTP://SITE:80/x')
def test_what_passes_stays_on_the_sites(text):
  try:
    url = SITES.check(text)
  except Refused:
    return
  assert not leads_elsewhere(url), url
  assert SITES.check(url) == url


@pytest.mark.parametrize(
    'text, real',
    (
        ('http://site', REAL),
        ('http://site/', f'{REAL}/'),
        ('site', REAL),
        ('site/a/b?c=d&e=http://x#f', f'{REAL}/a/b?c=d&e=http://x#f'),
        ('http://site?q', f'{REAL}?q'),
        ('http://site#part', f'{REAL}#part'),
        ('HTTP://Site/Path', f'{REAL}/Path'),
        ('http://site:80/x', f'{REAL}/x'),
        ('http://shop/x', f'{SHOP}/x'),
        (f'{REAL}/x', f'{REAL}/x'),
        ('127.0.0.1:7770/x', f'{SHOP}/x'),
        ('http://site/@evil', f'{REAL}/@evil'),
        ('http://site/%00', f'{REAL}/%00'),
    ),
)
def test_public_addresses_become_real_ones(text, real):
  assert SITES.check(text) == real


@given(
    st.text(st.characters(exclude_categories=('Cs',), exclude_characters='\\'))
)
def test_any_path_of_a_site_is_let_pass(path):
  path = urllib.parse.quote(path)
  assert SITES.check(f'http://site/{path}') == f'{REAL}/{path}'


def test_a_refusal_names_the_sites():
  with pytest.raises(Refused, match='evil:80.*http://site, http://shop'):
    SITES.check('http://evil')


def test_public_origins_are_shown():
  shown = SITES.shown(f'see {REAL}/a and {SHOP}, not {REAL}1 or {REAL}.evil')
  assert shown == (
      f'see http://site/a and http://shop, not {REAL}1 or {REAL}.evil'
  )


@pytest.mark.parametrize(
    'url',
    ('ftp://x', 'x', '', 'http://', 'http://*', 'http://a;b', 'http://a,b',
     'http://u@h', 'http://h:99999', 'http://a b', 'file:///x'),
)  # fmt: skip
def test_sites_have_plain_addresses(url):
  with pytest.raises(ConfigError):
    Hosts.of({'http://site': url})
  with pytest.raises(ConfigError):
    Hosts.of({url: REAL})


def test_flags_let_only_the_sites_pass():
  hosts = Hosts.of({
      'http://a': 'http://127.0.0.1:1',
      'http://b': 'http://shop.test:2',
      'http://c': 'http://[::1]:3',
  })
  flags = dict(flag.split('=', 1) for flag in hosts.flags(9))
  assert flags['--proxy-server'] == 'http://127.0.0.1:9'
  assert set(flags['--proxy-bypass-list'].split(';')) == {
      '<-loopback>', '127.0.0.1:1', 'shop.test:2', '[::1]:3'
  }  # fmt: skip
  assert flags['--host-resolver-rules'].startswith('MAP * ~NOTFOUND,')
