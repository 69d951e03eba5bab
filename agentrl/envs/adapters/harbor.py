"""Task folders of Harbor: an instruction, a machine to work on, tests that grade it.

`env.options.folder` holds task folders, each with `task.toml`, `instruction.md`,
`environment/` and `tests/test.sh`, as Harbor and Terminal-Bench 2 have them. A policy runs
commands of a shell in a sandbox of its own and submits; then the tests run there and leave
a reward in /logs/verifier/reward.json or reward.txt. After `commands` commands what is there
is graded. A single `solution/solve.sh` is the expert. `split` of [metadata] may be train, dev
or test; else one task of ten is for test, one for dev.

The sandbox is a container where an engine runs, docker or podman, else a namespace by
bubblewrap: this machine's /usr, no network, and a Dockerfile as far as that goes. Nothing
runs without either. What a sandbox cannot give (several steps or services, GPUs, lists of
hosts, another machine for the tests) is refused by the task's name.
"""

import dataclasses
import functools
import json
import math
import os
import pathlib
import re
import tempfile
import threading
import tomllib
from collections.abc import Mapping
from typing import Any

from agentrl.envs import base, functions as functions_lib
from agentrl.envs.adapters import sandboxes, task_files
from agentrl.envs.adapters.sandboxes import Image, Limits, Sandbox
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import SPLITS, EnvSpec, Program
from agentrl.errors import ConfigError, EnvError, EnvFault
from agentrl.types import StepResult

BASH = Function(
    'bash',
    description=(
        'Runs a command of a shell. Files stay; each has a shell of its own.'
    ),
    schema={
        'type': 'object',
        'properties': {'command': {'type': 'string'}},
        'required': ['command'],
        'additionalProperties': False,
    },
)
SUBMIT = Function(
    'submit',
    description='Says that the task is done, and ends it.',
    schema={'type': 'object', 'properties': {}, 'additionalProperties': False},
)
FUNCTIONS = (BASH, SUBMIT)
_TESTS, _LOGS = '/tests', '/logs/verifier'
_TEMPLATE = re.compile(r'\$\{(\w+)(?::-([^}]*))?\}')


@dataclasses.dataclass(frozen=True)
class Task:
  """A task folder, checked.

  Attributes:
    folder: it.
    instruction: for the policy.
    image: name of an image, or None: environment/Dockerfile.
    workdir: folder of commands, or None: as the image has it.
    env: variables of the sandbox.
    limits: of the sandbox.
    user: who runs the policy's commands, or None: as the image has it.
    build_s: seconds to build the image, at most.
    test_env: further variables of the tests.
    test_user: who runs them.
    test_s: seconds of the tests, at most.
    solution: the expert's commands, or None.
    split: its split, or None: see `task_files.of_split`.
  """

  folder: pathlib.Path
  instruction: str
  image: str | None
  workdir: str | None
  env: Mapping[str, str]
  limits: Limits
  user: str | None
  build_s: float
  test_env: Mapping[str, str]
  test_user: str | None
  test_s: float
  solution: str | None
  split: str | None

  @property
  def dockerfile(self) -> pathlib.Path:
    """Where its image is described."""
    return self.folder / 'environment' / 'Dockerfile'


@functools.cache
def load(folder: str | None) -> tuple[Task, ...]:
  """The tasks of a folder of task folders, by name.

  Raises:
    ConfigError: no folder is named, it has no task, or one that cannot be played.
  """
  if folder is None:
    raise ConfigError(
        'env.options.folder is not set: name a folder of Harbor task folders.'
    )
  found = sorted(pathlib.Path(folder).expanduser().glob('*/task.toml'))
  if not found:
    raise ConfigError(
        f'env.options.folder={folder} has no task: no */task.toml.'
    )
  return tuple(_load(path.parent) for path in found)


def _load(folder: pathlib.Path) -> Task:
  try:
    config = tomllib.loads(_text(folder / 'task.toml'))
    return _task(folder, config)
  except (ValueError, TypeError, AttributeError, OverflowError) as error:
    raise ConfigError(f'{folder}: {error}') from error


def _text(path: pathlib.Path) -> str:
  try:
    text = path.read_text()
  except (OSError, UnicodeDecodeError) as error:
    raise ValueError(f'{path.name} cannot be read: {error}') from error
  if not text.strip():
    raise ValueError(f'{path.name} is empty')
  return text


def _task(folder: pathlib.Path, config: dict[str, Any]) -> Task:
  """Raises ValueError for what is wrong or cannot be given."""
  machine, agent = config.get('environment', {}), config.get('agent', {})
  tests, solution = config.get('verifier', {}), config.get('solution', {})
  absent = {
      'steps': config.get('steps'),
      'environment.mcp_servers': machine.get('mcp_servers'),
      'environment.gpus': machine.get('gpus'),
      'environment.tpu': machine.get('tpu'),
      'environment.healthcheck': machine.get('healthcheck'),
      'environment.os': str(machine.get('os', 'linux')).lower() != 'linux',
      'verifier.environment': tests.get('environment'),
      'verifier.environment_mode': tests.get('environment_mode') == 'separate',
      'verifier.collect': tests.get('collect'),
      'environment/docker-compose.yaml': any(
          (folder / 'environment').glob('docker-compose.y*ml')
      ),
  }
  for name, value in absent.items():
    if value:
      raise ValueError(f'{name} is not played here')
  allowed = machine.get('allow_internet')
  mode = machine.get('network_mode') or (
      'no-network' if allowed is False else 'public'
  )
  modes = {
      mode,
      *(x['network_mode'] for x in (agent, tests) if x.get('network_mode')),
  }
  if len(modes) > 1 or not modes <= {'no-network', 'public'}:
    raise ValueError(
        f'network_mode {", ".join(sorted(modes))} is not played here'
    )
  return Task(
      folder=folder,
      instruction=_text(folder / 'instruction.md').strip(),
      image=machine.get('docker_image'),
      workdir=machine.get('workdir'),
      env=_strings(machine.get('env', {})),
      limits=Limits(
          cpus=machine.get('cpus'),
          memory_mb=machine.get('memory_mb', _megabytes(machine.get('memory'))),
          network=mode == 'public',
      ),
      user=_user(agent.get('user')),
      build_s=float(machine.get('build_timeout_sec', 600.0)),
      test_env=_strings(tests.get('env', {})),
      test_user=_user(tests.get('user')),
      test_s=float(tests.get('timeout_sec', 600.0)),
      solution=_solution(folder, solution),
      split=_split(config.get('metadata', {}).get('split')),
  )


def _strings(values: Mapping[str, Any]) -> dict[str, str]:
  for name, value in values.items():
    if not isinstance(value, str):
      raise ValueError(f'the variable {name} is no text')
  return dict(values)


def _user(value: Any) -> str | None:
  return None if value is None else str(value)


def _split(value: Any) -> str | None:
  if value not in (None, *SPLITS):
    raise ValueError(f'metadata.split={value!r} is none of {", ".join(SPLITS)}')
  return value


def _megabytes(size: Any) -> int | None:
  """MiB of an older field's text, as 2G."""
  if size is None:
    return None
  match = re.fullmatch(r'\s*([\d.]+)\s*([GMK])B?\s*', str(size).upper())
  if match is None:
    raise ValueError(f'memory={size!r} is no size, such as 2G')
  return int(float(match[1]) * {'G': 1024, 'M': 1, 'K': 1 / 1024}[match[2]])


def _solution(folder: pathlib.Path, config: Mapping[str, Any]) -> str | None:
  """The script of a solution that is a script alone."""
  found = [x for x in (folder / 'solution').glob('*') if x.is_file()]
  if [x.name for x in found] != ['solve.sh'] or config.get('env'):
    return None
  return _text(found[0])


def _resolved(env: Mapping[str, str]) -> dict[str, str]:
  """Variables whose ${NAME} and ${NAME:-else} are this process's.

  Raises:
    EnvFault: one is not set here.
  """

  def value(match: re.Match[str]) -> str:
    found = os.environ.get(match[1], match[2])
    if found is None:
      raise EnvFault(f'A Harbor task needs the variable {match[1]}: set it.')
    return found

  return {name: _TEMPLATE.sub(value, text) for name, text in env.items()}


class Machines:
  """The factory of `Harbor`: sandboxes of tasks, whose images are made once."""

  inline = ()

  def __init__(self, **options: Any):
    self._options = options
    self._tasks = load(options['folder'])
    self.slots = self.threads = options['episodes']
    self._kind = sandboxes.find(options['sandbox'])
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
    if self._kind != sandboxes.NAMESPACE:
      if task.image is not None:
        return sandboxes.ContainerImage(self._kind, task.image)
      return sandboxes.ContainerImage.build(
          self._kind, task.dockerfile.parent, task.build_s
      )
    if not {task.user, task.test_user} <= sandboxes.ROOT:
      raise ConfigError('it has users: that needs docker or podman.')
    if not task.dockerfile.exists():
      raise ConfigError('it has no Dockerfile: that needs docker or podman.')
    folder = pathlib.Path(self._folder.name, str(task_id))
    folder.mkdir()
    return sandboxes.NamespaceImage(
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

  def __init__(self, tasks, start, options: Mapping[str, Any]):
    self._tasks, self._start, self._options = tasks, start, options
    self._sandbox: Sandbox | None = None
    self._text = ''

  def reset(self, task_id: int, seed: int) -> str:
    del seed  # a machine begins as its image
    base.check_task('harbor', task_id, len(self._tasks))
    self.close()
    self._sandbox = self._start(task_id)
    self._task, self._commands = self._tasks[task_id], 0
    self._text = self._task.instruction
    return self._text

  def observation(self) -> str:
    return self._text

  def step(self, action: str) -> StepResult:
    call = _call(action)
    if call is None:
      return self._say('This is no action. There are: bash COMMAND, submit.')
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
    said = self._cut(ran.output.rstrip('\n'))
    if ran.code is None:
      said += f'\n[it was ended after {self._options["timeout_s"]:g} s]'
    elif ran.code:
      said += f'\n[exit code {ran.code}]'
    said = said.strip('\n') or '(nothing)'
    if self._commands >= self._options['commands']:
      return self._grade(said)
    return self._say(said)

  def _say(self, text: str) -> StepResult:
    self._text = text
    return StepResult(text, 0.0, False)

  def _cut(self, text: str) -> str:
    """The beginning and the end of what is too long."""
    most = self._options['most_chars']
    if len(text) <= most:
      return text
    half = most // 2
    cut = len(text) - 2 * half
    return f'{text[:half]}\n[{cut} characters were cut]\n{text[-half:]}'

  def _grade(self, said: str) -> StepResult:
    self._text = said
    worth = self._worth()
    return StepResult(said, worth, True, success=worth >= 1.0)

  def _worth(self) -> float:
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
      found = sandboxes.read(box, f'{_LOGS}/{name}')
      if found is not None:
        return self._reward(found)
    last = ' '.join(ran.output.split())[-300:]
    raise EnvFault(
        f'{task.folder}: its tests left no reward (exit {ran.code}): {last}'
    )

  def _reward(self, text: str) -> float:
    key = self._options['reward']
    try:
      value = json.loads(text)
      if isinstance(value, dict):
        value = value[key]
      worth = float(value)
      if isinstance(value, str) or not math.isfinite(worth):
        raise ValueError(value)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
      raise EnvFault(
          f'{self._task.folder}: its tests left {text[:100]!r}, which has no'
          f' number as {key!r}.'
      ) from error
    return worth

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


def _find(options: Mapping[str, Any]) -> str:
  try:
    return sandboxes.find(options['sandbox'])
  except ConfigError as error:
    raise EnvError(str(error)) from error


SPEC = EnvSpec(
    name='harbor',
    dialect=Dialect(success=lambda total: total >= 1.0),
    words=Words(
        full=(
            'You work on a Linux machine: bash COMMAND runs a command of a'
            ' shell, submit says that the task is done. Do the task, look at'
            ' what you have done, and submit.'
        ),
        compact='Use the shell.',
    ),
    functions=FUNCTIONS,
    options={
        'folder': None,
        'sandbox': None,
        'commands': 20,
        'reward': 'reward',
        'timeout_s': 60.0,
        'most_chars': 8000,
        'episodes': 4,
    },
    meanings={
        'folder': 'folder of task folders',
        'sandbox': (
            'docker, podman or bubblewrap; None: the first that runs here'
        ),
        'commands': 'commands of an episode, after which it is graded',
        'reward': 'which of several rewards of the tests is learnt from',
        'timeout_s': 'seconds of a command, at most',
        'most_chars': 'characters of an output, at most; the middle is cut',
        'episodes': 'sandboxes at a time',
    },
    task_options=('folder',),
    machine_options=('episodes', 'sandbox'),
    unsafe_options={'folder': lambda value: value is not None},
    slots_option='episodes',
    programs=(
        Program(
            name='sandbox',
            find=_find,
            remedy='apt-get install bubblewrap',
        ),
    ),
    open_factory=Machines,
    list_tasks=lambda split, folder: task_files.of_split(
        split, tuple({'split': task.split} for task in load(folder))
    ),
    success='The tests leave a reward of 1.',
)
