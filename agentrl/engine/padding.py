"""Arrays of a dispatch, padded to the shape of its program; on the host.

Padding rows name `unused`, the slot after the last, and have nothing to do.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from agentrl.engine import decode, logit_processors, sampling

STOP_IDS = 8  # stop ids of a row that end it on the device; see `decode`


def chunk(
    pieces: Sequence[tuple[int, int, Sequence[int]]],
    size: int,
    rows: int,
    *,
    unused: int,
) -> decode.Chunk[np.ndarray]:
  """The arrays of a prefill: `(slot, start, at most size tokens)` each."""
  slots = np.full(rows, unused, np.int32)
  tokens = np.zeros((rows, size), np.int32)
  starts = np.zeros(rows, np.int32)
  counts = np.zeros(rows, np.int32)
  for i, (slot, start, ids) in enumerate(pieces):
    slots[i], starts[i], counts[i] = slot, start, len(ids)
    tokens[i, : len(ids)] = ids
  return decode.Chunk(slots, tokens, starts, counts)


def copies(
    pairs: Sequence[tuple[int, int, int]], rows: int, *, unused: int
) -> tuple[np.ndarray, np.ndarray]:
  """Sources and targets of `(source, target, n)`."""
  sources = np.zeros(rows, np.int32)
  targets = np.full(rows, unused, np.int32)
  for i, (source, target, _) in enumerate(pairs):
    sources[i], targets[i] = source, target
  return sources, targets


def decode_rows(
    rows: Sequence[dict[str, Any]],
    batch: int,
    vocab: int,
    *,
    adjusted: bool,
    unused: int,
) -> decode.Rows[np.ndarray]:
  """The arrays of a decode.

  Args:
    rows: as `ModelRunner.decode` has them.
    batch: rows with the padding.
    vocab: size of the vocabulary.
    adjusted: whether logits are adjusted.
    unused: the slot of padding rows.
  """
  column = lambda name, kind, rest: np.array(
      [row[name] for row in rows] + [rest] * (batch - len(rows)), kind
  )
  stop_ids = np.full((batch, STOP_IDS), -1, np.int32)
  for i, row in enumerate(rows):
    first = row['stop_ids'][:STOP_IDS]
    stop_ids[i, : len(first)] = first
  settings = sampling.Settings(
      temperature=column('temperature', np.float32, 1.0),
      top_p=column('top_p', np.float32, 1.0),
      top_k=np.minimum(column('top_k', np.int64, vocab), vocab).astype(
          np.int32
      ),
      min_p=column('min_p', np.float32, 0.0),
  )
  positions = column('position', np.int32, 0)
  wanted = [row['logit_params'] for row in rows]
  return decode.Rows(
      slots=column('slot', np.int32, unused),
      tokens=column('token', np.int32, 0),
      positions=positions,
      budgets=column('budget', np.int32, 0),
      uniforms=sampling.uniforms(
          column('seed', np.uint64, 0),
          positions[:, None] + np.arange(1, decode.MAX_STEPS + 1),
      ),
      stop_ids=stop_ids,
      settings=settings,
      logit_arrays=logit_processors.make_arrays(wanted, batch, vocab)
      if adjusted
      else None,
  )
