"""Tests for agentrl.data.report."""

import dataclasses
import io
import re

import pytest
from rich.console import Console

from agentrl.data import report
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


def test_token_texts_spell_control_tokens_out():
  tokenizer = tokenizer_lib.train_bpe(['go to the door'], vocab_size=280)
  ids = tokenizer.encode('<|im_end|>go', allow_special=True)
  texts = report.token_texts(tokenizer, ids)
  assert texts[0] == '<|im_end|>' and ''.join(texts[1:]) == 'go'
