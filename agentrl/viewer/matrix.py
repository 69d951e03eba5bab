"""Routes of the matrix: all pairs of several policies or groups of runs."""

import asyncio
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from agentrl.evaluation.compare import matrix as matrix_lib
from agentrl.evaluation.compare.matrix import Matrix
from agentrl.evaluation.studies import chance, columns as columns_lib
from agentrl.evaluation.studies.columns import Column, LeftOut
from agentrl.viewer import arms, chosen, recordings
from agentrl.viewer.state import STATE, reply

_MOST = 24  # 276 pairs, each with a test
_SEED = 0  # of the tests' draws; mode 'compare' has it by default


def routes() -> list[web.RouteDef]:
  """The routes of this module."""

  @functools.lru_cache(16)
  def kept(
      root: pathlib.Path, columns: tuple[Column, ...], stamps: tuple[Any, ...]
  ) -> tuple[list[Matrix], list[LeftOut]]:
    del stamps  # others where the files of an evaluation have changed
    sides, left_out = columns_lib.read(root, columns, recordings.load)
    return matrix_lib.compare(sides, seed=_SEED), left_out

  def compute(
      root: pathlib.Path, columns: Sequence[Column]
  ) -> tuple[list[Matrix], list[LeftOut]]:
    stamps = [recordings.stamp(root, x) for each in columns for x in each.specs]
    return kept(root, tuple(columns), tuple(stamps))

  async def matrix(request: web.Request) -> web.Response:
    """GET /api/matrix: a matrix for each environment; columns as `chosen` says."""
    state = request.app[STATE]
    root = state.root
    columns = await chosen.columns(request, _MOST)
    matrices, left_out = await asyncio.to_thread(compute, root, columns)
    names = await state.runs()
    levels = await asyncio.to_thread(_levels, root, columns, names)
    return reply({
        'matrices': matrices,
        'levels': levels,
        'left_out': [each._asdict() for each in left_out],
        'specs': {column.label: column.specs for column in columns},
    })

  async def table(request: web.Request) -> web.Response:
    """GET /api/matrix.csv: a line for each pair, the better one first."""
    root = request.app[STATE].root
    columns = await chosen.columns(request, _MOST)
    matrices, _ = await asyncio.to_thread(compute, root, columns)
    return arms.as_csv(
        [row for each in matrices for row in matrix_lib.frame(each)]
    )

  return [
      web.get('/api/matrix', matrix),
      web.get('/api/matrix.csv', table),
  ]


def _levels(
    root: pathlib.Path, columns: Sequence[Column], names: Sequence[str]
) -> dict[str, dict[str, dict[str, float | None]]]:
  """Success of random actions and the expert on a column's tasks.

  By label of the column, environment and kind.
  """
  references = chance.references(root, names, recordings.load)
  if not references:
    return {}
  sides, _ = columns_lib.read(root, columns, recordings.load)
  return {
      side.label: {
          env: {kind: each.mean for kind, each in found.items()}
          for env, found in chance.levels(side, references).items()
      }
      for side in sides
  }
