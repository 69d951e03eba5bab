"""Writes safetensors in files of a bounded size, several at a time.

While one tensor is written, the next is computed and copied off its device; and
several files are written at once, since one thread seldom saturates a disk.
`safetensors.numpy.save_file`, in a third of the code, needs whole shards in memory:
for 2.5 GB of bfloat16 in shards of 1 GB it took 1.1 GiB beside the parameters, 1.9
GiB with four threads; this takes 0.65 GiB (0.32 from the host) for the same
processor time.
"""

import concurrent.futures
import dataclasses
import functools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

SINGLE = 'model.safetensors'
INDEX = 'model.safetensors.index.json'

# NumPy's name of a type of weights -> that in a header.
DTYPES = {'float32': 'F32', 'bfloat16': 'BF16', 'float16': 'F16'}
_ALIGNMENT = 8  # of the first byte after the header


@dataclasses.dataclass(frozen=True)
class Entry:
  """One tensor of a file to be written, not yet fetched from its device.

  Attributes:
    name: in the file.
    leaves: the parameters that it is part of; several lie one behind the other
      along the file's first axis.
    index: its place in stacked parameters; (): all of them.
    transposed: files have `[out, in]`, the parameter `[in, out]`.
    dtype: in the file.
    order: places in the file of the rows of all leaves, one behind the other;
      None: they lie so.
  """

  name: str
  leaves: tuple[Any, ...]
  index: tuple[int, ...]
  transposed: bool
  dtype: np.dtype
  order: np.ndarray | None = None

  @property
  def shape(self) -> tuple[int, ...]:
    shapes = [leaf.shape[len(self.index) :] for leaf in self.leaves]
    if self.transposed:
      shapes = [shape[::-1] for shape in shapes]
    return (sum(shape[0] for shape in shapes), *shapes[0][1:])

  @property
  def num_bytes(self) -> int:
    return int(np.prod(self.shape)) * self.dtype.itemsize

  def fetch(self) -> np.ndarray:
    """The tensor as the file has it, contiguous and on the host."""
    parts = [self._fetch(leaf) for leaf in self.leaves]
    if len(parts) == 1:
      return parts[0]
    whole = np.concatenate(parts)
    if self.order is None:
      return whole
    out = np.empty_like(whole)
    out[self.order] = whole
    return out

  def _fetch(self, leaf: Any) -> np.ndarray:
    if _on_host(leaf):
      return self._fetch_on_host(leaf)
    return np.asarray(
        _as_in_file(leaf, self.index, self.transposed, self.dtype)
    )

  def _fetch_on_host(self, leaf: Any) -> np.ndarray:
    value = np.asarray(leaf)[self.index]  # no copy
    value = value.astype(self.dtype, copy=False)
    if self.transposed:
      # XLA's transpose for transfers takes half the time of its compiled one,
      # and a quarter of NumPy's. It takes plain types only.
      bits = value.view(np.uint16) if value.itemsize == 2 else value
      cpu = jax.local_devices(backend='cpu')[0]
      value = np.asarray(jax.device_put(bits.T, cpu)).view(self.dtype)
    return np.ascontiguousarray(value)


def _on_host(leaf: Any) -> bool:
  return isinstance(leaf, np.ndarray) or (
      len(leaf.devices()) == 1 and next(iter(leaf.devices())).platform == 'cpu'
  )


@functools.partial(jax.jit, static_argnames=('transposed', 'dtype'))
def _as_in_file(leaf, index, transposed: bool, dtype) -> jax.Array:
  value = leaf[index]
  return (value.T if transposed else value).astype(dtype)


def total_bytes(entries: Sequence[Entry]) -> int:
  """Bytes of the tensors in their files, without headers."""
  return sum(entry.num_bytes for entry in entries)


def write(
    directory: pathlib.Path,
    entries: Sequence[Entry],
    *,
    shard_bytes: int,
    threads: int,
) -> None:
  """Writes the tensors, with an index if they need more than one file.

  At most `2 * threads` tensors are in memory beside their parameters.

  Args:
    directory: exists.
    entries: the tensors.
    shard_bytes: most bytes of a file; a larger tensor gets one of its own.
    threads: files that are written at once.

  Raises:
    OSError: the disk refuses.
  """
  shards = _split(entries, shard_bytes)
  count = len(shards)
  names = (
      [SINGLE]
      if count == 1
      else [
          f'model-{i:05d}-of-{count:05d}.safetensors'
          for i in range(1, count + 1)
      ]
  )
  with concurrent.futures.ThreadPoolExecutor(threads) as pool:
    jobs = [
        pool.submit(_write_shard, directory / name, shard)
        for name, shard in zip(names, shards, strict=True)
    ]
  for job in jobs:
    job.result()
  if count > 1:
    index = {
        'metadata': {'total_size': total_bytes(entries)},
        'weight_map': {
            entry.name: name
            for name, shard in zip(names, shards, strict=True)
            for entry in shard
        },
    }
    path = directory / INDEX
    path.write_text(json.dumps(index, indent=2) + '\n', encoding='utf-8')


def _split(entries: Sequence[Entry], most: int) -> list[list[Entry]]:
  shards: list[list[Entry]] = [[]]
  size = 0
  for entry in entries:
    if shards[-1] and size + entry.num_bytes > most:
      shards.append([])
      size = 0
    shards[-1].append(entry)
    size += entry.num_bytes
  return shards


def _write_shard(path: pathlib.Path, entries: Sequence[Entry]) -> None:
  # Unbuffered: what is written is large and already one piece.
  with (
      path.open('wb', buffering=0) as file,
      concurrent.futures.ThreadPoolExecutor(1) as ahead,
  ):
    file.write(_header(entries))
    coming = ahead.submit(entries[0].fetch)
    for i, entry in enumerate(entries):
      array = coming.result()
      if i + 1 < len(entries):
        coming = ahead.submit(entries[i + 1].fetch)  # during the write
      assert array.nbytes == entry.num_bytes
      _write_all(file, array)


def _write_all(file, array: np.ndarray) -> None:
  """Writes all bytes; one call may take only some (Linux: 2 GiB)."""
  view = array.reshape(-1).view(np.uint8).data
  while len(view):
    view = view[file.write(view) :]


def _header(entries: Sequence[Entry]) -> bytes:
  """The start of a safetensors file: the length of a JSON object, then it."""
  fields: dict[str, Any] = {'__metadata__': {'format': 'pt'}}
  end = 0
  for entry in entries:
    begin, end = end, end + entry.num_bytes
    fields[entry.name] = {
        'dtype': DTYPES[entry.dtype.name],
        'shape': list(entry.shape),
        'data_offsets': [begin, end],
    }
  text = json.dumps(fields).encode()
  text += b' ' * (-len(text) % _ALIGNMENT)
  return len(text).to_bytes(8, 'little') + text
