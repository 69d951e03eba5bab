"""The results of an evaluation: `evaluation.json` in its workdir.

Its episodes lie beside it, a file for each policy and environment, see
`episodes_path`.
"""

import hashlib
import json
import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from agentrl import files
from agentrl.errors import DataError
from agentrl.evaluation.stats import intervals
from agentrl.evaluation.stats.intervals import Interval

FILE = 'evaluation.json'
ALL = 'all'  # the subtask of a row over a whole panel
_FORMAT = 1


class Figure(msgspec.Struct, frozen=True):
  """A mean with its 95% interval, see `intervals.Interval`; None: unbounded."""

  mean: float
  low: float | None
  high: float | None
  method: str

  @classmethod
  def of(cls, interval: Interval) -> 'Figure':
    finite = lambda end: end if math.isfinite(end) else None
    low, high = finite(interval.low), finite(interval.high)
    return cls(interval.mean, low, high, interval.method)


class PolicyRecord(msgspec.Struct, frozen=True, kw_only=True):
  """An evaluated policy.

  Attributes:
    name: unique in the evaluation, and part of a path.
    kind: 'model', 'server', 'api', 'expert' or 'random'.
    source: as the command named it.
    weight_version: of the weights; None: there are none, or not known.
    fingerprint: SHA-256 of the weights; None: as above.
    template: of the chat; None: an API's own, or no chat.
    sampler: temperature and the like.
  """

  name: str
  kind: str
  source: str
  weight_version: str | None = None
  fingerprint: str | None = None
  template: str | None = None
  sampler: dict[str, Any] = {}


class Panel(msgspec.Struct, frozen=True, kw_only=True):
  """The tasks of an evaluation, each played `samples` times.

  Attributes:
    env: name of the environment.
    options: its options.
    split: of the tasks.
    task_file: the item file they are from; None: the split's own list.
    task_ids: in the order of play.
    subtasks: the kind of each.
    clusters: the template of each; None: each task is a cluster.
    samples: episodes of a task; chains of attempts, where there are several.
    attempts: at a task in sequence, each with the lesson of the one before.
    data_version: of the environment's tasks, see `EnvSpec.data_version`.
    task_options: those of its options that give ids their meaning, by their
      paths in a config; None in older records.
    seed: of the episodes' seeds.
    horizon: turns of an episode, at most.
    success: the environment's own definition, in words.
    hash: see `panel_hash`; two evaluations of one hash compare in pairs.
  """

  env: str
  options: dict[str, Any]
  split: str
  task_file: str | None
  task_ids: tuple[int, ...]
  subtasks: tuple[str, ...]
  clusters: tuple[str, ...] | None
  samples: int
  seed: int
  horizon: int
  success: str
  hash: str
  attempts: int = 1
  data_version: int = 1  # older records have none: all environments began at 1
  task_options: dict[str, Any] | None = None

  def only(self, tasks: Collection[int]) -> 'Panel':
    """The part of the panel with these tasks; itself where it has no others."""
    keep = [i for i, task in enumerate(self.task_ids) if task in tasks]
    if len(keep) == len(self.task_ids):
      return self
    part = lambda values: values and tuple(values[i] for i in keep)
    task_ids = part(self.task_ids)
    options = self.task_options
    return msgspec.structs.replace(
        self,
        task_ids=task_ids,
        subtasks=part(self.subtasks),
        clusters=part(self.clusters),
        hash=panel_hash(
            self.env,
            task_options=self.options if options is None else options,
            task_ids=task_ids,
            samples=self.samples,
            seed=self.seed,
            attempts=self.attempts,
            data_version=self.data_version,
        ),
    )

  def clusters_of(self, indexes: Sequence[int]) -> Sequence[str] | None:
    """The cluster of each of some tasks, see `intervals.clusters_of`.

    Args:
      indexes: of the tasks, in `task_ids`.
    """
    if self.clusters is None:
      return None
    return intervals.clusters_of([self.clusters[i] for i in indexes])


class Attempt(
    msgspec.Struct, frozen=True, kw_only=True, rename={'ret': 'return'}
):
  """Success and return of the k-th attempts of chains."""

  success: Figure
  ret: Figure


class Row(msgspec.Struct, frozen=True, kw_only=True, rename={'ret': 'return'}):
  """A policy on one subtask of an environment, or on all of it.

  Means are over tasks, of each task's mean over its valid episodes. Figures
  of nothing are None.

  Attributes:
    env: name of the environment.
    subtask: a kind of task, or `ALL`.
    policy: name of the policy.
    n: valid episodes.
    tasks: tasks with one.
    not_played: tasks without one, by why; 'context': the prompt did not fit the
      context, else the stop reason of the first episode. Empty in older records.
    errors: episodes that are not valid; left out of all figures
      but `success_errors_fail`.
    success: avg@k.
    success_errors_fail: the same, each of `errors` a failure.
    ret: return, `return` in the file.
    progress: share of the task done at the end, where reported.
    pass_at_k: by k as a string, up to the fewest valid episodes of a task. Not
      of several attempts: those that learn from each other are no samples.
    pass_hat_k: likewise.
    attempts: by number as a string, from 1; empty for one attempt a task. The
      other figures are over all attempts.
    turns: mean of an episode.
    prompt_tokens: mean of an episode, over all its requests; None: not said.
    completion_tokens: likewise.
    cost: of all episodes, in the currency of the prices; None: no price.
    stop_reasons: episodes by stop reason, failed ones included.
    detectable: the smallest difference in success to another policy that this
      panel shows in 80% of repetitions, see `intervals.detectable_difference`.
  """

  env: str
  subtask: str
  policy: str
  n: int
  tasks: int
  errors: int
  success: Figure | None
  success_errors_fail: Figure | None
  ret: Figure | None
  progress: Figure | None = None
  pass_at_k: dict[str, Figure] = {}
  pass_hat_k: dict[str, Figure] = {}
  attempts: dict[str, Attempt] = {}
  turns: float | None = None
  prompt_tokens: float | None = None
  completion_tokens: float | None = None
  cost: float | None = None
  stop_reasons: dict[str, int] = {}
  not_played: dict[str, int] = {}
  detectable: float | None = None


class Results(msgspec.Struct, frozen=True, kw_only=True):
  """An evaluation: who, on what, and what came of it."""

  config: dict[str, Any]
  policies: tuple[PolicyRecord, ...]
  panels: tuple[Panel, ...]
  rows: tuple[Row, ...]
  format: int = _FORMAT


def panel_hash(
    env: str,
    *,
    task_options: Mapping[str, Any],
    task_ids: Sequence[int],
    samples: int,
    seed: int,
    attempts: int = 1,
    data_version: int = 1,
) -> str:
  """SHA-256 of what makes two panels one: which tasks under which seeds.

  What else may differ between two evaluations (horizon, other options of the
  environment, the sampler) is a setting that they compare.

  Args:
    env: name of the environment.
    task_options: those of its options that give ids their meaning.
    task_ids: in the order of play.
    samples: episodes of a task.
    seed: of the episodes' seeds.
    attempts: at a task in sequence.
    data_version: of the environment's tasks.
  """
  identity = [env, dict(task_options), list(task_ids), samples, seed]
  # Hashes of single attempts, and of the first version, are older than these.
  identity += [attempts] * (attempts > 1)
  identity += [{'data_version': data_version}] * (data_version > 1)
  text = json.dumps(identity, sort_keys=True, allow_nan=False)
  return hashlib.sha256(text.encode()).hexdigest()


def episodes_path(
    directory: pathlib.Path, policy: str, env: str
) -> pathlib.Path:
  """The file of a policy's episodes in an environment."""
  return directory / 'episodes' / 'eval' / policy / f'{env}.jsonl'


def write(directory: pathlib.Path, results: Results) -> pathlib.Path:
  """Writes `evaluation.json` whole, or not at all; returns its path.

  Raises:
    DataError: it cannot be written.
  """
  path = directory / FILE
  data = msgspec.json.format(msgspec.json.encode(results), indent=2)
  try:
    files.write_whole(path, data + b'\n')
  except OSError as error:
    raise DataError(f'Cannot write {path}: {error}') from error
  return path


def read(directory: pathlib.Path) -> Results:
  """The evaluation in a workdir.

  Raises:
    DataError: there is none, it is damaged, or of another format.
  """
  path = directory / FILE
  try:
    data = path.read_bytes()
  except OSError as error:
    raise DataError(
        f'{directory} holds no finished evaluation: {path.name} cannot be read'
        f' ({error.strerror}). Finish it with the same command, or evaluate'
        ' with --config=configs/evaluate.py.'
    ) from error
  try:
    results = msgspec.json.decode(data, type=Results)
  except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
    raise DataError(f'{path} is no evaluation: {error}') from error
  if results.format != _FORMAT:
    raise DataError(
        f'{path} has format {results.format}; this agentrl reads {_FORMAT}.'
    )
  return results
