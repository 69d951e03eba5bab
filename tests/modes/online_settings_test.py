"""What a config of mode 'train' may and may not say."""

import ast
import dataclasses
import pathlib

import pytest

from agentrl.algos import ONLINE, dpo
from agentrl.errors import ConfigError
from agentrl.modes import offline_settings, online_settings, settings
from configs import (
    algorithms,
    babyai_grpo,
    quickstart,
    sciworld_grpo,
    searchqa_grpo,
    textcraft_grpo,
    textcraft_ppo,
    textcraft_reinforce_pp,
    textcraft_rloo,
)
from tests import variants


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


TRAINING = [
    quickstart,
    textcraft_grpo,
    textcraft_ppo,
    textcraft_rloo,
    textcraft_reinforce_pp,
    babyai_grpo,
    sciworld_grpo,
    searchqa_grpo,
]


@pytest.mark.parametrize('module', TRAINING)
@pytest.mark.parametrize('arg', [None, 'tiny'])
def test_configs_build_and_every_field_is_known(module, arg):
  config = module.get_config(arg)
  config.lock()
  wanted = online_settings.read_train(config)
  assert wanted.num_steps == config.num_steps


def test_searchqa_has_both_of_the_originals_horizons():
  for arg, last in (('', 10), ('horizon=fixed', 5)):
    wanted = online_settings.read_train(searchqa_grpo.get_config(arg))
    state = wanted.horizon.init()
    assert wanted.horizon.update(state, 0, {})[1] == 5
    assert wanted.horizon.update(state, 400, {})[1] == last


@pytest.mark.parametrize('algo', algorithms.ALGORITHMS)
@pytest.mark.parametrize('tiny', ['', ',tiny'])
def test_the_quickstart_takes_every_algorithm(algo, tiny):
  config = quickstart.get_config(f'algo={algo}{tiny}')
  wanted = online_settings.read_train(config).algo
  knobs = dataclasses.asdict(wanted.knobs)
  for name, value in config.algo.items():
    if name not in ('name', 'critic'):
      assert {**vars(wanted), **knobs}[name] == value


def test_an_unknown_algorithm_names_the_known_ones():
  with pytest.raises(ValueError, match="'grppo'; known: grpo, dr_grpo"):
    quickstart.get_config('algo=grppo')


@pytest.mark.parametrize(
    'algo, message',
    [
        (dict(name='grpo', gamma=0.9), 'gamma has no effect .* gigpo'),
        (dict(name='rloo', normalise_std=False), 'acts in grpo, gigpo'),
        (dict(name='grpo', critic=dict(lr=1e-3)), 'no critic'),
        (dict(name='ppo', critic=dict(kind='mine')), 'own, shared'),
        (dict(name='ppo', critic=dict(rate=1)), 'algo.critic.rate'),
        (dict(name='grpo', clip_high=0.3), 'keeps every ratio at 1'),
        (dict(name='grpo', ratio_level='sequence'), 'every ratio at 1'),
        (dict(name='grpo', surrogate='cispo'), 'every ratio at 1'),
        (dict(name='grpo', kl_in='reward'), 'kl_coef=0'),
        (dict(name='grpo', kl_target=0.1), 'kl_coef=0'),
        (dict(name='grpo', kl_coef=0.1, kl_horizon=5), 'kl_target is not set'),
        (dict(name='grpo', refill_rounds=1), "not 'refill'"),
        (dict(name='grpo', aggregation='constant'), 'aggregation_constant'),
        (dict(name='grpo', aggregation_constant=7.0), "not 'constant'"),
        (dict(name='grpo', aggregation='median'), 'token, sequence'),
        (dict(name='grpo', sequence_low=0.9), 'set both'),
        (
            dict(name='grpo', ratio='sampler', importance_cap=2.0),
            "sampler's word already",
        ),
        (
            dict(name='grpo', minibatches=2, surrogate='cispo', dual_clip=3.0),
            'clips no token',
        ),
        (dict(name='grpo', minibatches=2, dual_clip=1.0), 'above 1'),
        (dict(name='grpo', normalise_std=False, ddof=0), 'divides by nothing'),
        (
            dict(name='reinforce_pp', group_baseline=True, gamma=0.9),
            'whole returns',
        ),
        (
            dict(
                name='grpo',
                ratio='sampler',
                sequence_low=0.9,
                sequence_high=1.1,
            ),
            "sampler's word already",
        ),
        (
            dict(name='grpo', sequence_low=1.1, sequence_high=0.9),
            'sequence_high must be above 1.1',
        ),
        (dict(name='grpo', importance_cap=0.0), 'cap must be above 0'),
        (dict(name='grpo', clip_low=0.1), 'keeps every ratio at 1'),
        (dict(name='grpo', dual_clip=3.0), 'keeps every ratio at 1'),
        (dict(name='grpo', minibatches=2, clip_low=1.0), 'never clips'),
        (dict(name='grpo', minibatches=2, clip_high=0.0), 'clip_high must be'),
        (dict(name='grpo', surrogate='mine'), 'clip, cispo'),
        (dict(name='grpo', ratio_level='turn'), 'token, sequence'),
        (dict(name='grpo', ratio='new'), 'old, sampler'),
        (dict(name='grpo', truncated='drop'), 'keep, mask'),
        (dict(name='grpo', entropy_coef=-1.0), 'entropy_coef must be'),
        (dict(name='grpo', kl_coef=-1.0), 'kl_coef must be'),
        (dict(name='grpo', kl_estimator='k1'), 'kl_coef=0'),
        (dict(name='grpo', kl_coef=0.1, kl_estimator='k4'), 'k1, k2, k3'),
        (dict(name='grpo', kl_coef=0.1, kl_in='both'), 'loss, reward'),
        (dict(name='grpo', kl_coef=0.1, kl_target=0.0), 'above 0'),
        (
            dict(name='grpo', kl_coef=0.1, kl_target=0.1, kl_horizon=0),
            'kl_horizon must be',
        ),
        (dict(name='grpo', ties='refill', refill_rounds=0), 'rounds must be'),
        (dict(name='grpo', epochs=0), 'epochs must be'),
        (dict(name='grpo', minibatches=0), 'minibatches must be'),
        (dict(name='grpo', minibatches=10_000), 'exceed the'),
        (dict(name='grpo', overlong_buffer=-1), 'overlong_buffer must be'),
        (dict(name='grpo', ddof=2), 'ddof must be 0 or 1'),
        (
            dict(name='gigpo', normalise_std=False, ddof=0),
            'divides by nothing',
        ),
        (dict(name='gigpo', step_weight=-1.0), 'step_weight must be'),
        (dict(name='gigpo', step_weight=0.0, gamma=0.9), 'leaves turns out'),
        (dict(name='ppo', gamma=-0.1), r'gamma must be in \[0, 1\]'),
        (dict(name='ppo', gamma=0.0, lam=0.5), 'ends every trace'),
        (dict(name='ppo', value_clip=0.1), 'where the old values are'),
        (dict(name='ppo', value_clip=None), 'where the old values are'),
        (
            dict(name='ppo', ratio='sampler', value_clip=0.1),
            'where the old values are',
        ),
        (dict(name='ppo', minibatches=2, value_clip=-0.1), 'value_clip must'),
        (dict(name='ppo', value_coef=0.0), 'value_coef must be above 0'),
        (dict(name='ppo', critic=dict(lr=0.0)), 'critic.lr must be'),
        (dict(name='ppo', critic=dict(grad_clip=0.0)), 'critic.grad_clip'),
        (dict(name='ppo', critic=dict(warmup=-1)), 'critic.warmup must be'),
        (dict(name='ppo', critic=dict(warmup=70)), 'none of the num_steps'),
        (dict(name='ppo', lam=1.5), r'lam must be in \[0, 1\]'),
        (dict(name='grpo', overlong_buffer=1024), 'shorter than'),
        (dict(name='grpo', ties='drop'), 'keep, mask, refill'),
        (dict(name='grpo', knobs=1), 'into config.algo itself'),
    ],
)
def test_a_knob_that_cannot_act_is_refused_with_the_reason(algo, message):
  config = changed()
  config.algo = algo
  with pytest.raises(ConfigError, match=message):
    online_settings.read_train(config)


def names(cls):
  return [field.name for field in dataclasses.fields(cls)]


@pytest.mark.parametrize(
    'algorithm, knob',
    [(name, knob) for name in ONLINE for knob in names(ONLINE[name].Knobs)],
)
def test_a_knob_that_can_act_is_taken(algorithm, knob):
  # Whether it does is asked in tests/algos/knobs_test.py, of the same values.
  base, value = variants.CHANGES[knob]
  config = changed()
  config.algo = {'name': algorithm, 'minibatches': 2} | base | {knob: value}
  if knob == 'kl_estimator':
    config.algo.kl_coef = 0.1
  assert getattr(online_settings.read_train(config).algo.knobs, knob) == value


@pytest.mark.parametrize(
    'algorithm, knob',
    [
        (name, knob)
        for name in ONLINE
        for knob in variants.CHANGES
        if knob not in names(ONLINE[name].Knobs)
    ],
)
def test_a_knob_of_another_algorithm_is_refused(algorithm, knob):
  config = changed()
  config.algo = {'name': algorithm, knob: variants.CHANGES[knob][1]}
  owner = next(n for n in ONLINE if knob in names(ONLINE[n].Knobs))
  with pytest.raises(ConfigError, match=f'{knob} has no effect .*{owner}'):
    online_settings.read_train(config)


@pytest.mark.parametrize(
    'fields',
    [
        dict(epochs=2),
        dict(minibatches=2),
        dict(ratio='sampler'),
        dict(kl_coef=0.1),
        dict(kl_coef=0.1, kl_in='reward'),
        dict(kl_coef=0.1, kl_target=0.1),
        dict(kl_coef=0.1, kl_target=0.1, kl_horizon=99),
        dict(ties='mask'),
        dict(ties='refill', refill_rounds=1),
        dict(truncated='mask'),
        dict(overlong_buffer=16),
    ],
    ids=lambda fields: '-'.join(fields),
)
@pytest.mark.parametrize('algorithm', ONLINE)
def test_every_algorithm_takes_what_all_share(algorithm, fields):
  # That each acts is asked in tests/training/rl_test.py.
  config = changed()
  config.algo = {'name': algorithm} | fields
  algo = online_settings.read_train(config).algo
  assert {name: getattr(algo, name) for name in fields} == fields


@pytest.mark.parametrize('algorithm', ['ppo', 'reinforce_pp'])
@pytest.mark.parametrize('ties', ['mask', 'refill'])
def test_ties_need_groups(algorithm, ties):
  config = changed(rollout__group_size=1)
  config.algo = dict(name=algorithm, ties=ties)
  with pytest.raises(ConfigError, match=f"ties='{ties}' .* is every group"):
    online_settings.read_train(config)


def test_algorithms_without_groups_take_single_episodes():
  for name in ('ppo', 'reinforce_pp'):
    config = changed(rollout__group_size=1)
    config.algo = dict(name=name)
    assert online_settings.read_train(config).rollout.group_size == 1
  config.algo = dict(name='reinforce_pp', group_baseline=True)
  with pytest.raises(ConfigError, match='group_size=1'):
    online_settings.read_train(config)


def test_the_original_horizon_is_the_default():
  wanted = online_settings.read_train(textcraft_grpo.get_config())
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
        (dict(optim__name='sgd'), "optim.name='sgd'; known: adamw, adamw8bit"),
        (
            dict(optim=dict(name='adafactor', lr=1.0, b2=0.95)),
            "b2=0.95 has no effect: optim.name='adafactor' has none",
        ),
        (
            dict(optim=dict(name='adamw8bit', lr=1.0, momentum=0.9)),
            "momentum=0.9 has no effect: optim.name='adamw8bit'",
        ),
        (
            dict(optim=dict(name='muon', lr=1.0, b1=0.8, momentum=1.0)),
            r'optim.momentum must be in \[0, 1\)',
        ),
        (
            dict(mesh__offload=('critic',)),
            "mesh.offload='critic'; known: optim",
        ),
        (
            dict(mesh__offload=('reference',), algo__kl_coef=0.0),
            "offload='reference' has no effect: algo.kl_coef=0",
        ),
        (
            dict(model__remat='True'),
            "model.remat='True'; known: none, dots, full",
        ),
        (
            dict(model__attention='cudnn'),
            "model.attention='cudnn'; known: reference, flash",
        ),
        (dict(optim__lr=0.0), 'optim.lr must be above 0'),
        (dict(num_steps=0), 'num_steps must be at least 1'),
        (dict(sampler=dict(kind='sglang')), 'needs one of sampler.urls'),
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
        (dict(env=dict(name='babyai', url='http://x', workers=2)), 'workers=2'),
    ],
)
def test_contradictions_are_refused(fields, message):
  with pytest.raises(ConfigError, match=message):
    online_settings.read_train(changed(**fields))


SECTIONS = {
    value
    for module in (settings, online_settings, offline_settings)
    for value in vars(module).values()
    if dataclasses.is_dataclass(value)
}


def attributes_read():
  """Names read from any object but self's, in the modes."""
  for path in pathlib.Path(settings.__file__).parent.glob('*.py'):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        checks_itself = path.name.endswith('settings.py') and (
            isinstance(node.value, ast.Name) and node.value.id == 'self'
        )
        if not checks_itself:
          yield node.attr


@pytest.mark.parametrize(
    'section', sorted(SECTIONS, key=repr), ids=lambda s: s.__name__
)
def test_every_field_that_a_config_may_have_is_read(section):
  fields = {field.name for field in dataclasses.fields(section)}
  if section is settings.Mesh:
    fields = set()  # read as a whole: the axes of the mesh
  if section is settings.Lora:
    fields = set()  # read as a whole, by models.lora
  if section is settings.Sampler:
    # Read as Sampler.num_slots; named so that a key is refused with its reason.
    fields -= {'slots', 'api_key', 'admin_key'}
  if section is online_settings.Rollout:
    # Named so that another value can be refused with its reason.
    fields -= {'top_p', 'top_k'}
  if section is online_settings.Algo:
    fields -= {'kl_in'}  # read as Algo.kl
  if section is offline_settings.Dpo:
    fields -= vars(dpo.Knobs()).keys()  # read by the loss
  assert fields <= set(attributes_read())
