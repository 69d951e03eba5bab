"""Tests for pushes of adapters to embedded engines, see weight_sync.disk."""

import asyncio
import contextlib
import types

import aiohttp
import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from agentrl.errors import EngineError
from agentrl.inference.control import ControlClient
from agentrl.inference.sampler import Sampler
from agentrl.models import lora as lora_lib
from agentrl.models.lora import Base, Lora
from agentrl.parallel import distributed
from agentrl.serving.weight_sync.disk import DiskPush, Follower
from agentrl.serving.weight_sync.files import AdapterFiles, ModelFiles
from tests import tiny

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
LORA = Lora(rank=2, alpha=4.0, targets=('q', 'o', 'up', 'down'))


BASE = Base(tiny.version_params(7), LORA.scale)


def adapter_of(seed):
  rng = np.random.default_rng(seed)
  adapter = lora_lib.init(LORA, BASE.params, jax.random.key(0))
  return jax.tree.map(
      lambda x: rng.normal(0, 0.3, x.shape).astype(np.float32), adapter
  )


async def greedy(session, url, **options):
  sampler = Sampler(session, [url], temperature=0.0, backoff_s=0.05, **options)
  return await sampler.generate(PROMPT, max_new_tokens=16, seed=1)


def files(base=BASE):
  return AdapterFiles(ModelFiles(tiny.CONFIG), base, LORA, run='run')


def run(body, urls, directory):
  """Runs `body(push, control, session)` with a push to these servers."""

  async def main():
    async with aiohttp.ClientSession() as session:
      control = ControlClient(session, urls)
      push = DiskPush(control, directory, files())
      return await asyncio.wait_for(body(push, control, session), 120)

  return asyncio.run(main())


@contextlib.contextmanager
def servers(count=1):
  """Engines with other weights than the base."""
  with contextlib.ExitStack() as stack:
    yield [
        stack.enter_context(tiny.serving(tiny.version_params(0)))
        for _ in range(count)
    ]


def expected_of(seed):
  """What a server of the merged policy says."""
  with tiny.serving(lora_lib.merge(adapter_of(seed), BASE)) as url:

    async def ask():
      async with aiohttp.ClientSession() as session:
        return await greedy(session, url)

    return asyncio.run(ask())


def test_every_server_answers_by_the_adapter_that_was_pushed(tmp_path):
  async def body(push, control, session):
    found = []
    for version in (1, 2):
      await push(adapter_of(version), version)
      for url in control.urls:
        found.append(
            await greedy(
                session,
                url,
                adapter=lambda: push.adapter,
                accepts=push.accepts,
            )
        )
    infos = [await control.one(url).model_info() for url in control.urls]
    loaded = [await control.one(url).models() for url in control.urls]
    return found, infos, loaded

  with servers(2) as urls:
    found, infos, loaded = run(body, urls, tmp_path)
  for version, pair in ((1, found[:2]), (2, found[2:])):
    expected = expected_of(version)
    for completion in pair:
      assert completion.tokens == expected.tokens
      assert completion.weight_version == str(version)
      np.testing.assert_allclose(
          completion.logprobs, expected.logprobs, rtol=1e-4, atol=1e-5
      )
  # The base was pushed once, the old adapter is gone; the folders say so too.
  [folder] = tmp_path.glob('base_*')
  for info, names in zip(infos, loaded, strict=True):
    assert info['model_path'] == str(folder)
    assert info['weight_version'] == 'base'
    [name] = names[1:]
    assert name.startswith('agentrl-version_2_')
  sizes = {
      path.name.partition('_')[0]: sum(f.stat().st_size for f in path.iterdir())
      for path in tmp_path.iterdir()
  }
  assert sizes['version'] < sizes['base'] / 2


def test_after_a_push_that_failed_requests_ask_for_the_one_before(tmp_path):
  async def body(push, control, session):
    await push(adapter_of(1), 1)
    wrong = adapter_of(2)
    del wrong['layers']['mlp']['down']['b']
    with pytest.raises(KeyError):
      await push(wrong, 2)
    # One that the servers refuse.
    write = push.write

    def damage(params, version):
      written = write(params, version)
      (written.directory / 'adapter_config.json').write_text('{}')
      return written

    push.write = damage
    with pytest.raises(EngineError, match='does not describe .*--enable-lora'):
      await push(adapter_of(3), 3)
    assert push.adapter.version == '1'
    [url] = control.urls
    return await greedy(
        session, url, adapter=lambda: push.adapter, accepts=push.accepts
    )

  with servers() as urls:
    completion = run(body, urls, tmp_path)
  assert completion.tokens == expected_of(1).tokens
  assert completion.weight_version == '1'


def test_a_process_that_does_not_push_asks_for_what_another_pushed(
    tmp_path, monkeypatch
):
  place = NamedSharding(tiny.one_device(), PartitionSpec())
  monkeypatch.setattr(distributed, 'count', lambda: 2)
  base = BASE.replace(params=jax.device_put(BASE.params, place))

  async def body(_, control, session):
    push = DiskPush(control, tmp_path, files(base))
    other = Follower(files(base))
    verdicts = lambda accepts: [accepts(name) for name in ('1', '2', '7')]
    sent = []
    for version in (1, 1, 2):  # a resumed run repeats its last
      for each in (push, other):
        await each(jax.device_put(adapter_of(version), place), version)
      assert push.adapter == other.adapter
      assert push.adapter.version == str(version)
      assert verdicts(other.accepts()) == verdicts(push.accepts())
      sent.append(other.accepts())
    # Of requests that a push overtook, and of a later one.
    assert list(map(verdicts, sent)) == [
        [True, True, False],
        [True, True, False],
        [False, True, False],
    ]
    [url] = control.urls
    return await greedy(session, url, adapter=lambda: other.adapter)

  with servers() as urls:
    completion = run(body, urls, tmp_path)
  assert completion.tokens == expected_of(2).tokens


def test_a_request_within_a_push_of_another_process_may_meet_either_version():
  during = []

  def gather(params, keep):
    accepts = push.accepts()
    during.append([accepts(name) for name in ('1', '2', '3')])

  push = Follower(types.SimpleNamespace(gather=gather, name=str))
  for version in (1, 2):
    asyncio.run(push(None, version))
  assert during == [[True, False, False], [True, True, False]]
  assert [push.accepts()(name) for name in ('1', '2')] == [False, True]


def test_a_server_that_has_lost_its_adapter_is_not_asked_for_the_base(tmp_path):
  async def body(push, control, session):
    await push(adapter_of(1), 1)
    await control.unload_lora_adapter(push.adapter.name)
    [url] = control.urls
    with pytest.raises(EngineError, match='is not loaded'):
      await greedy(session, url, adapter=lambda: push.adapter)

  with servers() as urls:
    run(body, urls, tmp_path)
