r"""Times the viewer's pages of a study: runs, tasks by columns, groups of runs.

    python -m experiments.benchmarks.bench_study
    python -m experiments.benchmarks.bench_study --tasks=16 --arms=60 --seeds=50 --steps=20 --evaluations=2

Writes runs of generated episodes into a folder, each with evaluations of all
tasks, and prints one JSON line a case:

index: seconds until all is indexed, and megabytes of the index.
page: seconds from the address to rows in the table, in Chromium: the first time
  after the server has started and read the folder, and the median of further ones.
click: seconds from a click on a column of the runs until the rows are painted.
request: seconds of the first request, and the median of further ones, for which the
  totals are kept. Pages came before: only what they do not ask for is new here.
server: its resident memory before and after all of them.

`cpu_s` are the CPU seconds of all processes meanwhile, server and browser: on a
machine with other work they are the time that it would take without.

With --pages_last, requests come before pages.
"""

import contextlib
import json
import pathlib
import random
import shutil
import statistics
import tempfile
import time

import psutil
from absl import app, flags

from agentrl import config as config_lib
from agentrl.data import episodes as episodes_lib
from agentrl.types import Episode, Message, Turn
from agentrl.viewer.index import Index
from experiments.benchmarks.viewers import ask, say, server

_TASKS = flags.DEFINE_integer('tasks', 10_000, 'Of the panel.')
_ARMS = flags.DEFINE_integer('arms', 50, 'Columns.')
_SEEDS = flags.DEFINE_integer('seeds', 1, 'Runs of an arm.')
_STEPS = flags.DEFINE_integer('steps', 200, 'Lines of metrics of a run.')
_EVALUATIONS = flags.DEFINE_integer('evaluations', 1, 'Of a run.')
_REPEATS = flags.DEFINE_integer('repeats', 5, 'Of each request.')
_BROWSER = flags.DEFINE_bool('browser', True, 'Open pages in Chromium, too.')
_PAGES_LAST = flags.DEFINE_bool('pages_last', False, 'Requests come first.')

_MARK = '"success": false'
_ENV = {'name': 'babyai', 'options': {}}
_THINGS = 'ball key box door'.split()
_COLOURS = 'red green blue purple yellow grey'.split()


def line_of(task: int) -> str:
  """An episode that failed its task."""
  goal = f'{_COLOURS[task % 6]} {_THINGS[task % 4]}'
  turns = tuple(
      Turn(
          completion=f'Action: go {i}',
          action=f'go {i}',
          parse_error=None,
          observation=f'You see object {task} and a {goal}.',
          reward=0.0,
          finish_reason='stop',
          prompt_tokens=200,
          cached_tokens=100,
          completion_tokens=12,
          weight_version='1',
          sampler_s=0.25,
          env_s=0.01,
      )
      for i in range(3)
  )
  episode = Episode(
      episode_id=f'eval-{task}-0',
      env=_ENV['name'],
      task_id=task,
      split='test',
      seed=task,
      policy_version=1,
      horizon=8,
      stop_reason='terminated',
      success=False,
      prompt=(Message('user', f'Goal {task}: fetch the {goal}.'),),
      turns=turns,
      tokens=(),
      completion_mask=(),
      sampler_logprobs=(),
  )
  return episodes_lib.to_line(episode, tokens=False)


def generate(root: pathlib.Path) -> None:
  lines = [line_of(task) for task in range(_TASKS.value)]
  assert all(_MARK in line for line in lines)
  hardness = [task % 100 / 100 for task in range(_TASKS.value)]
  draw = random.Random(0)
  # Of the size that configs have.
  base = json.loads(config_lib.defaults('train').to_json_best_effort())
  base |= {'env': _ENV, 'num_steps': _STEPS.value}
  base['eval']['seed'] = 0
  for arm in range(_ARMS.value):
    for seed in range(_SEEDS.value):
      run = root / f'arm{arm}-{seed}'
      (run / 'episodes' / 'eval').mkdir(parents=True)
      config = base | {'seed': seed, 'lr': arm}
      (run / 'config.json').write_text(json.dumps(config))
      shares = []
      for step in range(_EVALUATIONS.value):
        late = (step + 1) / _EVALUATIONS.value
        solved = [draw.random() < late * hard for hard in hardness]
        shares.append(sum(solved) / max(len(solved), 1))
        # The last one comes after the last step.
        number = round(_STEPS.value * late) if step else 0
        number = _STEPS.value if late == 1 else number
        (run / 'episodes' / 'eval' / f'{number:06d}.jsonl').write_text(
            ''.join(
                (line.replace(_MARK, '"success": true') if won else line) + '\n'
                for line, won in zip(lines, solved, strict=True)
            )
        )
      write_metrics(run, shares, draw)


def write_metrics(
    run: pathlib.Path, shares: list[float], draw: random.Random
) -> None:
  """The lines and the summary of a run that has ended."""
  usual = ('rollout/success', 'rollout/return_mean', 'policy/entropy')
  records = [
      {'step': i, 'time': 1e9 + 3.0 * i + draw.random()}
      | {name: draw.random() for name in usual}
      | {'rollout/episode_tokens_mean': 300 + 99 * draw.random()}
      | {'rollout/episodes': 64.0, 'rollout/invalid': 0.0}
      for i in range(_STEPS.value)
  ]
  records[0] |= {'eval_before/success': shares[0]}
  records[-1] |= {'eval/success': shares[-1]}
  (run / 'metrics.jsonl').write_text(
      ''.join(json.dumps(record) + '\n' for record in records)
  )
  rate = lambda x: {'mean': x, 'low': 0.9 * x, 'high': x, 'n': _TASKS.value}
  summary = {'mode': 'train', 'steps': _STEPS.value, 'wall_s': 3.0}
  named = {'before': rate(shares[0]), 'after': rate(shares[-1])}
  (run / 'summary.json').write_text(json.dumps(summary | {'eval': named}))


def time_requests(url: str) -> None:
  groups = '&'.join(f'arm=lr%3D{arm}' for arm in range(min(_ARMS.value, 8)))
  metrics = 'metric=rollout/success&metric=eval/success'
  requests = {
      'runs': 'runs?',
      'evaluations': 'evaluations?',
      'tasks, first page': 'tasks?count=100',
      'tasks, a later page': f'tasks?count=100&from={_TASKS.value // 2}',
      'tasks, failed by all': 'tasks?count=100&only=failed',
      'tasks, words of the goal': 'tasks?count=100&q=red+ball',
      'kinds of task': 'tasks?by=subtask',
      'groups': 'arms?',
      'curves of eight groups': f'arms/curves?{metrics}&{groups}',
  }
  for name, path in requests.items():
    watched = [Watched() for _ in range(_REPEATS.value)]
    for each in watched:
      with each:
        size = len(ask(f'{url}api/{path}'))
    say('request', what=name, kilobytes=size // 1000, **figures(watched))


class Watched:
  """A block, and what it took.

  Attributes:
    seconds: by the clock.
    cpu: of this process and all below it, also those that begin meanwhile.
  """

  def __enter__(self):
    self._before, self._start = cpu_by_process(), time.perf_counter()
    return self

  def __exit__(self, *exc_info):
    self.seconds = time.perf_counter() - self._start
    after = cpu_by_process()
    self.cpu = sum(used - self._before.get(x, 0) for x, used in after.items())


def cpu_by_process() -> dict[int, float]:
  own = psutil.Process()
  used = {}
  for each in (own, *own.children(recursive=True)):
    with contextlib.suppress(psutil.NoSuchProcess):
      used[each.pid] = sum(each.cpu_times()[:2])
  return used


def figures(watched: list[Watched]) -> dict[str, float]:
  """Seconds of the first time, and the median of further ones."""
  rest = watched[1:]
  return {
      'first_s': watched[0].seconds,
      'first_cpu_s': watched[0].cpu,
      'median_s': statistics.median(each.seconds for each in rest),
      'cpu_s': statistics.median(each.cpu for each in rest),
  }


# From the click until the column is marked, and what it has drawn was painted.
_CLICK = """async (name) => {
  const button = [...document.querySelectorAll('.runs thead button')]
      .find((each) => each.textContent.startsWith(name));
  const sorted = () => document.querySelector('.runs [aria-sort]').textContent;
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const before = sorted();
  const start = performance.now();
  button.click();
  while (sorted() === before) await new Promise((resolve) => setTimeout(resolve, 1));
  await frame();
  await frame();
  return (performance.now() - start) / 1000;
}"""
# Pages, and what is waited for.
_SHOWN = {
    'runs': '.runs td.name',
    'tasks': '.tasks tbody tr',
    'arms': '.arms tbody tr',
    'episodes': '.episodes tbody tr',
    'compare': '.compare select',
    'failures?origin=eval': '.failures .map',
}
_COLUMNS = ('Mode', 'Seed', 'Success', 'Run', 'Written', 'Model')


def time_clicks(page) -> None:
  """Prints what a click on each of some columns takes, from the second on."""
  watched, took = [Watched() for _ in _COLUMNS], []
  for column, each in zip(_COLUMNS, watched, strict=True):
    with each:
      took.append(page.evaluate(_CLICK, column))
  say(
      'click',
      median_s=statistics.median(took[1:]),
      most_s=max(took[1:]),
      cpu_s=statistics.median(each.cpu for each in watched[1:]),
  )


def time_pages(url: str) -> None:
  from playwright import sync_api

  from agentrl.envs.web import chromium

  with sync_api.sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium.find())
    for name, shown in _SHOWN.items():
      watched = [Watched() for _ in range(_REPEATS.value)]
      for each in watched:
        page = browser.new_page()
        page.set_default_timeout(300_000)
        with each:
          page.goto(f'{url}#/{name}')
          page.locator(shown).first.wait_for()
        if name == 'runs' and each is watched[-1]:
          page.locator('.card').first.wait_for()
          time_clicks(page)
        page.close()
      say('page', what=name, **figures(watched))
    browser.close()


def main(argv):
  del argv
  root = pathlib.Path(tempfile.mkdtemp(prefix='study-'))
  try:
    generate(root)
    index = Index(root)
    start = time.perf_counter()
    index.refresh()
    seconds = time.perf_counter() - start
    index.close()
    size = sum(x.stat().st_size for x in root.glob('.agentrl-viewer.sqlite*'))
    say('index', wall_s=seconds, megabytes=round(size / 1e6))
    with server(root) as (process, url):
      while json.loads(ask(f'{url}api/episodes/summary'))['indexed'] < 1:
        time.sleep(0.1)
      memory = lambda: round(
          psutil.Process(process.pid).memory_info().rss / 1e6
      )
      say('server', when='at the start', memory_mb=memory())
      steps = [time_pages] * _BROWSER.value + [time_requests]
      for step in reversed(steps) if _PAGES_LAST.value else steps:
        step(url)
      say('server', when='at the end', memory_mb=memory())
  finally:
    shutil.rmtree(root)


if __name__ == '__main__':
  app.run(main)
