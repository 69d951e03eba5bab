"""A small random decoder, and engines of it that stop when the test ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.engine.request import Request, SamplingParams
from agentrl.engine.server import Engine
from agentrl.models import transformer
from agentrl.models.transformer import Transformer, TransformerConfig

CONFIG = TransformerConfig(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    max_positions=256,
)
MODULE = Transformer(CONFIG)


def random_params(seed):
  """Larger than at initialisation, so that distributions are far from flat."""
  params = jax.jit(lambda key: transformer.init_params(MODULE, key))(
      jax.random.key(seed)
  )
  return jax.tree.map(lambda x: 6 * x if x.ndim > 1 else x, params)


class Model:
  """The decoder without an engine: the reference for what it should say."""

  def __init__(self, params):
    self.config = CONFIG
    self.params = params

    @jax.jit
    def logits(tokens):
      positions = jnp.arange(tokens.shape[1])[None]
      hidden, _ = MODULE.apply({'params': params}, tokens, positions)
      return MODULE.apply({'params': params}, hidden, method='unembed')

    self._logits = logits

  def logprobs(self, tokens, temperature=1.0):
    """`[T, V]`: row t is log p(. | tokens[: t + 1]) by a full forward."""
    padded = np.zeros((1, CONFIG.max_positions), np.int32)
    padded[0, : len(tokens)] = tokens
    logits = self._logits(padded)[0, : len(tokens)]
    return np.asarray(jax.nn.log_softmax(logits / temperature, axis=-1))

  def greedy(self, prompt, steps):
    tokens = list(prompt)
    for _ in range(steps):
      tokens.append(int(self.logprobs(tokens)[-1].argmax()))
    return tokens[len(prompt) :]


@pytest.fixture(scope='session')
def model():
  return Model(random_params(0))


@pytest.fixture(scope='session')
def other_model():
  return Model(random_params(1))


@pytest.fixture
def make_engine(model):
  """Builds engines; all are stopped afterwards."""
  engines = []

  def make(tokenizer=None, **changes):
    settings = {
        'eos_ids': (),
        'model_path': 'random',
        'max_running': 8,
        'max_len': 256,
        'slots': 12,
    }
    engine = Engine(
        model.config, model.params, tokenizer, **(settings | changes)
    )
    engines.append(engine)
    engine.url = engine.start()
    return engine

  yield make
  for engine in engines:
    engine.stop()


@pytest.fixture
def engine(make_engine):
  return make_engine()


@pytest.fixture
def ask():
  """Submits a prompt without HTTP; gives the future."""

  def submit(engine, tokens, *, rid='r', salt=None, logprob_start=-1, **params):
    return engine.submit(
        Request(
            rid=rid,
            tokens=tuple(tokens),
            params=SamplingParams(**params),
            salt=salt,
            logprob_start=logprob_start,
        )
    )

  return submit


@pytest.fixture
def prompt_of():
  """A random prompt of a length, the same for the same seed."""
  return lambda size, seed=0: (
      np.random.default_rng(seed).integers(1, 97, size=size).tolist()
  )
