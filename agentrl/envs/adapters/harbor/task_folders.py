"""Task folders of Harbor, read and checked."""

import dataclasses
import functools
import pathlib
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from agentrl.envs.adapters.harbor.sandbox import Limits
from agentrl.envs.spec import SPLITS
from agentrl.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Task:
  """A task folder, checked."""

  folder: pathlib.Path
  instruction: str  # for the policy
  image: str | None  # its name; None: described by environment/Dockerfile
  workdir: str | None  # of commands; None: the image's
  env: Mapping[str, str]  # variables of the sandbox
  limits: Limits
  user: str | None  # of the policy's commands; None: the image's
  build_s: float  # seconds to build the image, at most
  test_env: Mapping[str, str]  # further variables of the tests
  test_user: str | None
  test_s: float  # seconds of the tests, at most
  solution: str | None  # the expert's commands, or None
  split: str | None  # None: as `task_files.of_split` has it

  @property
  def dockerfile(self) -> pathlib.Path:
    """The description of its image."""
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
  paths = sorted(pathlib.Path(folder).expanduser().glob('*/task.toml'))
  if not paths:
    raise ConfigError(
        f'env.options.folder={folder} has no task: no */task.toml.'
    )
  return tuple(_load(path.parent) for path in paths)


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
  """The task of a folder; raises ValueError for what is wrong, or not played here."""
  _check_playable(folder, config)
  machine, agent = config.get('environment', {}), config.get('agent', {})
  tests, solution = config.get('verifier', {}), config.get('solution', {})
  return Task(
      folder=folder,
      instruction=_text(folder / 'instruction.md').strip(),
      image=machine.get('docker_image'),
      workdir=machine.get('workdir'),
      env=_strings(machine.get('env', {})),
      limits=Limits(
          cpus=machine.get('cpus'),
          memory_mb=machine.get('memory_mb', _megabytes(machine.get('memory'))),
          network=_network(machine, agent, tests),
      ),
      user=_user(agent.get('user')),
      build_s=float(machine.get('build_timeout_sec', 600.0)),
      test_env=_strings(tests.get('env', {})),
      test_user=_user(tests.get('user')),
      test_s=float(tests.get('timeout_sec', 600.0)),
      solution=_solution(folder, solution),
      split=_split(config.get('metadata', {}).get('split')),
  )


def _check_playable(folder: pathlib.Path, config: dict[str, Any]) -> None:
  machine, tests = config.get('environment', {}), config.get('verifier', {})
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


def _network(
    machine: Mapping[str, Any],
    agent: Mapping[str, Any],
    tests: Mapping[str, Any],
) -> bool:
  """True where a task, all along, reaches others."""
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
  return mode == 'public'


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
  files = [x for x in (folder / 'solution').glob('*') if x.is_file()]
  if [x.name for x in files] != ['solve.sh'] or config.get('env'):
    return None
  return _text(files[0])
