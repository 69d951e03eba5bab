"""Sections of mode 'study'."""

import dataclasses

from agentrl.errors import ConfigError
from agentrl.fields import field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Studied:
  """Runs and evaluations of a study, and how they are laid out."""

  folder: str = field(
      '', 'folder of runs and evaluations, at any depth', example='runs'
  )
  group: tuple[str, ...] = field(
      (),
      'fields in which the runs of a group are equal; empty: all but the seed',
      example=('horizon.kind', 'algo.name'),
  )
  seed: int = field(0, 'seed of permutation tests and bootstraps')
  parquet: bool = field(
      False, 'write the tables as Parquet, too: one file a table'
  )

  def check(self) -> None:
    if not self.folder:
      raise ConfigError(
          'Name a folder of runs: --config=configs/study.py:folder=runs'
      )
