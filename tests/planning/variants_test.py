"""Plans of each variant, as far as nothing is compiled: cache, adapters, mesh."""

import functools
import math
import re

import jax
import numpy as np
import pytest

from agentrl.errors import ConfigError
from agentrl.models import variants
from agentrl.models.config import ATTENTION, CONV, LINEAR
from agentrl.models.options import Lora, TrainModel
from agentrl.modes import reading
from agentrl.parallel import mesh as mesh_lib, meshes
from agentrl.planning import footprint, plan as plan_lib
from agentrl.training import adapters
from agentrl.weights import names
from configs import textcraft_grpo

CONTEXT = 4096
# Numbers that a served sequence keeps, of each token and once, by hand: of all
# models whose layers are not alike, and some others. Twice, for keys and values,
# heads by their size; sliding layers keep a token that they no longer see.
CACHES = {
    # 15 of 35 layers have keys: 3 full ones.
    'gemma4-e2b': (2 * (12 * 1 * 256 + 3 * 1 * 512), 0),
    # 24 of 42, of which 4 are full.
    'gemma4-e4b': (2 * (20 * 2 * 256 + 4 * 2 * 512), 0),
    # Values of full layers are their keys before norm and rotation, after which
    # both are kept.
    'gemma4-12b': (2 * (40 * 8 * 256 + 8 * 1 * 512), 0),
    'gemma4-31b': (2 * (50 * 16 * 256 + 10 * 4 * 512), 0),
    'gemma3-1b': (2 * 26 * 1 * 256, 0),
    'llama3-70b': (2 * 80 * 8 * 128, 0),
    'gpt-oss-20b': (2 * 24 * 8 * 64, 0),
    # A matrix of each head of values, and three tokens of queries, keys and
    # values before the convolution.
    'qwen3.5-0.8b': (
        2 * 6 * 2 * 256,
        18 * (16 * 128 * 128 + 3 * (2 * 16 + 16) * 128),
    ),
    'qwen3.5-2b': (
        2 * 6 * 2 * 256,
        18 * (16 * 128 * 128 + 3 * (2 * 16 + 16) * 128),
    ),
    'qwen3.5-9b': (
        2 * 8 * 4 * 256,
        24 * (32 * 128 * 128 + 3 * (2 * 16 + 32) * 128),
    ),
    'qwen3.5-35b-a3b': (
        2 * 10 * 2 * 256,
        30 * (32 * 128 * 128 + 3 * (2 * 16 + 32) * 128),
    ),
    'qwen3-next-80b-a3b': (
        2 * 12 * 2 * 256,
        36 * (32 * 128 * 128 + 3 * (2 * 16 + 32) * 128),
    ),
    # Two tokens of the gated state.
    'lfm2-350m': (2 * 6 * 8 * 64, 10 * 2 * 1024),
    'lfm2-1.2b': (2 * 6 * 8 * 64, 10 * 2 * 2048),
}


@functools.cache
def shapes_of(name):
  return names.shapes(variants.get(name), np.float32)


def served(name, context=CONTEXT, **model):
  config = textcraft_grpo.get_config(f'model={name}')
  config.rollout.max_context = context
  config.model.update(model)
  return plan_lib.served_bytes(reading.read(config), variants.get(name))


@pytest.mark.parametrize('name', CACHES)
def test_a_sequence_takes_what_its_layers_keep(name):
  token, once = CACHES[name]
  weights, cache = served(name)
  assert weights == 4 * variants.get(name).num_params
  assert cache == 4 * (token * CONTEXT + once)


def test_all_models_whose_layers_are_not_alike_are_among_them():
  others = variants.VARIANTS.keys() - CACHES.keys()
  assert not [x for x in others if len({*variants.get(x).layers}) > 1]


def test_the_state_of_linear_attention_is_float32_in_any_type():
  heads, convolution = 18 * 16 * 128 * 128, 18 * 3 * 48 * 128
  _, cache = served('qwen3.5-0.8b', dtype='bfloat16')
  assert cache == 2 * (6144 * CONTEXT + convolution) + 4 * heads


def columns(config, layer):
  """Projection of a layer -> its rows and columns, by hand."""
  width, inner = config.hidden_size, layer.intermediate_size
  q, kv = config.num_heads * layer.head_dim, layer.num_kv_heads * layer.head_dim
  found = dict(gate=(width, inner), up=(width, inner), down=(inner, width))
  if layer.mixer == CONV:
    found |= dict(in_bcx=(width, 3 * width), out=(width, width))
  elif layer.mixer == LINEAR:
    values = config.linear_value_heads * config.linear_value_dim
    keys = config.linear_key_heads * config.linear_key_dim
    found |= dict(
        in_qkv=(width, 2 * keys + values),
        in_z=(width, values),
        out=(values, width),
    )
  else:
    found |= dict(q=(width, q * (1 + config.attention_gate)), o=(q, width))
    found |= dict(k=(width, kv)) if layer.own_keys else {}
    found |= dict(v=(width, kv)) if layer.own_values else {}
  return found


def targets_of(name):
  """The usual targets, and those that the layers of a variant have beside."""
  config = variants.get(name)
  usual = ('q', 'k', 'v', 'o')
  if not config.num_experts:
    usual += ('gate', 'up', 'down')
  more = {LINEAR: ('in_qkv', 'in_z', 'out'), CONV: ('in_bcx', 'out')}
  for mixer in sorted({*config.mixers} - {ATTENTION}):
    usual += more[mixer]
  return usual


@pytest.mark.parametrize('name', variants.VARIANTS)
def test_adapters_are_of_the_projections_that_layers_have(name):
  config, rank = variants.get(name), 4
  lora = Lora(rank=rank, targets=targets_of(name))
  adapters.check_targets(config, lora)
  model = TrainModel(name=name, lora=lora)
  found = plan_lib._adapter(shapes_of(name), model)
  expected = sum(
      rank * sum(sizes)
      for layer in config.layers
      for target, sizes in columns(config, layer).items()
      if target in lora.targets
  )
  assert sum(x.size for x in jax.tree.leaves(found)) == expected
  if config.num_experts:
    with pytest.raises(ConfigError, match='model.lora.targets=') as caught:
      adapters.check_targets(config, Lora(rank=rank))
    named = re.findall("'([a-z_]+)'", str(caught.value))
    assert set(named) == set(lora.targets)


def abstract_mesh(**sizes):
  axes = dict.fromkeys(mesh_lib.AXES, 1) | sizes
  return jax.sharding.AbstractMesh(tuple(axes.values()), tuple(axes))


# Variants that eight devices of `tensor` do not divide -> the most of a power of
# two that do. 49,159 ids of Granite are odd.
NARROW = {
    'tiny-1m': 4,
    'tiny-4m': 4,
    'smollm2-135m': 1,
    'smollm2-360m': 1,
    'qwen2.5-0.5b': 2,
    'qwen2.5-1.5b': 4,
    'qwen2.5-7b': 4,
    'gemma3-1b': 4,
    'granite3.3-2b': 1,
    'granite3.3-8b': 1,
    'olmo3-7b': 2,
    'olmo3-32b': 2,
    'phi4-14b': 2,
}


@pytest.mark.parametrize('name', variants.VARIANTS)
def test_devices_share_a_model_or_an_error_names_how_many_could(name):
  config, shapes = variants.get(name), shapes_of(name)
  place = lambda tensor: meshes.shardings(
      config, shapes, abstract_mesh(fsdp=8, tensor=tensor)
  )
  split = 8
  while name in NARROW and split != NARROW[name]:
    with pytest.raises(ConfigError, match=f'mesh.tensor={split} ') as caught:
      place(split)
    [said] = re.findall(r'use mesh.tensor=(\d+)', str(caught.value))
    split = int(said)
  held = jax.tree.map(
      lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
      shapes,
      place(split),
  )
  # All but norms, biases and gates, and over `tensor` the layers of linear
  # attention, the convolutions and what layers read beside their states.
  inputs = 3 * config.hidden_size * config.layer_inputs * config.num_layers
  whole = 4 * inputs + sum(
      4 * math.prod(sizes)
      for layer in config.layers
      for target, sizes in columns(config, layer).items()
      if target in ('in_qkv', 'in_z', 'in_bcx', 'out')
  )
  rest = 4 * config.num_params - whole
  expected = (rest / split + whole) / 8
  found = footprint.device_bytes(held)
  assert expected <= found < 1.05 * expected
