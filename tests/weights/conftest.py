"""Small models that several tests share."""

import jax
import numpy as np
import pytest

from agentrl.models import transformer
from agentrl.models.config import TransformerConfig


@pytest.fixture(scope='session', params=[True, False], ids=['tied', 'untied'])
def model(request):
  """A config and random trainer parameters, grouped heads of an odd size."""
  config = TransformerConfig(
      vocab_size=101,
      hidden_size=48,
      intermediate_size=80,
      num_layers=3,
      num_heads=6,
      num_kv_heads=2,
      head_dim=16,  # not hidden_size / num_heads
      rope_theta=5000.0,
      rms_norm_eps=1e-5,
      tie_embeddings=request.param,
      max_positions=64,
  )
  return config, random_params(config)


def random_params(config):
  """Trainer parameters."""
  module = transformer.Transformer(config, scan_layers=True)
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  rng = np.random.default_rng(0)
  draw = lambda leaf: rng.normal(size=leaf.shape).astype(np.float32)
  return jax.tree.map(draw, shapes)
