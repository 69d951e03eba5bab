"""Tests for agentrl.parallel.sharding."""

import dataclasses

import jax
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P

from agentrl.models import transformer
from agentrl.parallel import sharding
from tests import tiny


def specs(tree, rules=sharding.DECODER_RULES):
  shardings = sharding.infer_shardings(tree, tiny.one_device(), rules)
  return {
      jax.tree_util.keystr(path, simple=True, separator='/'): leaf.spec
      for path, leaf in jax.tree_util.tree_leaves_with_path(shardings)
  }


def test_the_first_matching_rule_wins():
  tree = dict(kernel=np.zeros(2), scale=np.zeros(2))
  rules = [('kernel', P('fsdp')), ('.*', P()), ('scale', P('tensor'))]
  assert specs(tree, rules) == dict(kernel=P('fsdp'), scale=P())


def test_a_leaf_without_a_rule_says_how_to_end_the_list():
  with pytest.raises(ValueError, match=r"'b/c' with shape \(3,\); end the"):
    specs(dict(b=dict(c=np.zeros(3))), [('^a$', P())])


QWEN2 = dict(qkv_bias=True, tie_embeddings=False)
GEMMA = dict(qk_norm=True, post_norms=True)


@pytest.mark.parametrize('changes', [{}, QWEN2, GEMMA, tiny.EXPERTS])
def test_every_matrix_of_the_decoder_is_split_both_ways(changes):
  config = dataclasses.replace(tiny.CONFIG, **changes)
  module = transformer.Transformer(config, scan_layers=True)
  params = jax.eval_shape(
      lambda key: transformer.init_params(module, key), jax.random.key(0)
  )
  found = specs(params)
  assert found['embed'] == P('tensor', 'fsdp')
  assert ('lm_head' in found) != config.tie_embeddings
  for path, spec in found.items():
    # Every matrix uses both axes once, and neither on the layer axis that the
    # scan walks along. Scales are whole, biases lie as their kernel's output,
    # and the experts' router, which is small, is cut one way.
    used = sorted(filter(None, spec))
    whole = {'scale': [], 'bias': ['tensor']}
    expected = whole.get(path.split('/')[-1], ['fsdp', 'tensor'])
    assert used == (['fsdp'] if 'router' in path else expected), path
    assert not path.startswith('layers') or not spec or spec[0] is None


def test_moments_are_placed_as_their_parameters():
  params = tiny.init_params()
  moments = jax.eval_shape(optax.adamw(1e-3).init, params)
  found = specs(moments)
  for path, spec in specs(params).items():
    places = [s for p, s in found.items() if p.endswith(path)]
    assert places == [spec, spec], path  # first and second moment


def test_one_device_has_no_constraints():
  x = np.ones((2, 3))
  assert sharding.place_activations(x) is x
  fn = lambda x: x
  assert sharding.on_mesh(fn, tiny.one_device()) is fn
