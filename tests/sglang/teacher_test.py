"""A real server as the teacher of a distillation."""

import asyncio

import aiohttp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.errors import ConfigError
from agentrl.inference.sampler import Sampler
from agentrl.models.transformer import Transformer
from agentrl.rollout.teacher import Teacher
from agentrl.text import tokenizer as tokenizer_lib
from tests.sglang import models

pytestmark = pytest.mark.sglang

# (tokens, the first that is scored)
REQUESTS = ((2, 1), (17, 1), (40, 33), (120, 119))


def with_sampler(url, body):
  async def main():
    async with aiohttp.ClientSession() as session:
      # Scores are of temperature 1, whatever the sampler's is.
      return await body(Sampler(session, [url], temperature=0.3))

  return asyncio.run(main())


def test_scores_are_the_trainers(exported, real_url):
  _, config, params = exported
  rng = np.random.default_rng(1)
  prompts = [
      (rng.integers(3, config.vocab_size, size=n).tolist(), start)
      for n, start in REQUESTS
  ]

  async def score(sampler):
    return await asyncio.gather(
        *(sampler.score(ids, start=start) for ids, start in prompts)
    )

  module = Transformer(config, scan_layers=True)
  for (ids, start), found in zip(
      prompts, with_sampler(real_url, score), strict=True
  ):
    tokens = jnp.asarray([ids])
    positions = jnp.arange(len(ids))[None]
    hidden = module.apply({'params': params}, tokens, positions).hidden
    logits = module.apply({'params': params}, hidden, method='unembed')[0]
    logprobs = np.asarray(jax.nn.log_softmax(logits, axis=-1))
    expected = logprobs[np.arange(start - 1, len(ids) - 1), ids[start:]]
    np.testing.assert_allclose(found, expected, atol=3e-5)


def test_a_server_of_the_same_tokenizer_teaches_and_no_other(real_url):
  ours = models.tokenizer()
  other = tokenizer_lib.train_bpe(['quite other words'], vocab_size=300)

  async def check(sampler):
    teacher = Teacher(sampler, concurrency=2)
    await teacher.check(ours.encode)
    with pytest.raises(ConfigError, match='has another tokenizer'):
      await teacher.check(other.encode)

  with_sampler(real_url, check)
