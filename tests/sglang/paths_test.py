"""The ways to real servers: URLs, keys, a router, several processes, LoRA."""

import asyncio
import concurrent.futures
import contextlib
import pathlib
import subprocess
import sys

import aiohttp
import pytest

from agentrl.errors import EngineError
from agentrl.inference import router_check
from agentrl.inference.sampler import Sampler
from agentrl.models import variants
from agentrl.serving import sglang
from agentrl.serving.options import Launch
from agentrl.serving.weight_sync.disk import DiskPush
from agentrl.serving.weight_sync.files import ModelFiles
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.weights import hf
from tests.e2e.running import command, launch, lines
from tests.parallel import eight_devices
from tests.sglang import models, server as server_lib
from third_party.sglang_router import install as router_install

pytestmark = [pytest.mark.sglang, pytest.mark.slow]
QUICKSTART = 'configs/quickstart.py:tiny'
FLAGS = (
    '--config.num_steps=2',
    '--config.warmstart.episodes=8',
    '--config.eval.num_tasks=0',
    '--config.horizon.turns=(1,2)',
    '--config.rollout.max_completion_tokens=4',
    '--config.sampler.kind=sglang',
)
CONFIG = variants.get('tiny-1m')


@pytest.fixture(scope='module')
def model(tmp_path_factory):
  """The quickstart's policy as files: other weights than any run's."""
  directory = tmp_path_factory.mktemp('model') / 'tiny'
  words = ['go to the red ball', 'turn left, then right; 0123456789']
  tokenizer = tokenizer_lib.train_bpe(words, CONFIG.vocab_size)
  hf.save(
      directory,
      CONFIG,
      models.params_of(CONFIG, seed=7),
      eos_ids=tokenizer.eos_ids,
      companions=[tokenizer.save],
  )
  return directory


@pytest.fixture(scope='module')
def pair(model, tmp_path_factory):
  """Two real servers, started side by side."""
  folder = tmp_path_factory.mktemp('pair')
  flags = ('--context-length', str(CONFIG.max_positions + 16))
  with contextlib.ExitStack() as stack:
    enter = lambda i: stack.enter_context(
        server_lib.running(model, folder / f'{i}.log', *flags)
    )
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
      yield list(pool.map(enter, range(2)))


def answered(server):
  """How many /generate a server says that it answered."""
  return server.log.read_text().count('"POST /generate HTTP/1.1" 200')


def by_urls(servers, push_dir):
  urls = ','.join(f'"{server.url}"' for server in servers)
  return (
      f'--config.sampler.urls=({urls})',
      f'--config.sampler.push_dir={push_dir}',
  )


def check_record(run, steps=2):
  metrics = lines(run / 'metrics.jsonl')
  assert [line['step'] for line in metrics] == list(range(steps))
  for line in metrics:
    assert line['sampler/logprob_abs_diff_mean'] < 1e-5
    assert line['sampler/stale_turns'] == 0


def ask(urls, body, **settings):
  async def main():
    async with aiohttp.ClientSession() as session:
      return await body(
          Sampler(session, urls, temperature=1.0, max_attempts=1, **settings)
      )

  return asyncio.run(main())


def test_episodes_stay_and_spread_by_the_servers_own_counters(pair):
  before = [answered(server) for server in pair]

  async def body(sampler):
    async def play(episode):
      prompt = [episode + 1, *range(100, 140)]
      for turn in range(3):
        done = await sampler.generate(
            prompt, max_new_tokens=4, seed=1, routing_key=f'e{episode}'
        )
        # All but the newest tokens were computed where this turn is.
        assert done.cached_tokens >= (len(prompt) - 4 if turn else 0)
        prompt = [*prompt, *done.tokens, 7, 8]

    await asyncio.gather(*map(play, range(8)))

  ask([server.url for server in pair], body)
  after = [answered(server) for server in pair]
  assert [b - a for a, b in zip(before, after, strict=True)] == [12, 12]


def test_a_run_finds_servers_that_a_killed_one_left_paused(pair, tmp_path):
  for server, mode in zip(pair, ('retract', 'in_place'), strict=True):
    ask([server.url], lambda sampler, mode=mode: sampler.pause(mode))
  before = [answered(server) for server in pair]
  run = tmp_path / 'run'
  flags = (*FLAGS, *by_urls(pair, tmp_path / 'push'))
  done = launch(run, *flags, config=QUICKSTART)
  assert done.returncode == 0, done.stdout + done.stderr
  check_record(run)
  assert all(
      answered(server) > count
      for server, count in zip(pair, before, strict=True)
  )


def test_an_abort_push_gets_through_somebodys_pause_in_place(
    pair, model, tmp_path
):
  server = pair[0]

  async def body(sampler):
    await sampler.wait_ready(60, resume=True)
    long = asyncio.create_task(
        sampler.generate([5, 6, 7], max_new_tokens=200, seed=1, partial=True)
    )
    await asyncio.sleep(3)  # until it decodes
    assert await sampler.num_requests() == 1
    await sampler.pause('in_place')
    config, params = hf.load(model)
    push = DiskPush(sampler, tmp_path, ModelFiles(config), mode='abort')
    await asyncio.wait_for(push(params, 1), 60)
    assert (await long).finish_reason == 'abort'
    assert (await sampler.model_info())['weight_version'] == '1'
    await sampler.generate([5, 6, 7], max_new_tokens=2, seed=1)

  ask([server.url], body)


@contextlib.contextmanager
def routing(servers, log: pathlib.Path):
  """SGLang's own router before servers; gives its URL."""
  [port] = sglang.ports(Launch(python='python'))
  python = router_install.environment() / 'bin' / 'python'
  if not python.exists():
    pytest.fail(
        'There is no router on this machine; once:'
        ' python third_party/sglang_router/install.py'
    )
  words = (
      '--host',
      '127.0.0.1',
      '--port',
      str(port),
      '--policy',
      'round_robin',
  )
  with log.open('wb') as output:
    process = subprocess.Popen(
        [
            python,
            *('-m', 'sglang_router.launch_router', *words),
            *('--worker-urls', *(server.url for server in servers)),
        ],
        stdout=output,
        stderr=subprocess.STDOUT,
    )
  url = f'http://127.0.0.1:{port}'

  async def ready(sampler):
    async with asyncio.timeout(120):
      while True:
        assert process.poll() is None, f'the router ended; see {log}'
        with contextlib.suppress(EngineError):
          if len(await sampler.workers()) == len(servers):
            return
        await asyncio.sleep(0.5)

  try:
    ask([url], ready)
    yield url
  finally:
    process.terminate()
    process.wait()


def test_a_run_goes_through_sglangs_router(pair, tmp_path):
  run = tmp_path / 'run'
  for server in pair:
    ask([server.url], lambda sampler: sampler.wait_ready(60, resume=True))
  with routing(pair, tmp_path / 'router.log') as url:
    before = [answered(server) for server in pair]
    flags = (
        *FLAGS,
        f'--config.sampler.router={url}',
        f'--config.sampler.push_dir={tmp_path / "push"}',
    )
    done = launch(run, *flags, config=QUICKSTART)
    assert done.returncode == 0, done.stdout + done.stderr
    check_record(run)
    assert all(
        answered(server) > count
        for server, count in zip(pair, before, strict=True)
    )
    # An adapter that no server has is refused, so its name came through.
    check = lambda sampler: router_check.check(
        sampler, vocab_size=CONFIG.vocab_size, lora=True
    )
    ask([url], check)


def test_processes_share_servers(pair, tmp_path):
  run = tmp_path / 'run'
  flags = (
      *FLAGS,
      '--config.mesh.tensor=2',
      *by_urls(pair, tmp_path / 'push'),
  )
  eight_devices.run(command(run, *flags, config=QUICKSTART), processes=2)
  check_record(run)


def test_adapters_are_pushed_merged(pair, model, tmp_path):
  run = tmp_path / 'run'
  flags = (
      *FLAGS,
      f'--config.model.name={model}',
      '--config.model.lora.rank=2',
      *by_urls(pair, tmp_path / 'push'),
  )
  done = launch(run, *flags, config=QUICKSTART)
  assert done.returncode == 0, done.stdout + done.stderr
  check_record(run)


def test_keys_are_asked_for_and_a_wrong_one_is_named(model, tmp_path):
  config, params = hf.load(model)
  flags = ('--api-key', 'reads', '--admin-api-key', 'writes')
  with server_lib.running(model, tmp_path / 'log', *flags) as server:

    async def body(sampler):
      await sampler.wait_ready(60, resume=True)
      push = DiskPush(sampler, tmp_path / 'push', ModelFiles(config))
      await push(params, 3)
      done = await sampler.generate([5, 6], max_new_tokens=2, seed=1)
      assert done.weight_version == '3'

    ask([server.url], body, api_key='reads', admin_key='writes')
    with pytest.raises(EngineError, match='check sampler.admin_key'):
      ask([server.url], body, api_key='reads', admin_key='guess')
    only_reads = lambda sampler: sampler.generate(
        [5, 6], max_new_tokens=2, seed=1
    )
    with pytest.raises(EngineError, match='check sampler.api_key'):
      ask([server.url], only_reads, api_key='guess')


@pytest.mark.parametrize(
    'own, flags, said',
    [
        (True, '()', 'ModuleNotFoundError'),
        (False, '("--chat-template", "/no/such")', '/no/such'),
    ],
)
def test_a_server_that_dies_in_its_start_is_told(tmp_path, own, flags, said):
  python = sys.executable if own else server_lib.python()
  module = 'sglang.launch_server' if own else server_lib.MODULE
  done = launch(
      tmp_path / 'run',
      *FLAGS,
      f'--config.sampler.launch.python={python}',
      f'--config.sampler.launch.module={module}',
      f'--config.sampler.launch.flags={flags}',
      config=QUICKSTART,
  )
  assert done.returncode not in (0, 1), done.stdout + done.stderr
  assert said in done.stderr.splitlines()[-1]
