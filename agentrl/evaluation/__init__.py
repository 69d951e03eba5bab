"""Evaluations: what policies reach on panels, compared and laid open.

from agentrl import evaluation

found = evaluation.study('runs')
pandas.DataFrame(found.groups)  # or any other table of dictionaries
"""

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from agentrl.evaluation.studies.study import Study


def study(
    folder: str | pathlib.Path, *, group: Sequence[str] = (), seed: int = 0
) -> 'Study':
  """The runs and evaluations below a folder as plain rows; see `studies.study`.

  Args:
    folder: of runs and evaluations, at any depth.
    group: dotted fields of configs in which the runs of a group are equal, such
      as 'horizon.kind'; without, all but the seed.
    seed: of bootstraps and permutation tests.

  Raises:
    DataError: there is no such folder, or no run has one of the fields.
  """
  # Imported late: those who read episodes alone need no SciPy.
  from agentrl.evaluation.studies import study as study_lib

  return study_lib.read(folder, group=group, seed=seed)
