"""Handing the trainer's parameters to whoever samples.

Into the engine of this process, here, or to servers, in `disk_push`. Both ways
end in the same versioning: the sampler reports the version with each completion,
so a stale reply can be told from a fresh one.
"""

import asyncio
import functools
from typing import Any, Protocol

import jax

from agentrl.engine.server import Engine
from agentrl.models import lora, transformer
from agentrl.parallel import distributed
from agentrl.training.weight_sync.disk import DiskPush


class Push(Protocol):
  """`await push(params, version)`: from then on, samples come from `params`."""

  async def __call__(self, params: Any, version: int) -> None:
    ...


def engine_layout(
    params: Any, dtype: Any = None, base: lora.Base | None = None
) -> Any:
  """A copy of trainer parameters in the engine's layout.

  The train step donates its state: no buffer of the result is the trainer's.
  The engine decodes on one device, so that is where the copy of parameters
  that a mesh shares is brought together.

  Args:
    params: trainer layout; with a base, an adapter, which is merged.
    dtype: of the copy; None keeps each array's.
    base: what the adapter adds to.
  """
  copy = _unstacked(params, base, dtype)
  return jax.tree.map(distributed.on_one_device, copy)


_merged = jax.jit(lora.merge)


@functools.partial(jax.jit, static_argnames='dtype')
def _unstacked(params: Any, base: lora.Base | None, dtype: Any) -> Any:
  if base is None:
    params = transformer.unstack_layers(params)
  else:
    # Layer by layer: merged while they are stacked, all layers' products in
    # float32 would exist at the same time.
    layers = base.replace(params=transformer.unstack_layers(base.params))
    adapter = transformer.unstack_layers(params)
    params = lora.merge(adapter, layers, out_first=True)
  return jax.tree.map(lambda x: x.astype(dtype or x.dtype), params)


class EmbeddedPush:
  """Into the engine of this process, without a disk round trip."""

  def __init__(
      self,
      engine: Engine,
      *,
      dtype: Any = None,
      base: lora.Base | None = None,
  ):
    """Remembers the engine.

    Args:
      engine: running in this process.
      dtype: of the engine's parameters; None keeps the trainer's.
      base: what the parameters that are pushed, an adapter's then, add to.
    """
    self._engine = engine
    self._dtype = dtype
    self._base = base

  async def __call__(self, params: Any, version: int) -> None:
    # The copy is made here; only the swap of references pauses decoding.
    copy = engine_layout(params, self._dtype, self._base)
    jax.block_until_ready(copy)
    self._engine.update_params(copy, str(version))


class GatheredPush:
  """Of several processes: brings the parameters together before a push.

  Every process calls it at the same time. It is the host's memory that holds
  a whole copy, in the type of the push, in those processes that push.
  """

  def __init__(
      self,
      push: DiskPush | None,
      *,
      dtype: Any,
      base: lora.Base | None = None,
  ):
    """Remembers who pushes.

    Args:
      push: of this process; None: another one pushes to the same servers.
      dtype: of what is pushed.
      base: what the parameters, an adapter's then, are merged into first.
    """
    self._push = push
    self._base = base
    self._dtype = dtype
    self._names: tuple[str, ...] = ()  # of the current version, and before it

  async def __call__(self, params: Any, version: int) -> None:
    whole = await asyncio.to_thread(self.gather, params)
    if self._push is not None:
      await self._push(whole, version)
    self._names = (str(version), *self._names[:1])

  def gather(self, params: Any) -> Any:
    """The whole of them, where there is a push."""
    if self._base is not None:
      params = _merged(params, self._base)
    keep = self._push is not None
    return distributed.gather(params, self._dtype, keep=keep)

  def accepts(self, name: str) -> bool:
    """Whether a completion may report this weight version, see `DiskPush`."""
    if self._push is not None:
      return self._push.accepts(name)
    return name in self._names
