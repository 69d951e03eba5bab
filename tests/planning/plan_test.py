"""Tests for agentrl.planning.plan, on one device."""

import dataclasses
import importlib
import json

import pytest

from agentrl.errors import CheckpointError, ConfigError, WeightsError
from agentrl.models import variants
from agentrl.models.options import TrainModel
from agentrl.modes import reading
from agentrl.planning import hlo, plan
from agentrl.planning.footprint import Program
from agentrl.weights import hf_config, pretrained
from configs import babyai_dpo, quickstart, textcraft_grpo

GIB = 1 << 30


def test_a_variant_needs_no_weights_to_be_planned_and_some_to_be_run():
  found = plan.find_shape(TrainModel(name='llama3-70b'))
  assert found is variants.get('llama3-70b')
  with pytest.raises(
      WeightsError, match="'llama3-70b' is the shape of a model.*no weights"
  ):
    pretrained.resolve('llama3-70b')


def test_a_plan_has_the_vocabulary_asked_for():
  found = plan.find_shape(TrainModel(name='tiny-1m', vocab_size=2048))
  assert found == variants.get('tiny-1m', 2048)
  more = found.num_params - variants.get('tiny-1m').num_params
  assert more == 1024 * found.hidden_size


def test_a_folder_needs_its_config_alone(tmp_path):
  config = hf_config.make(variants.get('qwen2.5-7b'))
  (tmp_path / 'config.json').write_text(json.dumps(config))
  found = plan.find_shape(TrainModel(name=str(tmp_path)))
  assert found == variants.get('qwen2.5-7b')


@pytest.mark.parametrize('name', ['llama3', 'owner/no-such-model', 'a/b/c'])
def test_a_shape_that_is_not_here_is_none(name):
  assert plan.find_shape(TrainModel(name=name)) is None


def run_of(tmp_path, *numbers):
  """A workdir whose checkpoints have their host's record alone."""
  for number in numbers:
    folder = tmp_path / 'checkpoints' / str(number) / 'host'
    folder.mkdir(parents=True)
    model = dataclasses.asdict(variants.get('tiny-4m', 600 + number))
    (folder / 'metadata').write_text(json.dumps({'model': model}))
  return str(tmp_path)


@pytest.mark.parametrize(
    'end, vocab_size', [('', 602), ('/checkpoints/1', 601)]
)
def test_a_run_is_planned_as_its_checkpoint_is(tmp_path, end, vocab_size):
  name = run_of(tmp_path, 1, 2) + end
  shape = plan.find_shape(TrainModel(name=name))
  assert shape == variants.get('tiny-4m', vocab_size)


def test_the_best_checkpoint_of_a_run_is_planned(tmp_path):
  name = run_of(tmp_path, 1, 2)
  (tmp_path / 'checkpoints' / 'best').write_text('1')
  shape = plan.find_shape(TrainModel(name=f'{name}/checkpoints/best'))
  assert shape.vocab_size == 601


def test_a_run_without_a_checkpoint_is_named(tmp_path):
  (tmp_path / 'checkpoints').mkdir()
  with pytest.raises(CheckpointError, match='without a complete checkpoint'):
    plan.find_shape(TrainModel(name=str(tmp_path)))


def test_a_pair_lies_in_one_row():
  wanted = reading.read(babyai_dpo.get_config())
  work = plan.WORK['dpo'](wanted)
  assert work.length == 2 * wanted.rollout.max_context
  pairs = wanted.algo.minibatch_size
  assert (work.episodes, work.rows) == (2 * pairs, pairs)
  assert work.fields == ('ref_logprobs',)


def test_attempts_are_episodes_of_an_update():
  config = quickstart.get_config('tiny')
  once = plan.WORK['train'](reading.read(config))
  config.agent.reflect.attempts = 3
  thrice = plan.WORK['train'](reading.read(config))
  assert thrice.episodes == 3 * once.episodes
  assert thrice.rows == 3 * once.rows


def test_episodes_longer_than_the_positions_are_refused():
  config = quickstart.get_config('tiny')
  config.rollout.max_context = 8192
  wanted = reading.read(config)
  with pytest.raises(ConfigError, match='max_context=8192 exceeds the 4096'):
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
  wanted = reading.read(config)
  found = plan.make(config.mode, wanted, variants.get('tiny-1m'), 80 * GIB)
  assert found.programs['accumulate'].work.flops > 6 * 984_192 * 64
  assert found.largest.rows >= found.size.rows > 0


def plan_of(**changes):
  """A plan of a pretrained model's run, of a tiny model's size."""
  config = textcraft_grpo.get_config('tiny')
  config.rollout.max_context = 512
  config.update_from_flattened_dict(changes)
  wanted = reading.read(config)
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


def test_the_peak_is_that_of_the_program_that_takes_most(usual):
  program = lambda size: Program(size * GIB, hlo.Costs(0, ()))
  found = dataclasses.replace(
      usual,
      held={'parameters': 10 * GIB, 'optimizer state': 20 * GIB},
      gradients=10 * GIB,
      programs={'accumulate': program(10), 'apply': program(5)},
  )
  assert found.peak == (30 + 10 + 10) * GIB
  # Before there are gradients.
  programs = found.programs | {'score': program(25)}
  assert dataclasses.replace(found, programs=programs).peak == 55 * GIB
