"""Tests for agentrl/planning/plan.py and plan_report.py, on one device."""

import dataclasses
import importlib
import json
import types

import pytest

from agentrl.config.sections import Mesh, TrainModel
from agentrl.errors import ConfigError, WeightsError
from agentrl.models import variants
from agentrl.modes import dpo
from agentrl.planning import hlo, plan, report as plan_report
from agentrl.planning.footprint import Program, Size
from agentrl.weights import hf_config, pretrained
from configs import babyai_dpo, quickstart, textcraft_grpo

GIB = 1 << 30


def test_a_variant_needs_no_weights_to_be_planned_and_some_to_be_run():
  found = plan.find_shape(TrainModel(name='llama3-70b'))
  assert found is variants.get('llama3-70b')
  with pytest.raises(WeightsError, match="No model at 'llama3-70b'"):
    pretrained.resolve('llama3-70b')


def test_a_folder_needs_its_config_alone(tmp_path):
  config = hf_config.make(variants.get('qwen2.5-7b'))
  (tmp_path / 'config.json').write_text(json.dumps(config))
  found = plan.find_shape(TrainModel(name=str(tmp_path)))
  assert found == variants.get('qwen2.5-7b')


@pytest.mark.parametrize('name', ['llama3', 'owner/no-such-model', 'a/b/c'])
def test_a_shape_that_is_not_here_is_none(name):
  assert plan.find_shape(TrainModel(name=name)) is None


# One microbatch that takes 10 GiB, where the state takes 40.
PLAN = plan.Plan(
    mesh=dict(data=1, fsdp=8, tensor=1, sequence=1),
    work=plan.Work(None, None, (), episodes=64, rows=32, length=4096),
    held={'parameters': 10 * GIB, 'optimizer state': 20 * GIB},
    waiting={},
    gradients=10 * GIB,
    engine={'engine weights': 15 * GIB, 'KV cache': 5 * GIB},
    size=Size(8, 4096),
    programs={
        'accumulate': Program(10 * GIB, hlo.Work(10**15, ())),
        'apply': Program(5 * GIB, hlo.Work(0, ())),
    },
    runs={'accumulate': 8, 'apply': 2},
    room=20 * GIB,
    beside_engine=True,
    largest=Size(16, 4096),
)
WANTED = types.SimpleNamespace(
    model=TrainModel(name='qwen2.5-7b'),
    mesh=Mesh(fsdp=8),
    sampler=types.SimpleNamespace(num_slots=128),
    optim=types.SimpleNamespace(max_tokens=32768),
)


def remarks(**changes):
  found = dataclasses.replace(PLAN, **changes)
  return '\n'.join(plan_report.remarks(found, WANTED, 80.0))


@pytest.mark.parametrize(
    'changes, said',
    [
        ({}, '80 GiB beside the embedded engine: 16 rows of 4,096 tokens'),
        ({'largest': Size(32, 4096)}, '(a whole update), optim.max_tokens=131'),
        ({'room': 8 * GIB}, 'max_tokens=32768 does not fit: 2.0 GiB'),
        ({'room': 4 * GIB}, 'The optimizer does not fit 80 GiB'),
        ({'room': -GIB}, 'The state does not fit 80 GiB'),
        ({'largest': Size(0, 4096)}, 'one row of 4,096 tokens a shard'),
        ({'largest': Size(0, 4096)}, "set model.remat='full'"),
        ({'largest': Size(0, 4096)}, "With sampler.kind='sglang'"),
        ({'beside_engine': False}, 'The embedded engine does not fit'),
    ],
)
def test_what_does_not_fit_is_said_with_the_way_out(changes, said):
  assert said in remarks(**changes)


def test_what_fits_is_not_complained_of():
  text = remarks()
  assert 'does not fit' not in text and 'No microbatch' not in text


def test_a_plan_says_that_its_attention_is_not_that_of_the_run():
  model = TrainModel(name='qwen2.5-7b', attention='flash')
  wanted = types.SimpleNamespace(**vars(WANTED) | {'model': model})
  said = '\n'.join(plan_report.remarks(PLAN, wanted, 80.0))
  assert 'a GPU needs less memory' in said
  assert 'a GPU needs less memory' not in remarks()


def test_the_peak_is_that_of_the_program_that_takes_most():
  assert PLAN.peak == (30 + 10 + 10) * GIB
  score = Program(25 * GIB, hlo.Work(0, ()))  # before there are gradients
  programs = PLAN.programs | {'score': score}
  assert dataclasses.replace(PLAN, programs=programs).peak == 55 * GIB


def test_a_pair_lies_in_one_row():
  wanted = dpo.read(babyai_dpo.get_config())
  work = plan.WORK['dpo'](wanted)
  assert work.length == 2 * wanted.rollout.max_context
  pairs = wanted.algo.minibatch_size
  assert (work.episodes, work.rows) == (2 * pairs, pairs)
  assert work.fields == ('ref_logprobs',)


def test_episodes_longer_than_the_positions_are_refused():
  config = quickstart.get_config('tiny')
  config.rollout.max_context = 4096
  wanted = importlib.import_module('agentrl.modes.train').read(config)
  with pytest.raises(ConfigError, match='max_context=4096 exceeds the 1024'):
    plan.make('train', wanted, variants.get('tiny-1m'), GIB)


@pytest.mark.slow
@pytest.mark.parametrize(
    'name, arg',
    [
        ('quickstart', 'algo=ppo,tiny'),
        ('quickstart', 'algo=gigpo,tiny'),
        ('quickstart', 'algo=cispo,tiny'),
        ('quickstart', 'algo=reinforce_pp,tiny'),
        ('babyai_sft', 'tiny'),
        ('babyai_dpo', 'tiny'),
        ('babyai_agentevol', 'tiny'),
    ],
)
def test_every_way_to_learn_can_be_planned(name, arg):
  config = importlib.import_module(f'configs.{name}').get_config(arg)
  config.model.name = 'tiny-1m'
  mode = importlib.import_module(f'agentrl.modes.{config.mode}')
  wanted = mode.read(config)
  found = plan.make(config.mode, wanted, variants.get('tiny-1m'), 80 * GIB)
  assert found.programs['accumulate'].work.flops > 6 * 984_192 * 64
  assert found.largest.rows >= found.size.rows > 0


def plan_of(**changes):
  """A plan of a pretrained model's run, of a tiny model's size."""
  config = textcraft_grpo.get_config('tiny')
  config.rollout.max_context = 512
  config.update_from_flattened_dict(changes)
  wanted = importlib.import_module('agentrl.modes.train').read(config)
  return plan.make('train', wanted, variants.get('tiny-1m'), 80 * GIB)


@pytest.fixture(scope='module')
def usual():
  return plan_of()


def test_what_waits_on_the_host_is_on_a_device_for_one_program(usual):
  found = plan_of(**{'mesh.offload': ('optimizer', 'reference')})
  moments, reference = (
      usual.held[name] for name in ('optimizer state', 'reference')
  )
  assert found.waiting == {'optimizer state': moments, 'reference': reference}
  assert sum(usual.held.values()) - sum(found.held.values()) == (
      moments + reference
  )
  more = lambda name: found.programs[name].bytes - usual.programs[name].bytes
  assert (more('apply'), more('score')) == (moments, reference)
  assert more('accumulate') == 0


def test_an_adapter_is_what_has_gradients_and_moments(usual):
  found = plan_of(**{'model.lora.rank': 4, 'model.dtype': 'bfloat16'})
  config = variants.get('tiny-1m')
  width, inner = config.hidden_size, config.intermediate_size
  q, kv = (n * config.head_dim for n in (config.num_heads, config.num_kv_heads))
  sizes = 2 * (width + q) + 2 * (width + kv) + 3 * (width + inner)
  adapter = 4 * 4 * config.num_layers * sizes
  assert found.held['frozen base'] == 2 * config.num_params
  assert found.held['adapter'] == found.gradients == adapter
  assert found.held['reference'] == adapter
  assert 2 * adapter <= found.held['optimizer state'] < 2 * adapter + 64
  assert found.gradients < usual.gradients / 4
