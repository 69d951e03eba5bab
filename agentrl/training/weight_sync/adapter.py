"""Handing an adapter alone to SGLang servers: megabytes where a model has GB.

The base is written and loaded once. Each version after it is a folder in peft's
format under a name of its own, which requests ask for; so a completion is of
the version that was asked for from its first token to its last, and the server
needs no pause. Servers have to be started with `--enable-lora`.
"""

import pathlib
import shutil
import uuid
from typing import Any

from absl import logging

from agentrl.errors import EngineError
from agentrl.inference.control import ControlClient
from agentrl.inference.sampler import Adapter
from agentrl.models.lora import Base, Lora
from agentrl.training.weight_sync.disk import DiskPush, Version
from agentrl.training.weight_sync.push import GatheredPush
from agentrl.weights import peft

_PREFIX = 'agentrl-'
# What the servers call the weights that adapters add to.
_BASE = 'base'


class AdapterPush(DiskPush):
  """Pushes adapters over a base that the servers load first."""

  def __init__(self, *args, lora: Lora, base: Base, run: str, **settings):
    """As `DiskPush`; its mode is that of loading the base.

    Args:
      *args: of `DiskPush`.
      lora: what the adapters are made with.
      base: what they add to; forgotten once it is written.
      run: tells the adapters' names from those of other runs.
      **settings: of `DiskPush`.
    """
    super().__init__(*args, **settings)
    self._lora = lora
    self._base_params = base.params
    self._titles = _Titles(run)
    self._model: Version | None = None  # the base's
    self._asked: Adapter | None = None

  async def __call__(self, params: Any, version: int) -> None:
    """Writes the adapter `params` and makes every server load it.

    Raises:
      WeightsError: the folder cannot hold it.
      EngineError: a server did not take it; requests ask for the one before.
    """
    await super().__call__(params, version)
    await self.ask_for_current()

  async def ask_for_current(self) -> None:
    """From now on requests ask for the current version; unloads others."""
    current = self._current
    self._asked = Adapter(_name(current), str(current.number))
    for url in self._control.urls:
      try:
        await self._unload(self._control.one(url), kept=_name(current))
      except EngineError as error:  # it dies, or its memory fills up
        logging.warning('%s keeps an old adapter: %s', url, error)

  @property
  def asked(self) -> Adapter:
    """What requests have to ask for."""
    return self._asked

  def write(self, params: Any, version: int) -> Version:
    """Writes a version that no server has been told of."""
    target = self._directory / self._titles.next(version)
    if self._model is None:
      self._model = self._write_base()
    if self._current is not None:
      self._remove_but(self._current)
    peft.save_adapter(
        target.absolute(),
        self._config,
        params,
        self._lora,
        base=str(self._model.directory),
    )
    return Version(version, target.absolute(), {})

  def model_of(self, version: Version) -> pathlib.Path:
    """The base: an adapter is no model to start a server with."""
    del version
    return self._model.directory

  async def install(self, server: ControlClient, version: Version) -> None:
    """Makes one server load a version, and the base if it has another model.

    Raises:
      EngineError: it did not.
    """
    info = await server.model_info()
    if info['model_path'] != str(self._model.directory):
      await self._unload(server, kept=None)  # they belong to another base
      await super().install(server, self._model)
    if _name(version) not in await server.models():
      await server.load_lora_adapter(_name(version), str(version.directory))

  async def _unload(self, server: ControlClient, *, kept: str | None) -> None:
    """Unloads what runs like this one have loaded."""
    for name in await server.models():
      if name.startswith(_PREFIX) and name != kept:
        await server.unload_lora_adapter(name)

  def _write_base(self) -> Version:
    for old in self._directory.glob(f'{_BASE}_*'):  # of a run before
      shutil.rmtree(old)
    # Of another name each time, so that a server that has one has this one.
    target = (self._directory / f'{_BASE}_{uuid.uuid4().hex[:8]}').absolute()
    written = self._write_model(self._base_params, target, _BASE)
    self._base_params = None
    return written


class GatheredAdapterPush(GatheredPush):
  """Of several processes; those that do not push know what to ask for too."""

  def __init__(self, push: AdapterPush | None, run: str):
    """As `GatheredPush`.

    Args:
      push: of this process, which has pushed nothing yet; None: another one
        pushes to the same servers.
      run: as of the push.
    """
    super().__init__(push, dtype=None)
    self._titles = _Titles(run)
    self._asked: Adapter | None = None

  async def __call__(self, params: Any, version: int) -> None:
    title = self._titles.next(version)
    await super().__call__(params, version)
    self._asked = Adapter(_PREFIX + title, str(version))

  @property
  def asked(self) -> Adapter:
    """What requests have to ask for."""
    return self._asked if self._push is None else self._push.asked


class _Titles:
  """Names of adapters: never that of another push, which servers may have.

  All processes of a run draw the same, as all make the same pushes.
  """

  def __init__(self, run: str):
    self._run, self._count = run, 0

  def next(self, version: int) -> str:
    self._count += 1
    return f'version_{version}_{self._run}_{self._count}'


def _name(version: Version) -> str:
  return _PREFIX + version.directory.name
