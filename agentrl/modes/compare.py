"""mode='compare': which of two policies, or algorithms, is better."""

import pathlib
import time
from collections.abc import Sequence
from typing import Any

import rich.console
from ml_collections import ConfigDict

from agentrl.config.modes import Compare
from agentrl.errors import ConfigError
from agentrl.evaluation.compare import (
    record as compared,
    recorded,
    report as comparison_report,
)
from agentrl.evaluation.compare.record import Compared
from agentrl.evaluation.compare.recorded import Recorded
from agentrl.evaluation.stats import sample_sizes
from agentrl.modes import reading
from agentrl.runtime import summary, workdir as workdir_lib

_SIZES = (
    ('k', lambda size: str(size.samples)),
    ('tasks', lambda size: str(size.tasks)),
    ('episodes of each policy', lambda size: str(size.episodes)),
)


def run(config: ConfigDict, workdir: str | None) -> None:
  """Compares evaluations, or plans the size of one.

  A comparison leaves `comparison.json`, `.md`, `.csv` and a `summary.json` in
  `workdir`, and of more than two policies `comparison_matrix.csv`; a plan is printed, and kept as `plan.json` where a workdir is given.

  Raises:
    AgentrlError: something that the user can mend.
  """
  config, began = reading.read(config), time.monotonic()
  console = rich.console.Console()
  if config.compare.plan:
    _plan(config, workdir, console)
    return
  directory = workdir_lib.make(workdir)
  if (directory / workdir_lib.CONFIG).exists():
    raise ConfigError(
        f'{workdir} holds a run, whose {summary.FILE} a comparison would'
        ' replace by its own: use another --workdir.'
    )
  comparison = _compare(config)
  paths = _write(directory, comparison)
  values = {
      'mode': config.mode,
      'steps': 0,
      'wall_s': time.monotonic() - began,
      'tokens': 0,
      'eval': {},
  }
  summary.write(directory, values)
  comparison_report.show(console, comparison)
  for skipped in comparison.skipped:
    console.print(
        f'Left out: {skipped.env}, which only {skipped.only} has.',
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
  console.print(
      f'See {paths[1]} and {paths[0].name}, which has the episode ids',
      highlight=False,
      markup=False,
      soft_wrap=True,
  )


def _compare(config: Compare) -> Compared:
  chosen = config.compare
  if chosen.unit == 'seed':
    runs = recorded.read((*chosen.a, *chosen.b))
    first = _one_each(runs[: len(chosen.a)], chosen.a)
    second = _one_each(runs[len(chosen.a) :], chosen.b)
    return compared.compare_algorithms(first, second, seed=chosen.seed)
  by_spec = recorded.read((*chosen.a, *chosen.b, *chosen.more))
  policies = [policy for each in by_spec for policy in each]
  if len(policies) < 2:
    raise ConfigError(
        f'{chosen.a[0]} holds one policy, {policies[0].policy.name!r}: name'
        ' another evaluation, b=DIR.'
    )
  return compared.compare_policies(policies, seed=chosen.seed)


def _one_each(
    by_spec: Sequence[Sequence[Recorded]], specs: Sequence[str]
) -> list[Recorded]:
  """The only policy that each spec names."""
  for spec, policies in zip(specs, by_spec, strict=True):
    if len(policies) > 1:
      names = ', '.join(x.policy.name for x in policies)
      raise ConfigError(
          f'{spec} holds several policies, {names}: name one, {spec}:POLICY.'
      )
  return [policies[0] for policies in by_spec]


def _write(directory: pathlib.Path, comparison: Compared) -> list[pathlib.Path]:
  files = {
      compared.FILE: compared.to_json(comparison),
      'comparison.md': comparison_report.to_markdown(comparison).encode(),
      'comparison.csv': comparison_report.to_csv(comparison.rows).encode(),
  }
  if comparison.seed_rows:
    rows = comparison_report.to_csv(comparison.seed_rows)
    files['comparison_seeds.csv'] = rows.encode()
  if matrices := comparison_report.matrices(comparison):
    rows = comparison_report.matrix_csv(matrices)
    files['comparison_matrix.csv'] = rows.encode()
  return [compared.write(directory, name, data) for name, data in files.items()]


def _plan(
    config: Compare, workdir: str | None, console: rich.console.Console
) -> None:
  chosen, wanted = config.compare, config.plan
  parameters = dict(
      rate=wanted.rate, icc=wanted.icc, agreement=wanted.agreement
  )
  options: dict[str, Any] = dict(
      difference=wanted.difference,
      samples=wanted.samples,
      power_wanted=wanted.power,
  )
  if chosen.a:
    specs = (*chosen.a, *chosen.b)
    first, *others = _one_each(recorded.read(specs), specs)
    second = others[0] if others else None
    plans = sample_sizes.plans_of(first, second, parameters, **options)
  else:
    plans = [sample_sizes.plan(parameters, {}, env='', **options)]
  for plan in plans:
    comparison_report.print_table(
        console, plan.sizes, _SIZES, sample_sizes.describe(plan)
    )
  if workdir is not None:
    directory = workdir_lib.make(workdir)
    data = compared.to_json(sample_sizes.SizePlans(plans=tuple(plans)))
    compared.write(directory, 'plan.json', data)
