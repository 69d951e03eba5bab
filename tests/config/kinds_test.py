"""A flag that chooses another kind drops the file's fields of the old one."""

import pytest

from agentrl.config import commandline, read
from agentrl.errors import ConfigError

QUICKSTART = 'configs/quickstart.py'


def chosen(named, *given):
  config = commandline.load(named)
  commandline.override(config, ['x', *(f'--config.{x}' for x in given)])
  return config


@pytest.mark.parametrize(
    'named, given, dropped',
    [
        (QUICKSTART, ('horizon.kind=success',), {'horizon.every': 0}),
        (
            QUICKSTART,
            ('horizon.kind=fixed', 'horizon.turns=6'),
            {'horizon.every': 0},
        ),
        (QUICKSTART, ("horizon={'kind': 'success', 'turns': (3, 6)}",), {}),
        (
            QUICKSTART,
            ('env.name=textcraft',),
            {'env.options.levels': None, 'env.options.style': None},
        ),
        (
            QUICKSTART,
            ('env.name=mine:SPEC',),
            {'env.options.levels': None, 'env.options.style': None},
        ),
        (
            f'{QUICKSTART}:algo=ppo',
            ('algo.name=grpo',),
            {'algo.critic': None},
        ),
        (
            'configs/textcraft_grpo.py',
            ('model.name=smollm2-135m',),
            {'model.vocab_size': None},
        ),
    ],
)
def test_fields_of_the_old_kind_are_dropped(named, given, dropped):
  config = chosen(named, *given)
  made = read(config)
  for path, value in dropped.items():
    *sections, name = path.split('.')
    section = config
    for part in sections:
      section = section[part]
    assert section.get(name) == value, path
  assert made.horizon.turns in ((3, 6), (6,), (10, 20, 30))


def test_what_the_new_kind_has_stays():
  config = chosen(QUICKSTART, 'horizon.kind=linear')
  assert (config.horizon.every, config.horizon.turns) == (10, (3, 6))
  config = chosen(QUICKSTART, 'env.name=babyai')
  assert config.env.options.style == 'compact'


@pytest.mark.parametrize(
    'given, words',
    [
        (('horizon.kind=success', 'horizon.every=5'), 'horizon.every=5 has no'),
        (
            ('env.name=textcraft', 'env.options.style=compact'),
            "env.options.style='compact' has no effect",
        ),
        (('algo.name=grpo', 'algo.critic.warmup=3'), 'has no effect'),
    ],
)
def test_what_the_user_set_is_refused(given, words):
  with pytest.raises(ConfigError, match=words):
    read(chosen(QUICKSTART, *given))


def test_a_file_that_contradicts_itself_is_refused():
  config = commandline.load(QUICKSTART)
  config.horizon.kind = 'success'
  with pytest.raises(ConfigError, match='horizon.every=10 has no effect'):
    read(config)
