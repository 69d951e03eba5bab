"""An environment of verifiers: its tasks, loop, tools and rubric as they are.

`env.options.taskset` is the id of an installed taskset (verifiers 0.4), `config` more of
its environment's config, as verifiers' own `[env]` block has it. verifiers and agentrl
want other versions of the same packages, so its environment plays in a process of a Python
of its own, `env.options.python`, which has verifiers and the taskset. That process gets
the policy as an OpenAI endpoint, as a program of `env.name='program'` does: what the
environment says next is an observation, its tools are functions, and the sum of its rewards
comes at the end. Several agents of an environment are all the policy, and the reward is the
mean of theirs.

Agents chat in that process instead of verifiers' default sandbox, unless the taskset brings
a harness or `config` names one for a role. Tasks are the first `num_tasks` of the taskset.
"""

import contextlib
import itertools
import json
import math
import pathlib
import sys
import threading
from collections.abc import Mapping
from typing import Any

from absl import logging

from agentrl.envs.adapters import caching, program, task_files
from agentrl.envs.adapters.endpoint import Endpoint, Session
from agentrl.envs.adapters.program import Program
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.spec import EnvSpec, is_set
from agentrl.errors import ConfigError, EnvError, EnvFault
from agentrl.runtime import children
from agentrl.runtime.children import Child

_RUN = pathlib.Path(__file__).parent / 'verifiers_child' / 'run.py'
_START_S = 180.0  # its imports alone take many seconds on a busy machine
_END_S = 5.0


class Worker:
  """The process that plays episodes, and who waits for which."""

  def __init__(self, options: Mapping[str, Any]):
    """Starts it.

    Raises:
      ConfigError: no taskset is named, or it has fewer tasks than `num_tasks`.
      EnvError: the process does not start.
    """
    if options['taskset'] is None:
      raise ConfigError(
          'env.options.taskset is not set: name a taskset of verifiers that is'
          ' installed for env.options.python.'
      )
    config = dict(options['config'] or {})
    config['taskset'] = {
        **config.get('taskset', {}),
        'id': options['taskset'],
    }
    python = options['python'] or sys.executable
    command = [python, str(_RUN), json.dumps(config)]
    try:
      self._child = Child(
          [*command, str(options['num_tasks'])],
          name='verifiers',
          env=children.environment(),
      )
    except OSError as error:
      raise ConfigError(f'env.options.python={python}: {error}') from error
    self._lock = threading.Lock()
    self._numbers = itertools.count()
    self._open: dict[int, Session] = {}
    self._errors: dict[int, str] = {}
    try:
      self._greet(options['num_tasks'])
    except (EnvError, ConfigError):
      self.close()
      raise
    self._reader = threading.Thread(target=self._read, daemon=True)
    self._reader.start()

  def _greet(self, num_tasks: int) -> None:
    """Waits until it is ready."""
    try:
      line = self._child.read_line(_START_S)
    except TimeoutError as error:
      self._child.kill()
      raise EnvError(
          f'The process of verifiers is not ready within {_START_S:g} s:'
          f' {self._child.last_words()}'
      ) from error
    if not line:
      raise EnvError(f'The process of verifiers {self.ending()}')
    try:
      found = int(json.loads(line)['ready'])
    except (ValueError, TypeError, KeyError) as error:
      raise EnvFault(
          f'The process of verifiers began with {line!r:.200}, and not with its'
          ' number of tasks.'
      ) from error
    if found < num_tasks:
      raise ConfigError(
          f'env.options.num_tasks={num_tasks}, and the taskset has {found}'
          f' tasks: set it to {found}.'
      )

  def _read(self) -> None:
    while line := self._child.read_line(float('inf')):
      try:
        self._end(json.loads(line))
      except (ValueError, TypeError, KeyError) as error:
        logging.error('The process of verifiers wrote %r: %s', line, error)
        self._child.kill()
        return

  def _end(self, reply: Mapping[str, Any]) -> None:
    """Takes the end of an episode, {"id": 1, "reward": 1.0} or "error"."""
    number = reply['id']
    reward = None if 'error' in reply else float(reply['reward'])
    if reward is not None and not math.isfinite(reward):
      reply, reward = {'error': f'its reward is {reward}'}, None
    with self._lock:
      session = self._open.pop(number, None)
      if session is None:  # its episode was given up
        return
      if reward is None:
        self._errors[number] = str(reply['error'])
      else:
        session.reward = reward, None

  @property
  def alive(self) -> bool:
    """True while the process runs."""
    return self._child.ending() is None

  def start(self, url: str, session: Session, task_id: int) -> int:
    """Starts an episode; returns its number.

    Raises:
      EnvError: the process has ended.
    """
    with self._lock:
      number = next(self._numbers)
      self._open[number] = session
      line = json.dumps({'id': number, 'task': task_id, 'url': url})
      try:
        self._child.write_line(line)
      except OSError as error:
        del self._open[number]
        raise EnvError(f'The process of verifiers {self.ending()}') from error
    return number

  def plays(self, number: int) -> bool:
    """True while an episode goes on."""
    with self._lock:
      return number in self._open and self.alive

  def error(self, number: int) -> str | None:
    """Why an episode that has ended has no reward; None: it has one."""
    with self._lock:
      if number in self._open:
        return f'The process of verifiers {self.ending()}'
      words = self._errors.pop(number, None)
    return (
        None if words is None else f'The episode of verifiers failed: {words}'
    )

  def forget(self, number: int) -> None:
    """Leaves an episode whose end nobody waits for."""
    with self._lock:
      self._open.pop(number, None)
      self._errors.pop(number, None)

  def ending(self) -> str:
    """Its end, in words."""
    ending = self._child.ending(_END_S) or 'does not answer'
    return f'{ending}: {self._child.last_words()}'

  def close(self) -> None:
    self._child.stop(_END_S)


class Episode:
  """One episode in the worker; see `program.Run`."""

  def __init__(self, worker: Worker, url: str, session: Session, task_id: int):
    self._worker = worker
    self._number = worker.start(url, session, task_id)

  @property
  def alive(self) -> bool:
    return self._worker.plays(self._number)

  def check(self) -> None:
    words = self._worker.error(self._number)
    if words is not None:
      raise EnvError(words)

  def stop(self) -> None:
    # Its next request is answered by 410, which ends it.
    self._worker.forget(self._number)


class Environments:
  """The factory of episodes: a worker, an endpoint, and the tools of the first.

  Attributes:
    functions: tools of the first request of the first task.
  """

  inline = ()

  def __init__(self, **options: Any):
    self._options = options
    self.slots = self.threads = options['episodes']
    self._worker = Worker(options)
    self._lock = threading.Lock()
    self._endpoint = Endpoint()
    self.functions: tuple[Function, ...] | None = None
    try:
      with contextlib.closing(self.make()) as env:
        self.functions = env.first_functions(0)
    except EnvError:
      self.close()
      raise

  def make(self) -> Program:
    return Program(
        self._endpoint,
        self._options['num_tasks'],
        self.functions,
        self._start,
        self._options['timeout_s'],
        'verifiers',
    )

  def _start(
      self, url: str, session: Session, task_id: int, seed: int
  ) -> Episode:
    del seed  # what an environment leaves to chance is its own
    with self._lock:
      if not self._worker.alive:  # its episodes have failed; others go on
        logging.warning('Verifiers %s Starting anew.', self._worker.ending())
        self._worker.close()
        self._worker = Worker(self._options)
      worker = self._worker
    return Episode(worker, url, session, task_id)

  def gauges(self) -> Mapping[str, float]:
    return {}

  def close(self) -> None:
    self._worker.close()
    self._endpoint.close()


@caching.by_options
def _specialise(**options: Any) -> dict[str, Any]:
  with contextlib.closing(Environments(**options)) as found:
    return {'functions': found.functions}


SPEC = EnvSpec(
    name='verifiers',
    dialect=Dialect(),
    # The environment brings its own.
    words=program.SPEC.words,
    specialise=_specialise,
    conversations=True,
    options={
        'taskset': None,
        'config': None,
        'python': None,
        'num_tasks': 100,
        'timeout_s': 120.0,
        'episodes': 32,
    },
    meanings={
        'taskset': 'id of an installed taskset',
        'config': "further fields of verifiers' [env] block, a dict",
        'python': (
            'program of a Python that has verifiers and the taskset; None: the'
            ' present one'
        ),
        'num_tasks': 'tasks that are used, the first ones of the taskset',
        'timeout_s': 'seconds between two requests, at most',
        'episodes': 'at a time',
    },
    task_options=('taskset', 'config', 'num_tasks'),
    machine_options=('episodes', 'timeout_s', 'python'),
    unsafe_options={'taskset': is_set, 'config': bool, 'python': is_set},
    open_factory=Environments,
    list_tasks=lambda split, num_tasks, **of_ids: task_files.of_split(
        split, ({},) * num_tasks
    ),
    success='The rewards of the rubric sum to 1.',
)
