"""One run of a mode that learns: its config, its workdir, what ends with it."""

import contextlib
import dataclasses
import errno
import faulthandler
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import rich.console
from ml_collections import ConfigDict

from agentrl import config as config_lib, shipped
from agentrl.config import resume
from agentrl.errors import (
    AgentrlError,
    CheckpointError,
    DivergedError,
    OutOfMemory,
    is_lack_of_memory,
    one_line,
)
from agentrl.modes import reading
from agentrl.parallel import compile_cache, distributed, ranks
from agentrl.rollout import env_server, seeds
from agentrl.rollout.env_server import Begin
from agentrl.runtime import (
    aborts,
    ending,
    lock,
    starts,
    workdir as workdir_lib,
)
from agentrl.runtime.event_loop import EventLoop, Interrupted

_REASON_CHARS = 200  # of an allocator's own words


@dataclasses.dataclass(frozen=True)
class Session:
  """Values that hold from the first to the last line of a run.

  Attributes:
    config: of the mode, a `config.modes.Learning`.
    directory: the workdir.
    loop: runs coroutines, and notices Ctrl-C.
    stack: ends what the run starts.
    console: quiet in all processes but the first.
    resumed: True if the workdir holds this very run.
    begin_env: begins to start an environment server.
  """

  config: Any
  directory: pathlib.Path
  loop: EventLoop
  stack: contextlib.ExitStack
  console: rich.console.Console
  resumed: bool
  begin_env: Begin = env_server.begin

  @property
  def first(self) -> bool:
    """True in process 0, which alone writes."""
    return distributed.is_first()

  def seed(self, *names: str | int) -> int:
    """A seed of its own for each purpose."""
    return seeds.derive_seed(self.config.seed, *names)

  def claim(self) -> None:
    """Keeps config and command in the workdir, once all of it was checked.

    A command that is refused before leaves nothing which would refuse the
    corrected one.
    """
    if self.first:
      resume.keep(config_lib.record(self.config), self.directory)
      starts.note(self.directory)


def opening(console: rich.console.Console, directory: pathlib.Path) -> None:
  """Prints where results go, how to watch them, and how to stop."""
  view = f'{shipped.command()} --config=configs/view.py --workdir={directory}'
  for line in (
      f'Results go to {directory}',
      f'To watch them: {view}',
      'Ctrl-C saves and stops; the same command continues.',
  ):
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def command(mode: Callable[[Session], None]) -> Callable[..., None]:
  """The `run(config, workdir, begin_env)` of a mode that learns; see `run`."""

  def read_and_run(
      config: ConfigDict,
      workdir: str | None,
      begin_env: Begin = env_server.begin,
  ) -> None:
    run(mode, reading.read(config, workdir), workdir, begin_env)

  return read_and_run


def run(
    mode: Callable[[Session], None],
    config: Any,
    workdir: str | None,
    begin_env: Begin = env_server.begin,
) -> None:
  """Runs `mode(session)`; the same command continues it.

  Args:
    mode: of those that learn.
    config: its config; the workdir keeps it.
    workdir: gets all that the run leaves.
    begin_env: see `Session`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  compile_cache.use(config.compile_cache)
  ranks.join(os.environ, config.mode, ready=True)
  ranks.check_devices()
  directory = workdir_lib.make(workdir)
  try:
    with (
        _memory(directory),
        ranks.together(directory, os.environ),
        contextlib.ExitStack() as stack,
    ):
      first = distributed.is_first()
      ranks.same(lambda: first and stack.enter_context(lock.hold(directory)))
      loop = stack.enter_context(EventLoop())
      # Of the first process: another may be in another time zone.
      date, *_ = ranks.gather(lambda: [resume.date(config, directory)])
      config = resume.with_date(config, date)
      record = config_lib.record(config)
      resumed = ranks.same(lambda: resume.check(record, directory))
      console = rich.console.Console(quiet=not first)
      opening(console, directory)
      if first and (message := resume.lengthened(record, directory)):
        console.print(message, highlight=False, soft_wrap=True)
      mode(Session(config, directory, loop, stack, console, resumed, begin_env))
  # Only now is a checkpoint complete that was being written.
  except Interrupted:
    print(f'Stopped. {workdir_lib.way_on(directory)}')
    sys.exit(130)
  except DivergedError as error:
    raise DivergedError(f'{error} {workdir_lib.way_out(directory)}') from error
  except (OSError, AgentrlError) as error:
    if directory.is_dir():
      words = workdir_lib.unwritten(directory, error)
      # One of a checkpoint that was not written has the way on.
      if words is None or isinstance(error, CheckpointError):
        raise
      raise CheckpointError(words) from error
    raise CheckpointError(
        f'{directory} was deleted while the run wrote to it, and all that it'
        f' had left with it ({error}).'
    ) from error


@contextlib.contextmanager
def _memory(directory: pathlib.Path) -> Iterator[None]:
  """Names what ends a block where there is no memory left, and the way on.

  What a thread of a library cannot get aborts the process: no exception tells.
  """
  less = (
      'With a smaller optim.max_tokens an update needs less, with a smaller'
      ' sampler.max_running the engine.'
  )

  def aborted() -> None:
    faulthandler.dump_traceback()
    print(
        f'{OutOfMemory.__name__}: A library aborts this process. There is not'
        ' enough memory where it says std::bad_alloc above; else the fault is'
        f' its own. {less} {workdir_lib.way_on(directory)}',
        file=sys.stderr,
    )
    ending.leave(2)

  try:
    with aborts.answered(aborted):
      yield
  except (MemoryError, OSError, RuntimeError) as error:
    if isinstance(error, OSError) and error.errno != errno.ENOMEM:
      raise
    if isinstance(error, RuntimeError) and not is_lack_of_memory(str(error)):
      raise
    reason = one_line(error, _REASON_CHARS) or 'Python had none'
    raise OutOfMemory(
        f'There is not enough memory: {reason}. {less}'
        f' {workdir_lib.way_on(directory)}'
    ) from error
