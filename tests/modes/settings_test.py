"""Tests for agentrl.modes.settings: what a config may and may not say."""

import ast
import dataclasses
import pathlib

import pytest

from agentrl.errors import ConfigError
from agentrl.modes import settings
from configs import babyai_grpo, quickstart, textcraft_grpo


def changed(**fields):
  """The quickstart with fields replaced, `section__name` for nested ones."""
  config = quickstart.get_config('tiny')
  for path, value in fields.items():
    section, _, name = path.partition('__')
    if name:
      setattr(config[section], name, value)
    else:
      config[section] = value
  return config


@pytest.mark.parametrize('module', [quickstart, textcraft_grpo, babyai_grpo])
@pytest.mark.parametrize('arg', [None, 'tiny'])
def test_configs_build_and_every_field_is_known(module, arg):
  config = module.get_config(arg)
  config.lock()
  wanted = settings.read_train(config)
  assert wanted.num_steps == config.num_steps


def test_the_original_horizon_is_the_default():
  wanted = settings.read_train(textcraft_grpo.get_config())
  turns = [wanted.horizon.update(None, s, {})[1] for s in (0, 99, 100, 200)]
  assert turns == [10, 10, 20, 30]


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(rollout__group_size=1), 'group_size=1 gives every episode'),
        (dict(horizon=dict(kind='fixed', turns=(0,))), 'got 0'),
        (dict(horizon=dict(kind='stepwise', turns=(0, 3), every=2)), '0, 3'),
        (dict(horizon=dict(kind='stepwise', turns=(3,), every=0)), 'every=0'),
        (dict(horizon=dict(kind='fixed', turns=(3, 6))), 'stepwise'),
        (dict(horizon=dict(kind='fixed', turns=(3,), every=5)), 'no every'),
        (dict(horizon=dict(kind='growing', turns=(3,))), 'fixed, stepwise'),
        (dict(rollout__temperature=0.0), 'temperature above 0'),
        (dict(rollout__max_context=16), 'no room for a prompt'),
        (dict(algo__name='grpoo'), 'known: grpo'),
        (dict(algo__clip_low=-0.1), 'algo.clip_low must be above 0'),
        (dict(optim__lr=0.0), 'optim.lr must be above 0'),
        (dict(num_steps=0), 'num_steps must be at least 1'),
        (dict(sampler=dict(kind='sglang')), 'needs sampler.urls'),
        (
            dict(sampler=dict(kind='embedded', urls=('http://x',))),
            'no effect',
        ),
        (
            dict(
                rollout=dict(
                    tasks_per_step=2,
                    group_size=2,
                    max_completion_tokens=4,
                    max_context=64,
                    top_p=0.9,
                )
            ),
            'top_p=0.9',
        ),
        (dict(optim=dict(lr=1e-4, learning_rate=1)), 'optim.learning_rate'),
        (dict(extra=dict()), 'Unknown section config.extra'),
        (dict(algo=dict(clip_low=0.1)), 'lacks algo.name'),
        (dict(mesh=dict(sequence=2)), 'not supported'),
        (dict(env=dict(name='babyai', url='http://x', workers=2)), 'workers=2'),
    ],
)
def test_contradictions_are_refused(fields, message):
  with pytest.raises(ConfigError, match=message):
    settings.read_train(changed(**fields))


SECTIONS = [
    value
    for value in vars(settings).values()
    if dataclasses.is_dataclass(value)
]


def attributes_read():
  """Names read from any object but self's, in the modes."""
  for path in pathlib.Path(settings.__file__).parent.glob('*.py'):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        checks_itself = path.name == 'settings.py' and (
            isinstance(node.value, ast.Name) and node.value.id == 'self'
        )
        if not checks_itself:
          yield node.attr


@pytest.mark.parametrize('section', SECTIONS, ids=lambda s: s.__name__)
def test_every_field_that_a_config_may_have_is_read(section):
  fields = {field.name for field in dataclasses.fields(section)}
  if section is settings.Mesh:
    fields = set()  # read as a whole: the axes of the mesh
  if section is settings.Rollout:
    # Named so that another value can be refused with its reason.
    fields -= {'top_p', 'top_k'}
  assert fields <= set(attributes_read())
