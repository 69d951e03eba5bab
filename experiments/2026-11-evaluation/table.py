r"""One table of everything: an API model, a run, the expert and a random policy.

    python -m experiments.2026-11-evaluation.table --quickstart=runs/seed0 --table=runs/table

The API model is the run itself: the embedded engine behind its OpenAI routes
(`configs/serve_policy.py`), and before it a proxy with a key that answers one
request in 40 with 429 and Retry-After, and one in 60 with 500. The
evaluation is first started with a wrong key, then killed by SIGKILL at moments
spread over it, and each time started again by the same command. An episode that
was on disk at a kill must be in the end just as it was, its times included; each
must be there once, and be counted in the table.

Prints the table as Markdown, and leaves `table.json` in TABLE; exits with 1 if
anything is off.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import aiohttp
from absl import app, flags
from aiohttp import web

from agentrl.evaluation import report, results
from agentrl.evaluation.results import ALL, Results
from agentrl.http.thread import HttpThread
from agentrl.runtime import children
from configs.suites import SUITES

_QUICKSTART = flags.DEFINE_string('quickstart', None, 'Workdir of the run.')
_TABLE = flags.DEFINE_string('table', None, 'New folder for all that is left.')
_PANELS = flags.DEFINE_string('panels', 'all', 'Of configs/suites.py.')
_TASKS = flags.DEFINE_integer('tasks', 20, 'Tasks a panel.', lower_bound=1)
_TURNS = flags.DEFINE_integer('turns', None, "Turns; default: a panel's.")
_SIGKILLS = flags.DEFINE_integer('sigkills', 5, 'SIGKILLs.', lower_bound=0)

_MODEL = 'behind-an-api'
_KEY, _VARIABLE = 'sk-table-2026', 'AGENTRL_TABLE_KEY'
_REFUSES, _FAILS = 40, 60  # one request in so many
_START_S = 600.0
_POLL_S = 0.5

Key = tuple[str, str, int, int]  # policy, environment, task, sample


class Proxy:
  """Passes requests on to an endpoint, or refuses them.

  Attributes:
    answers: by status, to requests for completions.
  """

  def __init__(self, target: str):
    self.answers = Counter()
    self._target = target
    self._requests = 0

  async def handle(self, request: web.Request) -> web.Response:
    """Answers a request for a completion."""
    status, headers = self._refusal(request)
    if status is not None:
      self.answers[status] += 1
      error = {'error': {'message': f'Made up: {status}', 'type': 'made_up'}}
      return web.json_response(error, status=status, headers=headers)
    async with aiohttp.ClientSession() as session:
      body = await request.read()
      url = f'{self._target}{request.path}'
      json_type = {'Content-Type': 'application/json'}
      async with session.post(url, data=body, headers=json_type) as reply:
        self.answers[reply.status] += 1
        return web.Response(
            body=await reply.read(), status=reply.status, headers=json_type
        )

  def _refusal(self, request: web.Request) -> tuple[int | None, dict[str, str]]:
    if request.headers.get('Authorization') != f'Bearer {_KEY}':
      return 401, {}
    self._requests += 1
    if self._requests % _REFUSES == 0:
      return 429, {'Retry-After': '1'}
    return (500 if self._requests % _FAILS == 0 else None), {}


@contextlib.contextmanager
def proxied(target: str) -> Iterator[tuple[Proxy, str]]:
  """A proxy that runs in a thread of its own, and its address."""
  proxy, application = Proxy(target), web.Application()
  application.router.add_post('/v1/chat/completions', proxy.handle)
  thread = HttpThread(application)
  port = thread.start('127.0.0.1', 0)
  try:
    yield proxy, f'http://127.0.0.1:{port}/v1'
  finally:
    thread.stop()


@contextlib.contextmanager
def served(run: str) -> Iterator[str]:
  """The engine with the run's policy, in a process of its own; its address."""
  child = children.Child(
      [
          *_launch('serve_policy', f'model={run},port=0'),
          '--config.serve.max_context=4096',
          '--config.serve.warmup=False',
          f'--config.serve.name={_MODEL}',
      ],
      name='engine',
      supervised=True,
  )
  try:
    line = child.read_line(_START_S)  # Serving RUN at URL
    yield line.split()[-1]
  finally:
    child.stop()


def _launch(config: str, argument: str) -> list[str]:
  file = f'--config=configs/{config}.py:{argument}'
  return [sys.executable, 'launch.py', file]


def command(url: str, workdir: pathlib.Path) -> list[str]:
  """The evaluation: the same at each start."""
  argument = (
      f'model=api;{_QUICKSTART.value};expert;random,api={url},api_model={_MODEL},'
      f'suite={_PANELS.value},n={_TASKS.value}'
  )
  return [
      *_launch('evaluate', argument),
      f'--config.api.token_variable={_VARIABLE}',
      # As the policy was trained; its model has 4,096 positions.
      '--config.agent.format=plain',
      '--config.agent.instructions=compact',
      '--config.rollout.max_context=4096',
      '--config.rollout.max_completion_tokens=16',
      # Pages that do not fit are to be counted, not to end it all.
      '--config.rollout.max_failed_share=1',
      *([f'--config.eval.horizon={_TURNS.value}'] if _TURNS.value else []),
      f'--workdir={workdir}',
  ]


def lines(workdir: pathlib.Path) -> dict[Key, list[dict[str, Any]]]:
  """All whole lines of the journals, by episode."""
  found = {}
  for path in sorted((workdir / 'episodes' / 'eval').glob('*/*.jsonl')):
    for line in path.read_text().splitlines():
      with contextlib.suppress(json.JSONDecodeError):  # cut by a kill
        record = json.loads(line)
        key = (path.parent.name, path.stem, record['task_id'], record['sample'])
        found.setdefault(key, []).append(record)
  return found


def valid(record: dict[str, Any]) -> bool:
  """True of an episode that the infrastructure did not fail."""
  return record['error'] is None


def main(argv):
  del argv
  if None in (_QUICKSTART.value, _TABLE.value):
    raise app.UsageError('Name --quickstart and --table.')
  out = pathlib.Path(_TABLE.value)
  out.mkdir(parents=True)
  workdir, began = out / 'evaluation', time.monotonic()
  with served(_QUICKSTART.value) as engine, proxied(engine) as (proxy, url):
    started = command(url, workdir)
    refusal = _refused(started)
    assert not lines(workdir), 'Something was played with a wrong key.'
    kept = {}
    for share in range(1, _SIGKILLS.value + 1):
      before = _kill(started, workdir, share / (_SIGKILLS.value + 1), out)
      print(f'Killed with {len(before)} episodes on disk.', flush=True)
      kept |= before
    _finish(started, out)
    answers = dict(proxy.answers)
  found = results.read(workdir)
  problems = check(found, lines(workdir), kept)
  record = {
      'refusal': refusal,
      'answers': answers,
      'kept_at_kills': len(kept),
      'wall_s': round(time.monotonic() - began),
      'problems': problems,
  }
  (out / 'table.json').write_text(json.dumps(record, indent=2) + '\n')
  print(json.dumps(record))
  print(markdown(found))
  if problems:
    sys.exit(1)


def _environment(key: str) -> dict[str, str]:
  return os.environ | {_VARIABLE: key}


def _refused(started: list[str]) -> str:
  """The last words of the evaluation with a wrong key."""
  ended = subprocess.run(
      started, env=_environment('wrong'), capture_output=True, text=True
  )
  assert ended.returncode == 2, ended
  print(ended.stderr, flush=True)
  return ended.stderr.strip()


def _kill(
    started: list[str], workdir: pathlib.Path, share: float, out: pathlib.Path
) -> dict[Key, dict[str, Any]]:
  """Kills the evaluation after a share of its episodes; what it left of them."""
  with (out / 'log.txt').open('ab') as log:
    process = subprocess.Popen(
        started, env=_environment(_KEY), stdout=log, stderr=log
    )
    # Policies, times environments, times tasks.
    wanted = 4 * len(SUITES[_PANELS.value]) * _TASKS.value * share
    journals = lambda: (workdir / 'episodes' / 'eval').glob('*/*.jsonl')
    played = lambda: sum(path.read_bytes().count(b'\n') for path in journals())
    while process.poll() is None and played() < wanted:
      time.sleep(_POLL_S)
    process.send_signal(signal.SIGKILL)
    process.wait()
  return {
      key: records[-1]
      for key, records in lines(workdir).items()
      if valid(records[-1])
  }


def _finish(started: list[str], out: pathlib.Path) -> None:
  with (out / 'log.txt').open('ab') as log:
    subprocess.run(
        started, env=_environment(_KEY), stdout=log, stderr=log, check=True
    )


def check(
    found: Results,
    journals: dict[Key, list[dict[str, Any]]],
    kept: dict[Key, dict[str, Any]],
) -> list[str]:
  """What is off."""
  problems = [
      f'{key} is there {len(records)} times'
      for key, records in journals.items()
      if len(records) != 1
  ]
  problems += [
      f'{key} was played again'
      for key, record in kept.items()
      if journals.get(key) != [record]
  ]
  rows = {
      (row.policy, row.env): row for row in found.rows if row.subtask == ALL
  }
  for panel in found.panels:
    for policy in found.policies:
      wanted = {
          (task, k) for task in panel.task_ids for k in range(panel.samples)
      }
      played = {
          key[2:]: records[0]
          for key, records in journals.items()
          if key[:2] == (policy.name, panel.env)
      }
      row = rows[policy.name, panel.env]
      errors = sum(not valid(record) for record in played.values())
      if set(played) != wanted or (row.n, row.errors) != (
          len(wanted) - errors,
          errors,
      ):
        problems.append(
            f'{policy.name} on {panel.env}: {len(played)} episodes with'
            f' {errors} errors, in the table {row.n} and {row.errors}'
        )
  return problems


def markdown(found: Results) -> str:
  """A row a panel and policy."""
  head = ('environment', 'policy', 'success', 'errors fail', 'progress')
  head += ('turns', 'episodes', 'errors', 'stops')
  rows = [
      (
          row.env,
          row.policy,
          report.figure_words(row.success),
          report.figure_words(row.success_errors_fail),
          report.figure_words(row.progress),
          '-' if row.turns is None else f'{row.turns:.1f}',
          str(row.n),
          str(row.errors),
          ', '.join(f'{k} {v}' for k, v in row.stop_reasons.items()),
      )
      for row in found.rows
      if row.subtask == ALL
  ]
  return '\n'.join(report.markdown_table(head, rows))


if __name__ == '__main__':
  app.run(main)
