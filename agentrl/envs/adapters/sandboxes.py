"""Where commands of a policy run: a container, or a namespace of this machine.

Nothing of the machine but its /usr can be read, none of it can be written, and what an
episode has written is gone with it.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from agentrl.errors import ConfigError, EnvError, EnvFault

ENGINES = ('docker', 'podman')
NAMESPACE = 'bubblewrap'
ROOT = {None, 'root', '0'}  # the names of a namespace's one user
_ASK_S = 20.0  # of an engine, whether it runs
_CONTROL_S = 120.0  # of an engine, for what is no command of a policy
_LONGEST_S = 6 * 3600  # a container ends by itself if nobody is left to end it
_MOST_BYTES = (
    50_000_000  # that a command may write into a file, its output included
)
_MOST_READ = 1_000_000
_VARIABLE = re.compile(r'\$(?:\{(\w+)\}|(\w+))')


class Ran(NamedTuple):
  """A command that has ended, or was ended.

  Attributes:
    code: how it exited; None: its time was over.
    output: what it printed, to either stream.
  """

  code: int | None
  output: str


class Limits(NamedTuple):
  """Bounds of a sandbox.

  Attributes:
    cpus: processors, None: all. A namespace has all.
    memory_mb: MiB of memory; None: as there is.
    network: whether it reaches others. A namespace never does.
  """

  cpus: float | None = None
  memory_mb: int | None = None
  network: bool = False


class Sandbox(Protocol):
  """The machine of one episode."""

  def run(
      self,
      command: str,
      timeout_s: float,
      *,
      env: Mapping[str, str] | None = None,
      user: str | None = None,
  ) -> Ran:
    """Runs a command of a shell in the working folder; files stay, processes do not.

    Raises:
      EnvFault: the sandbox is gone.
    """

  def put(self, folder: pathlib.Path, target: str) -> None:
    """Lays a folder's files at `target`, in place of whatever was there.

    Raises:
      EnvFault: it cannot be done.
    """

  def close(self) -> None:
    """Ends it with whatever runs in it. May be called twice."""


class Image(Protocol):
  """The beginning of all sandboxes of a task."""

  def start(
      self, workdir: str | None, env: Mapping[str, str], limits: Limits
  ) -> Sandbox:
    """A sandbox of its own.

    Raises:
      EnvFault: none starts.
    """


def read(sandbox: Sandbox, path: str) -> str | None:
  """The file at `path` as the sandbox has it, or None; at most a megabyte."""
  ran = sandbox.run(f'head -c {_MOST_READ} {path} 2> /dev/null', _CONTROL_S)
  return ran.output if ran.code == 0 else None


def find(name: str | None) -> str:
  """The kind of sandbox of this machine, or `name` if it has that one.

  Raises:
    ConfigError: it has none.
  """
  for engine in ENGINES:
    if name in (None, engine) and _engine_runs(engine):
      return engine
  if name in (None, NAMESPACE) and _namespace_runs():
    return NAMESPACE
  if name not in (None, NAMESPACE, *ENGINES):
    known = ', '.join((*ENGINES, NAMESPACE))
    raise ConfigError(f'There is no sandbox {name!r}; known: {known}.')
  raise ConfigError(
      f'No sandbox runs here ({name or "docker, podman or bubblewrap"}): start'
      ' a container engine, or install bubblewrap (apt-get install'
      ' bubblewrap).'
  )


def _engine_runs(engine: str) -> bool:
  return shutil.which(engine) is not None and _succeeds([engine, 'info'])


def _namespace_runs() -> bool:
  if shutil.which('bwrap') is None:
    return False
  with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    _furnish(root)
    return _succeeds([*_within(root, '/'), 'true'])


def _succeeds(command: Sequence[str]) -> bool:
  try:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_ASK_S
    )
  except (OSError, subprocess.TimeoutExpired):
    return False
  return done.returncode == 0


class _Runner:
  """Runs one process at a time, which `close` ends."""

  def __init__(self):
    self._lock = threading.Lock()
    self._process: subprocess.Popen[bytes] | None = None
    self._closed = False

  def run(
      self,
      command: Sequence[str],
      timeout_s: float,
      env: Mapping[str, str] | None = None,
  ) -> Ran:
    # A file, since a process that is ended may have children that hold a pipe.
    with tempfile.TemporaryFile() as output:
      with self._lock:
        if self._closed:
          raise EnvFault('The sandbox is closed.')
        try:
          self._process = subprocess.Popen(
              command,
              stdin=subprocess.DEVNULL,
              stdout=output,
              stderr=subprocess.STDOUT,
              env=env,
              start_new_session=True,
          )
        except OSError as error:
          raise EnvFault(f'{command[0]} does not start: {error}') from error
      code: int | None = None
      try:
        code = self._process.wait(timeout_s)
      except subprocess.TimeoutExpired:
        pass
      finally:
        self._process.kill()
        self._process.wait()
      if self._closed:
        raise EnvFault('The sandbox was closed while a command ran.')
      output.seek(0)
      text = output.read(_MOST_READ).decode(errors='replace')
      return Ran(code, text)

  def close(self) -> None:
    with self._lock:
      self._closed = True
      if self._process is not None:
        self._process.kill()


def _within(root: pathlib.Path, workdir: str) -> list[str]:
  """The start of a command that runs in a folder as if that were the machine."""
  return [
      *('bwrap', '--unshare-all', '--die-with-parent', '--new-session'),
      *('--uid', '0', '--gid', '0', '--hostname', 'sandbox'),
      *('--bind', str(root), '/', '--ro-bind', '/usr', '/usr'),
      *('--ro-bind-try', '/etc/alternatives', '/etc/alternatives'),
      *('--ro-bind-try', '/etc/ld.so.cache', '/etc/ld.so.cache'),
      *('--dev', '/dev', '--proc', '/proc', '--chdir', workdir),
  ]


def _furnish(root: pathlib.Path) -> None:
  """Gives an empty folder what every machine has."""
  for name in ('root', 'tmp', 'etc', 'var/tmp', 'logs/verifier'):
    (root / name).mkdir(parents=True)
  for name in ('bin', 'sbin', 'lib', 'lib64'):
    (root / name).symlink_to(f'usr/{name}')
  (root / 'etc/passwd').write_text('root:x:0:0:root:/root:/bin/bash\n')
  (root / 'etc/group').write_text('root:x:0:\n')
  (root / 'etc/hosts').write_text('127.0.0.1 localhost sandbox\n')


_USUAL = {
    'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'HOME': '/root',
    'LANG': 'C.UTF-8',
}


class Namespace:
  """A folder that its processes take for the machine, without network."""

  def __init__(
      self,
      root: pathlib.Path,
      workdir: str,
      env: Mapping[str, str],
      memory_mb: int | None,
  ):
    self._root, self._workdir = root, workdir
    self._env = {**_USUAL, **env}
    self._memory_mb = memory_mb
    self._runner = _Runner()

  def run(
      self,
      command: str,
      timeout_s: float,
      *,
      env: Mapping[str, str] | None = None,
      user: str | None = None,
      more: Sequence[str] = (),
  ) -> Ran:
    if user not in ROOT:
      raise EnvFault(f'A namespace has no user {user!r}.')
    limits = f'ulimit -f {_MOST_BYTES // 1024}'
    if self._memory_mb is not None:
      limits += f' -v {self._memory_mb * 1024}'
    return self._runner.run(
        [
            *_within(self._root, self._workdir),
            *more,
            *('bash', '-c', f'{limits}; exec bash -c "$1"', 'bash', command),
        ],
        timeout_s,
        {**self._env, **(env or {})},
    )

  def put(self, folder: pathlib.Path, target: str) -> None:
    # By a process inside, so that no link leads it out.
    ran = self.run(
        f'rm -rf {target} && mkdir -p {target} && cp -a /put/. {target}',
        _CONTROL_S,
        more=('--ro-bind', str(folder), '/put'),
    )
    if ran.code != 0:
      raise EnvFault(f'{folder} was not copied to {target}: {ran.output[:500]}')

  def close(self) -> None:
    self._runner.close()
    shutil.rmtree(self._root, ignore_errors=True)


class NamespaceImage:
  """A folder that a Dockerfile describes, as far as that needs no other image.

  Its base is this machine's /usr. FROM, WORKDIR, COPY, ADD, ARG, ENV and RUN are
  done, RUN without network.
  """

  def __init__(
      self, folder: pathlib.Path, dockerfile: str, context: pathlib.Path
  ):
    """Builds it.

    Args:
      folder: an empty one, for it.
      dockerfile: its text.
      context: of COPY.

    Raises:
      ConfigError: the Dockerfile needs a container engine.
    """
    self._folder = folder
    self.workdir = '/'
    self.env: dict[str, str] = {}
    self._args: dict[str, str] = {}
    _furnish(folder / 'image')
    for number, word, rest in _instructions(dockerfile):
      try:
        self._do(word, rest, context)
      except ValueError as error:
        raise ConfigError(
            f'Dockerfile, line {number}, {word}: {error}. It needs docker or'
            ' podman.'
        ) from error

  def _do(self, word: str, rest: str, context: pathlib.Path) -> None:
    image = self._folder / 'image'
    if word in ('WORKDIR', 'ENV', 'ARG', 'COPY', 'ADD', 'USER'):
      known = {**self._args, **self.env}
      rest = _VARIABLE.sub(lambda x: known.get(x[1] or x[2], ''), rest)
    if word == 'FROM':
      if ' as ' in f' {rest.lower()} ':
        raise ValueError('it has several stages')
    elif word == 'WORKDIR':
      self.workdir = str(pathlib.PurePosixPath(self.workdir, rest))
      (image / self.workdir.lstrip('/')).mkdir(parents=True, exist_ok=True)
    elif word == 'ENV':
      self.env.update(_pairs(rest))
    elif word == 'ARG':
      self._args.update(_pairs(rest) if '=' in rest else {})
    elif word in ('COPY', 'ADD'):
      self._copy(rest, context, image)
    elif word == 'RUN':
      box = Namespace(image, self.workdir, {**self._args, **self.env}, None)
      ran = box.run(rest, _CONTROL_S)
      if ran.code != 0:
        last = ' '.join(ran.output.split())[-300:]
        raise ValueError(f'it fails without network (exit {ran.code}): {last}')
    elif word == 'USER' and rest not in ('root', '0'):
      raise ValueError('a namespace has one user')
    elif word not in _SKIPPED:
      raise ValueError('it is not known here')

  def _copy(
      self, rest: str, context: pathlib.Path, image: pathlib.Path
  ) -> None:
    words = json.loads(rest) if rest.startswith('[') else rest.split()
    if any(word.startswith('--') for word in words) or len(words) < 2:
      raise ValueError('it has options')
    *sources, target = words
    place = image / str(pathlib.PurePosixPath(self.workdir, target)).lstrip('/')
    into = target.endswith(('/', '.')) or place.is_dir() or len(sources) > 1
    for pattern in sources:
      inner = pathlib.PurePosixPath(pattern.lstrip('/'))
      if '..' in inner.parts:
        raise ValueError(f'{pattern} is not in environment')
      found = sorted(context.glob(str(inner))) if inner.parts else [context]
      if not found:
        raise ValueError(f'there is no {pattern}')
      for path in found:
        if path.is_dir():
          shutil.copytree(path, place, symlinks=True, dirs_exist_ok=True)
          continue
        to = place / path.name if into else place
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to)

  def start(
      self, workdir: str | None, env: Mapping[str, str], limits: Limits
  ) -> Sandbox:
    root = self._folder / uuid.uuid4().hex
    try:
      shutil.copytree(self._folder / 'image', root, symlinks=True)
    except (OSError, shutil.Error) as error:
      raise EnvFault(f'No sandbox starts: {error}') from error
    return Namespace(
        root, workdir or self.workdir, {**self.env, **env}, limits.memory_mb
    )


# What they say changes no command of a policy.
_SKIPPED = (
    *('USER', 'LABEL', 'MAINTAINER', 'EXPOSE', 'CMD', 'ENTRYPOINT'),
    *('STOPSIGNAL', 'VOLUME'),
)


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
  """Line, name and rest of each instruction of a Dockerfile."""
  held, began = '', 0
  for number, line in enumerate(text.splitlines(), 1):
    if not line.strip() or line.lstrip().startswith('#'):
      continue
    began = began if held else number
    held += line.rstrip()
    if held.endswith('\\'):
      held = held[:-1] + ' '
      continue
    word, _, rest = held.strip().partition(' ')
    yield began, word.upper(), rest.strip()
    held = ''
  if held:
    yield began, held.split()[0].upper(), held.partition(' ')[2].strip()


def _pairs(rest: str) -> dict[str, str]:
  """The variables of ENV, in either of its forms."""
  name, _, value = rest.partition(' ')
  if '=' not in name:
    return {name: value.strip()}
  return dict(word.partition('=')[::2] for word in shlex.split(rest))


def _named(env: Mapping[str, str]) -> list[str]:
  """Arguments for variables whose values, keys of services perhaps, no list shows."""
  return [x for name in env for x in ('--env', name)]


class Container:
  """A container of an engine."""

  def __init__(self, engine: str, name: str, workdir: str | None):
    self._engine, self._name, self._workdir = engine, name, workdir
    self._runner = _Runner()

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
    inside = [
        'timeout',
        '--signal=KILL',
        f'{timeout_s:g}',
        'bash',
        '-c',
        command,
    ]
    ran = self._runner.run(
        [*asked, self._name, *inside],
        timeout_s + _CONTROL_S,
        {**os.environ, **(env or {})},
    )
    return Ran(None, ran.output) if ran.code == 137 else ran

  def put(self, folder: pathlib.Path, target: str) -> None:
    made = self.run(
        f'rm -rf {target} && mkdir -p {target}', _CONTROL_S, user='root'
    )
    if made.code == 0:
      made = self._runner.run(
          [self._engine, 'cp', f'{folder}/.', f'{self._name}:{target}'],
          _CONTROL_S,
      )
    if made.code != 0:
      raise EnvFault(
          f'{folder} was not copied to {target}: {made.output[:500]}'
      )

  def close(self) -> None:
    self._runner.close()
    with contextlib.suppress(EnvFault):
      _Runner().run([self._engine, 'rm', '--force', self._name], _CONTROL_S)


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
    ran = _Runner().run([engine, 'build', '--quiet', str(context)], timeout_s)
    if ran.code != 0:
      last = ' '.join(ran.output.split())[-500:]
      raise EnvError(
          f'{engine} does not build {context} (exit {ran.code}): {last}'
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
    ran = _Runner().run(asked, _CONTROL_S, {**os.environ, **env})
    if ran.code != 0:
      raise EnvFault(
          f'No container starts (exit {ran.code}): {ran.output[:500]}'
      )
    return Container(self._engine, name, workdir)
