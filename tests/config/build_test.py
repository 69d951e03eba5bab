"""Defaults, reading, sections, what a run brings, names that are none."""

import copy
import dataclasses
import math
import pickle
import re

import pytest
from ml_collections import ConfigDict

from agentrl import envs, fields
from agentrl.algos.hyperparams import ONLINE
from agentrl.config import (
    MODES,
    brought,
    defaults,
    flat,
    leaves,
    read,
    record,
    usual,
)
from agentrl.errors import ConfigError
from tests.config.refusals import refusal, set_fields

# Without these a mode has nothing to do.
NEEDED = {
    'sft': {'data.expert_episodes': 8},
    'agentevol': {'data.expert_episodes': 8},
    'inspect': {'inspect.episodes': 'e.jsonl'},
    'export': {'checkpoint.path': 'run'},
    'compare': {'compare.plan': True, 'plan.rate': 0.5},
    'doctor': {'doctor.config': 'c.py'},
    'study': {'study.folder': 'runs'},
}


def needed(mode):
  return set_fields(defaults(mode), NEEDED.get(mode, {}))


def value_at(config, path):
  for part in path.split('.'):
    config = config[part]
  return config


# Defaults.


@pytest.mark.parametrize('mode', MODES)
def test_defaults_have_every_field_and_no_other(mode):
  found = set()

  def visit(section, prefix):
    for name, value in section.items():
      if isinstance(value, ConfigDict) and len(value):
        visit(value, f'{prefix}{name}.')
      else:  # no member is in the mixture yet
        found.add(prefix + name)

  config = defaults(mode)
  visit(config, '')
  # The environment's own are added when it is read.
  assert found - {'env.options'} == {'mode', *leaves(mode)}
  assert config.mode == mode


@pytest.mark.parametrize('mode', MODES)
def test_defaults_are_locked(mode):
  with pytest.raises(AttributeError, match='Unknown field nonsense'):
    defaults(mode).nonsense = 1
  for name, section in defaults(mode).items():
    if isinstance(section, ConfigDict):
      with pytest.raises(AttributeError, match=f'field {name}.nonsense'):
        section.nonsense = 1


@pytest.mark.parametrize('mode', MODES)
def test_defaults_have_the_types_of_their_fields(mode):
  config = defaults(mode)
  for path, leaf in leaves(mode).items():
    if path == 'mixture':  # a section of members
      continue
    *parents, name = path.split('.')
    section = value_at(config, '.'.join(parents)) if parents else config
    kind = fields.base_type(leaf.kind)
    if fields.is_optional(leaf.kind) and path not in MODES[mode].BROUGHT:
      # Numbers that may be None are literals on the command line.
      kind = str if kind is str else object
    assert section.get_type(name) is kind, path


@pytest.mark.parametrize('mode', MODES)
def test_defaults_are_what_the_dataclasses_have(mode):
  made = read(needed(mode))

  def check(section, prefix):
    for item in dataclasses.fields(section):
      path, value = prefix + item.name, getattr(section, item.name)
      if dataclasses.is_dataclass(value):
        check(value, f'{path}.')
      elif path == 'env.options':
        assert value == envs.get(section.name).options
      else:
        expected = NEEDED.get(mode, {}).get(path, fields.default(item))
        assert (value, type(value)) == (expected, type(expected)), path

  check(made, '')
  assert type(made) is MODES[mode]


def test_each_algorithm_has_its_own_defaults():
  for name, cls in ONLINE.items():
    config = defaults('train')
    config.algo.name = name
    assert read(config).algo == cls()


def test_two_configs_share_nothing():
  defaults('train').sampler.launch.update(flags={'tp_size': 2})
  defaults('train').env.options.max_depth = 1
  config = defaults('train')
  assert config.sampler.launch.flags == ()
  assert not config.env.options


def test_an_unknown_mode_names_the_known_ones():
  with pytest.raises(ConfigError, match="mode 'trian'; known: train, sft"):
    defaults('trian')
  for values in ({}, {'mode': 'trian'}):
    with pytest.raises(ConfigError, match='Unknown mode .*; known: train'):
      read(ConfigDict(values))


def test_a_mode_that_changed_after_all_is_refused():
  found = refusal(defaults('train'), {'mode': 'sft'})
  assert "gauges has no effect with mode='sft'" in found


# Sections.


def test_what_is_assigned_to_a_section_is_over_its_defaults():
  config = defaults('train')
  config.optim.weight_decay = 0.5
  config.optim = dict(lr=1e-3)
  usually = defaults('train').optim.to_dict()
  assert config.optim.to_dict() == usually | dict(lr=1e-3)
  config.optim = {}
  assert config.to_dict() == defaults('train').to_dict()


def test_what_is_updated_keeps_the_rest():
  config = defaults('train')
  config.optim.update(weight_decay=0.5)
  config.optim.update({'lr': 1e-3})
  config.update(optim=dict(name='muon'), num_steps=7)
  assert config.optim.weight_decay == 0.5 and config.optim.lr == 1e-3
  assert config.optim.name == 'muon' and config.num_steps == 7


def test_a_section_in_a_section_likewise():
  config = defaults('train')
  config.algo = dict(name='ppo', critic=dict(lr=0.5))
  config.algo.critic.warmup = 3
  config.algo.update(critic=dict(grad_clip=2.0))
  critic = read(config).algo.critic
  assert (critic.lr, critic.warmup, critic.grad_clip) == (0.5, 3, 2.0)
  config.algo = dict(name='ppo', critic=dict(lr=0.5))
  assert read(config).algo.critic.warmup == 0


def test_a_section_of_another_config_may_be_assigned():
  one, other = defaults('train'), defaults('sft')
  one.model = dict(name='m', lora=dict(rank=3))
  other.model = one.model
  assert other.model == one.model
  other.model.lora.rank = 4
  assert one.model.lora.rank == 3


def test_a_dict_that_is_a_value_is_none_of_the_sections():
  config = defaults('train')
  for flags in ({'tp_size': 2}, {'dp_size': 3, 'more': {'a': 1}}):
    config.sampler.launch.flags = flags
    assert config.sampler.launch.flags == flags
  config.sampler.launch.update(flags={'x': 1})
  assert config.to_dict()['sampler']['launch']['flags'] == {'x': 1}


def test_options_are_assigned_as_often_as_one_likes():
  config = defaults('train')
  config.env.options = dict(max_depth=2)
  config.env = dict(name='babyai', options=dict(style='compact'))
  config.env.options.levels = ('Pickup',)
  config.env = dict(name='babyai', options=dict(levels=('Open',)))
  assert read(config).env.options == envs.get('babyai').options | {
      'levels': ('Open',)
  }


def test_options_of_an_environment_from_elsewhere_are_not_known_here():
  config = defaults('train')
  config.env.name = 'my.module:SPEC'
  config.env.options.size = 3
  config.lock()  # as the flags do
  config.env.options.colour = 'red'
  assert read(config).env.options == {'size': 3, 'colour': 'red'}


@pytest.mark.parametrize(
    'copied', [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_is_a_config_of_its_own(copied):
  config = defaults('train')
  config.optim.lr = 1e-3
  config.sampler.launch.flags = {'tp_size': 2}
  other = copied(config)
  assert other.to_dict() == config.to_dict()
  other.optim = dict(name='muon')
  assert other.optim.lr == defaults('train').optim.lr
  assert config.optim.lr == 1e-3 and config.optim.name == 'adamw'
  assert 'Did you mean optim.lr?' in refusal(other, {'optim.rate': 1})
  assert other.is_locked and other.optim.is_locked


# What a run brings.

RUN = dict(
    mode='train',
    env=dict(
        name='babyai',
        url='http://run:1',
        token_file='/run/token',
        options=dict(levels=['Pickup'], style='compact'),
        task_file='/run/items.json',
    ),
    agent=dict(format='plain', instructions='compact', template=None),
    model=dict(name='tiny-1m', dtype='bfloat16'),
    rollout=dict(max_completion_tokens=16, max_context=100, concurrency=4),
    eval=dict(horizon=7, num_tasks=3, split='dev', task_file='/run/t.json'),
)


def test_a_flag_comes_before_the_run_and_the_run_before_the_default():
  config = defaults('evaluate')
  config.eval.horizon = 9
  made = read(config, RUN)
  assert made.eval.horizon == 9
  assert made.eval.num_tasks == 3 and made.eval.task_file == '/run/t.json'
  assert made.eval.samples == 1  # of which the run says nothing
  assert made.agent.format == 'plain' and made.agent.template is None
  assert made.model.dtype == 'bfloat16'
  assert made.model.name == 'smollm2-135m'  # which is no matter of the run's
  assert made.rollout.max_context == 100
  assert made.env.name == 'babyai' and made.env.url == 'http://run:1'
  assert made.env.options == {
      'levels': ['Pickup'],
      'style': 'compact',
      'expert_macros': True,
  }


def test_a_value_that_is_the_default_comes_before_the_run_too():
  config = defaults('evaluate')
  config.agent.format = 'react'
  config.eval.horizon = 30
  made = read(config, RUN)
  assert made.agent.format == 'react' and made.eval.horizon == 30


def test_an_empty_text_says_that_nothing_is_wanted():
  config = defaults('evaluate')
  config.env.update(url='', token_file='')
  config.eval.task_file = ''
  made = read(config, RUN)
  assert made.env.url is None and made.env.token_file is None
  assert made.eval.task_file is None


def test_a_split_and_a_file_of_tasks_come_before_each_other():
  config = defaults('evaluate')
  config.eval.split = 'dev'
  made = read(config, RUN)  # whose file the split replaces
  assert made.eval.split == 'dev' and made.eval.task_file is None
  config = defaults('evaluate')
  config.eval.task_file = '/my/t.json'
  made = read(config, RUN | {'eval': dict(split='dev')})
  assert made.eval.split == 'test' and made.eval.task_file == '/my/t.json'
  config.eval.split = 'dev'
  with pytest.raises(ConfigError, match='eval.split.*eval.task_file'):
    read(config, RUN)


@pytest.mark.parametrize(
    'url, token',
    [(None, '/run/token'), ('http://b:2', '/run/token'), ('', None)],
)
def test_a_token_comes_along_where_there_is_a_server_for_it(url, token):
  run = RUN | {'env': RUN['env'] | {'retry_s': 5.0}}
  config = defaults('evaluate')
  config.env.url = url
  made = read(config, run)
  assert made.env.token_file == token
  assert made.env.retry_s == (5.0 if token else 60.0)


def test_without_a_run_it_is_the_default():
  made = read(defaults('evaluate'))
  assert made.eval.num_tasks == 100 and made.env.name == 'textcraft'
  assert read(defaults('evaluate'), {}) == made


def test_options_are_brought_to_the_same_environment_alone():
  config = defaults('evaluate')
  config.env.name = 'textcraft'
  assert read(config, RUN).env.options == envs.get('textcraft').options
  config = defaults('evaluate')
  config.env.options.style = 'full'
  assert read(config, RUN).env.options['style'] == 'full'
  assert read(config, RUN).env.options['levels'] == ['Pickup']
  config.env.name = 'babyai'
  assert read(config, RUN).env.options['levels'] == ['Pickup']


def test_another_environment_gets_no_servers_and_tasks_of_the_runs():
  env = RUN['env'] | {'url': 'http://127.0.0.1:1'}
  run = RUN | {'env': env, 'eval': RUN['eval'] | {'task_file': 'i.json'}}
  config = defaults('evaluate')
  made = read(config, run)
  assert made.env.url == env['url'] and made.eval.task_file == 'i.json'
  config.env.name = 'textcraft'
  made = read(config, run)
  assert made.env.url is None and made.eval.task_file is None
  assert made.eval.horizon == RUN['eval']['horizon']


def test_modes_that_learn_go_on_as_the_policy_was_asked():
  for mode in ('train', 'sft', 'dpo', 'agentevol'):
    made = read(needed(mode), RUN)
    assert made.agent.format == 'plain'
    assert made.agent.instructions == 'compact'
    assert made.eval.horizon == 30 and made.env.name == 'textcraft'


def test_a_served_policy_has_the_context_of_its_run():
  made = read(defaults('serve_policy'), RUN)
  assert made.serve.max_context == 100
  assert made.model.dtype == 'bfloat16'
  assert made.serve.chat_template is None


def test_what_is_brought_is_known_by_its_paths():
  assert brought('serve_policy', RUN) == {
      'serve.max_context': 100,
      'model.dtype': 'bfloat16',
  }
  assert brought('evaluate', {}) == {} and brought('export', RUN) == {}
  for mode, cls in MODES.items():
    known = {*leaves(mode), 'env.options'}
    assert known >= set(cls.BROUGHT)


def test_what_a_run_brings_is_checked_as_what_is_said():
  run = RUN | {'rollout': {'max_context': 8}}
  assert 'leaves no room' in refusal(defaults('evaluate'), {}, run)
  run = RUN | {'eval': {'split': 'all'}}
  assert "eval.split='all'" in refusal(defaults('evaluate'), {}, run)


# What a workdir keeps.


@pytest.mark.parametrize('mode', MODES)
def test_a_record_has_every_value_that_the_mode_has(mode):
  made = read(needed(mode))
  kept = record(made)
  assert kept['mode'] == mode
  for path in leaves(mode, env='textcraft'):
    value_at(kept, path)  # or KeyError
  assert pickle.loads(pickle.dumps(made)) == made


def test_a_record_is_of_the_chosen_algorithm_alone():
  config = defaults('train')
  config.algo = dict(name='ppo', gamma=0.5)
  algo = record(read(config))['algo']
  assert algo['name'] == 'ppo' and algo['gamma'] == 0.5
  assert algo['critic']['kind'] == 'own' and 'step_weight' not in algo


def recorded(mode, **fields):
  """The record of a config with these values but for its mode, by paths."""
  kept = record(read(set_fields(needed(mode), fields)))
  found = flat(kept)
  del found['mode']
  return kept, found


@pytest.mark.parametrize('mode', MODES)
def test_what_is_usual_is_what_a_default_config_records(mode):
  kept, found = recorded(mode)
  assert usual(kept) | NEEDED.get(mode, {}) == found


@pytest.mark.parametrize('algorithm', ONLINE)
def test_what_is_usual_is_of_the_algorithm_that_is_recorded(algorithm):
  kept, found = recorded('train', algo=dict(name=algorithm))
  assert usual(kept) | {'algo.name': algorithm} == found


@pytest.mark.parametrize('name', envs.ENVS)
def test_what_is_usual_is_of_the_environment_that_is_recorded(name):
  kept, found = recorded('train', env=dict(name=name))
  assert usual(kept) | {'env.name': name} == found


# Names that are none.


@pytest.mark.parametrize(
    'mode, path, message',
    [
        ('train', 'optim.learning_rate', 'Did you mean optim.lr?'),
        ('train', 'optim.weight_deacy', 'Did you mean optim.weight_decay?'),
        ('train', 'learning_rate', 'mean optim.lr or .*algo.critic.lr or'),
        ('train', 'algo.learning_rate', 'Did you mean optim.lr or'),
        ('train', 'optimizer', 'Did you mean optim?'),
        ('train', 'rolout', 'Did you mean rollout?'),
        ('train', 'rollout.batch_size', 'mean rollout.tasks_per_step?'),
        ('train', 'batch_size', 'mean rollout.tasks_per_step?'),
        ('train', 'group_size', 'Did you mean rollout.group_size?'),
        ('train', 'horizon.max_turns', 'Did you mean horizon.turns?'),
        ('train', 'algo.colour', 'algo.colour; known: aggregation,'),
        ('train', 'colour', 'field colour; known: agent, algo, checkpoint,'),
        ('train', 'data', "with mode='train'; it acts in sft, agentevol"),
        ('train', 'serve', 'acts in serve_env, serve_policy'),
        ('sft', 'rollout.group_size', "mode='sft'; it acts in train"),
        ('evaluate', 'model.lora', 'acts in train, sft, dpo, agentevol'),
        ('evaluate', 'env.task_file', 'acts in train, sft, dpo, agentevol'),
        ('evaluate', 'sampler.push_lora', 'acts in train, sft, dpo,'),
        ('export', 'checkpoint.every', 'acts in train, sft, dpo'),
    ],
)
def test_a_name_that_is_none_is_refused_with_what_is_meant(mode, path, message):
  assert re.search(message, refusal(needed(mode), {path: 1}))
  # Or as a whole, as a config that was made by hand.
  values = needed(mode).to_dict()
  *parents, name = path.split('.')
  section = values
  for part in parents:
    section = section[part]
  section[name] = 1
  assert re.search(message, refusal(ConfigDict(values), {}))


def test_a_name_in_what_is_assigned_is_refused_likewise():
  algo = dict(name='ppo', critic=dict(rate=1))
  assert 'mean algo.critic.lr?' in refusal(defaults('train'), {'algo': algo})
  with pytest.raises(KeyError, match='Did you mean optim.lr?'):
    defaults('train').update(optim=dict(learning_rate=1))


# Values of another type.


@pytest.mark.parametrize(
    'path, value, message',
    [
        ('num_steps', 'abc', "num_steps is a whole number, got 'abc'."),
        ('num_steps', 1e3, 'num_steps is a whole number, got 1000.0.'),
        ('num_steps', True, 'num_steps is a whole number, got True.'),
        ('num_steps', None, 'num_steps is a whole number, got None.'),
        ('optim.lr', 'fast', "optim.lr is a number, got 'fast'."),
        ('optim.lr', None, 'optim.lr is a number, got None.'),
        ('optim.lr', dict(a=1), "optim.lr is a number, got {'a': 1}."),
        ('optim.lr', float('nan'), 'optim.lr must be a finite number, got nan'),
        ('optim.lr', float('inf'), 'optim.lr must be a finite number, got inf'),
        ('algo.threshold', float('nan'), 'must be a finite number, got nan.'),
        ('env.name', 3, 'env.name is a text, got 3.'),
        ('env.name', None, 'env.name is a text, got None.'),
        ('algo.kl_target', 'far', 'a number or None, got .far.'),
        ('rollout.save_tokens', 1, 'is True or False, got 1.'),
        ('horizon.turns', 3, r'whole numbers, got 3; .* as in \(3,\)'),
        ('horizon.turns', (1.5,), r'whole numbers, got \(1.5,\)'),
        ('horizon.turns', ('3',), 'a list of whole numbers, got'),
        ('horizon.turns', None, 'a list of whole numbers, got None'),
        ('mesh.offload', 'optimizer', r"as in \('optimizer',\)"),
        ('env.url', 3, 'a text or a list of texts or None, got 3'),
        ('optim', 3, 'optim is a section with the fields .*lr.*, got 3'),
        ('optim', None, 'optim is a section with the fields .*, got None'),
        ('model.lora', 8, 'model.lora is a section with .*rank.*, got 8'),
        ('sampler', dict(launch=3), 'sampler.launch is a section with .* 3'),
        ('algo', 'ppo', "algo is a section with .*name.*, got 'ppo'"),
        ('algo', None, 'algo is a section with .*name.*, got None'),
        ('env.options', 3, 'env.options is a section .*, got 3'),
        ('env.options', None, 'env.options is a section .*, got None'),
        ('algo', dict(name='ppo', critic=3), 'algo.critic is a section'),
        ('algo.critic', 3, 'algo.critic has no effect'),
        ('algo.name', None, 'Unknown algo.name=None; known: grpo'),
    ],
)
def test_a_value_of_another_type_is_refused_with_what_it_should_be(
    path, value, message
):
  mode = 'agentevol' if path == 'algo.threshold' else 'train'
  config = needed(mode)
  assert re.search(message, refusal(config, {path: value}))


@pytest.mark.parametrize('value', ['inf', '-inf', 'nan'])
@pytest.mark.parametrize('mode', MODES)
def test_no_field_takes_a_number_that_is_not_finite(mode, value):
  value, found = float(value), 0
  for path, leaf in leaves(mode).items():
    if 'float' in str(leaf.kind):
      given = (value,) if 'tuple' in str(leaf.kind) else value
      said = refusal(needed(mode), {path: given}, RUN)
      assert f'{path} must be a finite number, got' in said, said
      found += 1
  assert found or mode not in ('train', 'sft', 'dpo', 'agentevol', 'evaluate')


@pytest.mark.parametrize(
    'values, path',
    [
        ({'env.options': {'difficulty': math.inf}}, 'env.options.difficulty'),
        (
            {'env.name': 'babyai', 'env.options': {'levels': [1.0, math.nan]}},
            'env.options.levels',
        ),
        (
            {'algo': dict(name='ppo', critic=dict(lr=math.inf))},
            'algo.critic.lr',
        ),
    ],
)
def test_nor_does_a_dict_or_a_list(values, path):
  said = refusal(defaults('train'), values)
  assert f'{path} must be a finite number' in said


@pytest.mark.parametrize('name', ['', ' '])
@pytest.mark.parametrize('mode', ['train', 'sft', 'serve_policy', 'evaluate'])
def test_an_empty_name_of_a_model_is_not_this_folder(mode, name):
  if mode == 'evaluate' and not name:
    pytest.skip('stands for None: a server or an endpoint samples')
  said = refusal(needed(mode), {'model.name': name}, RUN)
  assert said.startswith('model.name is empty: name a variant')


@pytest.mark.parametrize('name', ['env', 'env.options', 'agent', 'eval'])
def test_none_is_no_section_either_where_a_run_brings_it(name):
  for run in (None, RUN):
    found = refusal(defaults('evaluate'), {name: None}, run)
    assert re.search(f'{name} is a section with .*, got None', found)


@pytest.mark.parametrize(
    'algo, message',
    [
        ({'gam': 0.5}, 'Unknown field algo.gam. Did you mean algo.gamma?'),
        ({'critic': {'rate': 1}}, 'algo.critic has no effect with'),
        ({'critic': {'lr': 0.5}}, 'algo.critic has no effect with'),
        ({'critic': 3}, "algo.name='rloo'; it acts in ppo"),
    ],
)
def test_another_algorithms_fields_are_known_if_made_by_hand(algo, message):
  values = defaults('train').to_dict() | {'algo': {'name': 'rloo'} | algo}
  assert message in refusal(ConfigDict(values), {})


def test_a_config_made_by_hand_is_read_the_same():
  values = defaults('train').to_dict()
  values['horizon']['turns'] = [3]
  values['optim']['lr'] = 1
  made = read(ConfigDict(values))
  assert made.horizon.turns == (3,)
  assert made.optim.lr == 1.0 and isinstance(made.optim.lr, float)
  for path, value in (
      ('optim', 3),
      ('algo', 3),
      ('env', {'options': 3}),
      ('horizon', {'turns': 3}),
  ):
    found = refusal(ConfigDict(defaults('train').to_dict() | {path: value}), {})
    assert re.search(f'{path}.* is a (section|list)', found)


@pytest.mark.parametrize('day', ['2026-02-30', '1 May 2026', 'today', '20260'])
@pytest.mark.parametrize(
    'mode, path', [('train', 'agent.date'), ('serve_policy', 'serve.chat_date')]
)
def test_a_day_is_one_of_the_calendar(mode, path, day):
  said = refusal(defaults(mode), {path: day})
  assert said.startswith(f'{path}={day!r} is no day as YYYY-MM-DD')
  assert not refusal(defaults(mode), {path: '2024-02-29'})
