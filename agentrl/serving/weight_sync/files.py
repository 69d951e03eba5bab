"""Files of a push: a whole model each time, or an adapter over a base.

Models are Hugging Face directories, adapters peft's: megabytes where a model
has GB. The base of adapters is written once, with the first of them.
"""

import dataclasses
import functools
import pathlib
import shutil
import uuid
from collections.abc import Sequence
from typing import Any

import jax

from agentrl.errors import WeightsError
from agentrl.inference.sampler import Adapter
from agentrl.models import lora as lora_lib
from agentrl.models.config import TransformerConfig
from agentrl.models.lora import Base, Lora
from agentrl.parallel import distributed
from agentrl.serving.weight_sync import verify
from agentrl.serving.weight_sync.verify import Evidence
from agentrl.weights import hf, names, peft, shards

# Adapters of all runs begin with it: a run unloads those of runs before.
ADAPTER_PREFIX = 'agentrl-'
# The weight version that servers report under adapters.
_BASE = 'base'


@dataclasses.dataclass(frozen=True)
class Version:
  """Weights on disk.

  Attributes:
    number: of the push, or another name for the weights.
    directory: of a whole model, or of an adapter.
    evidence: of a model, to verify servers by.
    base: of an adapter, the model that it adds to.
  """

  number: int | str
  directory: pathlib.Path
  evidence: Evidence | None = dataclasses.field(default=None, repr=False)
  base: 'Version | None' = None

  @property
  def model(self) -> pathlib.Path:
    """The directory of a whole model that a server can start from."""
    return (self.base or self).directory

  @property
  def adapter(self) -> Adapter | None:
    """The adapter that requests ask for; None for a model."""
    if self.base is None:
      return None
    return adapter_of(self.directory.name, self.number)


def adapter_of(name: str, number: int | str) -> Adapter:
  """The adapter that requests ask for by name.

  Args:
    name: of its directory.
    number: of the push.
  """
  return Adapter(ADAPTER_PREFIX + name, str(number))


@dataclasses.dataclass(frozen=True)
class ModelFiles:
  """Whole models.

  Attributes:
    config: the decoder's shape.
    dtype: in the files, best what the servers compute in; None keeps the
      trainer's.
    base: frozen parameters; the pushed ones are an adapter's then, which is
      merged into it: the whole model is written.
    shard_bytes: most bytes of one file.
    eos_ids: for config.json; servers stop on them.
    tokenizer_files: a directory whose files go beside the weights, since a
      server reads the folder as a model of its own.
  """

  config: TransformerConfig
  dtype: Any = None
  base: Base | None = None
  shard_bytes: int = hf.SHARD_BYTES
  eos_ids: Sequence[int] = ()
  tokenizer_files: pathlib.Path | None = None

  def name(self, number: int | str) -> str:
    """The name of a version's directory."""
    return f'version_{number}'

  def gather(self, params: Any, *, keep: bool = True) -> Any:
    """The model's parameters, see `gather`."""
    return gather(params, base=self.base, dtype=self.dtype, keep=keep)

  def write(
      self, params: Any, number: int | str, target: pathlib.Path
  ) -> Version:
    """Writes gathered parameters into a new directory.

    Raises:
      WeightsError: the folder cannot hold them.
    """
    entries = names.disassemble(self.config, params, dtype=self.dtype)
    target.parent.mkdir(parents=True, exist_ok=True)
    check_room(target.parent, shards.total_bytes(entries))
    companions = []
    if self.tokenizer_files is not None:
      companions.append(
          functools.partial(
              shutil.copytree, self.tokenizer_files, dirs_exist_ok=True
          )
      )
    hf.save(
        target,
        self.config,
        params,
        dtype=self.dtype,
        shard_bytes=self.shard_bytes,
        eos_ids=self.eos_ids,
        companions=companions,
    )
    return Version(
        number, target, verify.make_evidence(number, entries, self.config)
    )


class AdapterFiles:
  """Adapters, over a base that is written with the first of them."""

  def __init__(self, model: ModelFiles, base: Base, lora: Lora, run: str):
    """Prepares names.

    Args:
      model: how the base is written.
      base: frozen parameters that the adapters add to; forgotten once it is
        written.
      lora: their settings.
      run: a part of their names, which those of other runs do not have.
    """
    self._model, self._lora, self._run = model, lora, run
    self._base_params = base.params
    self._base: Version | None = None
    self._count = 0

  def name(self, number: int | str) -> str:
    """A name that no other push has, so servers cannot know it.

    All processes of a run get the same, as all make the same pushes.
    """
    self._count += 1
    return f'version_{number}_{self._run}_{self._count}'

  def gather(self, params: Any, *, keep: bool = True) -> Any:
    """The adapter's parameters, and the first time the base's."""
    if self._base_params is not None:
      self._base_params = gather(self._base_params, keep=keep)
    return gather(params, keep=keep)

  def write(
      self, params: Any, number: int | str, target: pathlib.Path
  ) -> Version:
    """Writes a gathered adapter into a new directory.

    Raises:
      WeightsError: the folder cannot hold it, or the base.
    """
    if self._base is None:
      self._base = self._write_base(target.parent)
    base = str(self._base.directory)
    peft.save_adapter(target, self._model.config, params, self._lora, base=base)
    return Version(number, target, base=self._base)

  def _write_base(self, directory: pathlib.Path) -> Version:
    for old in directory.glob(f'{_BASE}_*'):  # of a run before
      shutil.rmtree(old)
    # A fresh name: a server that has loaded a model of it has this one.
    target = directory / f'{_BASE}_{uuid.uuid4().hex[:8]}'
    written = self._model.write(self._base_params, _BASE, target)
    self._base_params = None
    return written


def gather(
    params: Any, *, base: Base | None = None, dtype: Any = None, keep: bool
) -> Any:
  """Parameters to write: merged, and brought together from all processes.

  Every process of a run calls it at the same time. Of several processes, it is
  the host's memory that holds the copy.

  Args:
    params: trainer layout; with a base, an adapter, which is merged.
    base: what the adapter adds to.
    dtype: of a copy in the host's memory; None keeps each array's.
    keep: whether this process writes them; others of several get None.
  """
  if distributed.count() == 1:
    return params if base is None else lora_lib.merge(params, base)
  if base is not None:
    params = _merged(params, base)
  return distributed.gather(params, dtype, keep=keep)


_merged = jax.jit(lora_lib.merge)


def check_room(directory: pathlib.Path, needed: int) -> None:
  """Refuses a folder that is too small.

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
