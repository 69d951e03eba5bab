r"""Times steps with `rollout.ahead`, where environments are slow.

    python -m experiments.benchmarks.bench_ahead --latencies=0,0.2 --depths=0,1,2
    python -m experiments.benchmarks.bench_ahead --ahead_steps=6 --ahead_skip=2 --latencies=0
    python -m experiments.benchmarks.bench_ahead --recipes=sciworld_laptop,miniwob_grpo --depths=0,1

In the quickstart a proxy before the environment server holds each answer of /step for
a while, in which this machine has nothing to do for it; other recipes play their
environments as they are. Prints one JSON line per latency and depth: medians of a step's seconds, of those for which the learner waited and of those
in which no episode was played, over the steps after the first ones; and the ratio to
the first case of the same latency. The engine is in the trainer's process, where they
share an interpreter, or in one of its own.
"""

import asyncio
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import aiohttp
from absl import app, flags
from aiohttp import web

_RECIPES = flags.DEFINE_list(
    'recipes', ['quickstart'], 'Configs that train, by their names.'
)
_LATENCIES = flags.DEFINE_list(
    'latencies',
    ['0', '0.2'],
    'Seconds that an answer of /step is held, in the quickstart.',
)
_DEPTHS = flags.DEFINE_list('depths', ['0', '1', '2'], 'Of rollout.ahead.')
_ENGINES = flags.DEFINE_list(
    'engines',
    ['embedded', 'process'],
    'Where the sampler is: in this process, or in one of its own.',
)
_STEPS = flags.DEFINE_integer('ahead_steps', 14, 'Steps of a run.')
_SKIP = flags.DEFINE_integer('ahead_skip', 4, 'First steps that do not count.')

_ROOT = pathlib.Path(__file__).parents[2]
_QUICKSTART = 'quickstart'
_FIXED = "--config.horizon={'kind': 'fixed', 'turns': (6,), 'every': 0}"
_FLAGS = (
    '--config.warmstart.episodes=64',
    '--config.warmstart.epochs=1',
    '--config.eval.num_tasks=0',
    '--config.algo.ratio=sampler',
)
_PROCESS = (
    '--config.sampler.kind=sglang',
    f'--config.sampler.launch.python={sys.executable}',
    '--config.sampler.launch.module=agentrl.serving.launch_server',
    "--config.sampler.launch.flags=('--skip-server-warmup',)",
)
_LEVELS = {'levels': ('GoToRedBall',), 'style': 'compact'}
_SHOWN = ('time/step_s', 'time/collect_s', 'time/sampler_idle_s')


@contextlib.contextmanager
def environment() -> Iterator[str]:
  """The URL of an environment server with the quickstart's level."""
  command = (
      *(sys.executable, '-m', 'agentrl.envs.server'),
      *('--env=babyai', '--port=0', '--expert'),
      f'--options={json.dumps(_LEVELS)}',
  )
  process = subprocess.Popen(
      command, cwd=_ROOT, stdout=subprocess.PIPE, text=True
  )
  try:
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())['url'].rstrip('/')
  finally:
    process.terminate()
    process.wait()


@contextlib.contextmanager
def delayed(url: str, seconds: float) -> Iterator[str]:
  """The URL of a proxy that holds the answers of /step."""
  found: dict[str, Any] = {}
  ready = threading.Event()

  async def main() -> None:
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0)
    ) as session:

      async def forward(request: web.Request) -> web.Response:
        body = await request.read()
        async with session.request(
            request.method,
            f'{url}{request.rel_url}',
            data=body,
            headers={'Content-Type': request.content_type},
        ) as reply:
          data = await reply.read()
        if request.path == '/step':
          await asyncio.sleep(seconds)
        return web.Response(
            body=data, status=reply.status, content_type=reply.content_type
        )

      application = web.Application()
      application.router.add_route('*', '/{path:.*}', forward)
      runner = web.AppRunner(application, access_log=None)
      await runner.setup()
      site = web.TCPSite(runner, '127.0.0.1', 0)
      await site.start()
      end = asyncio.Event()
      loop = asyncio.get_running_loop()
      found.update(
          port=runner.addresses[0][1],
          stop=lambda: loop.call_soon_threadsafe(end.set),
      )
      ready.set()
      await end.wait()
      await runner.cleanup()

  thread = threading.Thread(target=lambda: asyncio.run(main()))
  thread.start()
  ready.wait()
  try:
    yield f'http://127.0.0.1:{found["port"]}'
  finally:
    found['stop']()
    thread.join()


def times(recipe: str, *more: str) -> dict[str, float]:
  """Medians of a run's steps.

  Args:
    recipe: the name of its config.
    *more: flags of it.
  """
  with tempfile.TemporaryDirectory() as folder:
    subprocess.run(
        (
            *(sys.executable, 'launch.py', f'--config=configs/{recipe}.py'),
            *(*_FLAGS, *more),
            f'--config.num_steps={_STEPS.value}',
            f'--workdir={folder}',
        ),
        cwd=_ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    path = pathlib.Path(folder) / 'metrics.jsonl'
    lines = [json.loads(line) for line in path.read_text().splitlines()]
  return {
      name: statistics.median(
          line.get(name, 0.0) for line in lines[_SKIP.value :]
      )
      for name in _SHOWN
  }


def compare(recipe: str, latency: float, *more: str) -> None:
  """Prints the times of a recipe by engine and depth; see `times`."""
  first = None
  for engine in _ENGINES.value:
    sampler = _PROCESS if engine == 'process' else ()
    for depth in map(int, _DEPTHS.value):
      ahead = f'--config.rollout.ahead={depth}'
      found = times(recipe, *more, *sampler, ahead)
      first = first or found['time/step_s']
      case = {
          'recipe': recipe,
          'latency_s': latency,
          'engine': engine,
          'ahead': depth,
      }
      ratio = found['time/step_s'] / first
      print(json.dumps({**case, **found, 'ratio': ratio}), flush=True)


def main(argv):
  del argv
  for recipe in _RECIPES.value:
    if recipe != _QUICKSTART:
      compare(recipe, 0.0)
      continue
    with environment() as url:
      for latency in map(float, _LATENCIES.value):
        with delayed(url, latency) as slow:
          options = f'--config.env.options={_LEVELS}'
          more = _FIXED, f'--config.env.url={slow}', options
          compare(recipe, latency, *more)


if __name__ == '__main__':
  app.run(main)
