"""Tests for agentrl.serving.start: who samples, as a config says."""

import asyncio
import contextlib
import dataclasses
import functools
import re
import shutil
import socket

import aiohttp
import pytest
from absl import logging
from aiohttp import web

from agentrl.errors import EngineError, WeightsError
from agentrl.http.auth import Keys
from agentrl.inference.control import ControlClient
from agentrl.runtime.children import SECRETS
from agentrl.runtime.event_loop import EventLoop
from agentrl.serving import start as serving
from agentrl.serving.options import Launch, SamplerOptions
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import language_model
from agentrl.weights import hf, names, shards
from tests import fakes, tiny
from tests.waiting import wait_until

CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=300, max_positions=512)

HUNYUAN = dict(family='hunyuan_v1_dense', qk_norm='rotated_head')
QWEN3_NEXT = tiny.QWEN3_NEXT | dict(tie_embeddings=False)


@functools.cache
def params_of(seed):
  return tiny.random_params(CONFIG, seed)


@pytest.fixture(scope='module')
def model():
  tokenizer = tokenizer_lib.train_bpe(['go there'], vocab_size=300)
  return language_model.LanguageModel(CONFIG, params_of(1), tokenizer, 'random')


@pytest.fixture
def host():
  with EventLoop() as value:
    yield value


@pytest.fixture
def engines():
  """Two servers that somebody else started, with other weights."""
  with contextlib.ExitStack() as stack:
    yield [
        stack.enter_context(tiny.serving(params_of(0), CONFIG))
        for _ in range(2)
    ]


def start(stack, host, model, tmp_path, *, max_context=256, **sampler):
  return serving.start_serving(
      stack,
      host,
      serving.ServedPolicy(
          model=model,
          version=3,
          dtype='float32',
          max_context=max_context,
          seed=0,
          chat_template=None,
          chat_date=None,
      ),
      SamplerOptions(
          kind='sglang', **{'push_dir': str(tmp_path / 'push'), **sampler}
      ),
      tmp_path,
  )


def sample(host, served, **request):
  sampler = served.make_sampler(temperature=0.0)
  return host.run(
      sampler.generate([20, 21, 22], max_new_tokens=8, seed=1, **request)
  )


def test_servers_that_are_found_get_the_runs_weights(
    host, model, engines, tmp_path
):
  with contextlib.ExitStack() as stack:
    served = start(stack, host, model, tmp_path, urls=tuple(engines))
    assert list(served.urls) == engines
    first = [sample(host, served) for _ in range(2)]
    assert {c.weight_version for c in first} == {'3'}
    host.run(served.push(params_of(2), 4))
    assert sample(host, served).weight_version == '4'
  directory = tmp_path / 'push' / 'version_3'
  assert hf.load_config(directory) == CONFIG
  assert tokenizer_lib.load(directory).vocab_size == model.tokenizer.vocab_size


@pytest.mark.parametrize(
    'fields, launch, said',
    [
        ({}, {}, None),
        (HUNYUAN, {}, "padding.*kind='embedded'"),
        (tiny.GEMMA4, {}, "image part.*kind='embedded'"),
        (QWEN3_NEXT, {}, "not compute in float32.*model.dtype='bfloat16'"),
        (QWEN3_NEXT, dict(flags=('--dtype', 'bfloat16')), None),
        (QWEN3_NEXT, dict(python=None), None),
    ],
)
def test_a_policy_that_sglang_does_not_serve_is_told_of(
    host, model, tmp_path, fields, launch, said, caplog
):
  logging.use_absl_handler()
  config = dataclasses.replace(CONFIG, **fields)
  params = tiny.random_params(config, 1)
  other = dataclasses.replace(model, config=config, params=params)
  launch = Launch(**{'python': '/bin/false', 'restarts': 0, **launch})
  urls = () if launch.python else ('http://127.0.0.1:1',)
  with contextlib.ExitStack() as stack, pytest.raises(EngineError):
    start(
        *(stack, host, other, tmp_path),
        **dict(launch=launch, urls=urls, timeout_s=1),
    )
  found = re.search(r'SGLang 0\.5\.23 does not serve .*', caplog.text)
  assert bool(found) == bool(said)
  assert not said or re.search(said, found[0])


def test_a_server_that_lost_the_weights_is_not_used(
    host, model, engines, tmp_path
):
  with contextlib.ExitStack() as stack:
    served = start(stack, host, model, tmp_path, urls=tuple(engines))
    host.run(served.push(params_of(2), 4))

    # As if somebody had started the first one again, from its first model.
    async def lose():
      async with aiohttp.ClientSession() as session:
        lost = ControlClient(session, engines[:1])
        path = str(tmp_path / 'push' / 'version_3')
        await lost.update_weights_from_disk(path, 'default')

    host.run(lose())
    for _ in range(3):
      assert sample(host, served).weight_version == '4'
    accepts = served.push.accepts()
    assert accepts('4') and not accepts('default')


def test_a_found_server_that_is_away_is_left_out_until_it_is_back(
    host, model, engines, tmp_path
):
  with contextlib.ExitStack() as stack:
    with tiny.serving(params_of(0), CONFIG) as away:
      served = start(stack, host, model, tmp_path, urls=(engines[0], away))
    # A push as well as requests go on.
    host.run(served.push(params_of(2), 4))
    for _ in range(3):
      assert sample(host, served).weight_version == '4'

    def version():
      async def ask():
        async with aiohttp.ClientSession() as session:
          return await ControlClient(session, [away]).model_info()

      return asyncio.run(ask())['weight_version']

    # Somebody starts it again, from its first model; paused, as if it had been
    # cut off in the middle of a push.
    port = int(away.rpartition(':')[2])
    with tiny.serving(params_of(0), CONFIG, port=port):

      async def pause():
        async with aiohttp.ClientSession() as session:
          await ControlClient(session, [away]).pause()

      asyncio.run(pause())
      assert wait_until(lambda: version() == '4', 60)
      host.run(served.push(params_of(1), 5))
      assert version() == '5'
      assert wait_until(lambda: sample(host, served).weight_version == '5')


def test_the_last_found_server_to_go_ends_requests_by_name(
    host, model, tmp_path
):
  with contextlib.ExitStack() as stack:
    with tiny.serving(params_of(0), CONFIG) as url:
      served = start(stack, host, model, tmp_path, urls=(url,), timeout_s=5)
    host.run(served.push(params_of(2), 4))
    words = f'No inference server is left: The server at {url} {url} was not'
    with pytest.raises(EngineError, match=f'{words} ready within 5 s'):
      sample(host, served)


def test_the_pushed_folder_is_a_model_to_transformers(
    host, model, engines, tmp_path
):
  transformers = pytest.importorskip('transformers')
  with contextlib.ExitStack() as stack:
    start(stack, host, model, tmp_path, urls=tuple(engines))
  directory = tmp_path / 'push' / 'version_3'
  theirs = transformers.AutoTokenizer.from_pretrained(directory)
  assert theirs('go there')['input_ids'] == list(
      model.tokenizer.encode('go there')
  )
  config = transformers.AutoConfig.from_pretrained(directory)
  assert config.eos_token_id == list(model.tokenizer.eos_ids)


@contextlib.asynccontextmanager
async def routing(workers, headers, *, lost=None):
  """A router: lists its workers, and hands only requests on, less `lost`."""

  async def generate(request):
    headers.append(request.headers.get('X-SMG-Routing-Key'))
    async with aiohttp.ClientSession() as session:
      url, body = f'{workers[0]}/generate', await request.json()
      body['sampling_params'].pop(lost, None)
      async with session.post(url, json=body) as answer:
        return web.json_response(await answer.json(), status=answer.status)

  listed = {
      'workers': [{'id': str(i), 'url': u} for i, u in enumerate(workers)]
  }
  script = [generate] * 16
  async with fakes.FakeEngine(script, routes={'workers': listed}) as router:
    yield router


def test_a_router_gets_requests_and_its_workers_the_weights(
    host, model, engines, tmp_path
):
  headers = []
  with contextlib.ExitStack() as stack:
    context = routing(engines, headers)
    router = host.run(context.__aenter__())
    stack.callback(lambda: host.run(context.__aexit__(None, None, None)))
    served = start(stack, host, model, tmp_path, router=router.url)
    assert list(served.urls) == engines
    completion = sample(host, served, routing_key='episode-1')
    assert completion.weight_version == '3'
    assert headers[-1] == 'episode-1'  # after the check of the router
    # All that the router itself was asked is who its workers are.
    assert {route for route, _ in router.calls} == {'workers'}


def test_a_router_that_loses_parameters_is_refused(
    host, model, engines, tmp_path
):
  with contextlib.ExitStack() as stack:
    context = routing(engines, [], lost='stop_token_ids')
    router = host.run(context.__aenter__())
    stack.callback(lambda: host.run(context.__aexit__(None, None, None)))
    with pytest.raises(EngineError, match='drops stop_token_ids'):
      start(stack, host, model, tmp_path, router=router.url)


@pytest.mark.parametrize('mode', ['retract', 'in_place', 'abort'])
def test_servers_that_a_killed_run_left_paused_are_resumed(
    host, model, engines, tmp_path, mode
):
  control = ControlClient(host.session, engines)
  host.run(control.pause(mode))
  with contextlib.ExitStack() as stack:
    served = start(stack, host, model, tmp_path, urls=tuple(engines))
    assert sample(host, served).weight_version == '3'


def test_a_server_with_too_short_a_context_is_refused(
    host, model, engines, tmp_path
):
  with contextlib.ExitStack() as stack:
    with pytest.raises(EngineError, match='takes 256 tokens.*max_context=512'):
      start(stack, host, model, tmp_path, urls=tuple(engines), max_context=512)


def test_servers_are_shown_the_keys_of_the_files(
    host, model, tmp_path, monkeypatch
):
  files = {}
  for name in ('api', 'admin'):
    (tmp_path / name).write_text(f'{name}-key')
    files[f'{name}_key_file'] = str(tmp_path / name)
  keys = Keys('api-key', 'admin-key')
  with (
      tiny.serving(params_of(0), CONFIG, keys=keys) as url,
      contextlib.ExitStack() as stack,
  ):
    served = start(stack, host, model, tmp_path, urls=(url,), **files)
    for name, key in zip(SECRETS, ('api-key', 'admin-key'), strict=True):
      monkeypatch.setenv(name, key)
    assert sample(host, served).weight_version == '3'
    monkeypatch.delenv(SECRETS[1])
    with pytest.raises(EngineError, match='check sampler.admin_key_file'):
      start(stack, host, model, tmp_path, urls=(url,))


def test_a_server_that_nobody_started_is_told_at_once_and_in_words(
    host, model, tmp_path, caplog
):
  with socket.socket() as taken:  # but not listening
    taken.bind(('127.0.0.1', 0))
    url = f'http://127.0.0.1:{taken.getsockname()[1]}'
    logging.use_absl_handler()
    with (
        caplog.at_level('WARNING', logger='absl'),
        contextlib.ExitStack() as stack,
        pytest.raises(EngineError) as refused,
    ):
      start(stack, host, model, tmp_path, urls=(url,), timeout_s=0.5)
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith(f'{url} does not answer: Connection refused. ')
    said = str(refused.value)
    assert said.startswith(f'{url} was not ready within 0.5 s; last: POST')
    assert said.endswith(' failed: Connection refused')
    with pytest.raises(EngineError, match='failed: Connection refused$'):
      start(stack, host, model, tmp_path, router=url)


def test_files_in_memory_go_with_the_run(model, tmp_path, monkeypatch):
  monkeypatch.setattr(serving, '_SHM', tmp_path)
  settings = SamplerOptions(kind='sglang', urls=('http://localhost:1',))
  folder_of = lambda stack: serving._push_folder(
      stack, model, settings, 'bfloat16'
  )
  with contextlib.ExitStack() as stack, contextlib.ExitStack() as other:
    folder, another = folder_of(stack), folder_of(other)
    assert folder.is_dir() and folder.parent == tmp_path
    assert another.is_dir() and another != folder
  assert not list(tmp_path.iterdir())


def test_too_little_shared_memory_is_told_with_the_way_out(
    model, tmp_path, monkeypatch
):
  settings = SamplerOptions(kind='sglang', urls=('http://localhost:1',))
  monkeypatch.setattr(serving, '_SHM', tmp_path / 'none')
  with pytest.raises(WeightsError, match='has 0.00 GB.*push_dir.*--shm-size'):
    serving._push_folder(contextlib.ExitStack(), model, settings, 'float32')
  named = dataclasses.replace(settings, push_dir='/shared')
  folder = serving._push_folder(contextlib.ExitStack(), model, named, 'float32')
  assert str(folder) == '/shared'


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_two_versions_have_to_find_room_in_memory(
    model, tmp_path, monkeypatch, dtype
):
  monkeypatch.setattr(serving, '_SHM', tmp_path)
  settings = SamplerOptions(kind='sglang', urls=('http://localhost:1',))
  entries = names.disassemble(CONFIG, model.params, dtype=dtype)
  usage = shutil.disk_usage(tmp_path)

  def folder(free):
    monkeypatch.setattr(
        shutil, 'disk_usage', lambda path: usage._replace(free=free)
    )
    with contextlib.ExitStack() as stack:
      return serving._push_folder(stack, model, settings, dtype)

  needed = 2 * shards.total_bytes(entries)
  assert folder(needed).parent == tmp_path
  with pytest.raises(WeightsError, match='two versions'):
    folder(needed - 1)


@pytest.mark.parametrize(
    'serve, trains, files, warns',
    [
        ({'bfloat16'}, 'bfloat16', 'bfloat16', False),
        ({'bfloat16'}, 'float32', 'bfloat16', True),
        ({'half'}, 'bfloat16', 'float16', True),
        ({'auto'}, 'bfloat16', 'bfloat16', False),
        ({None}, 'float32', 'float32', False),
        ({'bfloat16', 'float32'}, 'float32', 'float32', False),
    ],
)
def test_files_have_the_type_that_servers_compute_in(
    serve, trains, files, warns, caplog
):
  logging.use_absl_handler()
  with caplog.at_level('WARNING', logger='absl'):
    assert serving._file_dtype(serve, trains) == files
  assert ('their log-probabilities will differ' in caplog.text) == warns
