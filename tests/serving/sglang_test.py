"""Tests for agentrl.serving.sglang: real processes, killed for real.

The embedded engine stands in for SGLang, under the same command line; where it
does not matter what a server computes, so does tests/serving/stand_in.py, since
the engine takes seconds to start.
"""

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import aiohttp
import jax
import pytest

from agentrl.errors import EngineError
from agentrl.inference.compatibility import RESERVED, Needs
from agentrl.inference.control import ControlClient
from agentrl.inference.replicas import Replicas
from agentrl.inference.sampler import Sampler
from agentrl.runtime import cache, supervisor
from agentrl.serving import sglang
from agentrl.serving.options import Launch
from agentrl.serving.weight_sync.disk import DiskPush
from agentrl.serving.weight_sync.files import ModelFiles
from agentrl.text import tokenizer as tokenizer_lib
from tests import tiny
from tests.waiting import gone, wait_until

ENGINE = 'agentrl.serving.launch_server'
STAND_IN = 'tests.serving.stand_in'
CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=300, max_positions=512)
NEEDS = Needs(max_context=512, vocab_size=300, architecture='LlamaForCausalLM')
CONTEXT = '--context-length', str(NEEDS.max_context + RESERVED)
PROMPT = list(range(20, 40))
# A process imports and compiles on a machine that may be busy.
PATIENCE_S = 180


def params_of(seed):
  """Parameters far from flat, so that versions sample differently."""
  return jax.tree.map(lambda x: 4 * x, tiny.random_params(CONFIG, seed))


class Hasty(sglang.Fleet):
  """Impatient with servers that serve alone: starts take longer under load."""

  async def _attend(self, server):
    patience_s, self._timeout_s = self._timeout_s, 3
    try:
      await super()._attend(server)
    finally:
      self._timeout_s = patience_s


@pytest.fixture
def brief_grace(tmp_path, monkeypatch):
  """Supervisors that await the answer to a SIGTERM for 1 s rather than 10.

  A process that was stopped never answers.
  """
  script = tmp_path / 'brief_supervisor.py'
  script.write_text(f"""
import sys
sys.path.insert(0, {os.path.dirname(supervisor.__file__)!r})
import supervisor
supervisor.GRACE_S = 1.0
sys.exit(supervisor.main(sys.argv[1:]))
""")
  monkeypatch.setattr(supervisor, '__file__', str(script))


@pytest.fixture
def may_start(monkeypatch):
  """While this is cleared, no server starts: others have time to be looked at."""
  allowed, start = threading.Event(), sglang.Server.start
  allowed.set()

  def start_if_allowed(self, model):
    allowed.wait(PATIENCE_S)
    start(self, model)

  monkeypatch.setattr(sglang.Server, 'start', start_if_allowed)
  yield allowed
  allowed.set()


@dataclasses.dataclass(frozen=True)
class Running:
  fleet: sglang.Fleet
  servers: list[sglang.Server]
  replicas: Replicas
  push: DiskPush
  control: ControlClient
  sampler: Sampler


@contextlib.asynccontextmanager
async def running(
    directory,
    *,
    module=STAND_IN,
    replicas=2,
    kind=sglang.Fleet,
    timeout_s=60,
    **fields,
):
  """A fleet that serves `params_of(0)`."""
  launch = Launch(
      python=sys.executable,
      module=module,
      replicas=replicas,
      **{'start_timeout_s': PATIENCE_S, 'backoff_s': 0.1, **fields},
  )
  servers = [
      sglang.Server(
          launch,
          port,
          directory / 'servers' / f'{i}.log',
          flags=(*CONTEXT, '--skip-server-warmup'),
      )
      for i, port in enumerate(sglang.ports(launch))
  ]
  urls = [server.url for server in servers]
  watched = Replicas(urls)
  files = directory / 'tokenizer'
  tokenizer_lib.train_bpe(['go'], vocab_size=300).save(files)
  async with aiohttp.ClientSession() as session:
    control = ControlClient(session, urls)
    push = DiskPush(
        control,
        directory / 'weights',
        ModelFiles(CONFIG, tokenizer_files=files),
        verify=module != STAND_IN,  # which keeps no weights
        watched=watched,
    )
    push.start_from(push.write(params_of(0), 0))
    fleet = kind(
        servers,
        launch,
        watched,
        push,
        needs=NEEDS,
        timeout_s=timeout_s,
        look_s=0.5,
    )
    try:
      fleet.start()
      await fleet.started()
      sampler = Sampler(
          session, urls, temperature=1.0, backoff_s=0.5, replicas=watched
      )
      yield Running(fleet, servers, watched, push, control, sampler)
    finally:
      await asyncio.to_thread(fleet.stop)


def process_of(server):
  """The server's own process: the supervisor's child."""
  listing = subprocess.run(
      ['ps', '-o', 'pid=', '--ppid', str(server.pid)],
      capture_output=True,
      text=True,
  )
  [pid] = listing.stdout.split()
  return int(pid)


def ending_of(server):
  assert wait_until(server.ending)
  return server.ending()


async def until(condition, what):
  deadline = time.monotonic() + PATIENCE_S
  while not condition():
    assert time.monotonic() < deadline, f'waited in vain until {what}'
    await asyncio.sleep(0.02)


async def sample(run, seed, count, **request):
  return await run.sampler.generate(
      PROMPT, max_new_tokens=count, seed=seed, **request
  )


async def one_version(run, url):
  return (await run.control.one(url).model_info())['weight_version']


def test_a_fleet_lives_through_crashes_with_the_current_weights(tmp_path):
  async def story():
    async with running(tmp_path, module=ENGINE) as run:
      a, b = run.servers
      assert [await one_version(run, s.url) for s in (a, b)] == ['0', '0']
      first = process_of(a)

      # A request under way when its server dies ends elsewhere, by its seed.
      expected = await sample(run, 5, 300)
      os.kill(first, signal.SIGSTOP)  # or it might have answered
      requests = [
          asyncio.create_task(sample(run, 5, 300, routing_key=key))
          for key in ('x', 'y')
      ]
      await until(lambda: run.replicas.in_flight(a.url), 'a is busy')
      os.kill(first, signal.SIGKILL)
      await until(lambda: run.replicas.serving() == (b.url,), 'a is held')
      for request in requests:
        completion = await asyncio.wait_for(request, PATIENCE_S)
        assert completion.tokens == expected.tokens
      assert run.sampler.counts['retries'] >= 1

      # A push that comes meanwhile reaches who serves, and then who returns.
      await run.push(params_of(1), 1)
      assert await one_version(run, b.url) == '1'
      await until(lambda: len(run.replicas.serving()) == 2, 'a is back')
      assert await one_version(run, a.url) == '1'
      assert process_of(a) != first
      again = await sample(run, 5, 300)
      assert again.weight_version == '1'
      assert again.tokens != expected.tokens
      return [process_of(a), process_of(b)]

  pids = asyncio.run(story())
  assert gone(*pids)
  log = (tmp_path / 'servers' / '0.log').read_text()
  assert log.count('--model-path') == 2 and 'Serving' in log


def test_requests_wait_for_the_first_server_when_nobody_is_left(
    tmp_path, may_start
):
  async def story():
    async with running(tmp_path) as run:
      a, b = run.servers
      await run.push(params_of(1), 1)
      before = await sample(run, 5, 300)
      may_start.clear()
      for server in (a, b):
        os.kill(process_of(server), signal.SIGKILL)
      await until(lambda: not run.replicas.serving(), 'all are held')
      tries = run.sampler.counts['requests']
      request = asyncio.create_task(sample(run, 5, 300))
      await asyncio.sleep(0)  # it has been asked for
      may_start.set()
      completion = await asyncio.wait_for(request, PATIENCE_S)
      assert run.sampler.counts['requests'] == tries + 1
      assert completion == dataclasses.replace(
          before, latency_s=completion.latency_s
      )
      await until(lambda: len(run.replicas.serving()) == 2, 'both are back')

  asyncio.run(story())
  log = (tmp_path / 'servers' / '0.log').read_text()
  assert log.count('--model-path') == 2


@pytest.mark.usefixtures('brief_grace')
def test_a_server_that_hangs_is_started_again(tmp_path):
  async def story():
    async with running(tmp_path, module=ENGINE, replicas=1, kind=Hasty) as run:
      [server] = run.servers
      first = process_of(server)
      os.kill(first, signal.SIGSTOP)
      await until(lambda: not run.replicas.serving(), 'it is noticed')
      assert gone(first)
      await until(run.replicas.serving, 'it is back')
      assert process_of(server) != first
      completion = await asyncio.wait_for(sample(run, 5, 30), PATIENCE_S)
      assert completion.weight_version == '0'

  asyncio.run(story())


@pytest.mark.usefixtures('brief_grace')
def test_a_server_that_hangs_in_a_push_is_started_with_the_new_weights(
    tmp_path, may_start
):
  async def story():
    async with running(tmp_path) as run:
      a, b = run.servers
      run.push._control = (
          ControlClient(  # less patient than who looks at health
              run.control._session, run.control.urls, timeout_s=2
          )
      )
      os.kill(process_of(a), signal.SIGSTOP)
      may_start.clear()
      await run.push(params_of(1), 1)
      assert run.replicas.serving() == (b.url,)
      assert await one_version(run, b.url) == '1'
      may_start.set()
      await until(lambda: len(run.replicas.serving()) == 2, 'a is back')
      assert await one_version(run, a.url) == '1'

  asyncio.run(story())


def test_a_server_that_dies_too_often_is_given_up(tmp_path):
  async def story():
    async with running(tmp_path, replicas=1, restarts=0) as run:
      os.kill(process_of(run.servers[0]), signal.SIGKILL)
      await until(run.replicas.losses, 'it is lost')
      with pytest.raises(EngineError, match='was killed by SIGKILL, failure 1'):
        await sample(run, 1, 4)

  asyncio.run(story())


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(flags=('--no-such-flag',)), 'exit code 2; .*no-such-flag'),
        (dict(module='agentrl.no_such'), 'exit code 1; its log .*no_such'),
        (
            dict(module=ENGINE, start_timeout_s=0.3),
            'was not ready within 0.3 s',
        ),
        (dict(flags=('--context-length', '64')), 'takes 58 tokens, fewer than'),
    ],
)
def test_a_server_that_never_starts_is_told_at_once(tmp_path, fields, message):
  async def story():
    async with running(tmp_path, replicas=1, **fields):
      raise AssertionError('it started?')

  with pytest.raises(EngineError, match=message):
    asyncio.run(story())


def test_a_python_that_does_not_exist_is_told_at_once(tmp_path):
  launch = Launch(python='/no/such/python')
  [port] = sglang.ports(launch)
  server = sglang.Server(launch, port, tmp_path / 'log')
  server.start(tmp_path)
  assert ending_of(server) == 'ended with exit code 127'
  assert 'cannot run /no/such/python' in server.last_words()
  server.stop()


def test_the_command_is_sglangs_and_flags_come_last():
  launch = Launch(
      python='/opt/sglang/bin/python', flags={'tp_size': 2}, port=30000
  )
  server = sglang.Server(
      launch, 30000, 'log', flags=('--dtype', 'bfloat16'), devices='2,3'
  )
  assert ' '.join(server.command('/dev/shm/w')) == (
      '/opt/sglang/bin/python -m sglang.launch_server --model-path /dev/shm/w'
      ' --host 127.0.0.1 --port 30000 --dtype bfloat16 --tp-size 2'
  )


def test_each_replica_sees_its_own_devices_and_port(tmp_path, monkeypatch):
  monkeypatch.setenv('AGENTRL_SAMPLER_API_KEY', 'secret')
  # Any module that can be run shows what a process sees.
  (tmp_path / 'shows.py').write_text(
      'import os, sys; print(os.environ["CUDA_VISIBLE_DEVICES"], sys.argv[5:],'
      ' os.environ.get("AGENTRL_SAMPLER_API_KEY"))'
  )
  launch = Launch(python=sys.executable, module='shows', replicas=3)
  ports = sglang.ports(launch)
  assert len(set(ports)) == 3
  before = os.getcwd()
  os.chdir(tmp_path)
  try:
    server = sglang.Server(launch, ports[0], tmp_path / 'log', devices='2,3')
    server.start(tmp_path)
    assert ending_of(server) == 'ended with exit code 0'
  finally:
    os.chdir(before)
    server.stop()
  assert f"2,3 ['--port', '{ports[0]}'] None" in server.last_words()


def test_temporary_files_of_a_server_go_with_it(tmp_path, monkeypatch):
  monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
  # As SGLang does with its sockets.
  (tmp_path / 'leaves.py').write_text(
      'import os, tempfile;'
      ' print(tempfile.NamedTemporaryFile(delete=False).name,'
      ' os.environ["TORCHINDUCTOR_CACHE_DIR"])'
  )
  monkeypatch.delenv('TORCHINDUCTOR_CACHE_DIR', raising=False)
  launch = Launch(python=sys.executable, module='leaves')
  [port] = sglang.ports(launch)
  server = sglang.Server(launch, port, tmp_path / 'log')
  monkeypatch.chdir(tmp_path)
  server.start(tmp_path)
  assert ending_of(server) == 'ended with exit code 0'
  left, compiled = server.last_words().split()[-2:]
  [folder] = tmp_path.glob('agentrl-server-*')
  assert [x.name for x in folder.glob('tmp*')] == [os.path.basename(left)]
  assert compiled == str(cache.root('torchinductor'))
  server.stop()
  assert not folder.exists()


def test_ports_of_the_config_are_used_unless_they_are_taken():
  with socket.socket() as other:
    other.bind((sglang.HOST, 0))
    other.listen()
    port = other.getsockname()[1]
    launch = Launch(python=sys.executable, port=port)
    with pytest.raises(EngineError, match=f'Port {port} .* cannot be used'):
      sglang.ports(launch)
  assert sglang.ports(launch) == [port]


def test_sigkill_of_the_run_leaves_no_server(tmp_path):
  code = f"""
import pathlib, sys, time
from agentrl.serving import sglang
from agentrl.serving.options import Launch
launch = Launch(python=sys.executable, module={STAND_IN!r})
log = pathlib.Path({str(tmp_path / 'log')!r})
server = sglang.Server(launch, sglang.ports(launch)[0], log)
server.start(log.parent)
print(server.pid, flush=True)
time.sleep(99)
"""
  run = subprocess.Popen(
      [sys.executable, '-c', code], stdout=subprocess.PIPE, text=True
  )
  with run.stdout:
    supervisor = int(run.stdout.readline())
  listing = ['ps', '-o', 'pid=', '--ppid', str(supervisor)]
  children = lambda: subprocess.run(
      listing, capture_output=True, text=True
  ).stdout.split()
  assert wait_until(children)
  [pid] = map(int, children())
  run.kill()
  run.wait()
  assert gone(pid, supervisor)
