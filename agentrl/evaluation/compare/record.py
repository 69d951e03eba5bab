"""The record of a comparison: `comparison.json` in its workdir."""

import itertools
import pathlib
from collections.abc import Sequence

import msgspec

from agentrl import files
from agentrl.errors import DataError
from agentrl.evaluation.compare import matrix, pairing, recorded, sides
from agentrl.evaluation.compare.matrix import Standing
from agentrl.evaluation.compare.pairing import EpisodeOutcomes, PairedRow
from agentrl.evaluation.compare.recorded import Recorded
from agentrl.evaluation.compare.sides import Setting, Side, Unpaired
from agentrl.evaluation.results import Panel, PolicyRecord
from agentrl.evaluation.stats import seed_rows
from agentrl.evaluation.stats.seed_rows import SeedRow

FILE = 'comparison.json'
_FORMAT = 1


class ComparedPolicy(msgspec.Struct, frozen=True, kw_only=True):
  """A policy and the label of its side; runs of one algorithm share one."""

  label: str
  evaluation: str
  policy: PolicyRecord


class ComparedPanel(msgspec.Struct, frozen=True, kw_only=True):
  """A panel that both sides of some pair played."""

  env: str
  tasks: int
  samples: int
  success: str
  hash: str


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
  """An environment that only one side of a pair was evaluated on."""

  env: str
  a: str
  b: str
  only: str


class Compared(msgspec.Struct, frozen=True, kw_only=True):
  """A comparison of policies, or of two algorithms by their runs.

  Attributes:
    policies: who was compared.
    panels: on what.
    rows: differences with intervals over tasks.
    seed_rows: with intervals over training seeds; none between policies.
    outcomes: episode ids by who succeeded; none between algorithms.
    settings: in which sides differ.
    skipped: environments that were left out.
    unpaired: tasks that were left out, since only one side of a pair has them.
    standings: success of each side on all that it has played.
    format: of the file.
  """

  policies: tuple[ComparedPolicy, ...]
  panels: tuple[ComparedPanel, ...]
  rows: tuple[PairedRow, ...]
  seed_rows: tuple[SeedRow, ...]
  outcomes: tuple[EpisodeOutcomes, ...]
  settings: tuple[Setting, ...]
  skipped: tuple[Skipped, ...]
  unpaired: tuple[Unpaired, ...] = ()
  standings: tuple[Standing, ...] = ()
  format: int = _FORMAT


def compare_policies(policies: Sequence[Recorded], *, seed: int) -> Compared:
  """Compares each policy with each later one, on the panels of both.

  Args:
    policies: at least two.
    seed: of the permutation tests' draws.

  Raises:
    PanelError: two have no panel in common.
  """
  names = recorded.labels(policies)
  compared = [
      Side(name, [policy]) for name, policy in zip(names, policies, strict=True)
  ]
  return _compare(list(itertools.combinations(compared, 2)), seed)


def compare_algorithms(
    a: Sequence[Recorded], b: Sequence[Recorded], *, seed: int
) -> Compared:
  """Compares two algorithms, each by runs with different training seeds.

  Args:
    a: runs of the first, at least two.
    b: runs of the second.
    seed: of the permutation tests' and the bootstrap's draws.

  Raises:
    PanelError: they have no panel in common, or a run has no valid episode.
  """
  return _compare([(Side('a', a), Side('b', b))], seed)


def write(directory: pathlib.Path, name: str, data: bytes) -> pathlib.Path:
  """Writes a file whole, or not at all; returns its path.

  Raises:
    DataError: it cannot be written.
  """
  path = directory / name
  try:
    files.write_whole(path, data)
  except OSError as error:
    raise DataError(f'Cannot write {path}: {error}') from error
  return path


def to_json(document: msgspec.Struct) -> bytes:
  """The bytes of a JSON file."""
  return msgspec.json.format(msgspec.json.encode(document), indent=2) + b'\n'


def _compare(pairs: Sequence[tuple[Side, Side]], seed: int) -> Compared:
  rows: list[PairedRow] = []
  over_seeds, outcomes, settings, skipped = [], [], [], []
  panels: dict[tuple[str, str], Panel] = {}
  left_out: list[Unpaired] = []
  # All panels are checked before the first test is drawn.
  common = [sides.common_panels(a, b) for a, b in pairs]
  for (whole_a, whole_b), (shared, alone) in zip(pairs, common, strict=True):
    panels |= {(env, panel.hash): panel for env, panel in shared.items()}
    left_out += sides.unpaired(whole_a, whole_b, shared)
    a, b = (sides.paired(side, shared) for side in (whole_a, whole_b))
    rows += pairing.compare_sides(a, b, shared, seed=seed)
    if min(len(a.runs), len(b.runs)) > 1:
      over_seeds += seed_rows.compare_algorithms(a, b, list(shared), seed=seed)
    else:
      outcomes += [pairing.episode_outcomes(a, b, env) for env in shared]
    settings += sides.differing_settings(a, b, shared)
    skipped += [
        Skipped(env=env, a=a.label, b=b.label, only=only)
        for env, only in alone.items()
    ]
  compared = {side.label: side for pair in pairs for side in pair}
  return Compared(
      policies=tuple(
          ComparedPolicy(
              label=side.label, evaluation=str(run.directory), policy=run.policy
          )
          for side in compared.values()
          for run in side.runs
      ),
      panels=tuple(
          ComparedPanel(
              env=panel.env,
              tasks=len(panel.task_ids),
              samples=panel.samples,
              success=panel.success,
              hash=panel.hash,
          )
          for panel in panels.values()
      ),
      rows=tuple(pairing.adjusted(rows)),
      seed_rows=tuple(over_seeds),
      outcomes=tuple(outcomes),
      settings=tuple(settings),
      skipped=tuple(skipped),
      unpaired=tuple(left_out),
      standings=tuple(
          each
          for side in compared.values()
          for each in matrix.standings(side)
          if each.env in {env for env, _ in panels}
      ),
  )
