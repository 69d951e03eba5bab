"""Tests for agentrl.serving.weight_sync.disk.

What has to hold at the other end is asked of embedded engines over loopback;
how failures are treated, of a server whose answers are scripted.
"""

import asyncio
import contextlib
import dataclasses
import shutil

import aiohttp
import jax
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from aiohttp import web

from agentrl.errors import EngineError, WeightsError
from agentrl.inference.control import ControlClient
from agentrl.inference.replicas import Replicas
from agentrl.inference.sampler import Sampler
from agentrl.serving import options
from agentrl.serving.weight_sync import verify
from agentrl.serving.weight_sync.disk import DiskPush
from agentrl.serving.weight_sync.files import ModelFiles
from agentrl.weights import hf, shards
from tests import fakes, tiny

FILES = ModelFiles(tiny.CONFIG)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def engine(version=0):
  """A real server with `tiny.version_params(version)`; gives its URL."""
  return tiny.serving(tiny.version_params(version), weight_version=str(version))


def run(body, urls, directory, files=FILES, **settings):
  """Runs `body(push, control)` with a push to these servers."""

  async def main():
    async with aiohttp.ClientSession() as session:
      control = ControlClient(session, urls)
      push = DiskPush(control, directory, files, **settings)
      return await asyncio.wait_for(body(push, control), 300)

  return asyncio.run(main())


async def sample(url, count=16, **request):
  async with aiohttp.ClientSession() as session:
    sampler = Sampler(session, [url], temperature=0.0, backoff_s=0.05)
    return await sampler.generate(
        PROMPT, max_new_tokens=count, seed=1, **request
    )


def test_every_server_answers_from_the_pushed_weights(tmp_path):
  async def body(push, control):
    await push(tiny.version_params(7), 7)
    infos = [await control.one(url).model_info() for url in control.urls]
    return infos, [await sample(url) for url in control.urls]

  with engine() as a, engine() as b, engine(7) as fresh:
    infos, completions = run(body, [a, b], tmp_path)
    expected = asyncio.run(sample(fresh))
    for info, completion in zip(infos, completions, strict=True):
      assert info['model_path'] == str(tmp_path / 'version_7')
      assert completion.weight_version == '7'
      assert completion.cached_tokens == 0
      assert completion.tokens == expected.tokens
      np.testing.assert_allclose(
          completion.logprobs, expected.logprobs, rtol=1e-5, atol=1e-6
      )


@pytest.mark.parametrize('mode', options.PUSHES)
def test_requests_under_way_end_whatever_the_mode(tmp_path, monkeypatch, mode):
  fast = tiny.slow_decode(monkeypatch)

  async def body(push, control):
    [url] = control.urls
    version = push.write(tiny.version_params(7), 7)
    async with aiohttp.ClientSession() as session:
      sampler = Sampler(session, [url], temperature=0.0, backoff_s=0.05)
      request = asyncio.create_task(
          sampler.generate(PROMPT, max_new_tokens=200, seed=1)
      )
      while True:
        if await control.num_requests():
          break
        await asyncio.sleep(0.001)
      await push.install(control, version)
      fast.set()
      return await request, await control.server_info(), sampler.counts

  with engine() as url:
    completion, info, counts = run(body, [url], tmp_path, mode=mode)
  assert len(completion.tokens) == 200
  assert info['weight_version'] == '7' and not info['paused']
  # Those that were waited for end under the weights that they began with.
  assert completion.weight_version == ('0' if mode == 'drain' else '7')
  assert counts['aborts'] == (1 if mode == 'abort' else 0)


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_files_have_the_servers_type_and_are_verified_in_it(tmp_path, dtype):
  files = ModelFiles(tiny.CONFIG, dtype=dtype)
  with engine() as url:
    run(lambda push, _: push(tiny.version_params(1), 1), [url], tmp_path, files)
  tensors = safetensors.numpy.load_file(
      tmp_path / 'version_1' / 'model.safetensors'
  )
  assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(dtype)}


def test_other_weights_than_were_pushed_are_noticed(tmp_path, monkeypatch):
  save = hf.save

  def save_others(directory, config, params, **rest):
    save(directory, config, jax.tree.map(lambda x: x + 1e-3, params), **rest)

  monkeypatch.setattr(hf, 'save', save_others)
  with engine() as url:
    with pytest.raises(EngineError, match='gives other weights back for'):
      run(lambda push, _: push(tiny.version_params(1), 1), [url], tmp_path)
    run(
        lambda push, _: push(tiny.version_params(1), 1),
        [url],
        tmp_path,
        verify=False,
    )


def test_weights_may_be_kept_in_half_the_bits():
  values = np.array([[0.1, 1.7], [3.3, -2.2]], np.float32)
  half = values.astype(ml_dtypes.bfloat16).astype(np.float32)
  assert verify._same(values, values)
  assert verify._same(half, values)
  assert not verify._same(np.nextafter(half, 9), values)
  assert not verify._same(half[:1], values)


def test_a_whole_model_is_named_and_two_are_kept(tmp_path):
  tokenizer = tmp_path / 'tokenizer'
  tokenizer.mkdir()
  (tokenizer / 'tokenizer.json').write_text('{}')
  shared = tmp_path / 'shared'
  files = ModelFiles(tiny.CONFIG, eos_ids=(2, 5), tokenizer_files=tokenizer)

  async def body(push, control):
    for version in (1, 2, 3):
      await push(tiny.version_params(version), version)

  with engine() as url:
    run(body, [url], shared, files)
  assert {p.name for p in shared.iterdir()} == {'version_2', 'version_3'}
  for version in (2, 3):
    directory = shared / f'version_{version}'
    assert (directory / 'tokenizer.json').read_text() == '{}'
    config, params = hf.load(directory)
    assert config == tiny.CONFIG
    tiny.assert_trees_equal(params, tiny.version_params(version))


def accepting(**routes):
  """A server that takes every version and tells the last one."""
  versions = []

  async def update(request):
    versions.append((await request.json())['weight_version'])
    return {'success': True, 'message': 'ok'}

  ok = {'status': 'ok'}
  return (
      fakes.FakeEngine(
          routes={
              'pause_generation': ok,
              'continue_generation': ok,
              'update_weights_from_disk': update,
              **routes,
          }
      ),
      versions,
  )


def run_fakes(servers, body, directory, **settings):
  """As `run`, against scripted servers that give no weights back."""

  async def main():
    async with contextlib.AsyncExitStack() as stack:
      for server in servers:
        await stack.enter_async_context(server)
      session = await stack.enter_async_context(aiohttp.ClientSession())
      urls = [server.url for server in servers]
      control = ControlClient(session, urls)
      if 'watched' in settings:
        settings['watched'] = settings['watched'](urls)
      push = DiskPush(
          control, directory, FILES, **{'verify': False, **settings}
      )
      return await asyncio.wait_for(body(push), 300)

  return asyncio.run(main())


def test_the_version_before_is_of_use_to_requests_that_a_push_overtook(
    tmp_path,
):
  during = []

  async def update(request):
    during.append(push_of[0].accepts())
    del request
    return {'success': True, 'message': 'ok'}

  push_of = []
  server, _ = accepting(update_weights_from_disk=update)

  async def body(push):
    push_of.append(push)
    sent = []
    for version in (1, 2, 3):
      await push(tiny.version_params(version), version)
      sent.append(push.accepts())
    return sent

  after_1, after_2, after_3 = run_fakes([server], body, tmp_path)
  verdicts = lambda accepts: [accepts(name) for name in ('1', '2', '3', 'x')]
  # Two pushes overtook the first, one the second, and none the last.
  assert verdicts(after_1) == verdicts(after_2) == [False, True, True, False]
  assert verdicts(after_3) == [False, False, True, False]
  # Sent before the server had the third.
  assert verdicts(during[2]) == [False, True, True, False]


def test_a_resumed_run_pushes_its_version_again_and_drops_later_ones(tmp_path):
  async def first(push):
    for version in (7, 8, 9):
      await push(tiny.version_params(version), version)

  run_fakes([accepting()[0]], first, tmp_path)
  # The checkpoint was of version 8.
  run_fakes(
      [accepting()[0]], lambda push: push(tiny.version_params(8), 8), tmp_path
  )
  assert {p.name for p in tmp_path.iterdir()} == {'version_8'}


def test_a_fingerprint_is_that_of_the_weights_alone(tmp_path):
  async def marks(push):
    found = []
    for weights, version in ((7, 7), (7, 8), (8, 9)):
      await push(tiny.version_params(weights), version)
      found.append(push.fingerprint())
    return found

  same, again, other = run_fakes([accepting()[0]], marks, tmp_path)
  assert same == again != other
  assert run_fakes([accepting()[0]], marks, tmp_path)[0] == same


def test_the_same_version_twice_does_not_take_files_from_a_reader(tmp_path):
  async def body(push):
    await push(tiny.version_params(1), 1)
    before = (tmp_path / 'version_1' / 'model.safetensors').stat().st_ino
    await push(tiny.version_params(2), 1)
    return before

  before = run_fakes([accepting()[0]], body, tmp_path)
  assert (tmp_path / 'version_1/model.safetensors').stat().st_ino == before
  tiny.assert_trees_equal(
      hf.load(tmp_path / 'version_1_again')[1], tiny.version_params(2)
  )


def test_all_go_back_when_one_refuses(tmp_path):
  refuse = []

  async def update(request):
    version = (await request.json())['weight_version']
    refused = version in refuse
    return web.json_response(
        {'success': not refused, 'message': 'no room'},
        status=400 if refused else 200,
    )

  one, versions = accepting()
  other = accepting(update_weights_from_disk=update)[0]

  async def body(push):
    await push(tiny.version_params(1), 1)
    refuse.append('2')
    with pytest.raises(EngineError, match='400: no room'):
      await push(tiny.version_params(2), 2)
    assert (tmp_path / 'version_1').exists()
    refuse.clear()
    await push(tiny.version_params(3), 3)

  run_fakes([one, other], body, tmp_path)
  assert versions == ['1', '2', '1', '3']
  # A pause never outlives its push.
  for server in (one, other):
    routes = [route for route, _ in server.calls]
    assert routes.count('pause_generation') == 4
    assert routes.count('continue_generation') == 4


def test_a_server_that_refuses_keeps_the_version_it_has(tmp_path):
  run_fakes(
      [accepting()[0]], lambda push: push(tiny.version_params(1), 1), tmp_path
  )
  no = {'success': False, 'message': 'no room'}
  server = accepting(update_weights_from_disk=no)[0]
  with pytest.raises(EngineError, match="did not take weights '2'.*no room"):
    run_fakes([server], lambda push: push(tiny.version_params(2), 2), tmp_path)
  assert (tmp_path / 'version_1').exists()


def test_a_wrong_version_and_unreadable_weights_name_the_way_out(tmp_path):
  push = lambda push: push(tiny.version_params(2), 2)
  server = accepting(model_info={'weight_version': '1'})[0]
  with pytest.raises(EngineError, match="has weights '1' after the push of 2"):
    run_fakes([server], push, tmp_path, verify=True)
  for answer in (None, web.Response(status=404, text='no route')):
    weights = lambda request, answer=answer: answered(answer)
    server = accepting(
        model_info={'weight_version': '2'}, get_weights_by_name=weights
    )[0]
    with pytest.raises(EngineError, match='sampler.verify=False'):
      run_fakes([server], push, tmp_path, verify=True)


def secretive(checksums, block='self_attn.'):
  """A server that cannot read weights by name; its checksums, push by push."""
  checked = f'model.layers.{tiny.CONFIG.num_layers - 1}.{block}o_proj.weight'
  remaining, engine, versions = list(checksums), *accepting()

  async def model_info(request):
    return {'weight_version': versions[-1]}

  async def checker(request):
    return {'ranks': [{'checksums': {checked: remaining.pop(0)}}]}

  engine._routes |= {
      'model_info': model_info,
      'get_weights_by_name': lambda request: answered(None),
      'weights_checker': checker,
  }
  return engine


async def push_all(push, params):
  for version, tree in enumerate(params):
    await push(tree, version)


@pytest.mark.parametrize('block', ['self_attn.', ''])  # SGLang's of Qwen3.5
def test_weights_that_no_name_reads_have_to_change_where_they_changed(
    tmp_path, block
):
  trees = [
      tiny.version_params(1),
      tiny.version_params(1),
      tiny.version_params(2),
  ]
  run_fakes(
      [secretive('aab', block)], lambda p: push_all(p, trees), tmp_path / 'a',
      verify=True,
  )  # fmt: skip
  with pytest.raises(EngineError, match='the same .*o_proj.* after the push'):
    run_fakes(
        [secretive('aaa', block)], lambda p: push_all(p, trees), tmp_path / 'b',
        verify=True,
    )  # fmt: skip


def test_a_checked_matrix_is_one_that_a_server_finds_again():
  shapes = {'q_proj': (2, 2), 'k_proj': (1, 2), 'o_proj': (3, 2)}
  entries = [
      shards.Entry(name, (np.ones(shape),), (), False, np.dtype('float32'))
      for name, shape in (('norm', (2,)), *shapes.items())
  ]
  narrow = dataclasses.replace(tiny.CONFIG, head_dim=2 * tiny.CONFIG.head_dim)
  for config, expected in ((tiny.CONFIG, 'k_proj'), (narrow, 'o_proj')):
    assert list(verify._first_rows(entries, config)) == ['norm', expected]


async def answered(answer):
  return answer


def test_a_folder_without_room_is_named_before_anything_is_written(
    tmp_path, monkeypatch
):
  usage = shutil.disk_usage(tmp_path)._replace(free=1000)
  monkeypatch.setattr(shutil, 'disk_usage', lambda path: usage)
  with pytest.raises(WeightsError, match='sampler.push_dir.*--shm-size'):
    run_fakes(
        [accepting()[0]], lambda push: push(tiny.version_params(1), 1), tmp_path
    )
  assert not list(tmp_path.iterdir())


def test_a_push_that_aborts_ends_somebodys_pause_first(tmp_path):
  server = accepting()[0]
  push = lambda push: push(tiny.version_params(1), 1)
  run_fakes([server], push, tmp_path, mode='abort')
  assert [route for route, _ in server.calls] == [
      'continue_generation',
      'pause_generation',
      'update_weights_from_disk',
      'continue_generation',
  ]


def test_a_watched_server_that_dies_does_not_fail_the_push(tmp_path):
  replicas = []

  async def die(request):
    return web.Response(status=500, text='dying')

  def watch(urls):
    replicas.append(Replicas(urls))
    return replicas[0]

  alive, versions = accepting()
  dying = accepting(update_weights_from_disk=die)[0]

  async def body(push):
    await push(tiny.version_params(1), 1)
    with push.pinned() as version:
      assert version.number == 1
      url = dying.url
      # What its watcher does: only the newest version lets it serve.
      await push(tiny.version_params(2), 2)
      assert not push.release(url, version)
      assert replicas[0].serving() == (alive.url,)
      assert 'gave 500: dying' in replicas[0].condemned(url)
      await push(tiny.version_params(3), 3)
      assert version.directory.exists()  # a server may be reading it
    with push.pinned() as version:
      assert version.number == 3 and push.release(url, version)
    assert replicas[0].serving() == (alive.url, url)
    await push(tiny.version_params(4), 4)

  run_fakes([alive, dying], body, tmp_path, watched=watch)
  assert versions == ['1', '2', '3', '4']
  assert {p.name for p in tmp_path.iterdir()} == {'version_3', 'version_4'}


def test_a_router_is_asked_for_its_workers_at_each_push(tmp_path):
  servers = [accepting() for _ in range(2)]
  known = []

  async def main():
    async with contextlib.AsyncExitStack() as stack:
      for server, _ in servers:
        await stack.enter_async_context(server)
      workers = lambda request: answered(
          {'workers': [{'url': url} for url in known]}
      )
      router = await stack.enter_async_context(
          fakes.FakeEngine(routes={'workers': workers})
      )
      session = await stack.enter_async_context(aiohttp.ClientSession())
      urls = [server.url for server, _ in servers]
      known.append(urls[0])
      push = DiskPush(
          ControlClient(session, urls[:1]),
          tmp_path,
          FILES,
          verify=False,
          router=ControlClient(session, [router.url]),
      )
      await push(tiny.version_params(1), 1)
      known.append(urls[1])
      await push(tiny.version_params(2), 2)
      assert {route for route, _ in router.calls} == {'workers'}

  asyncio.run(main())
  assert [versions for _, versions in servers] == [['1', '2'], ['2']]
