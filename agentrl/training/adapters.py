"""A run's low-rank adapter: attached to a model, recorded, merged again.

Checkpoints of such a run hold the adapter alone. The host's record names its
base model, with type and fingerprint, and the fields of `config.model.lora`.
"""

import dataclasses
import functools
import hashlib
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from agentrl.errors import CheckpointError, ConfigError
from agentrl.models import lora as lora_lib
from agentrl.models.config import TransformerConfig
from agentrl.models.lora import Lora
from agentrl.models.options import TrainModel
from agentrl.parallel import distributed
from agentrl.training import state as state_lib

# Numbers of each parameter that enter the fingerprint of a model.
_MARKED = 8


def attach(
    config: TransformerConfig, base: Any, lora: Lora, *, seed: int, mesh: Mesh
) -> tuple[Any, lora_lib.Base]:
  """A new adapter beside frozen parameters.

  Args:
    config: the decoder's shape.
    base: its parameters.
    lora: of rank 1 at least.
    seed: of the adapter.
    mesh: devices of the adapter.

  Returns:
    The parameters of the adapter, and the base with its scale.

  Raises:
    ConfigError: the model has no such projection.
  """
  check_targets(config, lora)
  init = functools.partial(lora_lib.init, lora, _shapes(base))
  key = jax.random.key(seed)
  places = state_lib.infer_shardings(jax.eval_shape(init, key), mesh)
  params = jax.jit(init, out_shardings=places)(key)
  return params, lora_lib.Base(base, lora.scale)


def check_targets(config: TransformerConfig, lora: Lora) -> None:
  """Refuses an adapter of projections that the model does not have."""
  own = {x for layer in config.layers for x in lora_lib.targets_of(layer)}
  of_mlp = {x for x, block in lora_lib.BLOCKS.items() if block == 'mlp'}
  if config.num_experts and of_mlp.intersection(lora.targets):
    raise ConfigError(
        'The model is a mixture of experts, whose MLPs cannot have an adapter;'
        ' set model.lora.targets='
        f'{tuple(x for x in lora_lib.BLOCKS if x in own)}.'
    )
  alien = [
      name
      for name, block in lora_lib.BLOCKS.items()
      if block == 'attention' and name in lora.targets and name not in own
  ]
  if alien:
    raise ConfigError(
        f'The model has no projections {", ".join(alien)}: take them out of'
        ' model.lora.targets.'
    )


def describe(
    base: lora_lib.Base | None, model: TrainModel
) -> dict[str, Any] | None:
  """The record of an adapter in a checkpoint; None without one.

  Args:
    base: frozen parameters that it adds to.
    model: the config of both.
  """
  if base is None:
    return None
  path = pathlib.Path(model.name)
  return dataclasses.asdict(model.lora) | {
      'targets': list(model.lora.projections),
      # A hub's name means the same everywhere, a path only from here.
      'base': str(path.absolute()) if path.exists() else model.name,
      'dtype': model.dtype,
      'fingerprint': fingerprint(base.params),
  }


def check(
    record: dict[str, Any] | None, ours: dict[str, Any] | None, place: str
) -> None:
  """Refuses a checkpoint of another adapter, or of another base.

  Args:
    record: in the checkpoint.
    ours: of this run; both as `describe` gives it.
    place: of the checkpoint, for the message.

  Raises:
    CheckpointError: they differ.
  """
  record, ours = record or {'rank': 0}, ours or {'rank': 0}
  for name in record.keys() | ours.keys():
    # The base may have moved; it may not be another.
    if name != 'base' and record.get(name) != ours.get(name):
      raise CheckpointError(
          f'{place} has an adapter with {name}={record.get(name)!r}, this run'
          f' one with {ours.get(name)!r}: use the model and the model.lora that'
          ' wrote it, or another --workdir.'
      )


def join(
    config: TransformerConfig,
    base: Any,
    record: dict[str, Any],
    restore: Callable[[TransformerConfig, Any], Any],
) -> Any:
  """Parameters of a base with a checkpoint's adapter merged into it.

  Args:
    config: the shape of the model that the checkpoint names.
    base: its parameters.
    record: the checkpoint's record of its adapter, see `describe`.
    restore: the base's shape, shapes of an adapter -> its arrays.

  Raises:
    CheckpointError: the base is not the one that the adapter was trained on.
  """
  check_base(base, record, record['base'])
  lora, like = described(record, _shapes(base))
  adapter = restore(config, like)
  return lora_lib.merge(adapter, lora_lib.Base(base, lora.scale))


def check_base(base: Any, record: dict[str, Any], place: str) -> None:
  """Refuses another base than an adapter was trained on.

  Args:
    base: its parameters.
    record: of the adapter, see `describe`; without a fingerprint nothing is known.
    place: of the base or of the adapter, for the message.

  Raises:
    CheckpointError: it is another one.
  """
  known = record.get('fingerprint')
  if known is not None and (mark := fingerprint(base)) != known:
    raise CheckpointError(
        f'{place}: {record["base"]} is not the model that the adapter was'
        f' trained on (fingerprint {mark}, then {known}); put the old one back.'
    )


def described(record: dict[str, Any], shapes: Any) -> tuple[Lora, Any]:
  """The options of a checkpoint's adapter, and the shapes of its arrays.

  Args:
    record: the checkpoint's, see `describe`.
    shapes: of its base's parameters.
  """
  fields = [field.name for field in dataclasses.fields(Lora)]
  values = {name: record[name] for name in fields}
  lora = Lora(**values | {'targets': tuple(record['targets'])})
  init = functools.partial(lora_lib.init, lora, shapes)
  return lora, jax.eval_shape(init, jax.random.key(0))


def fingerprint(params: Any) -> str:
  """A few numbers of each parameter, hashed; the same on any mesh."""
  digest = hashlib.sha256()
  for leaf in jax.tree.leaves(params):
    some = leaf[(0,) * (leaf.ndim - 1)][:_MARKED]
    digest.update(distributed.to_host(some).astype(np.float32).tobytes())
  return digest.hexdigest()[:16]


def _shapes(params: Any) -> Any:
  return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), params)
