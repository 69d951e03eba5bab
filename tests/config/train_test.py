"""Tests for what a config of mode 'train' may and may not say."""

import dataclasses
import re

import pytest

from agentrl.algos.hyperparams import ONLINE
from agentrl.config import defaults, read
from configs import algorithms, babyai_grpo, quickstart, textcraft_grpo
from tests import variants
from tests.config.refusals import refusal, set_fields


def changed(**fields):
  """The quickstart with fields replaced, `section__name` for nested ones."""
  fields = {path.replace('__', '.'): value for path, value in fields.items()}
  return set_fields(quickstart.get_config('tiny'), fields)


def said(**fields):
  """The answer of the quickstart to these values."""
  fields = {path.replace('__', '.'): value for path, value in fields.items()}
  return refusal(quickstart.get_config('tiny'), fields)


# Of a run in which no evaluation comes between steps.
HELD_OUT = dict(kind='success', turns=(3, 6), metric='eval')


@pytest.mark.parametrize(
    'algo, message',
    [
        (dict(name='grpo', gamma=0.9), 'gamma has no effect .* gigpo'),
        (dict(name='rloo', normalise_std=False), 'acts in grpo, gigpo'),
        (
            dict(name='grpo', critic=dict(lr=1e-3)),
            "critic has no effect with algo.name='grpo'; .* in ppo",
        ),
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
            'only algo.surrogate=clip',
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
        (dict(name='grpo', ddof=2), 'algo.ddof=2; known: 0, 1'),
        (
            dict(name='gigpo', normalise_std=False, ddof=0),
            'divides by nothing',
        ),
        (dict(name='gigpo', step_weight=-1.0), 'step_weight must be'),
        (dict(name='gigpo', step_weight=0.0, gamma=0.9), 'leaves turns out'),
        (dict(name='ppo', gamma=-0.1), 'gamma must be at least 0, got -0.1'),
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
        (dict(name='ppo', lam=1.5), 'lam must be at most 1, got 1.5'),
        (dict(name='grpo', overlong_buffer=1024), 'shorter than'),
        (dict(name='grpo', ties='drop'), 'keep, mask, refill'),
        (dict(name='grpo', knobs=dict(clip_low=0.1)), 'Unknown .* algo.knobs'),
    ],
)
def test_a_hyperparameter_that_cannot_act_is_refused_with_the_reason(
    algo, message
):
  assert re.search(message, said(algo=algo))


def names(algorithm):
  return [field.name for field in dataclasses.fields(ONLINE[algorithm])]


@pytest.mark.parametrize(
    'algorithm, name',
    [
        (a, name)
        for a in ONLINE
        for name in variants.CHANGES
        if name in names(a)
    ],
)
def test_a_hyperparameter_that_can_act_is_taken(algorithm, name):
  # Whether it does is asked in tests/algos/hyperparams_test.py, of these values.
  base, value = variants.CHANGES[name]
  algo = {'name': algorithm, 'minibatches': 2} | base | {name: value}
  if name == 'kl_estimator':
    algo['kl_coef'] = 0.1
  assert getattr(read(changed(algo=algo)).algo, name) == value


@pytest.mark.parametrize(
    'algorithm, name',
    [
        (a, name)
        for a in ONLINE
        for name in variants.CHANGES
        if name not in names(a)
    ],
)
def test_a_hyperparameter_of_another_algorithm_is_refused(algorithm, name):
  owner = next(other for other in ONLINE if name in names(other))
  algo = {'name': algorithm, name: variants.CHANGES[name][1]}
  assert re.search(f'{name} has no effect .*{owner}', said(algo=algo))


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
  algo = read(changed(algo={'name': algorithm} | fields)).algo
  assert {name: getattr(algo, name) for name in fields} == fields


@pytest.mark.parametrize('algorithm', ['ppo', 'reinforce_pp'])
@pytest.mark.parametrize('ties', ['mask', 'refill'])
def test_ties_need_groups(algorithm, ties):
  found = said(rollout__group_size=1, algo=dict(name=algorithm, ties=ties))
  assert re.search(f"ties='{ties}' .* is every group", found)


def test_algorithms_without_groups_take_single_episodes():
  for name in ('ppo', 'reinforce_pp'):
    config = changed(rollout__group_size=1, algo=dict(name=name))
    assert read(config).rollout.group_size == 1
  algo = dict(name='reinforce_pp', group_baseline=True)
  assert 'group_size=1' in said(rollout__group_size=1, algo=algo)


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(rollout__group_size=1), 'group_size=1 gives every episode'),
        (dict(horizon=dict(kind='fixed', turns=(0,))), r'got \(0,\)'),
        (dict(horizon=dict(kind='stepwise', turns=(0, 3), every=2)), '0, 3'),
        (dict(horizon=dict(kind='stepwise', turns=(3,), every=0)), 'every=0'),
        (dict(horizon=dict(kind='fixed', turns=(3, 6))), 'stepwise'),
        (dict(horizon=dict(turns=())), 'at least 1 turn'),
        (
            dict(horizon=dict(kind='linear', turns=(3, 6, 4), every=2)),
            r'do not fall from one stage to the next, got \(3, 6, 4\)',
        ),
        (
            dict(horizon=dict(kind='random', turns=(3, 3))),
            r'the second of two turns, got horizon.turns=\(3, 3\)',
        ),
        (
            dict(horizon=dict(kind='random', turns=(3,))),
            r'to the second of two turns, got horizon.turns=\(3,\)',
        ),
        (
            dict(horizon=dict(kind='random', turns=(3, 6, 9))),
            'to the second of two',
        ),
        (
            dict(horizon=dict(kind='random', turns=(6, 3))),
            'do not fall from',
        ),
        (
            dict(horizon=dict(kind='success', turns=(3, 6), threshold=1.5)),
            'horizon.threshold must be at most 1',
        ),
        (
            dict(horizon=dict(kind='success', turns=(3, 6), threshold=0.0)),
            'horizon.threshold must be above 0',
        ),
        (
            dict(horizon=dict(kind='saturation', turns=(3, 6), window=0)),
            'horizon.window must be at least 1',
        ),
        (
            dict(horizon=dict(kind='saturation', turns=(3,), metric='eval')),
            "metric='eval' has no effect: it acts with horizon.kind='success'",
        ),
        (
            dict(horizon=dict(kind='success', turns=(3, 6), metric='test')),
            'rollout, eval, eval_small',
        ),
        (dict(horizon=HELD_OUT), 'none would come: set eval.num_tasks, and'),
        (
            dict(horizon=HELD_OUT, eval=dict(num_tasks=0)),
            'none would come: set eval.num_tasks',
        ),
        (
            dict(horizon=HELD_OUT, num_steps=2, eval__every=2),
            'below num_steps=2, or horizon.metric',
        ),
        (
            dict(horizon=HELD_OUT | dict(metric='eval_small'), eval__every=1),
            'none would come: set eval.small.num_tasks, and eval.small.every',
        ),
        (
            dict(horizon=HELD_OUT | dict(turns=(7, 9)), eval__every=1),
            r'turns=\(7, 9\), and an evaluation ends at eval.horizon=6: raise',
        ),
        (dict(gauges__max_repeated=1.5), 'max_repeated must be at most 1'),
        (dict(gauges__min_entropy=-0.1), 'min_entropy must be at least 0'),
        (
            dict(gauges=dict(every=0, min_information=0.1)),
            'min_information=0.1 has no effect: gauges.every is 0',
        ),
        (
            dict(horizon=dict(kind='fixed', turns=(3,), every=5)),
            "every=5 has no effect: it acts with horizon.kind='stepwise'",
        ),
        (dict(horizon=dict(kind='growing', turns=(3,))), 'fixed, stepwise'),
        (dict(rollout__temperature=0.0), 'temperature must be above 0'),
        (dict(rollout__max_context=16), 'no room for a prompt'),
        (dict(algo__name='grpoo'), "algo.name='grpoo'; known: grpo, rloo"),
        (dict(algo__clip_low=-0.1), 'algo.clip_low must be above 0'),
        (dict(optim__name='sgd'), "optim.name='sgd'; known: adamw, adamw8bit"),
        (
            dict(optim=dict(name='adafactor', lr=1.0, b2=0.95)),
            "b2=0.95 has no effect: it acts with optim.name='adamw' or",
        ),
        (
            dict(optim=dict(name='adamw8bit', lr=1.0, momentum=0.9)),
            "momentum=0.9 has no effect: it acts with optim.name='muon'",
        ),
        (
            dict(optim=dict(name='muon', lr=1.0, b1=0.8, momentum=1.0)),
            'optim.momentum must be below 1',
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
        (dict(optim__lr=0.0), 'optim.lr must be above 0'),
        (dict(num_steps=0), 'num_steps must be at least 1'),
        (dict(sampler=dict(kind='sglang')), 'needs one of sampler.urls'),
        (
            dict(sampler=dict(kind='embedded', urls=('http://x',))),
            'no effect',
        ),
        (dict(rollout__top_p=0.9), 'rollout.top_p would .* top_p=1.0'),
        (dict(rollout__top_k=5), 'rollout.top_k would .* top_k=-1'),
        (
            dict(optim=dict(lr=1e-4, learning_rate=1)),
            'optim.learning_rate. Did you mean optim.lr?',
        ),
        (dict(extra=dict()), 'Unknown field extra; known: agent, algo'),
        (
            dict(algo=dict(clip_low=0.1)),
            'algo.clip_low=0.1 has no effect: one update',
        ),
        (dict(env=dict(name='babyai', url='http://x', workers=2)), 'workers=2'),
        (dict(env__retry_s=5.0), 'retry_s=5.0 has no effect: .* env.url'),
        (dict(env__token_file='t'), "token_file='t' has no effect: .* env.url"),
        (dict(model__lora=dict(alpha=3.0)), 'lora.alpha=3.0 has no .*rank=0'),
        (dict(model__lora=dict(rank=4)), "'tiny-1m' starts random: train it"),
        (dict(model__lora=dict(targets=())), r'targets=\(\) names no project'),
        (
            dict(checkpoint__keep_best=True),
            'keep_best=True has no effect: eval.every is 0',
        ),
        (
            dict(num_steps=4, eval__every=4, checkpoint__keep_best=True),
            'keep_best compares evaluations, .* num_steps=4: lower eval.every',
        ),
        (
            dict(eval=dict(num_tasks=0, every=1)),
            'eval.every=1 has no effect: eval.num_tasks is 0',
        ),
        (
            dict(eval__small=dict(num_tasks=4)),
            'small.num_tasks=4 has no effect: eval.small.every is 0',
        ),
        (
            dict(eval__small=dict(every=1)),
            'small.every=1 has no effect: eval.small.num_tasks is 0',
        ),
        (
            dict(eval__small=dict(num_tasks=8, every=1)),
            'small.num_tasks=8 is a part of eval.num_tasks=8: take fewer',
        ),
        (
            dict(eval=dict(every=1, small=dict(num_tasks=4, every=1))),
            'more often than eval.every=1: lower it',
        ),
        (
            dict(num_steps=3, eval__small=dict(num_tasks=4, every=3)),
            'small.every=3 has no effect within num_steps=3',
        ),
    ],
)
def test_contradictions_are_refused(fields, message):
  assert re.search(message, said(**fields))


@pytest.mark.parametrize(
    'fields',
    [
        dict(horizon=HELD_OUT, eval__every=1),
        # The panel ends before the last stage, which nothing follows.
        dict(horizon=HELD_OUT, eval=dict(num_tasks=8, every=1, horizon=3)),
        dict(
            horizon=HELD_OUT | dict(metric='eval_small'),
            eval__small=dict(num_tasks=4, every=1),
        ),
        # Whose schedule it is decides about its turns.
        dict(horizon=dict(kind='mine:SCHEDULE', turns=(6, 3))),
        dict(horizon=dict(kind='random', turns=(1, 2))),
        # A stage that changes nothing: a sweep compares it with others.
        dict(horizon=dict(kind='stepwise', turns=(6, 6), every=2)),
    ],
)
def test_horizons_that_can_be_followed_are_taken(fields):
  assert not said(**fields)


def test_waiting_for_a_server_is_for_urls():
  said = lambda **env: refusal(defaults('train'), {'env': env})
  assert not said(url='http://h:1', retry_s=0)
  assert 'env.retry_s=5.0 has no effect' in said(retry_s=5)
  found = said(url='http://h:1', retry_s=-1)
  assert 'env.retry_s must be at least 0' in found


@pytest.mark.parametrize('module', [textcraft_grpo, babyai_grpo])
def test_item_files_can_be_named_on_the_command_line(module):
  config = module.get_config('tiny')
  config.lock()
  config.env.task_file = config.eval.task_file = 'items.json'


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(plan__tokens=5), 'agent.plan.tokens=5 has no effect'),
        (dict(plan__kind='start', plan__every=9), "kind='every'"),
        (dict(reflect__tokens=5), 'reflect.attempts=1 leaves no attempt'),
        (dict(reflect__learn=False), 'reflect.attempts=1 leaves no attempt'),
        (dict(reflect__attempts=0), 'must be at least 1, got 0'),
        (dict(context__branches=9), "kind='fold'"),
        (dict(context__kind='fold', context__window=9), "or .*'notes'"),
        (
            dict(context__kind='notes', context__notes_tokens=9999),
            'agent.context.notes_tokens=9999 leaves no room for a prompt in',
        ),
        (
            dict(plan__kind='start', plan__tokens=9999),
            'agent.plan.tokens=9999 leaves no room for a prompt in',
        ),
        (
            dict(reflect__attempts=2, reflect__tokens=9999),
            'agent.reflect.tokens=9999 leaves no room for a prompt in',
        ),
    ],
)
def test_deliberation_that_cannot_be(fields, message):
  fields = {f'agent__{name}': value for name, value in fields.items()}
  assert re.search(message, said(**fields))


def test_attempts_are_episodes_of_a_group():
  assert 'gives every episode' in said(rollout__group_size=1)
  fields = dict(rollout__group_size=1, agent__reflect__attempts=2)
  assert said(**fields) == ''
  fields |= dict(rollout__tasks_per_step=2)
  assert said(**fields, algo__minibatches=4) == ''
  assert re.search(
      'minibatches=5 exceed the 4 episodes .* agent.reflect.attempts',
      said(**fields, algo__minibatches=5),
  )


@pytest.mark.parametrize('name', algorithms.CORRECTIONS)
def test_corrections_by_name_allow_for_old_samples(name):
  algo = algorithms.get('grpo', minibatches=2, **algorithms.CORRECTIONS[name])
  config = read(changed(rollout__ahead=1, num_steps=9, algo=algo))
  assert config.rollout.staleness_bound == 3 and config.algo.corrects


@pytest.mark.parametrize(
    'fields, message',
    [
        (
            dict(rollout__ahead=1),
            "no ratio would be clipped. Set algo.ratio='sampler'",
        ),
        (
            dict(rollout__ahead=3, rollout__max_staleness=2),
            'max_staleness=2 is below rollout.ahead=3',
        ),
        (dict(rollout__max_staleness=3), 'nothing is played ahead'),
        (
            dict(rollout__ahead=2, algo=dict(ratio='sampler')),
            'more than follow the first of num_steps=2',
        ),
        (
            dict(algo=dict(importance_low=2.0, importance_cap=1.0)),
            'importance_cap must be above 2.0',
        ),
        (dict(algo=dict(importance_low=0.5)), 'the upper bound, is None'),
    ],
)
def test_old_samples_are_refused_without_a_way_to_use_them(fields, message):
  assert message in said(**fields)
