"""Handing parameters to SGLang servers, through a folder that both sides see.

The trainer writes files and renames them into place; then it tells every server
to load them. Needs no torch here and no special server there.

Each adapter has a name of its own, which requests ask for: so a completion is of
one version from its first token to its last, and servers pause for the base
alone. They have to be started with `--enable-lora`.
"""

import asyncio
import collections
import contextlib
import pathlib
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from absl import logging

from agentrl.errors import EngineError
from agentrl.inference.control import ControlClient
from agentrl.inference.replicas import Replicas
from agentrl.inference.sampler import Adapter
from agentrl.serving.weight_sync import files as files_lib
from agentrl.serving.weight_sync.files import AdapterFiles, ModelFiles, Version
from agentrl.serving.weight_sync.verify import Verifier
from agentrl.training import checksums

Files = ModelFiles | AdapterFiles


class DiskPush:
  """Pushes through a folder. Each version is a directory of its own.

  The version before is kept until every server has the new one: after a
  failure they are told to go back to it.

  Attributes:
    watched: see `__init__`; to be set between pushes.
  """

  def __init__(
      self,
      control: ControlClient,
      directory: pathlib.Path,
      files: Files,
      *,
      mode: str = 'retract',
      verify: bool = True,
      timeout_s: float = 300.0,
      router: ControlClient | None = None,
      watched: Replicas | None = None,
  ):
    """Prepares pushes.

    Args:
      control: client of the servers to update.
      directory: shared folder, /dev/shm on one host.
      files: how a version is written.
      mode: of loading a model, one of `options.PUSHES`.
      verify: True to read version and weights back from every server.
      timeout_s: limit of the wait in mode 'drain'.
      router: lists the servers anew at each push; None: they stay `control`'s.
      watched: servers that a watcher starts again, or waits for, when they die
        or are condemned; it installs the current version before they serve, so
        pushes leave those out that are held.
    """
    self._control = control
    self._directory = directory
    self._files = files
    self._mode = mode
    self._verifier = Verifier(directory) if verify else None
    self._timeout_s = timeout_s
    self._router = router
    self.watched = watched
    self._adapter: Adapter | None = None
    self._lock = threading.Lock()  # guards what follows
    self._current: Version | None = None
    self._before: Version | None = None
    self._settled: Version | None = None  # of the last push that has ended well
    self._pins: collections.Counter[pathlib.Path] = collections.Counter()

  async def __call__(self, params: Any, version: int | str) -> None:
    """Writes `params` and makes every server load them.

    Raises:
      WeightsError: the folder cannot hold them.
      EngineError: a server did not take them, or gives others back; all were
        told to load the version before.
    """
    before = self._current
    new = await asyncio.to_thread(self.write, params, version)
    urls = await self._make_current(new)
    failures = await self._install_all(urls, new)
    if failures:
      with self._lock:
        self._current = before
      if before is not None:
        for url, error in (await self._install_all(urls, before)).items():
          logging.error('%s did not go back either: %s', url, error)
      raise next(iter(failures.values()))
    self._remove_but(new, before)
    await self.use_current_adapter()
    with self._lock:
      self._settled = new

  async def use_current_adapter(self) -> None:
    """Makes requests ask for the current adapter, if any; unloads others."""
    self._adapter = self._current_version().adapter
    if self._adapter is None:
      return
    for url in self._control.urls:
      try:
        await _unload_adapters(self._control.one(url), keep=self._adapter.name)
      except EngineError as error:  # it dies, or its memory fills up
        logging.warning('%s keeps an old adapter: %s', url, error)

  @property
  def adapter(self) -> Adapter | None:
    """The adapter to request of servers; None: whole models are pushed."""
    return self._adapter

  def fingerprint(self) -> str:
    with self.pinned() as version:
      files = sorted(version.directory.glob('*.safetensors'))
      found = checksums.measure(files)
    return ' '.join(f'{x["crc32"]:08x}' for x in found)

  def write(self, params: Any, version: int | str) -> Version:
    """Writes a version that no server has been told of.

    All processes of a run have to do so at the same time.
    """
    params = self._files.gather(params)
    if self._current is not None:
      self._remove_but(self._current)
    target = (self._directory / self._files.name(version)).absolute()
    if self._in_use(target):  # the same number again: servers may read it
      target = target.with_name(f'{target.name}_again')
    if target.exists():
      shutil.rmtree(target)  # a resumed run pushes what it restored once more
    return self._files.write(params, version, target)

  def start_from(self, version: Version) -> None:
    """Makes a written version the current one, which servers start with."""
    with self._lock:
      self._current = version

  @contextlib.contextmanager
  def pinned(self) -> Iterator[Version]:
    """The current version; its files stay for as long as the block runs."""
    with self._lock:
      version = self._current_version()
      self._pins[version.directory] += 1
    try:
      yield version
    finally:
      with self._lock:
        self._pins[version.directory] -= 1

  def release(self, url: str, version: Version) -> bool:
    """Lets a held server serve, unless a newer version than it has came."""
    with self._lock:
      if self._current is not version:
        return False
      assert self.watched is not None  # by whom it was held
      self.watched.release(url)
      return True

  def accepts(self) -> Callable[[str], bool]:
    """The test of the weight version that a reply to a request of now reports.

    The one before the current belongs to requests that a push overtook: a server
    that names it in reply to a later request has other weights than it should.
    """
    settled = self._settled

    def accepts(name: str) -> bool:
      with self._lock:
        versions = [self._current]
        if settled is None or settled is not self._current:
          versions.append(self._before)
      return name in {str(v.number) for v in versions if v is not None}

    return accepts

  async def install(self, server: ControlClient, version: Version) -> None:
    """Makes one server load a version, and its base if it has another model.

    Raises:
      EngineError: it did not.
    """
    if version.base is None:
      await self._install_model(server, version)
      return
    info = await server.model_info()
    if info['model_path'] != str(version.model):
      await _unload_adapters(server)  # they belong to another base
      await self._install_model(server, version.base)
    adapter = version.adapter
    assert adapter is not None  # it has a base
    name = adapter.name
    if name not in await server.models():
      await server.load_lora_adapter(name, str(version.directory))

  async def _install_model(
      self, server: ControlClient, version: Version
  ) -> None:
    """Makes one server load a model, and checks that it did."""
    path, name = str(version.directory), str(version.number)
    if self._mode == 'drain':
      await server.wait_idle(self._timeout_s)
      await server.update_weights_from_disk(path, name)
    else:
      if self._mode == 'abort':
        # What somebody else paused in place cannot end, and a pause that aborts
        # would wait for it and never let it go on.
        await server.continue_()
      await server.pause(self._mode)
      try:
        await server.update_weights_from_disk(
            path, name, flush_cache=self._mode != 'in_place'
        )
      finally:
        await server.continue_()
    if self._verifier is not None:
      assert version.evidence is not None  # of every model
      await self._verifier.check(server, version.evidence)

  async def _make_current(self, new: Version) -> Sequence[str]:
    """Returns the servers to update; others start with the current version."""
    urls = self._control.urls
    if self._router is not None:
      urls = await self._router.workers()
    with self._lock:
      self._before, self._current = self._current, new
      return urls if self.watched is None else self.watched.serving()

  async def _install_all(
      self, urls: Sequence[str], version: Version
  ) -> dict[str, EngineError]:
    """Installs on all servers at once; returns the failures, by URL."""

    async def install(url: str) -> EngineError | None:
      try:
        await self.install(self._control.one(url), version)
      except EngineError as error:
        if self.watched is None or not error.retryable:
          return error
        # It died or hangs: its watcher starts it again, with the new version.
        logging.warning('%s failed in a push: %s', url, error)
        self.watched.condemn(url, f'failed in a push: {error}')
      return None

    results = await asyncio.gather(*map(install, urls))
    return {u: e for u, e in zip(urls, results, strict=True) if e is not None}

  def _current_version(self) -> Version:
    """The current version, once there is one."""
    assert self._current is not None, 'Nothing was pushed.'
    return self._current

  def _in_use(self, path: pathlib.Path) -> bool:
    with self._lock:
      current = self._current is not None and self._current.directory == path
      return current or self._pins[path] > 0

  def _remove_but(self, *kept: Version | None) -> None:
    paths = {version.directory for version in kept if version is not None}
    # Also the later versions of a run that was killed and went back.
    for path in self._directory.glob('version_*'):
      path = path.absolute()
      if path not in paths and not self._in_use(path):
        shutil.rmtree(path)


class Follower:
  """The push of a process whose servers another process of the run updates."""

  def __init__(self, files: Files):
    """Takes part in gathering.

    Args:
      files: how the other process writes a version.
    """
    self._files = files
    self._numbers: tuple[str, ...] = ()  # of the current version, and before it
    self._settled = ''  # of the last push that has ended here
    self._adapter: Adapter | None = None

  async def __call__(self, params: Any, version: int | str) -> None:
    # Servers may have it as soon as all is gathered.
    self._numbers = (str(version), *self._numbers[:1])
    await asyncio.to_thread(self._files.gather, params, keep=False)
    # Processes leave a push together, so no request is sent from here on until
    # the other one has ended.
    name = self._files.name(version)
    self._adapter = files_lib.adapter_of(name, str(version))
    self._settled = str(version)

  def fingerprint(self) -> str:
    raise AssertionError('The process that pushes is asked.')

  def accepts(self) -> Callable[[str], bool]:
    """See `DiskPush`."""
    settled = self._settled

    def accepts(number: str) -> bool:
      overtaken = settled != self._numbers[0]
      return number in self._numbers[: 2 if overtaken else 1]

    return accepts

  @property
  def adapter(self) -> Adapter | None:
    """The adapter to request of servers, if adapters are pushed."""
    return self._adapter


async def _unload_adapters(
    server: ControlClient, *, keep: str | None = None
) -> None:
  """Unloads adapters of this run and of those before it."""
  for name in await server.models():
    if name.startswith(files_lib.ADAPTER_PREFIX) and name != keep:
      await server.unload_lora_adapter(name)
