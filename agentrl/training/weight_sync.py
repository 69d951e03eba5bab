"""Handing the trainer's parameters to whoever samples.

Both ways end in the same versioning: the sampler reports the version with each
completion, so a stale reply can be told from a fresh one.
"""

import functools
import pathlib
import shutil
from typing import Any, Protocol

import jax

from agentrl.engine.server import Engine
from agentrl.models import transformer
from agentrl.models.transformer import TransformerConfig
from agentrl.rollout.sampler import Sampler
from agentrl.weights import hf


class Push(Protocol):
  """`await push(params, version)`: from then on, samples come from `params`."""

  async def __call__(self, params: Any, version: int) -> None:
    ...


@functools.partial(jax.jit, static_argnames='dtype')
def engine_layout(params: Any, dtype: Any = None) -> Any:
  """A copy of trainer parameters in the engine's layout.

  The train step donates its state: no buffer of the result is the trainer's.
  """
  params = transformer.unstack_layers(params)
  return jax.tree.map(lambda x: x.astype(dtype or x.dtype), params)


class EmbeddedPush:
  """Into the engine of this process, without a disk round trip."""

  def __init__(self, engine: Engine, *, dtype: Any = None):
    """Remembers the engine.

    Args:
      engine: running in this process.
      dtype: of the engine's parameters; None keeps the trainer's.
    """
    self._engine = engine
    self._dtype = dtype

  async def __call__(self, params: Any, version: int) -> None:
    # The copy is made here; only the swap of references pauses decoding.
    copy = jax.block_until_ready(engine_layout(params, dtype=self._dtype))
    self._engine.update_params(copy, str(version))


class DiskPush:
  """Through a folder that trainer and servers both see.

  Each version is a Hugging Face directory. The last two are kept: a server
  that fails to load the new one falls back to reading the old.
  """

  def __init__(
      self,
      sampler: Sampler,
      directory: pathlib.Path,
      config: TransformerConfig,
      *,
      tokenizer_files: pathlib.Path | None = None,
  ):
    """Prepares pushes.

    Args:
      sampler: client of the servers to update.
      directory: shared folder, /dev/shm on one host.
      config: the decoder's shape.
      tokenizer_files: a directory whose files go beside the weights, since a
        server reads the folder as a model of its own.
    """
    self._sampler = sampler
    self._directory = directory
    self._config = config
    self._tokenizer_files = tokenizer_files

  async def __call__(self, params: Any, version: int) -> None:
    target = (self._directory / f'version_{version}').absolute()
    if target.exists():
      shutil.rmtree(target)  # a resumed run pushes what it restored once more
    companions = []
    if self._tokenizer_files is not None:
      companions.append(
          functools.partial(
              shutil.copytree, self._tokenizer_files, dirs_exist_ok=True
          )
      )
    hf.save(target, self._config, params, companions=companions)
    await self._sampler.update_weights_from_disk(str(target), str(version))
    kept = {f'version_{n}' for n in (version, version - 1)}
    # Also the later versions of a run that was killed and went back.
    for path in self._directory.glob('version_*'):
      if path.name not in kept:
        shutil.rmtree(path)
