"""Tests for agentrl.config.mixture: members, what they inherit, their flags."""

import copy
import dataclasses

import pytest
from absl import flags

from agentrl import config as config_lib
from agentrl.config import commandline, mixture, report, resume
from agentrl.errors import ConfigError
from configs import mixture_grpo
from tests.config.refusals import set_fields


def make(**members):
  config = config_lib.defaults('train')
  config.agent = dict(format='plain')
  config.rollout = dict(tasks_per_step=4, max_context=512)
  config.rollout.max_completion_tokens = 8
  config.env = dict(name='babyai', options=dict(levels=('Pickup',)), workers=2)
  config.horizon = dict(kind='stepwise', turns=(3, 6), every=10)
  config.eval = dict(num_tasks=8, task_file='items.json')
  config.mixture = members
  return config


def members(config):
  return {m.name: m for m in mixture.members(mixture.read(config))}


def test_without_members_a_run_is_its_own_only_one():
  config = make()
  read = mixture.read(config)
  [member] = mixture.members(read)
  assert member == ('', 1.0, read) and member.config is read
  assert read == config_lib.read(config)


def test_a_member_has_what_it_says_and_the_runs_for_the_rest():
  found = members(
      make(
          a=dict(weight=2, rollout=dict(max_context=256), eval=dict(horizon=5)),
          b=dict(
              agent=dict(format='react', context=dict(kind='notes')),
              horizon=dict(every=7),
          ),
      )
  )
  a, b = found['a'].config, found['b'].config
  assert (found['a'].weight, found['b'].weight) == (2.0, 1.0)
  assert a.rollout.max_context == 256 and b.rollout.max_context == 512
  assert a.rollout.max_completion_tokens == 8 and a.rollout.tasks_per_step == 4
  assert (a.eval.horizon, a.eval.num_tasks) == (5, 8)
  assert (a.agent.format, b.agent.format) == ('plain', 'react')
  assert (a.agent.context.kind, b.agent.context.kind) == ('full', 'notes')
  assert b.horizon == dataclasses.replace(a.horizon, every=7)
  assert a.env == b.env == config_lib.read(make()).env
  for name in ('model', 'optim', 'algo', 'seed', 'warmstart', 'sampler'):
    assert getattr(a, name) == getattr(b, name)


def test_another_environment_and_horizon_inherit_what_means_something_there():
  found = members(
      make(
          a=dict(
              env=dict(name='textcraft', options=dict(max_depth=1)),
              horizon=dict(kind='fixed', turns=(5,)),
          )
      )
  )
  a = found['a'].config
  assert a.env.options['max_depth'] == 1 and a.env.workers == 2
  assert a.eval.task_file is None and a.eval.num_tasks == 8
  assert a.horizon.turns == (5,) and a.horizon.every == 0
  config = make(a=dict(env=dict(options=dict(style='compact', levels=None))))
  assert members(config)['a'].config.env.options == {
      'levels': None,
      'style': 'compact',
      'expert_macros': True,
  }


def test_members_come_by_name_however_they_are_written():
  one = make(a=dict(weight=3), b={})
  other = make()
  other.mixture.b = {}
  other.mixture.a = dict(weight=1.0)
  other.mixture.a.weight = 3
  assert mixture.read(one) == mixture.read(other)
  assert list(mixture.read(other).mixture) == ['a', 'b']
  assert copy.deepcopy(one).mixture.to_dict() == one.mixture.to_dict()
  other.mixture = dict(c={})
  assert list(members(other)) == ['c']


A = dict(env=dict(name='textcraft'))


@pytest.mark.parametrize(
    'member, message',
    [
        (dict(weight=-1.0), 'mixture.a: weight must be at least 0, got -1.0'),
        (dict(weight='x'), "mixture.a.weight is a number, got 'x'"),
        (dict(weight=float('inf')), 'weight must be a finite number, got inf'),
        (dict(wieght=1), 'Unknown field mixture.a.wieght; known: weight, env'),
        (dict(optim=dict(lr=1.0)), 'mixture.a.optim has no effect'),
        (
            dict(rollout=dict(group_size=2)),
            'rollout.group_size is of the whole',
        ),
        (dict(rollout=dict(save_tokens=False)), 'save_tokens is of the whole'),
        (dict(eval=dict(every=2)), 'eval.every is of the whole run'),
        (dict(horizon=dict(truns=(3,))), 'mean horizon.turns?'),
        (dict(horizon=dict(turns=3)), 'mixture.a.horizon.turns is a list'),
        (dict(horizon=dict(kind='fixed', turns=(1, 2))), 'takes one stage'),
        (
            dict(horizon=dict(kind='success', turns=(1, 2), metric='eval')),
            "mixture.a: horizon.metric='eval' waits for evaluations",
        ),
        (dict(env=dict(name='chess')), "Unknown environment 'chess'"),
        (dict(env=dict(options=dict(depth=1))), 'has no option depth'),
        (dict(env=dict(retry_s=1.0)), 'retry_s=1.0 has no effect'),
        (dict(rollout=dict(max_context=1024)), "exceeds the run's 512"),
        (dict(rollout=dict(max_context=4)), 'leaves no room'),
        (
            dict(agent=dict(reflect=dict(attempts=2))),
            'attempts=2, and the run has 1: groups of a run have one size',
        ),
        (dict(env=3), 'mixture.a.env is a section'),
    ],
)
def test_what_a_member_cannot_be_is_refused_by_its_name(member, message):
  with pytest.raises(ConfigError) as refused:
    mixture.read(make(a=member, b={}))
  assert message in str(refused.value) and 'mixture.a' in str(refused.value)


@pytest.mark.parametrize(
    'members, message',
    [
        (dict(a=dict(weight=0), b=dict(weight=0.0)), 'weights .* sum to 0'),
        (dict(eval={}), "cannot be called 'eval'"),
        ({'2': {}}, "cannot be called '2'"),
        ({'items': {}}, "cannot be called 'items'"),
    ],
)
def test_what_a_mixture_cannot_be_is_refused(members, message):
  with pytest.raises(ConfigError, match=message):
    mixture.read(make(**members))


def test_settings_that_need_one_environment_are_refused():
  config = make(a=dict(rollout=dict(max_context=256)), b={})
  config.algo.overlong_buffer = 8
  with pytest.raises(
      ConfigError, match='mixture.a: algo.overlong_buffer has no'
  ):
    mixture.read(config)
  config = make(a={}, b={})
  config.eval.every = 2
  config.checkpoint.keep_best = True
  with pytest.raises(
      ConfigError, match='keep_best compares evaluations on one'
  ):
    mixture.read(config)


def test_a_member_is_a_dict():
  with pytest.raises(AttributeError, match='field mixture.a: a member is'):
    make().mixture.a = 3


# Flags.


def parse(*argv):
  config = make(a=dict(weight=2), b=A)
  commandline.override(config, ['launch.py', *argv])
  return config


def test_fields_of_members_are_flags():
  found = members(
      parse(
          '--config.mixture.a.weight=2.5',
          '--config.mixture.b.env.options.max_depth=3',
          '--config.mixture.b.horizon.turns=(4,8)',
          '--config.mixture.a.eval.task_file=None',
          "--config.mixture.a.rollout={'concurrency': 3}",
      )
  )
  assert found['a'].weight == 2.5
  assert found['b'].config.env.options['max_depth'] == 3
  assert found['b'].config.horizon.turns == (4, 8)
  assert found['a'].config.eval.task_file is None
  assert found['a'].config.rollout.concurrency == 3


def test_members_join_and_leave_by_flags():
  new = "--config.mixture.c={'env': {'name': 'searchqa'}}"
  found = members(parse('--config.mixture.c.weight=0.5', new))
  assert list(found) == ['a', 'b', 'c']
  assert found['c'].weight == 0.5 and found['c'].config.env.name == 'searchqa'
  whole = "--config.mixture={'d': {}, 'e': {'weight': 3}}"
  found = members(parse(whole, '--config.mixture.e.eval.horizon=2'))
  assert [(m.name, m.weight) for m in found.values()] == [('d', 1), ('e', 3)]
  assert found['e'].config.eval.horizon == 2
  assert list(members(parse('--config.mixture={}'))) == ['']


@pytest.mark.parametrize(
    'flag, message',
    [
        ('c.weight=1', "has no member 'c'; it has a, b. A new one is a dict"),
        ('a.wieght=1', 'Unknown field mixture.a.wieght; known: weight'),
        ('a.horizon.truns=1', 'mixture.a: .* mean horizon.turns'),
        ('a.optim.lr=1', 'optim.lr is of the whole run'),
        ('a.weight=much', "mixture.a.weight is a number, got 'much'"),
        ('a=3', 'mixture.a is a section'),
        ("a={'env': {'nmae': 'x'}}", 'mixture.a: .* mean env.name'),
        ('a.weight=1 --config.mixture.a.weight=2', 'given twice'),
    ],
)
def test_what_a_flag_cannot_say_of_a_member_is_refused(flag, message):
  with pytest.raises(ConfigError, match=message):
    parse(*(f'--{word}' for word in f'config.mixture.{flag}'.split(' --')))


def test_other_modes_have_no_members():
  config = config_lib.defaults('sft')
  for flag in ('mixture.a.weight=1', 'mixture={}'):
    with pytest.raises((ConfigError, flags.Error), match='mixture'):
      commandline.override(config, ['launch.py', f'--config.{flag}'])


def test_fields_and_values_of_members_are_listed(capsys):
  report.show_fields('train', 'mixture')
  said = capsys.readouterr().out
  assert 'mixture.NAME.weight ' in said
  assert "the run's rollout.max_context" in said
  assert 'save_tokens' not in said and 'eval.every' not in said
  config = parse('--config.mixture.a.eval.horizon=3')
  given = {'mixture.a.eval.horizon'}
  rows = report.origins(config, mixture.read(config), None, given)
  found = {path: (value, origin) for path, value, origin in rows}
  assert found['mixture.a.weight'] == (2.0, 'config')
  assert found['mixture.a.eval.horizon'] == (3, 'flag')
  assert found['mixture.b.env.name'] == ('textcraft', 'config')


# What a workdir keeps.


@pytest.mark.parametrize(
    'path, value, free',
    [
        ('mixture.a.weight', 3.0, False),
        ('mixture.b.env.name', 'babyai', False),
        ('mixture.a.horizon', dict(turns=(1, 2)), False),
        ('mixture.a.eval', dict(horizon=3), True),
        ('mixture.b.env.url', 'http://x', True),
        ('mixture', {}, False),
        ('mixture.c', {}, False),
    ],
)
def test_a_run_is_continued_with_the_same_members(path, value, free, tmp_path):
  record = lambda config: config_lib.record(mixture.read(config))
  resume.keep(record(parse()), tmp_path)
  (tmp_path / 'metrics.jsonl').write_text('{}\n')
  assert resume.check(record(parse()), tmp_path)
  changed = record(set_fields(parse(), {path: value}))
  if free:
    assert resume.check(changed, tmp_path)
    return
  with pytest.raises(ConfigError, match='mixture'):
    resume.check(changed, tmp_path)


def test_a_run_from_before_mixtures_is_continued(tmp_path):
  kept = config_lib.record(config_lib.read(make()))
  old = {name: value for name, value in kept.items() if name != 'mixture'}
  resume.keep(old, tmp_path)
  (tmp_path / 'metrics.jsonl').write_text('{}\n')
  assert resume.check(kept, tmp_path)


def test_the_config_has_the_members_that_it_says():
  found = members(mixture_grpo.get_config())
  assert sorted(m.config.env.name for m in found.values()) == sorted(found)
  assert found['babyai'].config.rollout.max_completion_tokens == 16
  assert found['searchqa'].config.horizon.kind == 'fixed'
