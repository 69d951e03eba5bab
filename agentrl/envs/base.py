"""Protocols of an environment and of the factory that makes it."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, runtime_checkable

from agentrl.errors import EnvError
from agentrl.types import StepResult


def check_task(env: str, task_id: int, count: int) -> None:
  """Refuses a task outside of an environment's tasks 0 to `count` - 1.

  Raises:
    EnvError: there is no such task.
  """
  if not 0 <= task_id < count:
    raise EnvError(f'{env} has no task {task_id}; ids are 0 to {count - 1}.')


class Env(Protocol):
  """One episode at a time; a new `reset` starts another.

  Some have more: `query(name)`, which answers the `queries` of their dialect
  with JSON values, and `picture()`, a PNG file, where the dialect `renders`.

  Transcripts are a pure function of `(task_id, seed, actions)`: equal on every
  machine, in every process and under every PYTHONHASHSEED. The server never
  steps an episode that has ended and never calls one instance from two threads
  at once.
  """

  def reset(self, task_id: int, seed: int) -> str:
    """Starts task `task_id` and returns its first observation.

    Raises:
      EnvError: this environment has no such task.
    """

  def step(self, action: str) -> StepResult:
    """Does `action`; one that is not understood changes nothing but the text.

    Rewards are of this step alone. `progress`, where an environment knows it,
    is the share of the task that is done: 1 exactly with success.
    """

  def available_actions(self) -> list[str]:
    """Actions that can be done now, or their forms where there are too many."""

  def expert_action(self) -> str:
    """The expert's next action. It changes nothing.

    Raises:
      EnvError: the environment has no expert, or the expert no plan from here.
    """

  def close(self) -> None:
    """Frees what the episode holds, at once. May be called twice.

    The one call that may come while another still runs: that one took too long
    and should fail soon, if it can be made to. What it raises is logged.
    """


@runtime_checkable
class Detailed(Protocol):
  """An environment whose replies have fields of its own."""

  def details(self) -> dict[str, Any]:
    """Fields of /reset, /step and /detail, over those of every environment."""


class EnvFactory(Protocol):
  """Makes the environments of one server, and holds what they share.

  That may be simulators or an index.
  """

  @property
  def slots(self) -> int | None:
    """Most episodes that may run at once; None: no limit.

    An episode runs from its reset until the step that ends it or its close,
    whichever is first, and must hold nothing scarce outside. The server queues
    further resets.
    """

  @property
  def threads(self) -> int:
    """Number of calls into environments that are worth making at once.

    More than two only contend for the interpreter lock, unless they wait for
    others.
    """

  @property
  def inline(self) -> Collection[str]:
    """Names of methods of `Env` that take about 1 ms with any arguments.

    The server calls them itself, because the way to a thread and back would
    cost as much again; no deadline can end them.
    """

  def make(self) -> Env:
    """A new environment, at once and without a call elsewhere."""

  def gauges(self) -> Mapping[str, float]:
    """More lines for /metrics, by name; asked from any thread."""

  def close(self) -> None:
    """Frees what is shared, after the last episode was closed."""


@dataclasses.dataclass(frozen=True)
class Independent:
  """The factory of environments that share nothing but what `close` frees."""

  make: Callable[[], Env]
  slots: int | None = None
  # A second thread lets a quick step pass a slow reset.
  threads: int = 2
  inline: Collection[str] = ()
  gauges: Callable[[], Mapping[str, float]] = dict
  close: Callable[[], None] = lambda: None


def independent(
    cls: Callable[..., Env], options: Mapping[str, Any], **factory: Any
) -> Independent:
  """The factory of `cls(**options)`; wrong options are an error at once.

  Args:
    cls: of the environments.
    options: of each.
    **factory: further fields of `Independent`.
  """
  make = functools.partial(cls, **options)
  make().close()
  return Independent(make, **factory)
