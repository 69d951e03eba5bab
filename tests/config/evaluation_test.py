"""Tests for agentrl.config.evaluation: who is evaluated, on what."""

import json
import re

import pytest

from agentrl.config import defaults, evaluation, mixture, reading, record
from agentrl.errors import ConfigError
from agentrl.inference.options import ChatOptions
from configs import (
    babyai_sft,
    evaluate,
    mixture_grpo,
    suites,
    textcraft_sft,
)


def config_of(arg='', **values):
  config = evaluate.get_config(arg)
  for path, value in values.items():
    section, name = path.split('__')
    config[section][name] = value
  return config


def read(*args, **values):
  return evaluation.read(config_of(*args, **values))


@pytest.fixture
def a_run(tmp_path):
  """Makes the workdir of a run that reached step 4."""

  def a_run(name, module=babyai_sft, **values):
    path = tmp_path / name
    (path / 'checkpoints' / '4').mkdir(parents=True)
    config = module.get_config('tiny')
    config.eval.update(values)
    kept = record(reading.read(config))
    (path / 'config.json').write_text(json.dumps(kept))
    return path

  return a_run


@pytest.mark.parametrize(
    'sources, expected',
    [
        (['expert'], ['expert']),
        (['runs/quickstart'], ['quickstart']),
        (['Qwen/Qwen2.5-3B', 'x/model.gguf'], ['Qwen2.5-3B', 'model']),
        (['runs/a/final', 'runs/b/final'], ['a-final', 'b-final']),
        (['http://127.0.0.1:30000/'], ['127.0.0.1-30000']),
        (['https://host/a b/c'], ['host-a-b-c']),
        (['./run', '../run'], ['1-run', '2-run']),
        (['Run', 'run'], ['1-Run', '2-run']),
        (['..'], ['policy']),
    ],
)
def test_names_are_short_and_differ(sources, expected):
  assert list(evaluation.names(sources)) == expected


def test_names_are_fit_for_paths():
  sources = ['a/é è', 'http://[::1]:1', 'b/' + 'x' * 300, '...', 'CON/..']
  found = evaluation.names(sources)
  assert len({name.lower() for name in found}) == len(found)
  for name in found:
    assert re.fullmatch(r'[A-Za-z0-9_][\w.-]{0,69}', name), name


def test_a_checkpoint_is_named_after_its_run(a_run):
  path = a_run('first')
  found = evaluation.names([str(path), f'{path}/checkpoints/4'])
  assert found == ('first', 'first-4')


@pytest.mark.parametrize(
    'source, kind',
    [
        ('expert', 'expert'),
        ('random', 'random'),
        ('api', 'api'),
        ('http://h:1', 'server'),
        ('https://h', 'server'),
        ('runs/expert', 'model'),
        ('httpd/model', 'model'),
    ],
)
def test_the_kind_of_a_policy(source, kind):
  assert evaluation.kind_of(source) == kind


def test_each_policy_has_a_config_of_each_environment():
  found = read('model=expert;http://h:1,env=textcraft;babyai,n=7')
  assert [x.name for x in found] == ['expert', 'h-1']
  for item in found:
    assert [x.env.name for x in item.configs] == ['textcraft', 'babyai']
    assert {x.eval.num_tasks for x in item.configs} == {7}
    assert {x.model.name for x in item.configs} == {item.source}


def test_an_endpoint_is_for_the_policy_that_is_one():
  arg = 'model=expert;api,api=https://h/v1,api_model=x/some,temperature=0.5'
  expert, api = read(f'{arg},env=textcraft')
  assert (api.name, api.kind, api.source) == ('some', 'api', 'api')
  chosen = api.configs[0].api
  assert (chosen.url, chosen.temperature) == ('https://h/v1', 0.5)
  assert expert.configs[0].api == ChatOptions()
  whole = evaluation.whole(config_of(arg), (expert, api))
  assert whole.api == chosen
  # Alone, the endpoint needs no `model`.
  [alone] = read('api=https://h/v1,api_model=some,env=textcraft')
  assert alone.kind == 'api'


@pytest.mark.parametrize(
    'arg, words',
    [
        ('model=api', 'api.url is not set'),
        ('api=https://h/v1', 'api.model is not set'),
        ('api=h,api_model=x', 'is no address'),
        ('model=expert,api=https://h/v1,api_model=x', 'api.url=.* no effect'),
    ],
)
def test_an_endpoint_that_cannot_be_asked_is_refused(arg, words):
  with pytest.raises(ConfigError, match=words):
    read(arg)


def test_an_option_is_for_the_environments_that_have_it():
  found = config_of('model=expert,env=textcraft;babyai')
  found.env.options.max_depth = 2
  [item] = evaluation.read(found)
  assert item.configs[0].env.options['max_depth'] == 2
  assert 'max_depth' not in item.configs[1].env.options
  found.env.options.topk = 2
  with pytest.raises(ConfigError, match='env.options.topk=2 has no effect'):
    evaluation.read(found)


def test_what_a_run_brings_is_its_own_and_its_tasks_are_for_all(a_run):
  path = a_run('first', num_tasks=5, horizon=4)
  run, expert, hub = read(f'model={path};expert;smollm2-135m')
  assert run.configs[0].agent.instructions == 'compact'
  assert hub.configs[0].agent.instructions == 'full'
  assert hub.configs[0].rollout.max_context == 4096
  for item in (run, expert, hub):
    [made] = item.configs
    assert made.env.name == 'babyai'
    assert made.env.options == run.configs[0].env.options
    assert (made.eval.num_tasks, made.eval.horizon) == (5, 4)


def test_runs_with_other_panels_are_refused(a_run):
  first, second = a_run('first', num_tasks=5), a_run('second', num_tasks=6)
  with pytest.raises(ConfigError, match='eval.num_tasks=5 and 6. Say which'):
    read(f'model={first};{second}')
  assert len(read(f'model={first};{second},n=5')) == 2
  elsewhere = a_run('third', textcraft_sft, num_tasks=5)
  with pytest.raises(ConfigError, match="env.name='babyai' and 'textcraft'"):
    read(f'model={first};{elsewhere}')


def test_a_run_without_evaluations_brings_no_number_of_tasks(a_run):
  [item] = read(f'model={a_run("first", num_tasks=0)}')
  assert item.configs[0].eval.num_tasks == 100


def test_an_empty_name_is_not_the_default_model():
  with pytest.raises(ConfigError, match="model.name='' has an empty entry"):
    read('model=')


def test_what_is_sampled_is_a_policy_at_each_temperature():
  config = config_of(
      'model=m;expert,api=http://h:1/v1,api_model=gpt,temperatures=0;0.5'
  )
  config.model.name += ';api'
  found = evaluation.read(config)
  assert [x.name for x in found] == [
      'm-t0',
      'm-t0.5',
      'expert',
      'gpt-t0',
      'gpt-t0.5',
  ]
  assert [x.configs[0].eval.temperature for x in found[:2]] == [0.0, 0.5]
  assert [x.configs[0].api.temperature for x in found[3:]] == [0.0, 0.5]
  # The workdir keeps what the command said.
  whole = evaluation.whole(config, found)
  assert whole.eval.temperatures == (0.0, 0.5)
  assert whole.eval.temperature == whole.api.temperature == 1.0
  assert whole.model.name == 'm;expert;api'


@pytest.mark.parametrize(
    'arg, words',
    [
        ('model=expert;random,temperatures=0;1', 'none .* is sampled'),
        ('model=m,temperatures=0;1;0', 'repeats one'),
        ('model=m,temperatures=1;-1', 'must be at least 0'),
        ('model=m,temperatures=0;1,temperature=0.5', 'has no effect'),
        ('api=http://h:1/v1,api_model=gpt,temperatures=0;3', 'takes 2 at most'),
    ],
)
def test_temperatures_that_cannot_be_are_refused(arg, words):
  with pytest.raises(ConfigError, match=words):
    read(arg)


@pytest.mark.parametrize('name', suites.SUITES)
def test_a_suite_is_a_config_of_each_of_its_panels(name):
  [item] = read(f'model=expert,suite={name}')
  for made, panel in zip(item.configs, suites.SUITES[name], strict=True):
    assert made.env.name == panel['env']['name']
    assert made.eval.num_tasks == panel['eval']['num_tasks']
  [item] = read(f'model=expert,suite={name},n=3')
  assert {made.eval.num_tasks for made in item.configs} == {3}


def test_a_run_under_a_suite_keeps_its_ways_but_not_its_tasks(a_run):
  path = a_run('first', num_tasks=5, seed=9)
  [item] = read(f'model={path},suite=quick')
  textcraft, babyai = item.configs
  assert babyai.env.options['style'] == 'compact'
  assert babyai.env.options['levels'] is None
  assert (babyai.eval.num_tasks, babyai.eval.seed) == (64, 0)
  assert textcraft.agent.instructions == 'compact'


@pytest.mark.parametrize(
    'arg, values, words',
    [
        ('model=a;;b', {}, "model.name='a;;b' has an empty entry"),
        ('model=a;a', {}, "names 'a' twice"),
        ('env=babyai;babyai', {}, "env.name='babyai;babyai' names 'babyai'"),
        ('env=babyai;nowhere', {}, "Unknown environment 'nowhere'"),
        ('suite=quick,env=babyai', {}, 'leave one of them out'),
        (
            'env=babyai;textcraft',
            {'env__url': 'http://h:1'},
            'env.url names servers of one environment, and there are 2',
        ),
        ('n=0', {}, 'eval.num_tasks must be at least 1, got 0'),
        ('samples=0', {}, 'eval.samples must be at least 1, got 0'),
        (
            '',
            {'model__tokenizer': 'x'},
            'weights that are loaded here bring their tokenizer',
        ),
    ],
)
def test_what_cannot_be_evaluated_is_refused(arg, values, words):
  with pytest.raises(ConfigError, match=re.escape(words)):
    read(arg, **values)


@pytest.mark.parametrize(
    'panel, words',
    [
        ({}, "{'env': {'name': ...}"),
        ({'env': {'name': 3}}, "{'env': {'name': ...}"),
        ({'env': 'babyai'}, 'has env.; known: env.name'),
        ({'env': {'name': 'babyai'}, 'agent': {}}, 'has agent; known'),
        (
            {'env': {'name': 'babyai'}, 'eval': {'temperature': 0}},
            'has eval.temperature; known',
        ),
        (
            {'env': {'name': 'babyai'}, 'eval': {'num_tasks': 'many'}},
            "eval.num_tasks is a whole number, got 'many'",
        ),
        (
            {'env': {'name': 'babyai', 'options': {'depth': 1}}},
            'babyai has no option depth',
        ),
    ],
)
def test_a_panel_that_cannot_be_used_is_refused(panel, words):
  with pytest.raises(ConfigError, match=re.escape(words)):
    read('model=expert', eval__panels=(panel,))


def test_a_tokenizer_is_for_servers_alone():
  found = read('model=http://h:1;smollm2-135m', model__tokenizer='folder')
  assert [x.configs[0].model.tokenizer for x in found] == ['folder', None]


def test_the_whole_config_lists_what_the_command_did():
  config = config_of('model=expert;http://h:1,env=textcraft;babyai')
  whole = evaluation.whole(config, evaluation.read(config))
  assert whole.model.name == 'expert;http://h:1'
  assert whole.env.name == 'textcraft;babyai'
  assert whole.env.options.keys() == {'textcraft', 'babyai'}
  kept = record(whole)
  assert json.loads(json.dumps(kept)) == kept


def test_one_policy_in_one_environment_is_what_it_always_was():
  config = defaults('evaluate')
  config.env.name = 'babyai'
  [item] = evaluation.read(config)
  assert evaluation.whole(config, [item]) == item.configs[0]


def test_a_run_of_a_mixture_is_evaluated_in_all_its_environments(tmp_path):
  config = mixture_grpo.get_config()
  config.mixture.searchqa.agent = dict(format='react')
  path = tmp_path / 'run'
  (path / 'checkpoints' / '4').mkdir(parents=True)
  kept = record(mixture.read(config))
  (path / 'config.json').write_text(json.dumps(kept))
  policy, expert = read(f'model={path};expert')
  own = {
      m.config.env.name: m.config for m in mixture.members(mixture.read(config))
  }
  assert [made.env.name for made in policy.configs] == list(own)
  for made in policy.configs:
    member = own[made.env.name]
    assert made.env.options == json.loads(json.dumps(member.env.options))
    assert made.agent.format == member.agent.format
    assert made.rollout.max_context == member.rollout.max_context
    for name in ('num_tasks', 'horizon', 'split', 'task_file'):
      assert getattr(made.eval, name) == getattr(member.eval, name)
  # Others play the same tasks.
  for one, other in zip(policy.configs, expert.configs, strict=True):
    assert (one.env, one.eval) == (other.env, other.eval)
  [alone] = read(f'model={path},env=searchqa')
  assert alone.configs == policy.configs[1:2]
  [elsewhere] = read(f'model={path},env=sciworld')
  assert elsewhere.configs[0].env.name == 'sciworld'
