"""Transcripts do not depend on the process, its hash seed or its directories.

Invariant 10: the environment is a pure function of (task_id, seed, actions).
Children with different hash seeds, one of them with shuffled directory
listings, must write the same text; and so must every machine, hence the digests
written out here.
"""

import hashlib
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]

CHILD = """
import os, pathlib, random, sys

if sys.argv[2] == 'shuffle':
  rng = random.Random(5)
  listdir, iterdir, scandir = os.listdir, pathlib.Path.iterdir, os.scandir

  def shuffled(items):
    items = list(items)
    rng.shuffle(items)
    return items

  os.listdir = lambda *path: shuffled(listdir(*path))
  pathlib.Path.iterdir = lambda path: iter(shuffled(iterdir(path)))

from agentrl import envs

env = envs.get(sys.argv[1]).open().make()
tasks = {
    'textcraft': range(0, 544, 7),
    'babyai': range(80),
    'searchqa': range(0, 8747, 50),
}[sys.argv[1]]
for task_id in tasks:
  rng = random.Random(task_id)
  print(env.reset(task_id, task_id % 3))
  for _ in range(6):
    action = rng.choice(env.available_actions())
    if sys.argv[1] in ('textcraft', 'searchqa'):
      action = env.expert_action()
    result = env.step(action)
    print(action, result)
    if result.terminated or result.truncated:
      break
"""


def transcript(env_name, *, hash_seed, listing='sorted'):
  done = subprocess.run(
      [sys.executable, '-c', CHILD, env_name, listing],
      env=os.environ | {'PYTHONHASHSEED': hash_seed, 'PYTHONPATH': str(ROOT)},
      capture_output=True,
      check=True,
      timeout=60,
  )
  return done.stdout


@pytest.mark.parametrize(
    'env_name, digest',
    [
        ('textcraft', 'ab74701edd516ada'),
        ('babyai', 'cc136a9767617f0e'),
        ('searchqa', '2d376a50d9352d26'),
    ],
)
def test_transcripts_are_equal_everywhere(env_name, digest):
  first = transcript(env_name, hash_seed='1')
  assert first.count(b'\n') > 500
  assert transcript(env_name, hash_seed='2', listing='shuffle') == first
  assert hashlib.sha256(first).hexdigest()[:16] == digest
