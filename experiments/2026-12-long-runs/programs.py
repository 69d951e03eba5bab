r"""What compiled programs hold: memory, mappings, and what gives them back.

    python -m experiments.2026-12-long-runs.programs
    python -m experiments.2026-12-long-runs.programs --model=smollm2-135m --shapes=2

Compiles the engine's program of decoding for several shapes, without JAX's folder of
compiled programs, and runs none. Prints a Markdown table: after each program, the memory
that malloc has given out (`live`) and keeps to give out again (`free`), the resident
memory and the mappings of the process; then the same once JAX's caches of traces and of
programs before compilation are cleared, once the programs are gone, and once malloc was
told to return what is free. Linux with glibc alone.
"""

import ctypes
import gc
import os
import pathlib
import re
import tempfile
import time
from typing import NamedTuple

import jax
import jax.numpy as jnp
import psutil
from absl import app, flags

from agentrl.engine import model_runner
from agentrl.models import variants
from agentrl.models.transformer import Transformer

_MODEL = flags.DEFINE_enum(
    'model', 'tiny-1m', list(variants.VARIANTS), 'Whose engine.'
)
_SHAPES = flags.DEFINE_integer(
    'shapes', 8, 'Programs.', lower_bound=1, upper_bound=10
)
_LENGTH = 1024  # positions of a slot
_ROWS = [
    (rows, length) for length in (128, 256, 512) for rows in (1, 4, 16)
] + [(32, 512)]
_MIB = 2**20


class Heap(NamedTuple):
  """MiB of malloc's arenas: given out, and kept to be given out again."""

  live: float
  free: float


def heap() -> Heap:
  """The sum of all arenas, by glibc's malloc_info."""
  libc = ctypes.CDLL('libc.so.6')
  libc.fopen.restype = ctypes.c_void_p
  libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
  libc.fclose.argtypes = [ctypes.c_void_p]
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / 'info.xml'
    file = libc.fopen(os.fsencode(path), b'w')
    libc.malloc_info(0, file)
    libc.fclose(file)
    text = path.read_text()
  total = text[text.rindex('</heap>') :]

  def size(kind: str) -> int:
    [found] = re.findall(rf'<{kind} size="(\d+)"', total)
    return int(found)

  free = size('total type="fast" count="[0-9]+"') + size(
      'total type="rest" count="[0-9]+"'
  )
  return Heap((size('system type="current"') - free) / _MIB, free / _MIB)


def trim() -> None:
  """Has malloc return to the system what is free."""
  ctypes.CDLL('libc.so.6').malloc_trim(0)


def show(what: str, seconds: float | None = None) -> None:
  """Prints a row of the table."""
  gc.collect()
  found = heap()
  resident = psutil.Process().memory_info().rss / _MIB
  maps = pathlib.Path('/proc/self/maps').read_bytes().count(b'\n')
  took = '' if seconds is None else f'{seconds:.0f}'
  print(
      f'| {what} | {took} | {found.live:.1f} | {found.free:.1f} |'
      f' {resident:.0f} | {maps:,} |',
      flush=True,
  )


def runner() -> model_runner.ModelRunner:
  """An engine's runner whose parameters are zeros."""
  module = Transformer(variants.VARIANTS[_MODEL.value], scan_layers=False)
  ids = jnp.zeros((1, 4), jnp.int32)
  shapes = jax.eval_shape(module.init, jax.random.key(0), ids, ids, ids)
  params = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes['params'])
  return model_runner.ModelRunner(
      module, params, slots=16, max_len=_LENGTH, max_rows=64
  )


def main(argv):
  del argv
  jax.config.update('jax_enable_compilation_cache', False)
  engine = runner()
  print('| after | s | live, MiB | free, MiB | resident, MiB | mappings |')
  print('| --- | --- | --- | --- | --- | --- |')
  show('start')
  programs, decode, kind = [], model_runner.DECODE, (False, False, False)
  for shape in _ROWS[: _SHAPES.value]:
    start = time.perf_counter()
    inputs = engine._nothing(decode, kind, shape)
    programs.append(engine._lowering(decode, shape, *inputs)().compile())
    show(f'decode, rows and length {shape}', time.perf_counter() - start)
  trim()
  show('malloc_trim')
  jax.clear_caches()
  show("JAX's caches cleared")
  programs.clear()
  show('programs dropped')
  trim()
  show('malloc_trim')


if __name__ == '__main__':
  app.run(main)
