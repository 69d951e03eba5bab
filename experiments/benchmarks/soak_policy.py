"""The policy that soaks serve: it compiles in seconds."""

from typing import Any

import jax
import numpy as np

from agentrl.models import transformer
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from agentrl.text import tokenizer as tokenizer_lib

MAX_LEN = 256
_TREES = 4


def tiny() -> tuple[TransformerConfig, list[Any], Any]:
  """A config, weights in the trainer's layout, and a tokenizer."""
  tokenizer = tokenizer_lib.train_bpe(
      ['the cat sat on the mat', 'naïve café \N{SNOWMAN} \N{HAMMER}'], 320
  )
  config = TransformerConfig(
      vocab_size=tokenizer.vocab_size,
      hidden_size=32,
      intermediate_size=48,
      num_layers=2,
      num_heads=4,
      num_kv_heads=2,
      head_dim=8,
      max_positions=MAX_LEN,
  )
  module = Transformer(config, scan_layers=True)
  init = jax.jit(lambda key: transformer.init_params(module, key))
  # Larger than at initialisation, so that distributions are far from flat.
  trees = [
      jax.tree.map(lambda x: 4 * x if x.ndim > 1 else x, init(key))
      for key in jax.random.split(jax.random.key(0), _TREES)
  ]
  return config, trees, tokenizer


def near(params: Any, count: int, seed: int) -> list[Any]:
  """Parameters near `params`, each of other distributions."""
  rng = np.random.default_rng(seed)
  shake = lambda x: np.asarray(
      x * (1 + 0.5 * rng.normal(size=x.shape)), np.float32
  )
  return [jax.tree.map(shake, params) for _ in range(count)]
