"""Our evaluators against those of others, on synthetic traces and values.

    python -m venv DIR
    DIR/bin/pip install --no-deps -r third_party/requirements/webarena.txt
    AGENTRL_WEBARENA_PYTHON=DIR/bin/python \
        python -m pytest -m slow tests/envs/webarena/public/agreement_test.py

webarena-verified: right traces of every task and mutated ones,
$AGENTRL_WEBARENA_TRACES a task (by default 8: 6,496 traces); pairs of values of
every kind. The original benchmark: answers, addresses and pages of every task.
"""

import asyncio
import json
import os
import pathlib
import subprocess
from collections import Counter

import pytest

from agentrl.envs.webarena.public import helpers, raw, tasks, values, verified
from agentrl.envs.webarena.public.addresses import Places
from tests.envs.webarena.public import pairs, raw_cases, traces

PYTHON = os.environ.get('AGENTRL_WEBARENA_PYTHON')
PER_TASK = int(os.environ.get('AGENTRL_WEBARENA_TRACES', '8'))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason='needs $AGENTRL_WEBARENA_PYTHON'),
]


def answers_of(script, questions):
  """What a script prints that runs in the other environment."""
  child = subprocess.run(
      [PYTHON, str(pathlib.Path(__file__).with_name(script))],
      input=json.dumps(questions),
      capture_output=True,
      text=True,
      timeout=1800,
  )
  assert child.returncode == 0, child.stderr[-2000:]
  return json.loads(child.stdout)


def test_every_verdict_is_theirs():
  table = tasks.load('verified')
  jobs = traces.jobs(table.values(), PER_TASK, 0)
  theirs = answers_of(
      'oracle.py',
      {'urls': traces.URLS, 'jobs': [job for _, job in jobs], 'pairs': []},
  )['jobs']
  different = Counter()
  for (kind, (task_id, answer, entries)), status in zip(
      jobs, theirs, strict=True
  ):
    task = table[task_id]
    urls = {site: traces.URLS[site] for site in task.sites}
    mine = verified.evaluate(task.evals, urls, answer, entries).status
    if mine != status:
      different[kind, task_id, mine, status] += 1
  print(len(jobs), Counter(theirs))
  assert not different
  assert len(set(theirs)) >= 2 and len(jobs) > 5000


def test_every_pair_of_values_is_equal_where_theirs_is():
  drawn = pairs.pairs(300, 0)
  theirs = answers_of(
      'oracle.py', {'urls': traces.URLS, 'jobs': [], 'pairs': drawn}
  )['pairs']
  different = [
      (*pair, mine, other)
      for pair, other in zip(drawn, theirs, strict=True)
      if (mine := equal(*pair)) != other
  ]
  print(len(drawn), Counter(theirs))
  assert not different
  assert set(theirs) == {True, False, None}


def equal(kind, expected, actual):
  """Whether two values are; None: one cannot be read."""
  places = Places(traces.URLS)
  try:
    a = values.read(kind, expected, places, expected=True)
    b = values.read(kind, actual, places, expected=False)
  except ValueError:
    return None
  return values.same(a, b, places)


def test_every_score_is_the_originals():
  cases = raw_cases.cases(tasks.load('raw').values(), 6, 0)
  theirs = answers_of('original.py', cases)

  async def scores():
    return [await score(*case) for case in cases]

  different = [
      (*case, mine, other)
      for case, mine, other in zip(
          cases, asyncio.run(scores()), theirs, strict=True
      )
      if mine != other
  ]
  print(len(cases), Counter(x for x in theirs if not isinstance(x, str)))
  assert not different
  assert len(cases) > 5000 and {0.0, 1.0, None} < set(theirs)


async def score(kind, config, given):
  """The score of a case; None: a judge is needed."""
  if kind == 'post_url':
    return helpers.post_url(given)
  if kind == 'url':
    return raw.of_url(config['reference_url'], given)
  if kind == 'page':
    [check] = config['program_html']
    return raw.of_contents(check['required_contents'], given)
  try:
    return await raw.of_answer(
        config['reference_answers'], given, intent='x', reason='', judge=None
    )
  except ValueError:
    return None
