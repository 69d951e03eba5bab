"""Tests for requests in the form of HAR entries."""

import json

import pytest

from agentrl.envs.webarena.public import events
from agentrl.errors import EnvError
from tests.envs.webarena.public import traces

FORM = 'application/x-www-form-urlencoded; charset=utf-8'
PARTS = (
    '--mark\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
    '--mark\r\nContent-Type: text/plain\r\n'
    'content-disposition: form-data; name="b"; filename="x"\r\n\r\n2\n3\r\n'
    '--mark\r\nno head\r\n--mark--\r\n'
)


def posting(kind, text):
  return {'request': {'postData': {'mimeType': kind, 'text': text}}}


@pytest.mark.parametrize(
    'kind,text,fields',
    [
        (FORM, 'a=1&b=&a=2&c=x+y', {'a': '1', 'b': '', 'c': 'x y'}),
        ('application/json', '{"a": [1]}', {'a': [1]}),
        ('application/json', '[1]', None),
        ('application/json', '{', None),
        pytest.param('application/json', '[' * 10**5, None, id='deep'),
        ('multipart/form-data; boundary=mark', PARTS, {'a': '1', 'b': '2\n3'}),
        ('multipart/form-data', PARTS, None),
        ('text/plain', 'a=1', None),
        (FORM, '', None),
    ],
)
def test_fields_of_what_was_posted(kind, text, fields):
  assert events.posted(posting(kind, text)) == fields


def test_nothing_was_posted_or_answered():
  assert events.posted({'request': {}}) is None
  assert events.answered({'response': {}}) is None
  content = {'mimeType': 'application/json', 'text': '{"n": 5}'}
  assert events.answered({'response': {'content': content}}) == {'n': 5}


def test_the_parts_of_an_entry():
  entry = traces.entry(
      'POST', 'http://x.test/a', {'Accept': 'x', 'Referer': 'y'}
  )
  assert events.url_of(entry) == 'http://x.test/a'
  assert events.method(entry) == 'POST' and events.status(entry) == 200
  assert events.headers(entry) == {'accept': 'x', 'referer': 'y'}
  entry['response']['cookies'] = [
      {'name': 'a', 'value': 'x%20y'},
      {'name': 'b'},
  ]
  assert events.cookies(entry) == {'a': 'x y', 'b': ''}


@pytest.mark.parametrize(
    'url,counts',
    [
        ('http://x.test/a', True),
        ('http://x.test/a.css', False),
        ('http://x.test/a.js?v=1', False),
        ('http://x.test/a.json', True),
        ('http://x.test/?file=a.png', True),
        ('http://x.test/a.png/more', True),
    ],
)
def test_parts_of_pages_do_not_count(url, counts):
  assert events.counts(traces.entry('GET', url, {})) is counts


BY_HAND = {
    'Accept': 'text/html,*/*',
    'Sec-Fetch-Dest': 'document',
    'Sec-Fetch-Mode': 'navigate',
    'Sec-Fetch-User': '?1',
}


@pytest.mark.parametrize(
    'method,changed,navigates',
    [
        ('GET', {}, True),
        ('POST', {}, False),
        ('GET', {'Sec-Fetch-Dest': 'iframe'}, False),
        ('GET', {'Sec-Fetch-Mode': 'cors'}, False),
        ('GET', {'Sec-Fetch-User': '?0'}, False),
        ('GET', {'Accept': 'application/json'}, False),
        # Chromium leaves it out where a script opened the page.
        ('GET', {'Sec-Fetch-User': None}, True),
        ('GET', {'Sec-Fetch-User': None, 'Accept': '*/*'}, False),
    ],
)
def test_navigation(method, changed, navigates):
  headers = {k: v for k, v in {**BY_HAND, **changed}.items() if v is not None}
  entry = traces.entry(method, 'http://x.test/', headers)
  assert events.is_navigation(entry) is navigates


FIELDS = {
    'id': 7,
    'a-b': 'dash',
    'item': {'list': [{'id': 1, 'n': 'x'}, {'id': 2, 'n': 'y'}, {'id': 2}]},
    'text': '{"inner": {"n": 5}}',
    'deep': '[' * 10**5,
    'note[a]': 'p',
    'note[b]': 'q',
}


@pytest.mark.parametrize(
    'key,value',
    [
        ('$.id', 7),
        ("$['a-b']", 'dash'),
        ('$.item.list[0].n', 'x'),
        ('$.item.list[5].n', None),
        ('$.item.none', None),
        ('$.id.n', None),
        ('$.item.list[?(@.id == 1)].n', ('x',)),
        ('$.item.list[?(@.id == 3)].n', None),
        ('$.text.inner.n', 5),  # JSON in a text is opened
        (r'^note\[a\]$', 'p'),
        (r'$.^note\[.\]$', ('p', 'q')),
        ('^none$', None),
    ],
)
def test_paths(key, value):
  events.check_path(key)
  assert events.is_path(key)
  assert events.at(FIELDS, key) == value


@pytest.mark.parametrize('key', ['$.a[*]', '$..a', '$.a[-1]', '$a', '$.a.'])
def test_paths_of_unknown_forms_are_refused(key):
  with pytest.raises(ValueError, match='of an unknown form'):
    events.check_path(key)


def test_a_har_file(tmp_path):
  path = tmp_path / 'x.har'
  path.write_text(json.dumps({'log': {'entries': [1]}}))
  assert events.read_har(path) == [1]
  for text in ('', '{}', '[]', '{"log": {"entries": {}}}', '{"log": 5}'):
    path.write_text(text)
    with pytest.raises(EnvError, match='HAR file'):
      events.read_har(path)
  with pytest.raises(EnvError, match='cannot be read as a HAR file'):
    events.read_har(tmp_path / 'none.har')
