"""Containers of an engine: docker, or podman."""

import contextlib
import os
import pathlib
import shutil
import uuid
from collections.abc import Mapping
from typing import Any

from agentrl.envs.adapters.harbor import sandbox
from agentrl.envs.adapters.harbor.sandbox import Limits, Ran, Runner, Sandbox
from agentrl.errors import EnvError, EnvFault

ENGINES = ('docker', 'podman')
_LONGEST_S = 6 * 3600  # a container ends by itself if nobody is left to end it


def runs(engine: str) -> bool:
  """True if this machine has a running engine of this name."""
  return shutil.which(engine) is not None and sandbox.succeeds([engine, 'info'])


def _named(env: Mapping[str, str]) -> list[str]:
  """Arguments for variables whose values, keys of services perhaps, no list shows."""
  return [x for name in env for x in ('--env', name)]


class Container:
  """A container of an engine."""

  def __init__(self, engine: str, name: str, workdir: str | None):
    self._engine, self._name, self._workdir = engine, name, workdir
    self._runner = Runner()

  def run(
      self,
      command: str,
      timeout_s: float,
      *,
      env: Mapping[str, str] | None = None,
      user: str | None = None,
  ) -> Ran:
    asked = [self._engine, 'exec']
    if self._workdir is not None:
      asked += ['--workdir', self._workdir]
    if user is not None:
      asked += ['--user', user]
    asked += _named(env or {})
    # The engine's client alone can be ended from here.
    limit = ('timeout', '--signal=KILL', f'{timeout_s:g}')
    ran = self._runner.run(
        [*asked, self._name, *limit, 'bash', '-c', command],
        timeout_s + sandbox.CONTROL_S,
        {**os.environ, **(env or {})},
    )
    return Ran(None, ran.output) if ran.code == 137 else ran

  def put(self, folder: pathlib.Path, target: str) -> None:
    made = self.run(
        f'rm -rf {target} && mkdir -p {target}', sandbox.CONTROL_S, user='root'
    )
    if made.code == 0:
      made = self._runner.run(
          [self._engine, 'cp', f'{folder}/.', f'{self._name}:{target}'],
          sandbox.CONTROL_S,
      )
    sandbox.check_copied(made, folder, target)

  def close(self) -> None:
    self._runner.close()
    with contextlib.suppress(EnvFault):
      Runner().run(
          [self._engine, 'rm', '--force', self._name], sandbox.CONTROL_S
      )


class ContainerImage:
  """An image of an engine."""

  def __init__(self, engine: str, name: str):
    self._engine, self._name = engine, name

  @classmethod
  def build(
      cls, engine: str, context: pathlib.Path, timeout_s: float
  ) -> 'ContainerImage':
    """The image of a folder with a Dockerfile; the engine keeps what it has built.

    Raises:
      EnvError: it cannot be built.
    """
    ran = Runner().run([engine, 'build', '--quiet', str(context)], timeout_s)
    if ran.code != 0:
      raise EnvError(
          f'{engine} does not build {context} (exit {ran.code}):'
          f' {ran.last_words(500)}'
      )
    return cls(engine, ran.output.split()[-1])

  def start(
      self, workdir: str | None, env: Mapping[str, str], limits: Limits
  ) -> Sandbox:
    name = f'agentrl-{uuid.uuid4().hex}'
    asked: list[Any] = [self._engine, 'run', '--detach', '--rm', '--init']
    asked += ['--name', name, '--label', 'agentrl']
    asked += ['--network', 'bridge' if limits.network else 'none']
    asked += [] if limits.cpus is None else ['--cpus', f'{limits.cpus:g}']
    if limits.memory_mb is not None:
      asked += ['--memory', f'{limits.memory_mb}m']
    asked += _named(env)
    asked += ['--entrypoint', 'sleep', self._name, str(_LONGEST_S)]
    ran = Runner().run(asked, sandbox.CONTROL_S, {**os.environ, **env})
    if ran.code != 0:
      raise EnvFault(
          f'No container starts (exit {ran.code}): {ran.output[:500]}'
      )
    return Container(self._engine, name, workdir)
