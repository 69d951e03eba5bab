"""Tests for agentrl.rollout.demonstrations."""

import dataclasses
import io
import json

import pytest
import rich.console

from agentrl.data import conversations
from agentrl.errors import DataError
from agentrl.rollout import demonstrations
from agentrl.rollout.agent import Agent
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.types import Conversation, Message
from tests import fakes


@pytest.fixture(scope='module')
def agent():
  texts = ['Walk 3 steps. 2 to go. You arrived. go', 'system user assistant']
  chat = ChatFormat(tokenizer_lib.train_bpe(texts, vocab_size=300))
  return Agent(chat, instructions='Say go.', format='plain')


@pytest.fixture
def console():
  return rich.console.Console(file=io.StringIO(), width=500)


def said(console):
  return console.file.getvalue()


def talk(name, *texts):
  roles = ['user', 'assistant'] * len(texts)
  messages = tuple(Message(r, t) for r, t in zip(roles, texts, strict=False))
  return Conversation(
      name=name,
      env='fake',
      task_id=0,
      messages=messages,
      learn=tuple(m.role == 'assistant' for m in messages),
  )


def convert(agent, found, console, *, max_context=1000):
  return demonstrations.to_episodes(
      agent,
      found,
      max_context=max_context,
      own_opening=False,
      console=console,
  )


def test_broken_records_are_shown_and_counted(tmp_path, console):
  path = tmp_path / 'data.jsonl'
  good = {
      'messages': [
          {'role': 'user', 'content': 'a'},
          {'role': 'assistant', 'content': 'b'},
      ]
  }
  path.write_text('\n'.join([json.dumps(good), *['{broken'] * 12]))
  found = demonstrations.read_files([path], conversations.read, console)
  assert len(found) == 1
  assert said(console).count('Skipped: ') == 10
  assert f'{path}, line 2: ' in said(console)
  assert '1 records, 12 broken' in said(console)


def test_a_file_without_a_good_record_is_an_error_with_the_first(
    tmp_path, console
):
  path = tmp_path / 'data.jsonl'
  path.write_text('{}\n')
  with pytest.raises(DataError, match='no record.*line 1: none of'):
    demonstrations.read_files([path], conversations.read, console)
  path.write_text('')
  with pytest.raises(DataError, match='holds no record that can be used'):
    demonstrations.read_files([path], conversations.read, console)


def test_episodes_are_chosen_by_success_or_return(console):
  bad, fair, good = (fakes.make_episode((x,)) for x in (0.0, 0.4, 1.0))
  fair = dataclasses.replace(fair, success=False)
  words = talk('c', 'a', 'b')
  choose = lambda *found, least=None: demonstrations.worth_imitating(
      found, least, console
  )
  assert choose(bad, fair, good, words) == [good, words]
  assert choose(bad, fair, good, least=0.4) == [fair, good]
  parts = fakes.make_episode((0.01, 0.01, 0.15))  # 0.16999999999999998
  assert choose(bad, parts, least=0.17) == [parts]
  with pytest.raises(DataError, match='2 episodes.*set data.min_return'):
    choose(bad, fair)
  with pytest.raises(DataError, match='a return of at least 2'):
    choose(good, least=2)


def test_what_is_too_long_is_cut_or_left_out_and_counted(agent, console):
  long = talk('long', 'x', 'go', 'on ' * 200, 'go')
  hopeless = talk('hopeless', 'x ' * 200, 'go')
  found = [(talk('short', 'x', 'go'),), (long,), (hopeless,)]
  episodes = convert(agent, found, console, max_context=100)
  assert [e.episode_id for e in episodes] == ['short', 'long']
  assert len(episodes[1].turns) == 1 and len(episodes[1].tokens) <= 100
  assert '1 cut to 100 tokens, 1 left out' in said(console)
  assert 'hopeless: its first completion ends beyond' in said(console)
  with pytest.raises(DataError, match='None of 1 records.*hopeless'):
    convert(agent, found[2:], console, max_context=100)


def test_a_pair_of_which_one_cannot_be_used_is_left_out_whole(agent, console):
  good, bad = talk('good', 'x', 'go'), talk('bad', 'x ' * 200, 'go')
  found = [(good, bad), (good, talk('other', 'x', 'no'))]
  episodes = convert(agent, found, console, max_context=100)
  assert [e.episode_id for e in episodes] == ['good', 'other']


REACT = 'Thought:\nThe ball is near.\n\nAction:\ngo'


def with_format(agent, format):
  return Agent(agent._chat, instructions='', format=format)


@pytest.mark.parametrize(
    'format, text, fits',
    [
        ('plain', REACT, "; 'react' does in 2"),
        ('react', 'go', ''),
        ('tags', REACT, "; 'react' does in 2"),
        ('react', '<action>go</action>', "; 'tags' does in 2"),
        ('plain', '<think>\nso\n</think>\n\n' + REACT, "'react' does in 2"),
    ],
)
def test_demonstrations_that_the_format_cannot_read_are_refused(
    agent, console, format, text, fits
):
  odd = talk('odd', 'a', text, 'b', text)
  with pytest.raises(DataError) as found:
    convert(with_format(agent, format), [(odd,)], console)
  assert (
      f'odd: agent.format={format!r} finds an action in 0 of its 2 completions'
      in str(found.value)
  )
  assert fits in str(found.value)


@pytest.mark.parametrize(
    'format, texts',
    [
        ('plain', ('go', 'go\nstay')),
        ('react', (REACT, 'hm')),  # a slip, as of any policy
        ('raw', (REACT, REACT)),  # for the environment to read
    ],
)
def test_demonstrations_that_can_be_read_are_learnt(
    agent, console, format, texts
):
  first, second = texts
  found = [(talk('good', 'a', first, 'b', second),)]
  assert len(convert(with_format(agent, format), found, console)) == 1


def test_the_worse_of_a_pair_need_not_be_readable(agent, console):
  react = with_format(agent, 'react')
  better, worse = talk('a', 'a', REACT), talk('b', 'a', 'hm')
  assert len(convert(react, [(better, worse)], console)) == 2
  with pytest.raises(DataError, match="b: agent.format='react' finds"):
    convert(react, [(worse, better)], console)
