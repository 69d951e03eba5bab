"""Namespaces of this machine by bubblewrap, and images that need no engine."""

import json
import pathlib
import re
import shutil
import tempfile
import uuid
from collections.abc import Mapping, Sequence

from agentrl.envs.adapters.harbor import dockerfile as dockerfile_lib, sandbox
from agentrl.envs.adapters.harbor.sandbox import Limits, Ran, Runner, Sandbox
from agentrl.errors import ConfigError, EnvFault

ROOT = {None, 'root', '0'}  # the names of a namespace's one user
# Written by a command into one file; its output is one.
_MOST_BYTES = 50_000_000
_USUAL = {
    'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'HOME': '/root',
    'LANG': 'C.UTF-8',
}
_VARIABLE = re.compile(r'\$(?:\{(\w+)\}|(\w+))')


def run_here() -> bool:
  """True if this machine has bubblewrap, and lets it make namespaces."""
  if shutil.which('bwrap') is None:
    return False
  with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    _furnish(root)
    return sandbox.succeeds([*_within(root, '/'), 'true'])


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
    self._runner = Runner()

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
        sandbox.CONTROL_S,
        more=('--ro-bind', str(folder), '/put'),
    )
    sandbox.check_copied(ran, folder, target)

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
    for number, word, rest in dockerfile_lib.instructions(dockerfile):
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
      self.env.update(dockerfile_lib.pairs(rest))
    elif word == 'ARG':
      self._args.update(dockerfile_lib.pairs(rest) if '=' in rest else {})
    elif word in ('COPY', 'ADD'):
      self._copy(rest, context, image)
    elif word == 'RUN':
      box = Namespace(image, self.workdir, {**self._args, **self.env}, None)
      ran = box.run(rest, sandbox.CONTROL_S)
      if ran.code != 0:
        raise ValueError(
            f'it fails without network (exit {ran.code}): {ran.last_words()}'
        )
    elif word == 'USER' and rest not in ('root', '0'):
      raise ValueError('a namespace has one user')
    elif word not in dockerfile_lib.SKIPPED:
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
      paths = sorted(context.glob(str(inner))) if inner.parts else [context]
      if not paths:
        raise ValueError(f'there is no {pattern}')
      for path in paths:
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
