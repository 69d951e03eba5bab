r"""Times the viewer over many episodes, and watches its memory.

    python -m experiments.benchmarks.bench_viewer
    python -m experiments.benchmarks.bench_viewer --episodes=20000 --browser=False

Writes runs of generated episodes into a folder (800 MB by default) and prints
one JSON line a case:

index: episodes a second while the index is made, from files in the page cache;
  CPU seconds of all its processes beside wall seconds, for a machine with other
  work; bytes of the index; seconds that a look for changes takes afterwards.
server: seconds from the start of the process until it answers, and its resident
  memory after all requests below.
request: median and slowest seconds of a request, over --repeats, and the
  server's CPU seconds of one.
page: seconds from the address to rows in the table, in Chromium.
long: one episode of 100 MB: seconds until its page shows a turn.
"""

import dataclasses
import itertools
import json
import os
import pathlib
import resource
import shutil
import statistics
import tempfile
import time
import urllib.error
import urllib.parse

import psutil
from absl import app, flags

from agentrl.data import episodes as episodes_lib
from agentrl.types import STOP_REASONS, Episode, Message, Turn
from agentrl.viewer.index import Index
from experiments.benchmarks.viewers import ask, say, server

_EPISODES = flags.DEFINE_integer('episodes', 200_000, 'How many.')
_BYTES = flags.DEFINE_integer('bytes', 4096, 'Of an episode, about.')
_A_FILE = flags.DEFINE_integer('a_file', 256, 'Episodes of a step.')
_A_RUN = flags.DEFINE_integer('a_run', 50_000, 'Episodes of a run.')
_REPEATS = flags.DEFINE_integer('repeats', 5, 'Of each request.')
_LONG = flags.DEFINE_integer('long', 100, 'MB of the one long episode.')
_BROWSER = flags.DEFINE_bool('browser', True, 'Open pages in Chromium, too.')

_ROOMS = 'kitchen hallway bedroom foundry greenhouse workshop garden'.split()
_THINGS = 'thermometer ladder pot seed battery wire lamp water ice ore'.split()
_FILE = 'episodes/train/000000.jsonl'  # of the long episode's run
_REQUESTS = {
    'first page': '',
    'figures': '/summary?',
    'values': '/values?',
    'by environment': '?env=textcraft',
    'by step': '?step=17',
    'by run and return': '?run=run-1&return=0.5..<0.75',
    'failures, figures': '/summary?success=0',
    'sorted by return': '?sort=-return',
    'sorted by step': '?sort=-step',
    'sorted, last page': '?sort=turns&from=LAST',
    'words': '?q=greenhouse+thermometer+object7',
    'words, figures': '/summary?q=greenhouse',
}


def made(number: int) -> Episode:
  """An episode with words of its own, and tokens that fill the line."""
  room = _ROOMS[number % len(_ROOMS)]
  things = [_THINGS[(number * k) % len(_THINGS)] for k in (1, 3, 7)]
  turns = 3 + number % 6
  words = (
      f'This room is called the {room}. In it, you see: a {things[0]}, a'
      f' {things[1]} and object{number % 997} on the table.'
  )
  tail = [
      Turn(
          completion=f'Thought: look at the {things[2]}.\nAction: take {i}',
          action=f'take {things[i % 3]} {i}',
          parse_error='no action' if (number + i) % 29 == 0 else None,
          observation=f'{words} You have taken {i} of {turns} things.',
          reward=(number % 101) / 100 / turns,
          finish_reason='stop',
          prompt_tokens=200,
          cached_tokens=100,
          completion_tokens=12,
          weight_version=str(number % 50),
          sampler_s=0.25,
          env_s=0.01,
      )
      for i in range(turns)
  ]
  return Episode(
      episode_id=f'train-{number}',
      env=('textcraft', 'babyai', 'sciworld')[number % 3],
      task_id=number % 500,
      split='train',
      seed=number,
      policy_version=number % 50,
      horizon=8,
      stop_reason=STOP_REASONS[number % 4],
      success=number % 3 == 0,
      prompt=(Message('user', f'Your task is to boil the {things[0]}.'),),
      turns=tuple(tail),
      tokens=(),
      completion_mask=(),
      sampler_logprobs=(),
  )


def line_of(number: int) -> bytes:
  text = episodes_lib.to_line(made(number), tokens=False)
  # A token takes 5 bytes as an id, 3 in the mask and 22 as a log-probability.
  count = max((_BYTES.value - len(text)) // 30, 0)
  arrays = {
      'tokens': [100 + number % 800] * count,
      'completion_mask': [number % 2] * count,
      'sampler_logprobs': [-0.123456789012345678] * count,
  }
  return f'{text[:-1]}, {json.dumps(arrays)[1:]}\n'.encode()


def generate(root: pathlib.Path) -> int:
  """Writes the runs; bytes of their episodes."""
  numbers = iter(range(_EPISODES.value))
  size = 0
  for run in itertools.count():
    inner = list(itertools.islice(numbers, _A_RUN.value))
    if not inner:
      return size
    folder = root / f'run-{run}'
    (folder / 'episodes' / 'train').mkdir(parents=True)
    (folder / 'config.json').write_text('{"mode": "train"}')
    for step, first in enumerate(range(0, len(inner), _A_FILE.value)):
      lines = map(line_of, inner[first : first + _A_FILE.value])
      path = episodes_lib.step_path(folder, 'train', step)
      size += path.write_bytes(b''.join(lines))


def cpu_seconds() -> float:
  """Of this process and of its children that have ended."""
  used = [
      resource.getrusage(who)
      for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
  ]
  return sum(x.ru_utime + x.ru_stime for x in used)


def time_index(root: pathlib.Path, size: int) -> None:
  index = Index(root)
  start, cpu = time.perf_counter(), cpu_seconds()
  index.refresh()
  wall = time.perf_counter() - start
  used = cpu_seconds() - cpu
  start = time.perf_counter()
  assert not index.refresh()
  again = time.perf_counter() - start
  ((count,),) = index.query('SELECT count(*) FROM episodes')
  assert count == _EPISODES.value, count
  index.close()
  files = list(root.glob('.agentrl-viewer.sqlite*'))
  say(
      'index',
      episodes=count,
      bytes_each=round(size / count),
      cores=os.cpu_count(),
      load=os.getloadavg()[0],
      wall_s=wall,
      cpu_s=used,
      per_s=round(count / wall),
      per_cpu_s=round(count / used),
      index_mb=round(sum(file.stat().st_size for file in files) / 1e6),
      look_again_s=again,
  )


def wait_for(url: str) -> None:
  """Returns when the server has found what the URL names."""
  while True:
    try:
      ask(url)
      return
    except urllib.error.HTTPError:
      time.sleep(1)


def time_requests(process: psutil.Process, url: str) -> None:
  for name, path in _REQUESTS.items():
    path = path.replace('LAST', str(_EPISODES.value - 100))
    took, used = [], []
    for _ in range(_REPEATS.value):
      start, cpu = time.perf_counter(), sum(process.cpu_times()[:2])
      ask(f'{url}api/episodes{path}')
      took.append(time.perf_counter() - start)
      used.append(sum(process.cpu_times()[:2]) - cpu)
    say(
        'request',
        what=name,
        median_s=statistics.median(took),
        most_s=max(took),
        mean_cpu_s=statistics.mean(used),
    )


def long_episode(root: pathlib.Path) -> None:
  """A run with one long episode, half of it in a single observation."""
  word = 'A very long page of words that goes on and on. '
  inner = made(1)
  half = _LONG.value * 500_000 // len(word)
  turn, count = inner.turns[0], 50
  turns = [
      dataclasses.replace(
          turn, observation=word * (half if i == 3 else half // (count - 1))
      )
      for i in range(count)
  ]
  episode = dataclasses.replace(inner, turns=tuple(turns))
  # The short one after it says when both are indexed.
  episodes_lib.write(root / _FILE, [episode, inner])


def time_pages(url: str) -> None:
  from playwright import sync_api

  from agentrl.envs.web import chromium

  with sync_api.sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium.find())
    for _ in range(3):
      page = browser.new_page()
      start = time.perf_counter()
      page.goto(f'{url}#/episodes')
      page.locator('.episodes tbody tr').first.wait_for()
      say('page', what='episodes', seconds=time.perf_counter() - start)
      page.close()
    where = {'run': 'long', 'file': _FILE, 'line': 0, 'turn': 1}
    page = browser.new_page()
    start = time.perf_counter()
    page.goto(f'{url}#/replay?{urllib.parse.urlencode(where)}')
    page.get_by_text('A very long page of words').first.wait_for()
    seconds = time.perf_counter() - start
    chars = page.evaluate('document.body.innerText.length')
    say('long', megabytes=_LONG.value, seconds=seconds, characters_shown=chars)
    browser.close()


def main(argv):
  del argv
  root = pathlib.Path(tempfile.mkdtemp(prefix='viewer-'))
  try:
    size = generate(root)
    time_index(root, size)
    start = time.perf_counter()
    with server(root) as (process, url):
      ask(f'{url}api/episodes')
      say('server', ready_s=time.perf_counter() - start)
      child = psutil.Process(process.pid)
      time_requests(child, url)
      long_episode(root / 'long')
      wait_for(f'{url}api/turns?run=long&file={_FILE}&line=1')
      start = time.perf_counter()
      ask(f'{url}api/turns?run=long&file={_FILE}&line=0')
      say('long', what='first turns', seconds=time.perf_counter() - start)
      if _BROWSER.value:
        time_pages(url)
      memory = child.memory_info().rss
      say('server', memory_mb=round(memory / 1e6))
  finally:
    shutil.rmtree(root)


if __name__ == '__main__':
  app.run(main)
