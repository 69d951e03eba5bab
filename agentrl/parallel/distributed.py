"""Many processes that run one program, each with some of the devices.

Every process makes the same calls in the same order: what one of them does
alone (read a clock, catch a signal, play an episode) has to be shared before
anything is decided by it.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec as P

# How collectives (Gloo's on CPUs, NCCL's) and JAX's coordination service say that
# a process is gone.
_GONE = re.compile(
    r'[^\n]*(closed by peer|reset by peer|\bgloo\b|\bnccl|coordination service'
    r'|heartbeat timeout)[^\n]*',
    re.IGNORECASE,
)


def initialize(
    coordinator: str,
    num_processes: int,
    process_id: int,
    *,
    local_device_ids: Sequence[int] | None = None,
) -> None:
  """Joins the other processes; the first call of a process that touches jax.

  Args:
    coordinator: `host:port` of process 0, which listens there.
    num_processes: in all.
    process_id: of this one, from 0.
    local_device_ids: the devices of this machine that this process uses; None:
      all of them.

  Raises:
    RuntimeError: the others did not come, or jax has devices already.
  """
  # Simulated devices on CPUs, as in the tests, talk over sockets.
  jax.config.update('jax_cpu_collectives_implementation', 'gloo')
  jax.distributed.initialize(
      coordinator,
      num_processes,
      process_id,
      local_device_ids=local_device_ids,
      # Under Slurm and Open MPI it would take the process's number on its machine
      # for that of its one device, also where the process is alone there; in
      # Kubernetes it asks the API, for which a pod may have no permission.
      cluster_detection_method='deactivate',
  )
  # They are together now. Later, one that is slow (a cold start, a model to
  # read) would miss the 30 s that a first connection waits.
  share(b'')


def count() -> int:
  """The number of processes."""
  return jax.process_count()


def index() -> int:
  """The number of this process, from 0."""
  return jax.process_index()


def is_first() -> bool:
  """True in the process that writes what is written once."""
  return jax.process_index() == 0


def lost(error: BaseException | None) -> str | None:
  """How an error says that another process is gone; None: it does not.

  A collective fails in whatever runs at that moment, which tells its error as its
  own: all that the error came from is searched.

  Args:
    error: of this process.
  """
  seen = []
  while error is not None and error not in seen and count() > 1:
    if match := _GONE.search(str(error)):
      return ' '.join(match[0].split())[:200]
    seen.append(error)
    error = error.__cause__ or error.__context__
  return None


def share(message: bytes) -> list[bytes]:
  """The messages of all processes, in the order of their numbers."""
  if jax.process_count() == 1:
    return [message]
  sizes = multihost_utils.process_allgather(np.int64(len(message)))
  padded = np.zeros(int(sizes.max()), np.uint8)
  padded[: len(message)] = np.frombuffer(message, np.uint8)
  rows = multihost_utils.process_allgather(padded)
  return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def agree(flag: bool) -> bool:
  """The first process's flag, in all of them."""
  return share(b'1' if flag else b'0')[0] == b'1'


def anywhere(flag: bool) -> bool:
  """True in all processes if the flag is in one of them."""
  return b'1' in share(b'1' if flag else b'0')


def wait(name: str) -> None:
  """Returns when all processes are here."""
  if jax.process_count() > 1:
    multihost_utils.sync_global_devices(name)


def own(items: Sequence[Any]) -> Sequence[Any]:
  """Every n-th of `items`: the share of this process of n."""
  return items[jax.process_index() :: jax.process_count()]


def to_host(x: Any) -> np.ndarray:
  """The whole of an array, in every process."""
  if isinstance(x, jax.Array) and not x.is_fully_addressable:
    x = _everywhere(x).addressable_data(0)
  return np.asarray(x)


def on_one_device(x: jax.Array) -> jax.Array:
  """The whole of an array, on the first device of each process."""
  if len(x.sharding.device_set) == 1:
    return x
  if x.is_fully_addressable:
    return jax.device_put(x, jax.local_devices()[0])
  return _everywhere(x).addressable_data(0)


def gather(params: Any, dtype: Any = None, *, keep: bool = True) -> Any:
  """Parameters that a mesh shares, whole, in the memory of this host.

  One layer at a time passes through the devices, so each of them needs room
  for that much. Every process has to call it.

  Args:
    params: trainer layout: what is below 'layers', or 'layers_from_N', is
      stacked, `[L, ...]`.
    dtype: of the result; None keeps the type of each array.
    keep: whether this process wants the result.

  Returns:
    NumPy arrays; None without `keep`.
  """

  def whole(path, leaf):
    kind = np.dtype(dtype or leaf.dtype)
    stacked = path[0].key.startswith('layers')
    out = np.empty(leaf.shape, kind) if keep else None
    for i in range(len(leaf)) if stacked else [()]:
      part = _part_everywhere(leaf, i, kind, _whole(leaf))
      if keep:
        out[i] = part.addressable_data(0)
    return out

  arrays = jax.tree_util.tree_map_with_path(whole, params)
  return arrays if keep else None


@functools.partial(jax.jit, static_argnames=('dtype', 'sharding'))
def _part_everywhere(x, index, dtype, sharding) -> jax.Array:
  return jax.lax.with_sharding_constraint(x[index].astype(dtype), sharding)


def _everywhere(x: jax.Array) -> jax.Array:
  return _part_everywhere(x, (), x.dtype, _whole(x))


def _whole(x: jax.Array) -> NamedSharding:
  assert isinstance(x.sharding, NamedSharding)
  return NamedSharding(x.sharding.mesh, P())
