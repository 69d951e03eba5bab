"""mode='doctor': what this machine lacks for a config, and the remedy."""

import pathlib
import sys

import rich.console
import rich.table
from ml_collections import ConfigDict

from agentrl import config as config_lib
from agentrl.config import commandline, reading as reading_lib
from agentrl.config.modes import Doctor
from agentrl.errors import AgentrlError, ConfigError
from agentrl.modes import preflight, reading
from agentrl.planning import doctor
from agentrl.planning.finding import FAULT, OK, WARNING, Examined, Finding

_COLOURS = {OK: 'green', WARNING: 'yellow', FAULT: 'red'}


def run(config: ConfigDict, workdir: str | None) -> None:
  """Prints findings; exits with 1 if there is a fault. Writes nothing.

  Args:
    config: names the one that is to run here.
    workdir: where that would run; None: below this folder.

  Raises:
    AgentrlError: something that the user can mend.
  """
  options = reading.read(config).doctor
  place = pathlib.Path(workdir or '.').absolute()
  findings = examine(options.config, options.flags, place)
  show(rich.console.Console(), findings)
  if any(finding.level == FAULT for finding in findings):
    sys.exit(1)


def examine(
    named: str, flags: tuple[str, ...], workdir: pathlib.Path
) -> list[Finding]:
  """Findings about a config; one alone where the config itself is refused."""
  try:
    chosen = commandline.load(named.replace(';', ','))
    words = ['launch', *(f'--config.{flag}' for flag in flags)]
    commandline.override(chosen, words)
    if chosen.mode == Doctor.mode:
      raise ConfigError(f'{named} is of mode={chosen.mode!r} itself.')
    config = reading.read(chosen)
    values = config_lib.flat(
        config_lib.record(config),
        reading_lib.leaves_of(config_lib.record(config)),
    )
  except AgentrlError as error:
    return [Finding(FAULT, 'config', str(error), 'Mend the config first.')]
  try:
    environments = preflight.environments(chosen, config)
  except AgentrlError:  # which `preflight.check` says below
    environments = []
  examined = Examined(config, values, workdir, environments)
  findings = [
      Finding(OK, 'config', f'{named}: mode={chosen.mode!r}'),
      *doctor.examine(examined),
  ]
  try:
    preflight.check(chosen, config, str(workdir), machine=False)
  except AgentrlError as error:
    if not any(str(error) in finding.words for finding in findings):
      remedy = 'Mend the config: its run would be refused.'
      findings.insert(1, Finding(FAULT, 'config', str(error), remedy))
  return findings


def show(console: rich.console.Console, findings: list[Finding]) -> None:
  """Prints a line a finding, and its remedy below."""
  for finding in findings:
    console.print(
        f'[{_COLOURS[finding.level]}]{finding.level:8}[/]{finding.subject:13}',
        end='',
        highlight=False,
    )
    console.print(finding.words, markup=False, highlight=False, soft_wrap=True)
    if finding.remedy:
      remedy = f'{"":21}-> {finding.remedy}'
      console.print(remedy, markup=False, highlight=False, soft_wrap=True)
  counts = {level: 0 for level in _COLOURS}
  for finding in findings:
    counts[finding.level] += 1
  console.print(
      f'{counts[FAULT]} faults, {counts[WARNING]} warnings, {counts[OK]} ok',
      highlight=False,
  )
