"""Every config file builds and reads, whatever its argument says."""

import dataclasses
import importlib
import json
import pathlib

import pytest

from agentrl import config as config_lib, schedules
from agentrl.config import resume
from configs import (
    algorithms,
    babyai_dpo,
    evaluate,
    quickstart,
    searchqa_grpo,
    serve_policy,
    textcraft_grpo,
    textcraft_sft,
)
from configs.common import parse_arg

RECIPE = ('model=DIR', 'model=RUN', 'tiny,model=RUN')
RECIPES = (*RECIPE, *(f'algo={name},tiny' for name in algorithms.ALGORITHMS))
OFFLINE = (
    *RECIPE,
    'data=x.json',
    'tiny,data=x.json',
    'model=RUN,data=x.json',
    'tiny,model=smollm2-135m',
    'tiny,model=tiny-4m',
)
# By file: what is documented beside no argument and `tiny`.
ARGS = {
    'quickstart': [f'algo={name}' for name in algorithms.ALGORITHMS],
    'textcraft_grpo': RECIPES,
    'mixture_grpo': [f'algo={name},tiny' for name in algorithms.ALGORITHMS],
    'babyai_grpo': RECIPES,
    'sciworld_grpo': RECIPES,
    'searchqa_grpo': (*RECIPES, 'horizon=fixed', 'horizon=fixed,tiny'),
    'gymnasium_laptop': RECIPES,
    'textarena_laptop': RECIPES,
    'miniwob_grpo': RECIPES,
    'webarena_grpo': RECIPES,
    'textcraft_laptop': RECIPES,
    'sciworld_laptop': RECIPES,
    'searchqa_laptop': RECIPES,
    'webarena_laptop': RECIPES,
    'textcraft_pretrained': RECIPES,
    'babyai_pretrained': RECIPES,
    'sciworld_pretrained': RECIPES,
    'searchqa_pretrained': RECIPES,
    'miniwob_pretrained': RECIPES,
    'webarena_pretrained': RECIPES,
    'textcraft_sft': (*OFFLINE, 'data=x.json,model=tiny-1m'),
    'textcraft_dpo': OFFLINE,
    'textcraft_agentevol': OFFLINE,
    'babyai_sft': OFFLINE,
    'babyai_dpo': OFFLINE,
    'babyai_agentevol': OFFLINE,
    'evaluate': (
        'model=RUN',
        'model=RUN/checkpoints/4',
        'model=DIR,env=babyai',
        'model=RUN,env=textcraft',
        'model=RUN,task_file=items.json,n=5,temperature=0',
        'model=expert,env=babyai,samples=2',
        'model=http://127.0.0.1:30000,n=64',
        'suite=text,n=4',
    ),
    'compare': (
        'a=E1,b=E2,more=E3;E4:expert',
        'a=E1;E2,b=E3;E4,unit=seed',
        'plan,rate=0.6,difference=0.2,icc=0.3,agreement=0.5',
        'plan=True,a=E1',
    ),
    'doctor': ('config=configs/quickstart.py:tiny;algo=ppo',),
    'export': ('run=RUN',),
    'inspect': ('episodes=e.jsonl', 'episodes=e.jsonl,tokenizer=DIR,n=5'),
    'serve_env': ('env=babyai,port=8001,expert', 'env=babyai,workers=4'),
    'serve_policy': ('model=RUN,port=0', 'model=DIR'),
    'study': ('folder=runs,group=horizon.kind;algo.name,parquet',),
    'view': ('port=0',),
}
TOOLS = (
    'compare',
    'doctor',
    'evaluate',
    'export',
    'inspect',
    'serve_env',
    'serve_policy',
    'study',
    'view',
)
CASES = [
    (name, arg)
    for name, args in ARGS.items()
    for arg in (
        # These must be told what to work on.
        *(() if name in ('compare', 'export', 'inspect', 'study') else (None,)),
        *(() if name in TOOLS else ('tiny',)),
        *args,
    )
]


def read(config):
  return config_lib.read(config, resume.trained_with(_model(config)))


def _model(config):
  return config.model.name if 'model' in config else None


@pytest.fixture
def run(tmp_path):
  """The workdir of a run of the quickstart that reached step 4."""
  path = tmp_path / 'run'
  (path / 'checkpoints' / '4').mkdir(parents=True)
  keep(path, quickstart.get_config())
  return path


def keep(path, config):
  """Writes the config of the run in this workdir, as it does itself."""
  resume.keep(config_lib.record(read(config)), path)


def schedule(config):
  return schedules.make(read(config).horizon)


def test_every_file_is_here():
  folder = pathlib.Path(quickstart.__file__).parent
  names = {path.stem for path in folder.glob('*.py')}
  assert names == ARGS.keys() | {'common', 'algorithms', 'suites'}


@pytest.mark.parametrize('name, arg', CASES)
def test_a_config_builds_locked_and_reads(name, arg, run):
  module = importlib.import_module(f'configs.{name}')
  arg = arg and arg.replace('RUN', str(run))
  config = module.get_config(arg)
  assert config.is_locked
  wanted = read(config)
  chosen = _flat(config.to_dict())
  # Flags still reach every field: none was lost on the way.
  algo = getattr(getattr(wanted, 'algo', None), 'name', '')
  known = config_lib.leaves(config.mode, algo)
  of_parts = tuple(f'{x}.' for x in ('mixture', 'env.options'))
  parts = {x for x in chosen if f'{x}.'.startswith(of_parts)}
  assert chosen.keys() - parts == {'mode', *known} - {'mixture'}
  for path, value in _flat(dataclasses.asdict(wanted)).items():
    # None is what the run or the environment decides.
    if chosen.get(path) is not None:
      assert value == chosen[path], path
  if 'model=' in (arg or ''):
    assert f'model={wanted.model.name}' in arg


def _flat(tree, prefix=''):
  flat = {}
  for key, value in tree.items():
    if isinstance(value, dict) and value:
      flat |= _flat(value, f'{prefix}{key}.')
    else:
      flat[prefix + key] = value
  return flat


def test_tiny_is_smaller_and_leaves_nothing_large():
  for name, arg in CASES:
    if arg == 'tiny':
      wanted = read(importlib.import_module(f'configs.{name}').get_config(arg))
      assert wanted.sampler.max_running <= 8
      assert wanted.eval.num_tasks <= 8
      assert getattr(wanted, 'num_steps', 2) == 2


def test_a_config_reads_no_run_while_it_is_built(tmp_path):
  for name in ('evaluate', 'serve_policy', 'babyai_dpo', 'textcraft_sft'):
    module = importlib.import_module(f'configs.{name}')
    (tmp_path / 'checkpoints').mkdir(exist_ok=True)
    (tmp_path / 'config.json').write_text('{torn')
    assert module.get_config(f'model={tmp_path}').model.name == str(tmp_path)


def test_an_evaluation_goes_by_its_run_and_by_what_is_said(run):
  wanted = read(evaluate.get_config(f'model={run}'))
  assert wanted.env.name == 'babyai'
  assert list(wanted.env.options['levels']) == ['GoToRedBall']
  assert wanted.agent.instructions == 'compact'
  assert wanted.rollout.max_context == 1024
  assert (wanted.eval.num_tasks, wanted.eval.horizon) == (256, 6)
  arg = f'model={run},env=textcraft,n=5,task_file=i.json,temperature=0.5'
  wanted = read(evaluate.get_config(arg))
  assert wanted.env.name == 'textcraft'
  assert wanted.env.options['max_depth'] is None
  assert wanted.eval.num_tasks == 5 and wanted.eval.task_file == 'i.json'
  assert wanted.eval.temperature == 0.5


def test_an_evaluation_without_a_run_has_limits_of_its_own():
  wanted = read(evaluate.get_config())
  assert wanted.env.name == 'textcraft' and wanted.eval.num_tasks == 100
  assert wanted.rollout.max_completion_tokens == 256
  assert wanted.rollout.max_context == 4096


def test_a_served_run_has_its_own_context(run):
  assert read(serve_policy.get_config()).serve.max_context == 2048
  wanted = read(serve_policy.get_config(f'model={run},port=0'))
  assert wanted.serve.max_context == 1024 and wanted.serve.port == 0


def test_searchqa_has_both_of_the_originals_horizons():
  for arg, last in (('', 10), ('horizon=fixed', 5)):
    horizon = schedule(searchqa_grpo.get_config(arg))
    state = horizon.init()
    assert horizon.update(state, 0, {})[1] == 5
    assert horizon.update(state, 400, {})[1] == last


def test_the_original_horizon_is_the_default():
  horizon = schedule(textcraft_grpo.get_config())
  turns = [horizon.update(None, s, {})[1] for s in (0, 99, 100, 200)]
  assert turns == [10, 10, 20, 30]


@pytest.mark.parametrize('algo', algorithms.ALGORITHMS)
@pytest.mark.parametrize('tiny', ['', ',tiny'])
def test_the_quickstart_takes_every_algorithm(algo, tiny):
  config = quickstart.get_config(f'algo={algo}{tiny}')
  wanted = read(config).algo
  given = algorithms.ALGORITHMS[algo]
  assert wanted.name == given['name'] and wanted.minibatches == 2
  for name, value in config.algo.items():
    if name != 'critic' and name in given:
      assert getattr(wanted, name) == value


def test_an_unknown_algorithm_names_the_known_ones():
  with pytest.raises(ValueError, match="'grppo'; known: grpo, dr_grpo"):
    quickstart.get_config('algo=grppo')


@pytest.mark.parametrize(
    'began, style', [('tiny-1m', 'compact'), ('smollm2-135m', 'full')]
)
def test_a_run_goes_on_in_the_style_that_it_learnt(tmp_path, began, style):
  for name, model in (('sft', began), ('dpo', str(tmp_path / 'sft'))):
    (tmp_path / name / 'checkpoints').mkdir(parents=True)
    module = textcraft_sft if name == 'sft' else babyai_dpo
    keep(tmp_path / name, module.get_config(f'model={model}'))
  for name in ('sft', 'dpo'):
    wanted = read(babyai_dpo.get_config(f'model={tmp_path / name}'))
    assert wanted.agent.instructions == style
    assert wanted.warmstart.episodes == 0


def test_what_the_command_line_says_is_over_what_a_run_brings(run):
  config = babyai_dpo.get_config(f'model={run}')
  config.agent.instructions = 'full'
  wanted = read(config)
  assert wanted.agent.instructions == 'full' and wanted.agent.format == 'plain'


def test_an_older_run_that_kept_no_style_has_the_default(tmp_path):
  (tmp_path / 'checkpoints').mkdir()
  record = {'model': {'name': 'smollm2-135m'}}
  (tmp_path / 'config.json').write_text(json.dumps(record))
  wanted = read(babyai_dpo.get_config(f'model={tmp_path}'))
  assert wanted.agent.instructions == 'full'


@pytest.mark.parametrize(
    'arg, message',
    [
        ('speed=9', "'speed'; known: algo, tiny"),
        ('tiny=maybe', "boolean, got 'maybe'"),
        ('algo', 'needs a value, as in algo=grpo'),
        ('model', 'needs a value, as in model=NAME'),
        ('n', 'needs a value, as in n=8'),
        ('n=two', "'n' is a whole number, got 'two'"),
        ('rate=x', "'rate' is a number, got 'x'"),
        ('heat=0;x', "'heat' is numbers between semicolons, got '0;x'"),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused(arg, message):
  kinds = dict(model=str, n=int, rate=0.0, heat=())
  with pytest.raises(ValueError, match=message):
    parse_arg(arg, algo='grpo', tiny=False, **kinds)


def test_arguments_have_the_types_of_their_defaults():
  found = parse_arg(
      'n=3,heat=0;0.5,rate=2', n=int, heat=(), rate=0.0, other=int
  )
  assert found.to_dict() == {
      'n': 3, 'heat': (0.0, 0.5), 'rate': 2.0, 'other': None,
  }  # fmt: skip
