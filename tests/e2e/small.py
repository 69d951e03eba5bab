"""A config of ours with a tiny-1m of 21 thousand weights besides its embedding.

    --config=tests/e2e/small.py:configs.quickstart:tiny

A tiny run spends most of its time on the products of its network and on
compiling it for each new shape. No test of a whole run depends on either: a
smaller network and few shapes prove the same.
"""

import dataclasses
import importlib

from ml_collections import ConfigDict

from agentrl.models import variants

# Two devices along each axis of a mesh can still share each of them.
SIZES = dict(
    hidden_size=32,
    intermediate_size=64,
    num_layers=2,
    num_heads=4,
    num_kv_heads=4,
    head_dim=8,
)


def network():
  """The shape that takes tiny-1m's place, besides the rows of its embedding."""
  return dataclasses.replace(variants.VARIANTS['tiny-1m'], **SIZES)


def get_config(arg: str) -> ConfigDict:
  """The config of `MODULE:ARGUMENT`, after its network is made small."""
  variants.VARIANTS['tiny-1m'] = network()
  module, _, arg = arg.partition(':')
  config = importlib.import_module(module).get_config(arg)
  config.rollout.max_completion_tokens = 4
  config.rollout.max_context = 512
  # Pieces of one row, whatever comes: few shapes.
  config.optim.max_tokens = 1
  return config
