"""Checks that a server computes with the weights that were pushed.

Rows of some tensors are read back and compared. A server whose model class
reads no weights by name is asked for checksums: they cannot be computed here,
but must change where the weights did.
"""

import dataclasses
import hashlib
import pathlib
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from agentrl.errors import EngineError, EngineRefusal
from agentrl.inference.control import ControlClient
from agentrl.models.config import ATTENTION, TransformerConfig
from agentrl.weights import names, shards

_CHECKED_ROWS = 4
# Numbers that are not trained: a server has them as a buffer, or has none.
_CONSTANT = 'layer_scalar'


@dataclasses.dataclass(frozen=True)
class Evidence:
  """Answers expected from a server that has loaded a model.

  Attributes:
    number: of the version, or another name for it.
    rows: first rows of some tensors, as the files have them.
    digests: of other tensors, rounded as coarsely as any server does.
    skip: parts of names; tensors that have one need no checksum.
  """

  number: int | str
  rows: dict[str, np.ndarray]
  digests: dict[str, str]
  skip: Sequence[str]


def make_evidence(
    number: int | str,
    entries: Sequence[shards.Entry],
    config: TransformerConfig,
) -> Evidence:
  """Evidence of a model's files, as the version of this number."""
  attends = [i for i, kind in enumerate(config.mixers) if kind == ATTENTION]
  last = attends[-1]
  others = [i for i in range(config.num_layers) if i != last]
  output = next(
      tensor
      for tensor in names.table(config)
      if tensor.path_in_layer == ('attention', 'o', 'kernel')
  )
  return Evidence(
      number,
      _first_rows(entries, config),
      _digests(entries, output.hf.format(i=last)),
      [*(f'layers.{i}.' for i in others), 'embed_tokens', 'lm_head'],
  )


class Verifier:
  """Checks servers after each push, and remembers their checksums."""

  def __init__(self, folder: pathlib.Path):
    """Remembers nothing yet.

    Args:
      folder: where versions are written, for messages.
    """
    self._folder = folder
    # Evidence and checksums of the last version that was checked, by URL.
    self._last: dict[str, tuple[Evidence, dict[str, list[str]]]] = {}

  async def check(self, server: ControlClient, evidence: Evidence) -> None:
    """Raises EngineError unless a server has the version of this evidence."""
    [url] = server.urls
    version = (await server.model_info()).get('weight_version')
    if str(version) != str(evidence.number):
      raise EngineRefusal(
          f'{url} says it has weights {version!r} after the push of'
          f' {evidence.number}.'
      )
    try:
      if not await self._has_rows(server, evidence):
        await self._check_by_checksum(server, evidence)
    except EngineError as error:
      raise EngineError(
          f'{error} sampler.verify=False leaves this check out.',
          retryable=error.retryable,
      ) from error

  async def _has_rows(self, server: ControlClient, evidence: Evidence) -> bool:
    """Compares rows; False if the server cannot read any.

    Raises:
      EngineError: it has others.
    """
    [url] = server.urls
    for name, expected in evidence.rows.items():
      values = await server.get_weights_by_name(
          name, truncate_size=_CHECKED_ROWS
      )
      if values is None:
        return False
      if not _same(np.asarray(values, np.float32), expected):
        raise EngineRefusal(
            f'{url} gives other weights back for {name!r} than were pushed as'
            f' version {evidence.number}: {np.ravel(values)[:4].tolist()} for'
            f' {np.ravel(expected)[:4].tolist()}. Do trainer and server see the'
            f' same folder {self._folder}?'
        )
    return True

  async def _check_by_checksum(
      self, server: ControlClient, evidence: Evidence
  ) -> None:
    """Tensors that changed between two pushes must have changed there too.

    Raises:
      EngineError: one did not.
    """
    [url] = server.urls
    checksums = await server.weight_checksums(evidence.skip)
    last, last_checksums = self._last.get(url, (evidence, checksums))
    for name, digest in evidence.digests.items():
      # SGLang's layers of Qwen3.5 have the projections of attention themselves.
      theirs = name
      if name not in checksums:
        theirs = name.replace('.self_attn.', '.')
      if theirs not in checksums:
        raise EngineRefusal(
            f'{url} has no checksum of {name!r}; it has {sorted(checksums)}.'
        )
      changed = digest != last.digests[name]
      if changed and checksums[theirs] == last_checksums[theirs]:
        raise EngineRefusal(
            f'{url} has the same {name!r} after the push of version'
            f' {evidence.number} as with version {last.number}, and they'
            ' differ. Do trainer and server see the same folder'
            f' {self._folder}?'
        )
    self._last[url] = evidence, checksums


def _first_rows(
    entries: Sequence[shards.Entry], config: TransformerConfig
) -> dict[str, np.ndarray]:
  """First rows of the smallest vector and the smallest matrix of the last layer.

  Small ones, because SGLang makes a list of all of a tensor before it cuts it.
  It keeps queries, keys and values in one, and finds them there again only where
  the heads make up the width.
  """
  skipped = [_CONSTANT]
  sizes = {layer.head_dim for layer in config.layers if layer.head_dim}
  if any(config.num_heads * size != config.hidden_size for size in sizes):
    skipped += ['q_proj', 'k_proj', 'v_proj']
  rows = {}
  for rank in (1, 2):
    some = [
        entry
        for entry in entries
        if len(entry.shape) == rank
        and not any(part in entry.name for part in skipped)
    ]
    smallest = min(entry.num_bytes for entry in some)
    entry = [entry for entry in some if entry.num_bytes == smallest][-1]
    rows[entry.name] = entry.fetch()[:_CHECKED_ROWS]
  return rows


def _digests(entries: Sequence[shards.Entry], suffix: str) -> dict[str, str]:
  """Hashes of the tensors so named, which no server fuses with others."""
  return {
      entry.name: (
          hashlib.sha256(
              entry.fetch().astype(ml_dtypes.bfloat16).tobytes()
          ).hexdigest()
      )
      for entry in entries
      if entry.name.endswith(suffix)
  }


def _same(values: np.ndarray, expected: np.ndarray) -> bool:
  """True if equal to the bit, in whichever type the server keeps them."""
  for dtype in (expected.dtype, ml_dtypes.bfloat16, np.float16):
    rounded = expected.astype(dtype).astype(np.float32)
    if np.array_equal(values, rounded):
      return True
  return False
