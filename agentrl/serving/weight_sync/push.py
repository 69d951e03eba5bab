"""Pushes: the trainer's parameters, handed to what samples.

Into the engine of this process, here, or to servers, in `disk`. Both end in the
same versioning: the sampler reports the version with each completion, so a stale
reply can be told from a fresh one.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol

import jax

from agentrl.engine.server import Engine
from agentrl.inference.sampler import Adapter
from agentrl.models import lora, transformer
from agentrl.parallel import distributed
from agentrl.weights import fingerprint


class Push(Protocol):
  """`await push(params, version)`: from then on, samples come from `params`.

  Attributes:
    accepts: called as a request is sent; gives the test of the weight version
      that its completion may report. None: all may.
    adapter: for requests to ask for; None where whole models are pushed.
  """

  @property
  def accepts(self) -> Callable[[], Callable[[str], bool]] | None:
    ...

  @property
  def adapter(self) -> Adapter | None:
    ...

  async def __call__(self, params: Any, version: int | str) -> None:
    ...

  def fingerprint(self) -> str:
    """Names the weights that samples come from: equal only for equal ones.

    Those of an adapter over a base that is not pushed are the adapter's.
    """


def engine_layout(
    params: Any, dtype: Any = None, base: lora.Base | None = None
) -> Any:
  """A copy of trainer parameters in the engine's layout.

  The train step donates its state: no buffer of the result is the trainer's.
  The engine decodes on one device, where parameters that a mesh shares are
  brought together.

  Args:
    params: trainer layout; with a base, an adapter, which is merged.
    dtype: of the copy; None keeps each array's.
    base: what the adapter adds to.
  """
  copy = _unstacked(params, base, dtype)
  return jax.tree.map(distributed.on_one_device, copy)


@functools.partial(jax.jit, static_argnames='dtype')
def _unstacked(params: Any, base: lora.Base | None, dtype: Any) -> Any:
  if base is None:
    params = transformer.unstack_layers(params)
  else:
    # Layer by layer: merged while they are stacked, all layers' products in
    # float32 would exist at the same time.
    layers = dataclasses.replace(
        base, params=transformer.unstack_layers(base.params)
    )
    adapter = transformer.unstack_layers(params)
    params = lora.merge(adapter, layers, out_first=True)
  return jax.tree.map(lambda x: x.astype(dtype or x.dtype), params)


class EmbeddedPush:
  """Into the engine of this process, without a disk round trip."""

  accepts = None  # the engine is the run's own, which has no other weights
  adapter = None  # what is pushed is merged

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

  async def __call__(self, params: Any, version: int | str) -> None:
    # The copy is made here; only the swap of references pauses decoding.
    copy = engine_layout(params, self._dtype, self._base)
    jax.block_until_ready(copy)
    self._engine.update_params(copy, str(version))

  def fingerprint(self) -> str:
    return fingerprint.of_params(self._engine.params)
