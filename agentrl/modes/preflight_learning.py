"""Refusals of runs that learn: those of `preflight` that import jax."""

import functools
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import rich.console

from agentrl import schedules
from agentrl.algos import online
from agentrl.config import mixture, resume
from agentrl.config.modes import AgentEvol, Dpo, Learning, Sft, Train
from agentrl.data import conversations, preference
from agentrl.http import auth
from agentrl.models import variants
from agentrl.modes import build, held_out, preflight
from agentrl.rollout import demonstrations, orders
from agentrl.runtime import workdir as workdir_lib
from agentrl.serving import remote, teacher as teachers
from agentrl.weights import finding


def check(read: Learning, workdir: str | None) -> None:
  """Refuses a config of a mode that learns; see `preflight.check`.

  Args:
    read: the config.
    workdir: of the run.

  Raises:
    AgentrlError: the run's own.
  """
  members: Sequence[Learning] = [read]
  if isinstance(read, Train):
    online.check(read.algo)
    _check_teacher(read)
    build.check_texts(read)
    members = trained = [member.config for member in mixture.members(read)]
    for one in trained:
      schedules.make(one.horizon)
  for member in members:
    lists = preflight.task_lists(member, member.env.task_file)
    tasks = lists.tasks('train')
    if isinstance(member, Train):
      orders.make(member.tasks, tasks, lists, seed=0)
    held_out.make_panels(lists, member)
  remote.read_keys(read.sampler)
  known_shape = read.model.name in variants.VARIANTS  # a plan needs no weights
  gone = workdir and resume.start_is_gone(
      read.model.name, pathlib.Path(workdir)
  )
  if not (known_shape or read.model.from_scratch or gone):
    finding.check(read.model.name)
  if workdir and workdir_lib.last_checkpoint(pathlib.Path(workdir)):
    return
  if files := list(_files(read)):
    console = rich.console.Console(quiet=True)
    for names, reader in files:
      reader = functools.partial(reader, env=read.env.name)
      demonstrations.read_files(names, reader, console)


def _check_teacher(read: Train) -> None:
  """Refuses a teacher that is not there."""
  teacher = read.algo.teacher_settings
  if teacher is None:
    return
  if not teacher.urls:
    finding.check(teachers.model(teacher, read.model))
  if teacher.api_key_file:
    auth.read_token(teacher.api_key_file)


def _files(read: Any) -> Iterator[tuple[tuple[str, ...], Callable]]:
  """Files that the run learns from, and what reads them."""
  if isinstance(read, (Sft, AgentEvol)):
    yield read.data.files, conversations.read
  if isinstance(read, Dpo):
    yield read.pairs.files, preference.read
