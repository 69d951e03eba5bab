"""mode='evaluate': success of policies on fixed lists of held-out tasks.

`evaluation.json` has every figure, see `evaluation.results`, and `curves.json` what
less time at the test would have given, see `evaluation.curves`. `summary.json` has
`eval: {SPLIT: summary}`, with several policies or environments
`eval: {POLICY: {ENV: {SPLIT: summary}}}`.
"""

import contextlib
import functools
import gc
import os
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import rich.console
from ml_collections import ConfigDict

from agentrl import config as config_lib
from agentrl.config import evaluation, resume
from agentrl.config.evaluation import Evaluated
from agentrl.config.modes import Evaluate
from agentrl.evaluation import report, results, rows as rows_lib
from agentrl.evaluation.chance import level as level_lib, store
from agentrl.evaluation.chance.level import Level
from agentrl.evaluation.curves import (
    curves as curves_lib,
    figure as curves_figure,
    report as curves_report,
)
from agentrl.evaluation.curves.curves import Curves, Point
from agentrl.evaluation.evaluate import summarise
from agentrl.evaluation.journal import Journal
from agentrl.evaluation.play import Player
from agentrl.evaluation.results import Panel, PolicyRecord, Results, Row
from agentrl.modes import chance, told as told_lib
from agentrl.modes.evaluation import policies
from agentrl.modes.evaluation.environments import Environments
from agentrl.modes.evaluation.opening import Opening, OpenPolicy
from agentrl.parallel import compile_cache, ranks
from agentrl.rollout.collect import Play
from agentrl.rollout.environment import Environment
from agentrl.runtime import lock, starts, summary, workdir as workdir_lib
from agentrl.runtime.event_loop import EventLoop, Interrupted
from agentrl.types import Episode, Group

_GO_ON = 'The same command plays the episodes that are missing.'


def run(config: ConfigDict, workdir: str | None) -> None:
  """Evaluates the policies of `config`; the same command continues.

  Raises:
    AgentrlError: something that the user can mend.
  """
  evaluated, told = told_lib.read(
      config, pathlib.Path(workdir) if workdir else None
  )
  whole = evaluation.whole(config, evaluated)
  if whole.eval.curves:
    curves_figure.check_drawing()
  compile_cache.use(whole.compile_cache)
  ranks.join(os.environ, whole.mode, ready=False)
  directory = workdir_lib.make(workdir)
  console = rich.console.Console()
  began = time.monotonic()
  played = []
  try:
    with contextlib.ExitStack() as stack:
      stack.enter_context(lock.hold(directory))
      date = resume.date(whole, directory)
      whole = resume.with_date(whole, date)
      evaluated = tuple(
          item._replace(
              configs=tuple(resume.with_date(x, date) for x in item.configs)
          )
          for item in evaluated
      )
      record = config_lib.record(whole)
      resume.check(record, directory)
      loop = stack.enter_context(EventLoop())
      # All that can be refused is refused before weights are loaded.
      environments = Environments(loop, stack, evaluated)
      panels = environments.panels()
      told_lib.keep(told, directory)
      resume.keep(record, directory)
      starts.note(directory)
      summary.withdraw(directory)
      stack.push(functools.partial(_leave, directory, record, began))
      for item in evaluated:
        player = Player(loop, console, item.configs[0].rollout)
        played.append(_play(item, environments, panels, player, directory))
        gc.collect()  # its weights, before the next ones are loaded
      levels = _levels(environments, evaluated, panels)
      if levels:
        store.write_levels(directory, levels)
      summaries = {x: level_lib.summarise(y) for x, y in levels.items()}
      all_results = _write(
          directory, record, panels, played, began, chance=summaries
      )
      if whole.eval.curves:
        _write_curves(directory, all_results, played)
  except Interrupted:
    print(f'Stopped. {_GO_ON}')
    sys.exit(130)
  report.show(console, all_results)
  for member in dict.fromkeys(x.partition('/')[2] for x in summaries):
    words = level_lib.beside(summaries, member)
    of = f' of {member}' if member else ''
    console.print(f'On the same tasks{of}: {words}', highlight=False)
  files = [summary.FILE, *(['curves.md'] if whole.eval.curves else [])]
  for name in files:
    console.print(f'See {directory / name}', highlight=False, soft_wrap=True)


def _leave(
    directory: pathlib.Path,
    config: dict[str, Any],
    began: float,
    kind: Any,
    error: BaseException | None,
    trace: Any,
) -> None:
  """Writes the summary of an evaluation that something ends early."""
  if error is None:
    return
  episodes = 0
  for path in (directory / 'episodes' / 'eval').glob('**/*.jsonl'):
    episodes += path.read_bytes().count(b'\n')  # a torn line has none
  values = {
      'mode': config['mode'],
      'steps': 0,
      'wall_s': time.monotonic() - began,
      'episodes': episodes,
      'model': config['model']['name'],
      'eval': {},
  }
  summary.leave(directory, error, values, go_on=_GO_ON)


class _Played(NamedTuple):
  """A policy after its episodes.

  Attributes:
    record: of the policy.
    rows: of each panel.
    summaries: of each panel, see `evaluate.summarise`.
    points: of its curves; none unless they are wanted.
    tokens: of all transcripts.
  """

  record: PolicyRecord
  rows: list[list[Row]]
  summaries: list[dict[str, Any]]
  points: list[Point]
  tokens: int


def _play(
    item: Evaluated,
    environments: Environments,
    panels: Sequence[Panel],
    player: Player,
    directory: pathlib.Path,
) -> _Played:
  """Plays what is missing of all panels; opens the policy only for that."""
  rows, summaries, tokens = [], [], 0
  points: list[Point] = []
  with contextlib.ExitStack() as stack:
    opening = Opening(item, stack, player.loop, directory)
    opened = functools.cache(lambda: policies.open_policy(opening))
    for config, panel in zip(item.configs, panels, strict=True):
      environment, limits = environments.of(config), config.rollout
      groups = player.play(
          panel,
          functools.partial(_make_play, opened, environment, config),
          Journal(
              results.episodes_path(directory, item.name, panel.env),
              tokens=limits.save_tokens,
              views=limits.save_views,
          ),
          title=f'{item.name} on {panel.env}',
      )
      rows.append(
          rows_lib.of_panel(item.name, panel, groups, price=_price(item))
      )
      summaries.append(summarise(rows[-1]))
      if config.eval.curves:
        points += curves_lib.of_panel(item.name, panel, groups)
      tokens += _tokens(groups)
    record = policies.record_of(opening, opened)
    return _Played(record, rows, summaries, points, tokens)


def _levels(
    environments: Environments,
    evaluated: Sequence[Evaluated],
    panels: Sequence[Panel],
) -> dict[str, Level]:
  """Random actions and the expert, as far as a run on this machine has them.

  Without those that are evaluated here.
  """
  kinds = {item.kind for item in evaluated}
  levels = {}
  for config, panel in zip(evaluated[0].configs, panels, strict=True):
    member = panel.env if len(panels) > 1 else ''
    spec = environments.of(config).spec
    for kind, level in chance.cached(panel, config, spec).items():
      if kind not in kinds:
        levels[level_lib.entry_of(kind, member)] = level
  return levels


def _price(item: Evaluated) -> Callable[[Sequence[Episode]], float | None]:
  """The cost of episodes; None: no price, or some tokens were not counted."""
  cost = item.configs[0].api.cost

  def price(episodes: Sequence[Episode]) -> float | None:
    costs = [
        cost(turn.prompt_tokens, turn.cached_tokens, turn.completion_tokens)
        for episode in episodes
        for turn in episode.turns
    ]
    amounts = [x for x in costs if x is not None]
    return sum(amounts) if amounts and len(amounts) == len(costs) else None

  return price


def _make_play(
    opened: Callable[[], OpenPolicy],
    environment: Environment,
    config: Evaluate,
) -> Play:
  return opened().make_play(environment, config)


def _write(
    directory: pathlib.Path,
    config: dict[str, Any],
    panels: Sequence[Panel],
    played: Sequence[_Played],
    began: float,
    *,
    chance: Mapping[str, Any],
) -> Results:
  """Writes the results in all their forms."""
  all_results = Results(
      config=config,
      policies=tuple(x.record for x in played),
      panels=tuple(panels),
      rows=tuple(
          row
          for of_panel in zip(*(x.rows for x in played), strict=True)
          for of_policy in of_panel
          for row in of_policy
      ),
  )
  values = {
      'mode': config['mode'],
      'steps': 0,
      'wall_s': time.monotonic() - began,
      'tokens': sum(x.tokens for x in played),
      'model': config['model']['name'],
      **_summary(played, panels),
      **({'chance': chance} if chance else {}),
  }
  summary.write(directory, values)
  (directory / 'evaluation.md').write_text(report.markdown(all_results))
  (directory / 'evaluation.csv').write_text(report.as_csv(all_results))
  results.write(directory, all_results)
  return all_results


def _write_curves(
    directory: pathlib.Path, all_results: Results, played: Sequence[_Played]
) -> None:
  """Writes the curves in all their forms."""
  curves = Curves(
      policies=all_results.policies,
      panels=all_results.panels,
      points=tuple(point for x in played for point in x.points),
  )
  curves_lib.write(directory, curves)
  (directory / 'curves.md').write_text(curves_report.markdown(curves))
  curves_figure.draw(curves, directory / 'curves.png')


def _tokens(groups: Sequence[Group]) -> int:
  """Tokens up to the last completion of each episode, also where none are kept."""
  last = [e.turns[-1] for group in groups for e in group.episodes if e.turns]
  # What a server did not count is left out.
  return sum(
      (turn.prompt_tokens or 0) + (turn.completion_tokens or 0) for turn in last
  )


def _summary(
    played: Sequence[_Played], panels: Sequence[Panel]
) -> dict[str, Any]:
  """The version of the weights and the figures, see the module's docstring."""
  if len(played) * len(panels) == 1:
    return {
        'weight_version': played[0].record.weight_version,
        'eval': {panels[0].split: played[0].summaries[0]},
    }
  return {
      'weight_version': {
          x.record.name: x.record.weight_version for x in played
      },
      'eval': {
          x.record.name: {
              panel.env: {panel.split: summary}
              for panel, summary in zip(panels, x.summaries, strict=True)
          }
          for x in played
      },
  }
