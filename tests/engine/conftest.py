"""A small random decoder, and engines of it that stop when the test ends."""

import dataclasses
import importlib.util
import os
import pathlib
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from agentrl.engine.options import EngineOptions
from agentrl.engine.request import Request, SamplingParams
from agentrl.engine.server import Engine
from agentrl.http.auth import Keys
from agentrl.models import transformer
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from tests import tiny
from tests.engine.talking import WORDS

_MEMBER = 'sglang/api/v1/api_types.py'

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
      hidden = MODULE.apply({'params': params}, tokens, positions).hidden
      return MODULE.apply({'params': params}, hidden, method='unembed')

    self._logits = logits

  def logits(self, tokens):
    """`[T, V]` by a full forward."""
    padded = np.zeros((1, CONFIG.max_positions), np.int32)
    padded[0, : len(tokens)] = tokens
    return np.asarray(self._logits(padded))[0, : len(tokens)]

  def logprobs(self, tokens, temperature=1.0):
    """`[T, V]`: row t is log p(. | tokens[: t + 1]) by a full forward."""
    # In NumPy: JAX would compile for every length.
    return special.log_softmax(self.logits(tokens) / temperature, axis=-1)

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
        model.config,
        model.params,
        tokenizer,
        EngineOptions(**(settings | changes)),
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
def slow_decode(monkeypatch):
  """See `tiny.slow_decode`."""
  return tiny.slow_decode(monkeypatch)


@pytest.fixture
def ask():
  """Submits a prompt without HTTP; gives the future."""

  def submit(
      engine,
      tokens,
      *,
      rid='r',
      salt=None,
      logprob_start=-1,
      top_logprobs=0,
      **params,
  ):
    return engine.submit(
        Request(
            rid=rid,
            tokens=tuple(tokens),
            params=SamplingParams(**params),
            salt=salt,
            logprob_start=logprob_start,
            top_logprobs=top_logprobs,
        )
    )

  return submit


@pytest.fixture
def prompt_of():
  """A random prompt of a length, the same for the same seed."""
  return lambda size, seed=0: (
      np.random.default_rng(seed).integers(1, 97, size=size).tolist()
  )


def start_words_engine(tokenizer=WORDS, max_len=256, **changes):
  """An engine that reads and writes text."""
  config = dataclasses.replace(
      CONFIG,
      vocab_size=tokenizer.vocab_size,
      max_positions=max(max_len, CONFIG.max_positions),
  )
  params = jax.jit(
      lambda key: transformer.init_params(Transformer(config), key)
  )(jax.random.key(2))
  engine = Engine(
      config,
      jax.tree.map(lambda x: 3 * x if x.ndim > 1 else x, params),
      tokenizer,
      EngineOptions(
          eos_ids=tokenizer.eos_ids,
          model_path='words',
          max_running=8,
          max_len=max_len,
          slots=12,
          **changes,
      ),
  )
  engine.url = engine.start()
  return engine


@pytest.fixture(scope='session')
def words_engine():
  """An engine that reads and writes text; shared, so leave it as it was."""
  engine = start_words_engine()
  yield engine
  engine.stop()


@pytest.fixture(scope='session')
def keyed_words_engine():
  """The same weights behind the key 'right'."""
  engine = start_words_engine(keys=Keys(api='right'))
  yield engine
  engine.stop()


def contract_file(folder):
  """The file with the types, or None."""
  wheel = os.environ.get('AGENTRL_SGLANG_WHEEL')
  if wheel:
    return pathlib.Path(zipfile.ZipFile(wheel).extract(_MEMBER, folder))
  spec = importlib.util.find_spec('sglang')  # finds without importing
  for location in spec.submodule_search_locations if spec else ():
    path = pathlib.Path(location).parent / _MEMBER
    if path.is_file():
      return path
  return None


@pytest.fixture(scope='session')
def contract(tmp_path_factory):
  """The contract types of the sglang wheel, as data.

  From an installed or unpacked wheel of sglang 0.5.23: `pip install --no-deps
  sglang==0.5.23`, or AGENTRL_SGLANG_WHEEL=PATH_TO_WHEEL. Only msgspec is needed
  beside it.
  """
  pytest.importorskip('msgspec', reason='the contract types need msgspec')
  path = contract_file(tmp_path_factory.mktemp('sglang'))
  if path is None:
    pytest.skip('needs the wheel: pip install --no-deps sglang==0.5.23')
  spec = importlib.util.spec_from_file_location('sglang_api_types', path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module
