"""Tests for agentrl.data.report and agentrl.data.report_html."""

import dataclasses
import html.parser
import io
import re

import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from agentrl.data import report, report_html
from agentrl.data.report import Span, TokenTable
from agentrl.text import tokenizer as tokenizer_lib
from tests import fakes

# Two turns: mask 0000 11 0 11 0 over ids 0..9.
EPISODE = fakes.make_episode((0.0, 1.0))


def make_table(episode=EPISODE, **columns):
  on = [float(value) for value in episode.completion_mask]
  values = dict(
      texts=[f'w{i} ' for i in range(len(episode.tokens))],
      rewards=[0.0] * 8 + [1.0, 0.0],
      returns=on,
      advantages=[0.75 * x for x in on],
      old_logprobs=[-0.51 * x for x in on],
  )
  return TokenTable(episode, **(values | columns))


def print_terminal(*tables):
  file = io.StringIO()
  console = Console(file=file, width=120, force_terminal=True)
  console.print(report.terminal(tables))
  return file.getvalue()


class Elements(html.parser.HTMLParser):
  """Collects tags, their attributes and the text outside of tags."""

  def __init__(self, page):
    super().__init__()
    self.tags, self.text = [], ''
    self.feed(page)

  def handle_starttag(self, tag, attrs):
    self.tags.append((tag, dict(attrs)))

  def handle_data(self, data):
    self.text += data

  def spans(self, kind):
    return [
        attrs
        for tag, attrs in self.tags
        if tag == 'span' and 'title' in attrs and kind in attrs['class'].split()
    ]


def test_spans_cut_where_the_mask_changes():
  assert report.spans(EPISODE) == [
      Span(0, 4, None),
      Span(4, 6, 0),
      Span(6, 7, None),
      Span(7, 9, 1),
      Span(9, 10, None),
  ]


def test_healthy_episode_has_no_problems():
  assert report.problems(make_table()) == []


def at(index, value):
  return [value if i == index else 0.0 for i in range(10)]


@pytest.mark.parametrize(
    'change, message',
    [
        (
            {'advantages': at(6, 1.0)},
            '1 tokens that nobody .* advantage.* at 6',
        ),
        ({'old_logprobs': at(0, -1.0)}, 'nobody sampled have a old_logprob'),
        ({'returns': at(4, float('nan'))}, 'a return that is no number.* at 4'),
        ({'rewards': at(8, 2.0)}, 'sum to 2, those of the turns to 1'),
        # A reward on the last observation, where no scan would find it.
        ({'rewards': at(9, 1.0)}, 'have a reward, first the one at 9'),
    ],
)
def test_misaligned_array_is_a_problem(change, message):
  [problem] = report.problems(make_table(**change))
  assert re.search(message, problem)


def test_mask_that_disagrees_with_the_turns_is_a_problem():
  mask = list(EPISODE.completion_mask)
  mask[5] = False
  logprobs = [
      x * m for x, m in zip(EPISODE.sampler_logprobs, mask, strict=True)
  ]
  episode = dataclasses.replace(
      EPISODE, completion_mask=tuple(mask), sampler_logprobs=tuple(logprobs)
  )
  problems = report.problems(TokenTable(episode, texts=['x'] * 10))
  assert problems == [
      'The mask has sampled runs of [1, 2] tokens, but the turns sampled'
      ' [2, 2].'
  ]


def test_column_of_another_length_is_refused():
  with pytest.raises(ValueError, match='has 10 tokens, but 9 advantage'):
    make_table(advantages=[0.0] * 9)


def test_episode_without_tokens_is_refused():
  bare = dataclasses.replace(
      EPISODE, tokens=(), completion_mask=(), sampler_logprobs=()
  )
  with pytest.raises(ValueError, match='has no tokens to show'):
    TokenTable(bare, texts=[])


def test_terminal_shows_every_number_of_every_sampled_token():
  printed = print_terminal(make_table())
  plain = re.sub(r'\x1b\[[0-9;]*m', '', printed)
  rows = [line.split() for line in plain.splitlines()]
  assert ['8', '8', 'w8␣', '1', '1', '1', '0.75', '-0.5', '-0.51'] in rows
  assert ['4', '4', 'w4␣', '1', '·', '1', '0.75', '-0.5', '-0.51'] in rows
  assert ['0', '4', 'inserted', '0'] in rows


def test_terminal_says_what_is_wrong():
  printed = print_terminal(make_table(advantages=at(6, 1.0)))
  assert 'PROBLEM: 1 tokens that nobody sampled' in printed


def test_terminal_is_not_commanded_by_an_observation():
  texts = ['\x1b[2J\x1b]0;owned\x07\u202e'] + ['[bold]x[/]'] * 9
  printed = print_terminal(make_table(texts=texts))
  codes = re.findall(r'\x1b(?!\[[0-9;]*m)', printed)  # all but colours
  assert not codes and '\x07' not in printed and '\u202e' not in printed
  assert '\\x1b[2J' in printed
  assert '[bold]x[/]' in printed  # markup of the renderer is text, too


def test_page_marks_each_token_by_its_mask():
  page = Elements(report_html.page([make_table()], title='t'))
  assert len(page.spans('on')) == sum(EPISODE.completion_mask)
  assert len(page.spans('off')) == len(EPISODE.tokens) - 4


def test_page_has_every_number_at_its_token():
  page = Elements(report_html.page([make_table()], title='t'))
  assert page.spans('on')[3]['title'].splitlines() == [
      '8: id 8, mask 1',
      'reward 1',
      'return 1',
      'advantage 0.75',
      'sampler_logprob -0.5',
      'old_logprob -0.51',
  ]


def test_page_colours_by_sign_on_one_scale():
  small = make_table(advantages=[0.1 * x for x in EPISODE.completion_mask])
  large = make_table(advantages=[-0.4 * x for x in EPISODE.completion_mask])
  page = Elements(report_html.page([small, large], title='t'))
  assert {s['style'].split(';')[0] for s in page.spans('up')} == {'--a: 0.20'}
  assert {s['style'].split(';')[0] for s in page.spans('down')} == {'--a: 0.80'}


def test_page_works_without_optional_columns():
  page = report_html.page([TokenTable(EPISODE, texts=['x'] * 10)], title='t')
  assert len(Elements(page).spans('on')) == 4


@given(
    text=st.text(st.characters(), min_size=1, max_size=20)
    | st.sampled_from([
        '<script>alert(1)</script>',
        '" onmouseover="alert(1)',
        '</title></style><img src=x onerror=alert(1)>',
        '<|im_end|>\n<|im_start|>',
        '&lt;b&gt;',
        '\ud800\x00\u202e',
    ])
)
def test_nothing_in_an_episode_becomes_markup(text):
  plain = Elements(report_html.page([make_table()], title='t'))
  turns = tuple(
      dataclasses.replace(turn, parse_error=text, weight_version=text)
      for turn in EPISODE.turns
  )
  episode = dataclasses.replace(
      EPISODE, episode_id=text, env=text, error=text, turns=turns
  )
  page = report_html.page([make_table(episode, texts=[text] * 10)], title=text)
  elements = Elements(page)
  # The same tags with the same attributes, but for the row of the error.
  shape = lambda tags: [
      (tag, sorted(attrs)) for tag, attrs in tags if tag not in ('dt', 'dd')
  ]
  assert shape(elements.tags) == shape(plain.tags)
  assert elements.text.count(report.visible(text)) >= 10
  page.encode('utf-8')


def test_page_needs_nothing_else():
  page = report_html.page([make_table()], title='t')
  tags = {tag for tag, _ in Elements(page).tags}
  assert not tags & {'script', 'link', 'img', 'iframe'}
  assert 'http' not in page and 'url(' not in page


def test_token_texts_spell_control_tokens_out():
  tokenizer = tokenizer_lib.train_bpe(['go to the door'], vocab_size=280)
  ids = tokenizer.encode('<|im_end|>go', allow_special=True)
  texts = report.token_texts(tokenizer, ids)
  assert texts[0] == '<|im_end|>' and ''.join(texts[1:]) == 'go'
