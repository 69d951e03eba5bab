"""Tests for agentrl.envs.actions and prompts."""

import pytest
from hypothesis import given, strategies as st

from agentrl.envs import ENVS, actions, prompts


@pytest.mark.parametrize(
    'text, action',
    [
        ('Thought: I need logs.\nAction: get 1 oak logs', 'get 1 oak logs'),
        ('Thought:\nhm\n\nAction:\nturn left', 'turn left'),
        ('Action: go to red ball 1 \nand then some', 'go to red ball 1'),
        ('Action:turn left', 'turn left'),
    ],
)
def test_react_takes_the_line_after_the_only_action(text, action):
  assert actions.parse('react', text) == (action, None)


@pytest.mark.parametrize(
    'text, error',
    [
        ('turn left', 'there is no "Action:"'),
        ('action: turn left', 'there is no "Action:"'),
        ('', 'there is no "Action:"'),
        ('Action: a\nAction: b', 'it has 2 times "Action:"'),
        ('Thought: done\nAction:  \n ', 'nothing follows "Action:"'),
    ],
)
def test_react_says_why_it_found_none(text, error):
  action, why = actions.parse('react', text)
  assert action == '' and why.startswith(error)


def test_plain_is_the_first_line_with_words():
  assert actions.parse('plain', ' \n turn left \nso there') == (
      'turn left',
      None,
  )
  assert actions.parse('plain', ' \n') == ('', 'it is empty.')


def test_raw_is_the_whole_completion():
  text = '<think>\nhm\n</think>\n<search>Peru</search>'
  assert actions.parse('raw', f' {text}\n') == (text, None)
  assert actions.parse('raw', ' \n') == ('', 'it is empty.')


@given(st.sampled_from(sorted(actions.FORMATS)), st.text())
def test_parsing_never_fails_and_gives_an_action_or_a_reason(format, text):
  action, error = actions.parse(format, text)
  assert bool(action) != bool(error)
  assert action == action.strip() and (format == 'raw' or '\n' not in action)


def test_unknown_formats_are_refused():
  with pytest.raises(ValueError, match='known: react, plain, raw'):
    actions.parse('xml', 'a')


@pytest.mark.parametrize('env_name', ENVS)
@pytest.mark.parametrize('format', actions.FORMATS)
def test_every_environment_has_instructions_for_every_format(env_name, format):
  full = prompts.instructions(env_name, format)
  compact = prompts.instructions(env_name, format, 'compact')
  assert len(compact) < 60 < len(full)
  assert ('Action:' in full) == (format == 'react')


@pytest.mark.parametrize(
    'args', [('chess', 'react'), ('babyai', 'xml'), ('babyai', 'react', 'x')]
)
def test_unknown_instructions_are_refused(args):
  with pytest.raises(ValueError, match='No instructions for .*; known: '):
    prompts.instructions(*args)
