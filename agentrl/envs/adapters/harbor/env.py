"""Episodes of Harbor: a policy works in a sandbox, and a task's tests grade it."""

import json
import math
import os
import pathlib
import re
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl.envs import base, functions as functions_lib
from agentrl.envs.adapters.harbor import (
    containers,
    namespaces,
    sandbox,
    task_folders,
)
from agentrl.envs.adapters.harbor.containers import ContainerImage
from agentrl.envs.adapters.harbor.namespaces import NamespaceImage
from agentrl.envs.adapters.harbor.sandbox import Image, Sandbox
from agentrl.envs.adapters.harbor.task_folders import Task
from agentrl.envs.adapters.truncation import truncate
from agentrl.envs.functions import Function
from agentrl.errors import ConfigError, EnvError, EnvFault
from agentrl.types import StepResult

BASH = functions_lib.of_texts(
    'bash',
    'Runs a command of a shell. Files stay; each has a shell of its own.',
    'command',
)
SUBMIT = Function(
    'submit',
    description='Says that the task is done, and ends it.',
    schema={'type': 'object', 'properties': {}, 'additionalProperties': False},
)
FUNCTIONS = (BASH, SUBMIT)
NAMESPACE = 'bubblewrap'
_TESTS, _LOGS = '/tests', '/logs/verifier'
_VARIABLE = re.compile(r'\$\{(\w+)(?::-([^}]*))?\}')


def _resolved(env: Mapping[str, str]) -> dict[str, str]:
  """Variables whose ${NAME} and ${NAME:-else} are this process's.

  Raises:
    EnvFault: one is not set here.
  """

  def value(match: re.Match[str]) -> str:
    variable = os.environ.get(match[1], match[2])
    if variable is None:
      raise EnvFault(f'A Harbor task needs the variable {match[1]}: set it.')
    return variable

  return {name: _VARIABLE.sub(value, text) for name, text in env.items()}


def find(name: str | None) -> str:
  """The kind of sandbox of this machine, or `name` if it has that one.

  Raises:
    ConfigError: it has none.
  """
  for engine in containers.ENGINES:
    if name in (None, engine) and containers.runs(engine):
      return engine
  if name in (None, NAMESPACE) and namespaces.run_here():
    return NAMESPACE
  if name not in (None, NAMESPACE, *containers.ENGINES):
    known = ', '.join((*containers.ENGINES, NAMESPACE))
    raise ConfigError(f'There is no sandbox {name!r}; known: {known}.')
  raise ConfigError(
      f'No sandbox runs here ({name or "docker, podman or bubblewrap"}): start'
      ' a container engine, or install bubblewrap (apt-get install'
      ' bubblewrap).'
  )


class Machines:
  """The factory of `Harbor`: sandboxes of tasks, whose images are made once."""

  inline = ()

  def __init__(self, **options: Any):
    self._options = options
    self._tasks = task_folders.load(options['folder'])
    self.slots = self.threads = options['episodes']
    self._kind = find(options['sandbox'])
    self._images: dict[int, Image] = {}
    self._locks = [threading.Lock() for _ in self._tasks]
    self._folder = tempfile.TemporaryDirectory(
        prefix='agentrl-harbor-', ignore_cleanup_errors=True
    )

  def make(self) -> 'Harbor':
    return Harbor(self._tasks, self.start, self._options)

  def start(self, task_id: int) -> Sandbox:
    """A sandbox for a task; the first makes its image.

    Raises:
      EnvError: there is none.
    """
    task = self._tasks[task_id]
    with self._locks[task_id]:
      if task_id not in self._images:
        try:
          self._images[task_id] = self._image(task_id)
        except ConfigError as error:
          raise EnvFault(f'{task.folder}: {error}') from error
    return self._images[task_id].start(
        task.workdir, _resolved(task.env), task.limits
    )

  def _image(self, task_id: int) -> Image:
    task = self._tasks[task_id]
    if self._kind != NAMESPACE:
      if task.image is not None:
        return ContainerImage(self._kind, task.image)
      return ContainerImage.build(
          self._kind, task.dockerfile.parent, task.build_s
      )
    if not {task.user, task.test_user} <= namespaces.ROOT:
      raise ConfigError('it has users: that needs docker or podman.')
    if not task.dockerfile.exists():
      raise ConfigError('it has no Dockerfile: that needs docker or podman.')
    folder = pathlib.Path(self._folder.name, str(task_id))
    folder.mkdir()
    return NamespaceImage(
        folder, task.dockerfile.read_text(), task.dockerfile.parent
    )

  def gauges(self) -> Mapping[str, float]:
    return {}

  def close(self) -> None:
    self._folder.cleanup()


def _call(action: str) -> tuple[str, dict[str, Any]] | None:
  """Name and arguments of an action: a call, or its words; None: it is none."""
  name, _, command = action.partition(' ')
  if name == BASH.name and command.strip():
    return name, {'command': command}
  if action == SUBMIT.name:
    return name, {}
  return functions_lib.called(FUNCTIONS, action)


class Harbor:
  """One task at a time; see `base.Env`."""

  def __init__(
      self,
      tasks: Sequence[Task],
      start: Callable[[int], Sandbox],
      options: Mapping[str, Any],
  ):
    self._tasks, self._start, self._options = tasks, start, options
    self._sandbox: Sandbox | None = None

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # a machine begins as its image
    base.check_task('harbor', task_id, len(self._tasks))
    self.close()
    self._sandbox = self._start(task_id)
    self._task, self._commands = self._tasks[task_id], 0
    return self._task.instruction

  def step(self, action: str) -> StepResult:
    call = _call(action)
    if call is None:
      text = 'This is no action. There are: bash COMMAND, submit.'
      return StepResult(text, 0.0, False)
    name, arguments = call
    if name == SUBMIT.name:
      return self._grade('You have submitted.')
    assert self._sandbox is not None  # since a reset
    self._commands += 1
    ran = self._sandbox.run(
        str(arguments.get('command', '')),
        self._options['timeout_s'],
        user=self._task.user,
    )
    text = truncate(
        ran.output.rstrip('\n'), self._options['most_chars'], keep_end=True
    )
    if ran.code is None:
      text += f'\n[it was ended after {self._options["timeout_s"]:g} s]'
    elif ran.code:
      text += f'\n[exit code {ran.code}]'
    text = text.strip('\n') or '(nothing)'
    if self._commands >= self._options['commands']:
      return self._grade(text)
    return StepResult(text, 0.0, False)

  def _grade(self, text: str) -> StepResult:
    reward = self._reward()
    return StepResult(text, reward, True, success=reward >= 1.0)

  def _reward(self) -> float:
    """The reward that the tests leave.

    Raises:
      EnvFault: they leave none.
    """
    box, task = self._sandbox, self._task
    assert box is not None  # since a reset
    box.put(task.folder / 'tests', _TESTS)
    ran = box.run(
        f'rm -rf {_LOGS} && mkdir -p {_LOGS} && chmod 777 {_LOGS}'
        f' && chmod +x {_TESTS}/test.sh',
        self._options['timeout_s'],
        user='root',
    )
    if ran.code == 0:
      ran = box.run(
          f'{_TESTS}/test.sh',
          task.test_s,
          env=_resolved(task.test_env),
          user=task.test_user,
      )
    if ran.code is None:
      raise EnvFault(f'{task.folder}: its tests took over {task.test_s:g} s.')
    for name in ('reward.json', 'reward.txt'):
      content = sandbox.read(box, f'{_LOGS}/{name}')
      if content is not None:
        return self._read_reward(content)
    raise EnvFault(
        f'{task.folder}: its tests left no reward (exit {ran.code}):'
        f' {ran.last_words()}'
    )

  def _read_reward(self, text: str) -> float:
    key = self._options['reward']
    try:
      value = json.loads(text)
      if isinstance(value, dict):
        value = value[key]
      reward = float(value)
      if isinstance(value, str) or not math.isfinite(reward):
        raise ValueError(value)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
      raise EnvFault(
          f'{self._task.folder}: its tests left {text[:100]!r}, which has no'
          f' number as {key!r}.'
      ) from error
    return reward

  def available_actions(self) -> list[str]:
    return ['bash {command}', 'submit']

  def expert_action(self) -> str:
    if self._task.solution is None:
      raise EnvError('This task has no expert: no solution of one script.')
    if self._commands:
      return functions_lib.write_call(SUBMIT.name, {})
    return functions_lib.write_call(BASH.name, {'command': self._task.solution})

  def close(self) -> None:
    if self._sandbox is not None:
      self._sandbox.close()
      self._sandbox = None
