r"""A cluster's run on one machine: hosts are cut off and come back.

    python -m experiments.clusters.rehearsal --out=runs/rehearsal

Six hosts (`hosts`): two trainers that jax.distributed joins, two inference servers,
two environment servers; a policy of a million parameters. While the run learns,
the link of an inference host is cut and joined again, then that of an environment
host; a server of each kind is killed; the link of a trainer is cut, and the same
commands continue. Each line of the log says what was seen; the exit code is 1 if
anything was not as it should be.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

from absl import app, flags

from agentrl import types
from agentrl.errors import AgentrlError
from experiments.clusters import hosts as hosts_lib
from experiments.clusters.hosts import Host

_OUT = flags.DEFINE_string('out', None, 'Folder of the log.', required=True)
_STEPS = flags.DEFINE_integer(
    'steps', 18, 'RL steps of the run.', lower_bound=14
)

ROOT = pathlib.Path(__file__).parents[2]
LIMIT_S = 120.0  # from the loss of a trainer to the end of the others
_PATIENCE_S = 600.0
_LEVELS = {'levels': ('GoToRedBall',), 'style': 'compact'}
_SAMPLER_PORT, _ENV_PORT = 30000, 36000
_PORTS = {
    f'{kind}{i}': port
    for kind, port in (('sampler', _SAMPLER_PORT), ('env', _ENV_PORT))
    for i in (0, 1)
}
# Devices are simulated on CPUs; collectives need threads of their own.
_CPU = {'JAX_PLATFORMS': 'cpu', 'JAX_NUM_CPU_DEVICES': '1', 'NPROC': '16'}


class Unexpected(AgentrlError):
  """Something was not as it should be."""


class Rehearsal:
  """The hosts, what runs there, and the log."""

  def __init__(self, hosts: list[Host], shared: pathlib.Path, steps: int):
    self.hosts = {host.name: host for host in hosts}
    self.shared, self.steps = shared, steps
    self.run = shared / 'run'
    self._began = time.monotonic()
    self.processes: dict[str, subprocess.Popen] = {}
    self._starts = 0

  def say(self, words: str) -> None:
    line = f'{time.monotonic() - self._began:6.1f} s  {words}'
    print(line, flush=True)

  def expect(self, true: bool, words: str) -> None:
    """Notes `words`.

    Raises:
      Unexpected: they do not hold.
    """
    if not true:
      raise Unexpected(f'not so: {words}')
    self.say(words)

  def until(self, condition: Callable[[], bool], words: str) -> float:
    """Waits for a condition; the seconds that it took.

    Raises:
      Unexpected: it was waited for in vain, or a process ended meanwhile.
    """
    began = time.monotonic()
    running = [k for k, x in self.processes.items() if x.poll() is None]
    while not condition():
      if time.monotonic() - began > _PATIENCE_S:
        raise Unexpected(f'waited in vain: {words}')
      for name in running:
        if name.startswith('trainer') and self.processes[name].poll():
          raise Unexpected(f'{name} ended: {self.last_line(name)}; {words}')
      time.sleep(0.05)
    return time.monotonic() - began

  def start(self, name: str, *words: str, **env: str) -> None:
    """Starts a part of `node.sh` on a host."""
    env = dict(
        AGENTRL_SAMPLERS='sampler0 sampler1',
        AGENTRL_ENVS='env0 env1',
        AGENTRL_SHARED=str(self.shared),
        AGENTRL_MODEL=str(self.shared / 'base'),
        AGENTRL_ENV='babyai',
        PYTHON=sys.executable,
        SGLANG_PYTHON=sys.executable,
        SGLANG_MODULE='agentrl.serving.launch_server',
        SGLANG_FLAGS='--context-length 1152 --skip-server-warmup',
        **_CPU | env,
    )
    with self.log(name).open('a') as log:
      script = str(pathlib.Path(__file__).parent / 'node.sh')
      self.processes[name] = self.hosts[name].start(
          ['bash', script, *words], log, env
      )

  def log(self, name: str) -> pathlib.Path:
    return self.shared / f'{name}.log'

  def said(self, name: str) -> list[str]:
    return self.log(name).read_text().splitlines()

  def last_line(self, name: str) -> str:
    return self.said(name)[-1]

  def counted(self, words: str) -> int:
    """Lines with `words` in the logs of the trainers."""
    return sum(
        words in line for name in trainers(self) for line in self.said(name)
    )

  def done(self) -> int:
    """RL steps in the record."""
    path = self.run / 'metrics.jsonl'
    return len(path.read_text().splitlines()) if path.exists() else 0

  def start_trainers(self) -> None:
    """The same commands each time."""
    for rank, name in enumerate(trainers(self)):
      self.start(
          name,
          'trainer',
          *self.flags(self.run),
          RANK=str(rank),
          WORLD_SIZE='2',
          MASTER_ADDR='trainer0',
      )

  def flags(self, workdir: pathlib.Path) -> list[str]:
    """Flags of launch.py: two processes of two tasks' episodes each."""
    return [
        '--config=configs/quickstart.py:tiny',
        f'--workdir={workdir}',
        f'--config.model.name={self.shared / "base"}',
        f'--config.num_steps={self.steps}',
        '--config.warmstart.episodes=0',
        '--config.eval.num_tasks=0',
        '--config.gauges.every=0',
        '--config.rollout.tasks_per_step=4',
        '--config.rollout.concurrency=8',
        '--config.checkpoint.every=1',
    ]


def trainers(rehearsal: Rehearsal) -> list[str]:
  return [name for name in rehearsal.hosts if name.startswith('trainer')]


def alone(*flags: str, devices: int = 1) -> None:
  """Runs launch.py here, outside of the hosts.

  Raises:
    Unexpected: it failed.
  """
  done = subprocess.run(
      [sys.executable, 'launch.py', *flags],
      cwd=ROOT,
      env=os.environ | _CPU | {'JAX_NUM_CPU_DEVICES': str(devices)},
      capture_output=True,
      text=True,
  )
  if done.returncode:
    raise Unexpected(f'{" ".join(flags)}: {done.stderr[-500:]}')


def get(host: Host, port: int, route: str) -> str:
  with urllib.request.urlopen(
      f'http://{host.address}:{port}/{route}', timeout=5
  ) as reply:
    return reply.read().decode()


def requests(host: Host) -> int:
  """Requests under way at an inference server."""
  loads = json.loads(get(host, _SAMPLER_PORT, 'v1/loads?include=core'))['loads']
  return sum(
      load['num_running_reqs'] + load['num_waiting_reqs'] for load in loads
  )


def version(host: Host) -> int:
  """The push whose weights an inference server has; -1: of no push."""
  found = json.loads(get(host, _SAMPLER_PORT, 'model_info'))['weight_version']
  return int(found) if found.isdecimal() else -1


def episodes(host: Host) -> int:
  """Episodes under way at an environment server."""
  for line in get(host, _ENV_PORT, 'metrics').splitlines():
    name, _, value = line.rpartition(' ')
    if not line.startswith('#') and 'live_episodes' in name:
      return int(float(value))
  raise Unexpected('GET /metrics has no live_episodes')


def prepare(rehearsal: Rehearsal) -> None:
  """A policy to start from, and the servers."""
  rehearsal.say('a policy of a million parameters imitates 16 episodes')
  alone(
      '--config=configs/babyai_sft.py:tiny',
      f'--workdir={rehearsal.shared / "base"}',
      '--config.eval.num_tasks=0',
  )
  for i in (0, 1):
    rehearsal.start(f'sampler{i}', 'sampler')
    rehearsal.start(f'env{i}', 'env', f'--config.env.options={_LEVELS}')
  for name, port in _PORTS.items():
    host = rehearsal.hosts[name]
    rehearsal.until(lambda: answers(host, port), name)  # noqa: B023  (at once)


def answers(host: Host, port: int) -> bool:
  try:
    get(host, port, 'health')
  except OSError:  # also urllib's
    return False
  return True


def cut_sampler(rehearsal: Rehearsal) -> None:
  """An inference host is away for some steps: only its requests are repeated."""
  host = rehearsal.hosts['sampler1']
  rehearsal.until(lambda: requests(host) > 0, 'a request at sampler1')
  under_way = requests(host)
  host.cut()
  at = rehearsal.done()
  rehearsal.say(f'sampler1 is cut off, with {under_way} requests under way')
  rehearsal.until(lambda: rehearsal.done() >= at + 2, 'two more steps')
  repeated = rehearsal.counted('Repeating a request to http://sampler1')
  failed = rehearsal.counted('stopped with engine_error')
  rehearsal.expect(
      failed == 0,
      f'the run has gone on to step {rehearsal.done()};'
      f' {repeated} requests were repeated elsewhere, no episode was lost',
  )
  rehearsal.expect(
      repeated + rehearsal.counted('failed in a push') > 0,
      'its absence was met by requests or a push',
  )
  host.join()
  rehearsal.say('sampler1 has its link again')
  took = rehearsal.until(
      lambda: version(host) >= rehearsal.done(), 'sampler1 with new weights'
  )
  rehearsal.say(f'it had the current weights after {took:.1f} s')
  rehearsal.until(lambda: requests(host) > 0, 'requests at sampler1 again')
  rehearsal.say('it gets requests again')


def cut_env(rehearsal: Rehearsal) -> None:
  """An environment host is away: only its episodes are played again."""
  host = rehearsal.hosts['env1']
  rehearsal.until(lambda: episodes(host) > 0, 'an episode at env1')
  host.cut()
  at = rehearsal.done()
  rehearsal.say('env1 is cut off')
  rehearsal.until(lambda: rehearsal.done() >= at + 2, 'two more steps')
  again = rehearsal.counted('stopped with env_error, attempt 1')
  dropped = rehearsal.counted('stopped with env_error, attempt 2')
  host.join()
  # It has not heard that the others gave them up: they wait for their lease.
  left = episodes(host)
  rehearsal.expect(
      0 < again <= left and not dropped,
      f'the run has gone on to step {rehearsal.done()}; of {left} episodes'
      f' there {again} were played again, and none twice',
  )
  rehearsal.say('env1 has its link again')
  took = rehearsal.until(lambda: episodes(host) > left, 'a new episode at env1')
  rehearsal.say(f'it gets episodes again after {took:.1f} s')


def kill_servers(rehearsal: Rehearsal) -> None:
  """Servers die: `node.sh` starts them again, with the model of their start."""
  sampler, env = rehearsal.hosts['sampler0'], rehearsal.hosts['env0']
  rehearsal.until(lambda: requests(sampler) > 0, 'a request at sampler0')
  killed = sampler.kill('-m agentrl.serving.launch_server') + env.kill(
      'launch.py'
  )
  rehearsal.expect(killed == 2, 'the servers of sampler0 and env0 are killed')
  for host, port in ((sampler, _SAMPLER_PORT), (env, _ENV_PORT)):
    rehearsal.until(lambda: answers(host, port), host.name)  # noqa: B023
  took = rehearsal.until(
      lambda: version(sampler) >= rehearsal.done(), 'sampler0 with weights'
  )
  rehearsal.say(
      'they are started again; sampler0 had the current weights'
      f' {took:.1f} s after it answered'
  )
  rehearsal.until(
      lambda: requests(sampler) > 0 and episodes(env) > 0, 'their use'
  )
  lost = rehearsal.counted('stopped with engine_error')
  rehearsal.expect(not lost, 'they are used again; no episode was lost')


def cut_trainer(rehearsal: Rehearsal) -> None:
  """A trainer's host is away: all end by name, and the same commands go on."""
  at = rehearsal.done()
  rehearsal.until(lambda: rehearsal.done() > at, 'one more step')
  host = rehearsal.hosts['trainer1']
  host.cut()
  cut, at = time.monotonic(), rehearsal.done()
  rehearsal.say(f'trainer1 is cut off after step {at}')
  for name in trainers(rehearsal):
    left = LIMIT_S - (time.monotonic() - cut)
    try:
      code = rehearsal.processes[name].wait(max(left, 0.1))
    except subprocess.TimeoutExpired:
      raise Unexpected(
          f'{name} goes on {LIMIT_S:g} s after: {rehearsal.last_line(name)}'
      ) from None
    took = time.monotonic() - cut
    last = rehearsal.last_line(name)
    rehearsal.expect(
        code == 2 and last.startswith('ProcessLost: '),
        f'{name} ended after {took:.1f} s with code {code}: {last}',
    )
  host.join()
  for name in trainers(rehearsal):
    rehearsal.expect(
        not rehearsal.hosts[name].processes(), f'{name} has no orphan'
    )
  rehearsal.start_trainers()
  rehearsal.say('trainer1 has its link again; the same commands are started')
  rehearsal.until(lambda: rehearsal.done() > at, 'a step of the continued run')
  rehearsal.say(f'step {rehearsal.done()} is done')


def finish(rehearsal: Rehearsal) -> None:
  """The end of the run, and its record beside that of one that nothing met."""
  for name in trainers(rehearsal):
    code = rehearsal.processes[name].wait(_PATIENCE_S)
    rehearsal.expect(code == 0, f'{name} ended with code {code}')
  steps = [
      json.loads(line)['step']
      for line in (rehearsal.run / 'metrics.jsonl').read_text().splitlines()
  ]
  rehearsal.expect(
      steps == list(range(rehearsal.steps)), f'{len(steps)} steps, each once'
  )
  other = rehearsal.shared / 'alone'
  alone(*rehearsal.flags(other), devices=2)
  found, wanted = played(rehearsal.run), played(other)
  rehearsal.expect(
      found == wanted,
      f'the {len(found)} episodes that were trained on have the names, tasks'
      ' and seeds of a run in one process that nothing met, each once',
  )
  for name in trainers(rehearsal):
    left = rehearsal.hosts[name].read('ls', '-A', '/tmp', '/dev/shm')
    kept = rehearsal.shared.relative_to('/tmp').parts[0:1]
    names = {
        line for line in left.split() if line and not line.endswith(':')
    } - {*kept, *(ROOT.parts[2:3] if ROOT.parts[1:2] == ('tmp',) else ())}
    rehearsal.expect(not names, f'{name} has left nothing in /tmp and /dev/shm')


def played(run: pathlib.Path) -> list[tuple[object, ...]]:
  """Step, name, task and seed of all episodes in order, and whether they failed."""
  return [
      (
          path.stem,
          *(episode[key] for key in ('episode_id', 'task_id', 'seed')),
          episode['stop_reason'] in types.FAILURES,
      )
      for path in sorted((run / 'episodes' / 'train').glob('*.jsonl'))
      for episode in map(json.loads, path.read_text().splitlines())
  ]


@contextlib.contextmanager
def rehearsed(
    out: pathlib.Path, shared: pathlib.Path, steps: int
) -> Iterator[Rehearsal]:
  names = [
      f'{kind}{i}' for kind in ('trainer', 'sampler', 'env') for i in (0, 1)
  ]
  with hosts_lib.network(names, [ROOT], shared) as hosts:
    try:
      yield Rehearsal(hosts, shared, steps)
    finally:
      for log in shared.glob('*.log'):
        (out / log.name).write_text(log.read_text())


def main(argv):
  del argv
  out = pathlib.Path(_OUT.value).absolute()
  out.mkdir(parents=True, exist_ok=True)
  try:
    shared = hosts_lib.enter()
    with rehearsed(out, shared, _STEPS.value) as rehearsal:
      prepare(rehearsal)
      rehearsal.start_trainers()
      rehearsal.say(f'six hosts: {", ".join(rehearsal.hosts)}')
      rehearsal.until(lambda: rehearsal.done() >= 1, 'the first step')
      rehearsal.say('the first step is done')
      cut_sampler(rehearsal)
      cut_env(rehearsal)
      kill_servers(rehearsal)
      cut_trainer(rehearsal)
      finish(rehearsal)
  except AgentrlError as error:
    print(f'{type(error).__name__}: {error}', file=sys.stderr)
    sys.exit(1)
  print('All was as it should be.')


if __name__ == '__main__':
  app.run(main)
