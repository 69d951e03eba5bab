"""Whether a real server gives the log-probabilities that the trainer computes.

Weights reach the server by a push, as in a run; what it then samples is scored
by the trainer's network.
"""

import asyncio
import contextlib
import dataclasses
import functools

import aiohttp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.errors import EngineError
from agentrl.inference.compatibility import RESERVED, Needs
from agentrl.inference.control import ControlClient
from agentrl.inference.sampler import Sampler
from agentrl.models.transformer import Transformer
from agentrl.serving.weight_sync.disk import DiskPush
from agentrl.serving.weight_sync.files import ModelFiles
from agentrl.weights import families
from tests.sglang import models, server as server_lib

pytestmark = pytest.mark.sglang

LENGTHS = (1, 16, 40, 120)
NEW_TOKENS = 32
# None of them changes the distribution that a log-probability is of.
TRUNCATIONS = (
    {},
    {'top_k': 20},
    {'top_p': 0.8},
    {'min_p': 0.05},
    {'top_k': 50, 'top_p': 0.9, 'min_p': 0.01},
)
# Largest and mean difference. The mean is the gate; the largest of a thousand
# tokens, drawn anew by each server, is some roundings of a logit of ten.
FLOAT32 = 3e-5, 5e-6
# Seven bits of mantissa, in every layer: a logit of 8 is known to 0.03 at best.
BFLOAT16 = 0.3, 0.04


def prompts(vocab_size):
  rng = np.random.default_rng(0)
  return [rng.integers(3, vocab_size, size=n).tolist() for n in LENGTHS]


async def push_and_sample(url, config, params, directory):
  """Gives (prompt, sampling parameters, reply) of each request."""
  async with aiohttp.ClientSession() as session:
    control = ControlClient(session, [url])
    files = directory / 'tokenizer'
    models.tokenizer().save(files)
    push = DiskPush(
        control,
        directory,
        ModelFiles(config, eos_ids=(1,), tokenizer_files=files),
    )
    await push(params, 1)
    await push(jax.tree.map(lambda x: 1.02 * x, params), 2)
    await push(params, 3)

    async def sample(prompt, settings):
      body = {
          'input_ids': prompt,
          'sampling_params': {
              'max_new_tokens': NEW_TOKENS,
              'ignore_eos': True,
              **settings,
          },
          'return_logprob': True,
      }
      async with session.post(f'{url}/generate', json=body) as reply:
        assert reply.status == 200, await reply.text()
        return prompt, settings, await reply.json()

    return await asyncio.gather(*(
        sample(prompt, {'temperature': temperature, **truncation})
        for prompt in prompts(config.vocab_size)
        for temperature in (0.7, 1.0)
        for truncation in TRUNCATIONS
    ))


def differences(config, params, replies):
  """Of each sampled token: the server's log-probability less the trainer's."""
  module = Transformer(config, scan_layers=True)

  @jax.jit
  def logits_of(tokens):
    positions = jnp.arange(tokens.shape[1])[None]
    hidden = module.apply({'params': params}, tokens, positions).hidden
    return module.apply({'params': params}, hidden, method='unembed')

  width = max(LENGTHS) + NEW_TOKENS
  found = []
  for prompt, settings, reply in replies:
    meta = reply['meta_info']
    assert meta['weight_version'] == '3'
    ids = [token for _, token, _ in meta['output_token_logprobs']]
    assert len(ids) == NEW_TOKENS and max(ids) < config.vocab_size
    row = np.zeros((1, width), np.int32)
    row[0, : len(prompt) + len(ids)] = prompt + ids
    logits = logits_of(row)[0] / settings['temperature']
    logprobs = np.asarray(jax.nn.log_softmax(logits, axis=-1))
    first = len(prompt) - 1
    for i, (theirs, token, _) in enumerate(meta['output_token_logprobs']):
      found.append(theirs - logprobs[first + i, token])
  return np.abs(found)


def check(url, config, params, directory, bounds):
  replies = asyncio.run(push_and_sample(url, config, params, directory))
  found = differences(config, params, replies)
  assert len(found) == 8 * len(TRUNCATIONS) * NEW_TOKENS
  print(f'{len(found)} tokens: max {found.max():.1e}, mean {found.mean():.1e}')
  most, mean = bounds
  assert found.max() < most and found.mean() < mean


@contextlib.contextmanager
def restored(url, directory):
  """Gives the shared server its own weights back."""
  try:
    yield
  finally:

    async def restore():
      async with aiohttp.ClientSession() as session:
        control = ControlClient(session, [url])
        await control.update_weights_from_disk(str(directory), 'default')

    asyncio.run(restore())


def test_sampler_and_trainer_agree_after_a_push(exported, real_url, tmp_path):
  directory, config, _ = exported
  with restored(real_url, directory):
    params = models.params_of(config, seed=1)
    check(real_url, config, params, tmp_path, FLOAT32)


def check_family(family, folder, bounds, *flags):
  config, _ = models.export(folder / 'model', family)
  log = folder / 'server.log'
  with server_lib.running(folder / 'model', log, *flags) as server:
    assert probe(server.url, needs(config, max_context=400))
    params = models.params_of(config, seed=1)
    check(server.url, config, params, folder / 'push', bounds)


@pytest.mark.slow
@pytest.mark.parametrize('family', models.FAMILIES)
def test_every_family_agrees(family, tmp_path):
  check_family(family, tmp_path, FLOAT32)


@pytest.mark.slow
@pytest.mark.extra  # minutes, as each program of a kernel is interpreted
@pytest.mark.parametrize('family', models.TRITON)
def test_families_of_kernels_for_gpus_agree(family, tmp_path, monkeypatch):
  monkeypatch.setenv('TRITON_INTERPRET', '1')
  monkeypatch.setenv('SGLANG_MAMBA_CONV_DTYPE', 'float32')  # else bfloat16
  flags = ('--max-running-requests', '16', '--max-mamba-cache-size', '64')
  check_family(family, tmp_path, FLOAT32, *flags)


@pytest.mark.slow
def test_bfloat16_agrees_to_its_own_precision(exported, tmp_path):
  directory, config, _ = exported
  log = tmp_path / 'server.log'
  flags = '--dtype', 'bfloat16'
  with server_lib.running(directory, log, *flags) as server:
    params = models.params_of(config, seed=1)
    check(server.url, config, params, tmp_path / 'push', BFLOAT16)


def needs(config, **changes):
  family = families.FAMILIES[config.family]
  found = Needs(
      max_context=config.max_positions - RESERVED,
      vocab_size=config.vocab_size,
      architecture=family.architecture,
      served_as=family.served_as,
      model_type=config.family,
  )
  return dataclasses.replace(found, **changes)


def probe(url, wanted):
  async def ask():
    async with aiohttp.ClientSession() as session:
      return await ControlClient(session, [url]).probe(wanted)

  return asyncio.run(ask())


def test_a_server_of_the_same_model_will_do(exported, real_url):
  [info] = probe(real_url, needs(exported[1]))
  assert info['version'].startswith('0.5.')


@pytest.mark.parametrize(
    'changes, said',
    [
        ({'max_context': 1024}, 'takes 1018 tokens.*--context-length 1030'),
        ({'vocab_size': 511}, 'does not have the 511 ids'),
        ({'vocab_size': 513}, 'does not have the 513 ids'),
        ({'architecture': 'Qwen2ForCausalLM'}, 'model of LlamaForCausalLM'),
    ],
)
def test_a_server_of_another_model_is_refused_and_lives(
    exported, real_url, changes, said
):
  with pytest.raises(EngineError, match=said):
    probe(real_url, needs(exported[1], **changes))
  assert probe(real_url, needs(exported[1]))


@pytest.mark.parametrize('mode', ['retract', 'in_place', 'abort'])
def test_tokens_around_a_push_are_of_the_weights_that_their_span_names(
    exported, real_url, tmp_path, mode
):
  """A completion under way when weights are pushed, as with `rollout.ahead`."""
  directory, config, old = exported
  new = models.params_of(config, seed=1)
  rng = np.random.default_rng(3)
  prompt = rng.integers(3, config.vocab_size, size=16).tolist()

  async def body():
    async with aiohttp.ClientSession() as session:
      control = ControlClient(session, [real_url])
      files = tmp_path / 'tokenizer'
      models.tokenizer().save(files)
      push = DiskPush(
          control,
          tmp_path,
          ModelFiles(config, eos_ids=(1,), tokenizer_files=files),
          mode=mode,
      )
      await push(old, 4)
      sampler = Sampler(
          session, [real_url], temperature=1.0, vocab_size=config.vocab_size
      )
      # What is drawn may be an end, which must not come before the push.
      sampler._sampling_params |= {'ignore_eos': True}
      request = asyncio.create_task(
          sampler.generate(prompt, max_new_tokens=400, seed=1, partial=True)
      )
      while True:
        if await control.num_requests():
          break
        await asyncio.sleep(0.01)
      await asyncio.sleep(0.3)
      await push(new, 5)
      return await request

  with restored(real_url, directory):
    completion = asyncio.run(body())
  spans = completion.spans or (
      (completion.weight_version, len(completion.tokens)),
  )
  versions = [version for version, _ in spans]
  assert sum(count for _, count in spans) == len(completion.tokens)
  if mode == 'abort':
    assert completion.finish_reason == 'abort' and versions == ['4']
  else:
    assert versions == ['4', '5']
  start = 0
  for version, count in spans:
    part = slice(start, start + count)
    start += count
    if (mode, version) == ('in_place', '5'):
      continue  # over the cache of the old weights: of neither
    theirs = np.array(completion.logprobs[part])
    ours = logprobs_of(
        config,
        {'4': old, '5': new}[version],
        [*prompt, *completion.tokens],
    )[len(prompt) :][part]
    assert np.abs(theirs - ours).max() < 1e-4


def logprobs_of(config, params, tokens):
  """`[T]` of ids by the trainer's network, each given those before it."""
  module = Transformer(config, scan_layers=True)
  row = np.array([tokens], np.int32)
  positions = np.arange(row.shape[1])[None]
  apply = jax.jit(functools.partial(module.apply, {'params': params}))
  logits = module.apply(
      {'params': params}, apply(row, positions).hidden, method='unembed'
  )
  logprobs = np.asarray(jax.nn.log_softmax(logits[0], axis=-1))
  return np.array([0.0, *logprobs[np.arange(len(tokens) - 1), tokens[1:]]])
