"""Handing parameters to SGLang servers, through a folder that both sides see.

The trainer writes a whole Hugging Face model and renames it into place; then it
tells every server to load it. Needs no torch here and no special server there.
"""

import asyncio
import collections
import contextlib
import dataclasses
import functools
import hashlib
import pathlib
import shutil
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from absl import logging

from agentrl.errors import EngineError, EngineRefusal, WeightsError
from agentrl.inference.control import ControlClient
from agentrl.inference.replicas import Replicas
from agentrl.models import lora
from agentrl.models.config import TransformerConfig
from agentrl.weights import hf, names, shards

# What becomes of requests under way, see `config.sampler.push`.
_CHECKED_ROWS = 4


@dataclasses.dataclass(frozen=True)
class Version:
  """Weights on disk.

  Attributes:
    number: of the push, or another name for the weights.
    directory: a whole model.
    rows: first rows of some tensors, as the files have them, to check by.
    digests: of other tensors, rounded as coarsely as any server does.
  """

  number: int | str
  directory: pathlib.Path
  rows: dict[str, np.ndarray] = dataclasses.field(repr=False)
  digests: dict[str, str] = dataclasses.field(default_factory=dict, repr=False)


class DiskPush:
  """Pushes through a folder. Each version is a directory of its own.

  The version before is kept until every server has the new one: after a
  failure they are told to go back to it.
  """

  def __init__(
      self,
      control: ControlClient,
      directory: pathlib.Path,
      config: TransformerConfig,
      *,
      mode: str = 'retract',
      verify: bool = True,
      dtype: Any = None,
      base: lora.Base | None = None,
      shard_bytes: int = hf.SHARD_BYTES,
      eos_ids: Sequence[int] = (),
      tokenizer_files: pathlib.Path | None = None,
      timeout_s: float = 300.0,
      router: ControlClient | None = None,
      watched: Replicas | None = None,
  ):
    """Prepares pushes.

    Args:
      control: client of the servers to update.
      directory: shared folder, /dev/shm on one host.
      config: the decoder's shape.
      mode: one of `options.PUSHES`.
      verify: whether to read version and weights back from every server.
      dtype: in the files, best what the servers compute in; None keeps the
        trainer's.
      base: what the parameters that are pushed, an adapter's then, add to:
        they are merged, and the whole model is written.
      shard_bytes: most bytes of one file.
      eos_ids: for config.json; servers stop on them.
      tokenizer_files: a directory whose files go beside the weights, since a
        server reads the folder as a model of its own.
      timeout_s: how long mode 'drain' waits.
      router: lists the servers anew at each push; None: they stay `control`'s.
      watched: the servers of somebody who starts them again when they die or
        are condemned, and installs the current version before they serve: those
        that are held do not matter here.
    """
    self._control = control
    self._directory = directory
    self._config = config
    self._mode = mode
    self._verify = verify
    self._dtype = dtype
    self._base = base
    self._shard_bytes = shard_bytes
    self._eos_ids = tuple(eos_ids)
    self._tokenizer_files = tokenizer_files
    self._timeout_s = timeout_s
    self._router = router
    self._watched = watched
    self._lock = threading.Lock()  # guards what follows
    self._current: Version | None = None
    self._before: Version | None = None
    self._pins: collections.Counter[pathlib.Path] = collections.Counter()
    # What servers that tell no weights said of which version, by URL.
    self._checksums: dict[str, tuple[Version, dict[str, list[str]]]] = {}

  async def __call__(self, params: Any, version: int) -> None:
    """Writes `params` and makes every server load them.

    Raises:
      WeightsError: the folder cannot hold them.
      EngineError: a server did not take them, or gives others back; all were
        told to load the version before.
    """
    before = self._current
    new = await asyncio.to_thread(self.write, params, version)
    urls = await self._targets(new)
    failures = await self._install_all(urls, new)
    if failures:
      with self._lock:
        self._current = before
      if before is not None:
        for url, error in (await self._install_all(urls, before)).items():
          logging.error('%s did not go back either: %s', url, error)
      raise next(iter(failures.values()))
    self._remove_but(new, before)

  def write(self, params: Any, version: int) -> Version:
    """Writes a version that no server has been told of."""
    if self._current is not None:
      self._remove_but(self._current)
    if self._base is not None:
      params = lora.merge(params, self._base)
    target = (self._directory / f'version_{version}').absolute()
    if self._in_use(target):  # the same number again: servers may read it
      target = target.with_name(f'{target.name}_again')
    if target.exists():
      shutil.rmtree(target)  # a resumed run pushes what it restored once more
    return self._write_model(params, target, version)

  def _write_model(
      self, params: Any, target: pathlib.Path, number: int | str
  ) -> Version:
    entries = names.disassemble(self._config, params, dtype=self._dtype)
    self._directory.mkdir(parents=True, exist_ok=True)
    check_room(self._directory, shards.total_bytes(entries))
    companions = []
    if self._tokenizer_files is not None:
      companions.append(
          functools.partial(
              shutil.copytree, self._tokenizer_files, dirs_exist_ok=True
          )
      )
    hf.save(
        target,
        self._config,
        params,
        dtype=self._dtype,
        shard_bytes=self._shard_bytes,
        eos_ids=self._eos_ids,
        companions=companions,
    )
    return Version(
        number,
        target,
        _some_rows(entries, self._config),
        _digests(entries, self._config),
    )

  def model_of(self, version: Version) -> pathlib.Path:
    """The directory of a whole model that a server of a version starts from."""
    return version.directory

  def start_from(self, version: Version) -> None:
    """Makes a written version what servers start with."""
    with self._lock:
      self._current = version

  @contextlib.contextmanager
  def pinned(self) -> Iterator[Version]:
    """The current version; its files stay for as long as the block runs."""
    with self._lock:
      version = self._current
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
      self._watched.release(url)
      return True

  def accepts(self, name: str) -> bool:
    """Whether a completion may report this weight version.

    That before the current one belongs to requests which a push overtook.
    """
    with self._lock:
      known = (self._current, self._before)
    return name in {str(v.number) for v in known if v is not None}

  async def install(self, server: ControlClient, version: Version) -> None:
    """Makes one server load a version, and checks that it did.

    Raises:
      EngineError: it did not.
    """
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
    if self._verify:
      await self._check(server, version)

  async def _check(self, server: ControlClient, version: Version) -> None:
    """Raises EngineError unless the server has this version."""
    [url] = server.urls
    found = (await server.model_info()).get('weight_version')
    if str(found) != str(version.number):
      raise EngineRefusal(
          f'{url} says it has weights {found!r} after the push of'
          f' {version.number}.'
      )
    try:
      if not await _same_rows(server, version):
        await self._check_by_checksum(server, version)
    except EngineError as error:
      raise EngineError(
          f'{error} sampler.verify=False leaves this check out.',
          retryable=error.retryable,
      ) from error

  async def _check_by_checksum(
      self, server: ControlClient, version: Version
  ) -> None:
    """Tensors that changed between two pushes must have changed there too.

    Raises:
      EngineError: one did not.
    """
    [url] = server.urls
    last = self._config.num_layers - 1
    others = [f'layers.{i}.' for i in range(last)]
    found = await server.weight_checksums([*others, 'embed_tokens', 'lm_head'])
    before, known = self._checksums.get(url, (version, found))
    for name, digest in version.digests.items():
      if name not in found:
        raise EngineRefusal(
            f'{url} has no checksum of {name!r}; it has {sorted(found)}.'
        )
      if digest != before.digests[name] and found[name] == known[name]:
        raise EngineRefusal(
            f'{url} has the same {name!r} after the push of version'
            f' {version.number} as with version {before.number}, and they'
            ' differ. Do trainer and server see the same folder'
            f' {version.directory.parent}?'
        )
    self._checksums[url] = version, found

  async def _targets(self, new: Version) -> Sequence[str]:
    """Who has to load it. Who is not among them will find it current."""
    urls = self._control.urls
    if self._router is not None:
      urls = await self._router.workers()
    with self._lock:
      self._before, self._current = self._current, new
      return urls if self._watched is None else self._watched.serving()

  async def _install_all(
      self, urls: Sequence[str], version: Version
  ) -> dict[str, EngineError]:
    """Installs everywhere at once; gives the failures that matter."""

    async def install(url: str) -> EngineError | None:
      try:
        await self.install(self._control.one(url), version)
      except EngineError as error:
        return None if self._condemned(url, error) else error
      return None

    results = await asyncio.gather(*map(install, urls))
    return {u: e for u, e in zip(urls, results, strict=True) if e is not None}

  def _condemned(self, url: str, error: EngineError) -> bool:
    """Whether a failure is its watcher's business, who is told of it.

    A server that died or hangs is started again, with the new version.
    """
    if self._watched is None or not error.retryable:
      return False
    logging.warning('%s failed in a push: %s', url, error)
    self._watched.condemn(url, f'failed in a push: {error}')
    return True

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


def check_room(directory: pathlib.Path, needed: int) -> None:
  """Refuses to begin what would not end.

  Args:
    directory: where weights are to be written; one that is missing has no room.
    needed: bytes.

  Raises:
    WeightsError: less is free.
  """
  free = shutil.disk_usage(directory).free if directory.is_dir() else 0
  if free < needed:
    raise WeightsError(
        f'{directory} has {free / 1e9:.2f} GB free and needs'
        f' {needed / 1e9:.2f} GB for weights; a push keeps two versions.'
        ' Name a folder on another disk in sampler.push_dir, or give a'
        ' container more shared memory (docker run --shm-size).'
    )


def _some_rows(
    entries: Sequence[shards.Entry], config: TransformerConfig
) -> dict[str, np.ndarray]:
  """First rows of the smallest vector and the smallest matrix of the last layer.

  Small ones, because SGLang makes a list of all of a tensor before it cuts it.
  It keeps queries, keys and values in one, and finds them there again only where
  the heads make up the width.
  """
  fused = ('q_proj', 'k_proj', 'v_proj')
  if config.num_heads * config.head_dim == config.hidden_size:
    fused = ()
  rows = {}
  for rank in (1, 2):
    some = [
        entry
        for entry in entries
        if len(entry.shape) == rank and not any(f in entry.name for f in fused)
    ]
    smallest = min(entry.num_bytes for entry in some)
    entry = [entry for entry in some if entry.num_bytes == smallest][-1]
    rows[entry.name] = entry.fetch()[:_CHECKED_ROWS]
  return rows


def _digests(
    entries: Sequence[shards.Entry], config: TransformerConfig
) -> dict[str, str]:
  """Hashes of tensors of the last layer that no server keeps with others."""
  wanted = f'layers.{config.num_layers - 1}.self_attn.o_proj.weight'
  return {
      entry.name: (
          hashlib.sha256(
              entry.fetch().astype(ml_dtypes.bfloat16).tobytes()
          ).hexdigest()
      )
      for entry in entries
      if entry.name.endswith(wanted)
  }


async def _same_rows(server: ControlClient, version: Version) -> bool:
  """Compares rows; False if the server cannot tell any.

  Raises:
    EngineError: it has others.
  """
  [url] = server.urls
  for name, expected in version.rows.items():
    values = await server.get_weights_by_name(name, truncate_size=_CHECKED_ROWS)
    if values is None:
      return False
    if not _same(np.asarray(values, np.float32), expected):
      raise EngineRefusal(
          f'{url} gives other weights back for {name!r} than were pushed as'
          f' version {version.number}: {np.ravel(values)[:4].tolist()} for'
          f' {np.ravel(expected)[:4].tolist()}. Do trainer and server see the'
          f' same folder {version.directory.parent}?'
      )
  return True


def _same(values: np.ndarray, expected: np.ndarray) -> bool:
  """Exactly, in whichever type the server keeps them."""
  for dtype in (expected.dtype, ml_dtypes.bfloat16, np.float16):
    rounded = expected.astype(dtype).astype(np.float32)
    if np.array_equal(values, rounded):
      return True
  return False
