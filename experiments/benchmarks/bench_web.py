"""Times a web environment with a real Chromium, and watches all of its memory.

    python -m experiments.benchmarks.bench_web
    python -m experiments.benchmarks.bench_web --env=webarena
    python -m experiments.benchmarks.bench_web --kills=3
    python -m experiments.benchmarks.bench_web --browsergym=DIR/bin/python

Experts play over HTTP, `--clients` episodes at a time. Prints one JSON line:
times of resets and steps as a client sees them, episodes that were lost, and
the memory of server, driver and browser together (PSS, which counts a shared
page once), at its highest and, with all episodes closed, after 100 of them and
at the end.

--kills ends Chromium's process so many times meanwhile, with SIGKILL: episodes
that were alive fail and are played again, as a run does.

--browsergym: a Python with browsergym-miniwob==0.14.3 and the Chromium that its
Playwright wants (`python -m playwright install chromium`, or a link to the
system's in its place). One-click episodes there and here are timed beside each
other, one at a time.
"""

import asyncio
import contextlib
import json
import random
import signal
import statistics
import subprocess
import time

import aiohttp
import psutil
from absl import app, flags

from agentrl import envs
from agentrl.envs.client import EnvClient
from agentrl.errors import EnvError
from agentrl.rollout.env_server import EnvServer
from experiments.benchmarks import footprint

_CLIENTS = flags.DEFINE_integer('clients', 20, 'Live episodes.')
_EPISODES = flags.DEFINE_integer('episodes', 500, 'Episodes in all.')
_ENV = flags.DEFINE_enum(
    'env', 'miniwob', ['miniwob', 'webarena'], 'The environment.'
)
_TASKS = flags.DEFINE_list(
    'tasks', [], 'Pages, sites or templates; none: all with an expert.'
)
_OBSERVE = flags.DEFINE_enum(
    'observe', 'page', ['page', 'viewport', 'html'], 'What is read.'
)
_KILLS = flags.DEFINE_integer('kills', 0, 'SIGKILLs of Chromium meanwhile.')
_BROWSERGYM = flags.DEFINE_string('browsergym', None, 'A Python that has it.')
_TURNS = 30
_BROWSERGYM_EPISODES = 10

# click-test has one button: no time is lost to finding it.
_BROWSERGYM_CHILD = """
import json, os, sys, time
import gymnasium, browsergym.miniwob
times = {'reset': [], 'step': []}
env = gymnasium.make('browsergym/miniwob.click-test', headless=True)
for seed in range(int(sys.argv[1])):
  start = time.perf_counter()
  observation, _ = env.reset(seed=seed)
  times['reset'].append(time.perf_counter() - start)
  nodes = observation['axtree_object']['nodes']
  [bid] = [n['browsergym_id'] for n in nodes
           if n['role']['value'] == 'button' and n.get('browsergym_id')]
  start = time.perf_counter()
  _, reward, *_ = env.step(f'click("{bid}")')
  times['step'].append(time.perf_counter() - start)
  assert reward == 1.0, reward
print(json.dumps(times))
"""


def tree(pid: int) -> list[psutil.Process]:
  """A process and what it started."""
  parent = psutil.Process(pid)
  return [parent, *parent.children(recursive=True)]


def pss_mb(pid: int) -> float:
  """Proportional memory of a process and what it started."""
  total = 0.0
  for process in tree(pid):
    with contextlib.suppress(OSError):  # it has just ended
      total += footprint.pss(process.pid)
  return total


def kill_chromium(pid: int) -> None:
  """Ends the browser's main process, whose parent is Playwright's driver."""
  for process in tree(pid):
    try:
      command = process.cmdline()
    except psutil.NoSuchProcess:
      continue
    if any('--remote-debugging' in x for x in command) and not any(
        x.startswith('--type=') for x in command
    ):
      process.send_signal(signal.SIGKILL)
      return


class Played:
  """Times and counts of what was played."""

  def __init__(self):
    self.times = {'reset': [], 'step': []}
    self.lost = self.retried = self.solved = self.done = 0


async def episode(session, url: str, task_id: int, played: Played) -> None:
  async with EnvClient(
      session, url, env_name=_ENV.value, timeout_s=120.0
  ) as env:
    start = time.perf_counter()
    await env.reset(task_id)
    played.times['reset'].append(time.perf_counter() - start)
    for _ in range(_TURNS):
      action = await env.expert_action()
      start = time.perf_counter()
      result = await env.step(action)
      played.times['step'].append(time.perf_counter() - start)
      if result.terminated:
        played.solved += bool(result.success)
        return


async def play(
    session, url, tasks, clients: int, played: Played, pid: int = 0
) -> None:
  """Plays tasks, and kills Chromium of server `pid` now and then."""
  every = _EPISODES.value // (_KILLS.value + 1)
  waiting = iter(tasks)

  async def work():
    for task_id in waiting:
      for attempt in range(3):
        try:
          await episode(session, url, task_id, played)
          break
        except EnvError as error:
          print(f'# {task_id}, attempt {attempt + 1}: {error}', flush=True)
          played.retried += 1
      else:
        played.lost += 1
      played.done += 1
      if pid and played.done % every == 0 and played.done < _EPISODES.value:
        kill_chromium(pid)

  await asyncio.gather(*(work() for _ in range(clients)))


async def watch(pid: int, highest: list[float]) -> None:
  while True:
    highest.append(await asyncio.to_thread(pss_mb, pid))
    await asyncio.sleep(1.0)


def percentiles(name: str, seconds: list[float]) -> dict[str, float]:
  seconds = sorted(seconds)
  return {
      f'{name}_p50_s': round(statistics.median(seconds), 3),
      f'{name}_p95_s': round(seconds[int(0.95 * (len(seconds) - 1))], 3),
      f'{name}_max_s': round(seconds[-1], 3),
  }


def browsergym(python: str) -> dict[str, float]:
  """Times of one-click episodes in BrowserGym, and of ours."""
  from agentrl.envs.miniwob import site

  child = subprocess.run(
      [python, '-c', _BROWSERGYM_CHILD, str(_BROWSERGYM_EPISODES)],
      env={
          'MINIWOB_URL': f'file://{site.folder()}/miniwob/',
          'PATH': '/usr/bin:/bin',
      },
      stdout=subprocess.PIPE,
      check=True,
  )
  theirs = json.loads(child.stdout)
  return {
      name: value
      for kind, times in theirs.items()
      for name, value in percentiles(f'browsergym_{kind}', times).items()
  }


async def measure() -> dict:
  options = {'observe': _OBSERVE.value, 'episodes': max(_CLIENTS.value, 1)}
  if _TASKS.value:
    options['tasks'] = _TASKS.value
  tasks = envs.get(_ENV.value).tasks('train', **options)
  tasks = random.Random(0).choices(tasks, k=_EPISODES.value)
  server = EnvServer(_ENV.value, options, expert=True)
  try:
    pid = server.pid
    async with aiohttp.ClientSession() as session:
      first, played, highest = Played(), Played(), []
      await play(session, server.url, tasks[:1], 1, first)  # starts Chromium
      watcher = asyncio.create_task(watch(pid, highest))
      start = time.perf_counter()
      memory = []
      for part in (tasks[:100], tasks[100:]):
        await play(
            session,
            server.url,
            part,
            _CLIENTS.value,
            played,
            pid * bool(_KILLS.value),
        )
        await asyncio.sleep(3.0)  # contexts close behind their episodes
        memory.append(round(pss_mb(pid)))
      seconds = time.perf_counter() - start - 6.0
      watcher.cancel()
      result = {
          'clients': _CLIENTS.value,
          'episodes': played.done,
          'lost': played.lost,
          'retried': played.retried,
          'solved': played.solved,
          'steps': len(played.times['step']),
          'episodes_per_s': round(played.done / seconds, 2),
          **percentiles('reset', played.times['reset']),
          **percentiles('step', played.times['step']),
          'pss_max_mb': round(max(highest)),
          'pss_after_100_mb': memory[0],
          'pss_at_the_end_mb': memory[1],
      }
      if _BROWSERGYM.value:
        result |= browsergym(_BROWSERGYM.value)
        alone = Played()
        one_click = envs.get('miniwob').tasks('train', tasks=('click-test',))
        await play(
            session, server.url, one_click[:_BROWSERGYM_EPISODES], 1, alone
        )
        for kind, times in alone.times.items():
          result |= percentiles(f'alone_{kind}', times)
      return result
  finally:
    server.stop()


def main(argv):
  del argv
  print(json.dumps(asyncio.run(measure())))


if __name__ == '__main__':
  app.run(main)
