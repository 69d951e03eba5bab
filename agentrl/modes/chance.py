"""Random actions and the expert beside a run's evaluations.

They are played once a panel: what was played lies in the user's cache, under the
panel's hash, and runs that share the panel find it there.
"""

import time
from typing import Any

import msgspec

from agentrl import plugins
from agentrl.config.modes import Evaluate, Learning
from agentrl.envs.spec import EnvSpec
from agentrl.errors import AgentrlError
from agentrl.evaluation import report
from agentrl.evaluation.chance import level as level_lib, store
from agentrl.evaluation.chance.level import KINDS, NAMES, Level, Outcome
from agentrl.evaluation.chance.play import Budget, Reference
from agentrl.evaluation.results import Panel
from agentrl.modes.build import Arena, Setup
from agentrl.parallel import ranks

# Of an evaluation's time; and what nobody waits for.
_SHARE, _LEAST_S = 0.1, 3.0


def beside(setup: Setup, arena: Arena, seconds: float) -> None:
  """Plays what is missing of the levels of an arena's panel, while time is left.

  Args:
    setup: of the run.
    arena: whose panel was evaluated.
    seconds: that the evaluation took.
  """
  panel = arena.panel
  if panel is None or not arena.config.plays_chance:
    return
  budget = Budget(max(_SHARE * seconds, _LEAST_S))
  for kind in KINDS:
    entry = level_lib.entry_of(kind, arena.name)
    if entry in setup.record.chance:
      continue
    # Without a model there is nothing that processes could share.
    work = lambda kind=kind: (
        _play(setup, arena, panel, kind, budget) if setup.session.first else []
    )
    began = time.monotonic()
    for level in ranks.gather(work):
      _record(setup, entry, level)
      _say(setup, entry, kind, time.monotonic() - began)


def cached(
    panel: Panel, config: Learning | Evaluate, spec: EnvSpec
) -> dict[str, Level]:
  """The levels of a panel by kind that the user's cache has whole.

  Args:
    panel: that was evaluated.
    config: of the evaluation.
    spec: of its environment.
  """
  folder = store.folder()
  if folder is None or not _is_shared(config, spec):
    return {}
  wanted, levels = level_lib.places(panel), {}
  for kind in KINDS:
    key = _key(kind, panel, config, spec)
    path = store.path_of(folder, panel.hash, key)
    outcomes = store.read(path, key, wanted)
    if len(outcomes) == len(wanted):
      levels[kind] = Level(kind=kind, key=key, panel=panel, outcomes=outcomes)
  return levels


def _play(
    setup: Setup, arena: Arena, panel: Panel, kind: str, budget: Budget
) -> list[Level]:
  """The level of a panel, if it is complete now."""
  session, config = setup.session, arena.config
  spec = arena.environment.spec
  key = _key(kind, panel, config, spec)
  small = arena.small_panel
  parts = small.task_ids if small else ()
  entry = level_lib.entry_of(kind, arena.name)
  before = store.read_levels(session.directory).get(entry)
  if before is not None and before.key == key:
    return [msgspec.structs.replace(before, panel=panel, small=parts)]
  folder = store.folder() if _is_shared(config, spec) else None
  path = store.path_of(folder or session.directory / 'chance', panel.hash, key)
  wanted = level_lib.places(panel)
  outcomes: tuple[Outcome, ...] | None = store.read(path, key, wanted)
  if outcomes is None or len(outcomes) < len(wanted):
    reference = Reference(
        session.loop, arena.environment, config.agent, config.rollout
    )
    keep = lambda found: store.write(path, key, found)
    try:
      outcomes = reference.play(kind, panel, outcomes or (), budget, keep)
    # A format that cannot say an action is no reason to end a run.
    except (AgentrlError, ValueError) as error:
      console = session.console
      console.print(f'{NAMES[kind]}: {error}', highlight=False, soft_wrap=True)
      outcomes = None
  if outcomes is not None and len(outcomes) < len(wanted):
    session.console.print(
        f'{NAMES[kind]}: {len(outcomes)} of {len(wanted)} episodes within a'
        " tenth of the evaluation's time; the next evaluation goes on",
        highlight=False,
        soft_wrap=True,
    )
    return []
  found = tuple(outcomes or ())
  return [Level(kind=kind, key=key, panel=panel, outcomes=found, small=parts)]


def _record(setup: Setup, entry: str, level: Level) -> None:
  """Keeps a level in the summary, and its episodes in the workdir."""
  record = setup.record
  small = level.only(level.small) if level.small else None
  record.add_chance(
      entry,
      level_lib.summarise(level),
      level_lib.summarise(small) if small else None,
  )
  if setup.session.first:
    directory = setup.session.directory
    known = store.read_levels(directory)
    if known.get(entry) != level:
      store.write_levels(directory, known | {entry: level})


def _say(setup: Setup, entry: str, kind: str, seconds: float) -> None:
  """Prints a level as an evaluation, and how long it took this process."""
  summary: dict[str, Any] | None = setup.record.chance[entry]
  name = entry.replace(kind, NAMES[kind], 1)
  line = f'{name}: the environment offers none'
  if summary is not None:
    line = f'{report.describe(name, summary)}, in {seconds:.1f} s'
  setup.session.console.print(line, highlight=False)


def _key(
    kind: str, panel: Panel, config: Learning | Evaluate, spec: EnvSpec
) -> str:
  return level_lib.key_of(
      kind,
      panel,
      format=config.agent.format,
      machine_options=spec.machine_options,
  )


def _is_shared(config: Learning | Evaluate, spec: EnvSpec) -> bool:
  """True if a level is as good for other runs.

  What files, programs and servers of the user's own do may change under one name.
  """
  options = config.env.options
  own = any(
      is_unsafe(options.get(name, spec.options[name]))
      for name, is_unsafe in spec.unsafe_options.items()
  )
  names = (config.env.name, config.agent.format)
  return not (own or config.env.urls or any(map(plugins.is_own, names)))
