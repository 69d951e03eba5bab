"""The fixed lists of SearchQA: ids are ranges by split and number of hops.

The table is written out so that a run which uses a server elsewhere needs none
of the packages that the questions are made from (see questions.py).
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from agentrl.envs import base
from agentrl.envs.searchqa import question_files
from agentrl.envs.searchqa.records import MAX_HOPS, SPLITS, Question
from agentrl.errors import ConfigError

# Numbers of questions of 1, 2 and 3 hops in each split, in the order of ids.
COUNTS = {
    'train': (2823, 2226, 2268),
    'dev': (185, 147, 148),
    'test': (363, 290, 297),
}
NUM_TASKS = sum(sum(counts) for counts in COUNTS.values())

Files = str | Mapping[str, str] | None


def tasks(
    split: str,
    *,
    questions: Files = None,
    max_hops: int | None = None,
    relations: Sequence[str] | None = None,
) -> tuple[int, ...]:
  """The ids of `split`, questions with few hops first.

  Raises:
    ConfigError: no line of `questions` is of the split, or `max_hops` or
      `relations` are wrong.
    DataError: a file of questions cannot be used.
    EnvError: a package that the questions are made from is missing; only with
      `relations`.
  """
  check_max_hops(max_hops, questions)
  check_relations(relations, questions)
  if questions is None:
    before = SPLITS[: SPLITS.index(split)]
    start = sum(sum(COUNTS[other]) for other in before)
    ids = tuple(range(start, start + sum(COUNTS[split][:max_hops])))
    return ids if relations is None else _of_relations(ids, relations)
  table = question_files.read(questions)
  ids = tuple(i for i, question in enumerate(table) if question.split == split)
  if not ids:
    raise ConfigError(
        f'The questions in {questions!r} have none of the {split} split; give'
        ' their lines a "split", or name a file for each split as in'
        ' questions={"train": "a.jsonl", "test": "b.jsonl"}.'
    )
  return ids


def check_max_hops(max_hops: int | None, questions: Files) -> None:
  """Refuses what is neither a number of hops nor None.

  Raises:
    ConfigError: it is, or the hops of the questions are not known.
  """
  if max_hops is None:
    return
  if type(max_hops) is not int or not 1 <= max_hops <= MAX_HOPS:
    raise ConfigError(
        f'max_hops must be 1 to {MAX_HOPS} or None, got {max_hops!r}.'
    )
  if questions is not None:
    raise ConfigError(
        f'max_hops={max_hops} chooses among the generated questions; those of a'
        ' file have no hops: leave max_hops or questions out.'
    )


def check_relations(relations: Sequence[str] | None, questions: Files) -> None:
  """Refuses what is neither names of relations nor None.

  Raises:
    ConfigError: it is, or the relations of the questions are not known.
  """
  if relations is None:
    return
  from agentrl.envs.searchqa.dataset.questions import RELATIONS

  choices = list(RELATIONS)
  names = relations if isinstance(relations, Sequence | Set) else ()
  if not names or any(name not in choices for name in names):
    raise ConfigError(
        f'relations must be a tuple of {", ".join(choices)}, or None, got'
        f' {relations!r}.'
    )
  if questions is not None:
    raise ConfigError(
        f'relations={tuple(relations)!r} choose among the generated questions;'
        ' those of a file have no relations: leave relations or questions out.'
    )


def relations_of(question: Question) -> tuple[str, ...]:
  """The relations that a generated question follows, one a hop."""
  return tuple(question.name.split(' / ')[-len(question.hops) :])


def _of_relations(
    ids: Sequence[int], relations: Sequence[str]
) -> tuple[int, ...]:
  from agentrl.envs.searchqa import dataset

  questions = dataset.load_questions()
  return tuple(i for i in ids if {*relations_of(questions[i])} <= {*relations})


def hops_of(task_id: int) -> int:
  """The number of hops of a generated question.

  Raises:
    EnvError: there is no such task.
  """
  base.check_task('SearchQA', task_id, NUM_TASKS)
  for split in SPLITS:
    for hops in range(1, MAX_HOPS + 1):
      task_id -= COUNTS[split][hops - 1]
      if task_id < 0:
        return hops
  raise AssertionError  # NUM_TASKS is their sum


def subtasks(
    *, questions: Files = None, **options: Any
) -> Callable[[int], str]:
  """A function from a task to its kind, under these options."""
  del options
  if questions is None:
    return subtask
  table = question_files.read(questions)
  return lambda task_id: table[task_id].kind


def subtask(task_id: int) -> str:
  """The kind of a generated question."""
  hops = hops_of(task_id)
  return '1 hop' if hops == 1 else f'{hops} hops'


def clusters(
    *, questions: Files = None, **options: Any
) -> Callable[[int], str] | None:
  """A function from a generated question to what its start belongs to.

  Up to 29 questions start from one country, its capital or its domain: they
  read the same passages, and splits are drawn by country for the same reason.
  Questions of files stand alone: nothing tells which resemble each other.

  Raises:
    EnvError: a package that the questions are made from is missing.
  """
  del options
  if questions is not None:
    return None
  from agentrl.envs.searchqa import dataset

  table = dataset.load_questions()

  def family_of(task_id: int) -> str:
    hops_of(task_id)  # refuses what is no task
    return table[task_id].family

  return family_of
