"""Tests for agentrl.viewer.export, .export_page and .markdown."""

import dataclasses
import html.parser
import json
import re
import urllib.parse
import urllib.request

import pytest
from hypothesis import given, settings, strategies as st

from agentrl.data import episodes as episodes_lib
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.viewer import export, export_page, markdown, record
from tests.viewer import runs

HOSTILE = (
    '<script>alert(1)</script>',
    '</script><img src=x onerror=alert(1)>',
    '<!--<script>',
    '</title></style>',
    '```\n# heading\n````',
    '\ud800\x00\u202e\x1b[2J',
    '" onmouseover="alert(1)',
)


class Elements(html.parser.HTMLParser):
  """Tags and their attributes, and the text in each script."""

  def __init__(self, page):
    super().__init__()
    self.tags, self.scripts = [], []
    self.feed(page)

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, sorted(dict(attrs))))
    if tag == 'script':
      self.scripts.append('')

  def handle_data(self, data):
    if self.tags and self.tags[-1][0] == 'script':
      self.scripts[-1] += data


def readable(text):
  """The text with a mark in place of each half character."""
  return ''.join('\ufffd' if '\ud800' <= c <= '\udfff' else c for c in text)


def source(episode):
  line = episodes_lib.to_line(episode).encode()
  return export.Source(record.decode(line))


def page_of(*episodes, title='t', grouped=False):
  data = export.collect(title, [source(x) for x in episodes], grouped)
  return export_page.page(title, data)


@settings(max_examples=30)
@given(text=st.text(max_size=30) | st.sampled_from(HOSTILE))
def test_nothing_in_an_episode_becomes_markup(text):
  plain = Elements(page_of(runs.episode()))
  turns = tuple(
      runs.turn(i, completion=text, action=text, observation=text,
                parse_error=text, weight_version=text)
      for i in range(3)
  )  # fmt: skip
  hostile = runs.episode(text, made=turns, env=text, error=text, split=text)
  page = page_of(hostile, title=text)
  page.encode('utf-8')
  found = Elements(page)
  assert found.tags == plain.tags
  data = json.loads(found.scripts[0])
  assert data['episodes'][0]['turns'][0]['observation']['text'] == readable(
      text
  )
  assert found.scripts[1] == plain.scripts[1]


def test_a_page_needs_nothing_else():
  page = page_of(runs.episode(), runs.episode('f'), grouped=True)
  tags = {tag for tag, _ in Elements(page).tags}
  assert not tags & {'link', 'img', 'iframe', 'object'}
  assert "default-src 'none'" in page
  script = Elements(page).scripts[1]
  assert not re.search(r'^\s*(import|export)\b', script, re.MULTILINE)
  for name in re.findall(r"modules\['([^']+)'\];", script):
    assert script.index(f"modules['{name}'] =") < script.index(
        f"= modules['{name}'];"
    )


def test_each_run_has_the_texts_of_its_own_tokenizer():
  made = [tokenizer_lib.train_bpe([x], vocab_size=300) for x in ('go', 'no')]
  sources = [
      dataclasses.replace(source(runs.episode(f'e{i}')), tokenizer=tokenizer)
      for i, tokenizer in enumerate([*made, made[0], None])
  ]
  data = export.collect('t', sources, grouped=False)
  assert [x['texts'] for x in data['episodes']] == [0, 1, 0, 2]
  first, second, none = data['texts']
  assert none is None and set(first) == set(range(12))
  assert second[5] == made[1].decode([5], skip_special=False)


def test_long_texts_and_many_turns_are_cut_and_counted():
  turns = tuple(
      runs.turn(i, observation='x' * (30_000 if i == 0 else 1))
      for i in range(600)
  )
  data = export.collect('t', [source(runs.episode(made=turns))], False)
  [one] = data['episodes']
  assert len(one['turns']) == 500 and one['num_turns'] == 600
  seen = one['turns'][0]['observation']
  assert (len(seen['text']), seen['chars']) == (20_000, 30_000)


@pytest.mark.parametrize('text', HOSTILE)
def test_no_text_ends_a_block_of_markdown(text):
  made = (runs.turn(0, observation=text, completion=text),)
  found = markdown.document('t', [record.decode(
      episodes_lib.to_line(runs.episode(made=made)).encode())])  # fmt: skip
  fence, inside = None, []
  for line in found.splitlines():
    opened = re.fullmatch(r'(`{3,})text', line)
    if fence is None and opened:
      fence = opened[1]
    elif line == fence:
      fence = None
    elif fence is not None:
      inside.append(line)
  assert fence is None
  for line in readable(text).splitlines():
    assert line in inside


def test_markdown_of_a_group_begins_with_a_table():
  records = [source(runs.episode(f'a|{i}')).record for i in range(2)]
  found = markdown.document('Group', records)
  assert '| a\\|0 | 0 | no | terminated | 3 |' in found


@pytest.mark.parametrize(
    'run, name',
    [
        ('sweep/seed 0', 'sweep-seed-0-e1-episode.html'),
        ('.', 'e1-episode.html'),
        ('x' * 99, f'{"x" * 60}-e1-episode.html'),
    ],
)
def test_a_file_is_named_by_its_run(tmp_path, viewer, run, name):
  file = 'episodes/train/000000.jsonl'
  runs.write(tmp_path, run, file)
  query = urllib.parse.urlencode(dict(run=run, file=file, line=1))
  with urllib.request.urlopen(
      f'{viewer(tmp_path)}api/export?{query}'
  ) as response:
    assert response.headers.get_filename() == name
