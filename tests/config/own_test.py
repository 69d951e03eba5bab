"""Tests for fields that take a part or a text of one's own."""

import pytest

from agentrl import config as config_lib
from agentrl.config import commandline
from agentrl.errors import ConfigError


def read(*words):
  config = config_lib.defaults('train')
  argv = ['launch.py', *(f'--config.{word}' for word in words)]
  commandline.override(config, argv)
  return config_lib.read(config)


def test_the_text_of_a_file_is_what_is_read_and_recorded(tmp_path):
  path = tmp_path / 'prompt.txt'
  path.write_text('Be quick: one word.\n{environment}\n')
  found = read(f'agent.instructions={path}')
  text = 'Be quick: one word.\n{environment}'
  assert found.agent.instructions == text
  kept = config_lib.record(found)['agent']
  assert kept['instructions'] == text
  # What a run recorded is read again as it is.
  assert read(f'agent.instructions={text}').agent.instructions == text


@pytest.mark.parametrize('name', ['full', 'compact', 'm:f', 'a/b.py:f'])
def test_names_stay_names(name):
  assert read(f'agent.instructions={name}').agent.instructions == name


@pytest.mark.parametrize(
    'content, said',
    [
        (None, r"prompt.txt' is no file, none of full, compact, and no text"),
        (b'', 'prompt.txt is an empty file'),
        (b'\xff\xfe\xfa', "can't decode"),
    ],
)
def test_what_is_no_text_is_refused(content, said, tmp_path):
  path = tmp_path / 'prompt.txt'
  if content is not None:
    path.write_bytes(content)
  with pytest.raises(ConfigError, match=said):
    read(f'agent.instructions={path}')


def test_a_misspelt_style_is_refused():
  with pytest.raises(
      ConfigError, match="agent.instructions='compat' is no file"
  ):
    read('agent.instructions=compat')


@pytest.mark.parametrize(
    'field',
    [
        'agent.format',
        'agent.context.kind',
        'rollout.reward',
        'optim.name',
        'optim.schedule',
    ],
)
def test_parts_of_ones_own_are_taken_and_others_refused(field):
  section, _, name = field.rpartition('.')
  value = read(f'{field}=mine:PART')
  for part in section.split('.'):
    value = getattr(value, part)
  assert getattr(value, name) == 'mine:PART'
  with pytest.raises(ConfigError, match='or module:NAME of your own'):
    read(f'{field}=none')


def test_trackers_of_ones_own():
  found = read("track.to=('tensorboard', 'mine.py:Lines')")
  assert found.track.to == ('tensorboard', 'mine.py:Lines')
  with pytest.raises(ConfigError, match="Unknown track.to='none'"):
    read('track.to=none')
