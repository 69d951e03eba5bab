"""mode='dpo': learning from preferences between episodes of a task.

The pairs come from files, or from episodes that the policy plays first. A run
that was killed continues when the same command is started again.
"""

import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from agentrl.algos import dpo
from agentrl.config import modes
from agentrl.data import episodes as episodes_lib, preference
from agentrl.data.preference import Pair
from agentrl.data.tasks import TaskIterator
from agentrl.errors import DataError
from agentrl.evaluation import report
from agentrl.modes import (
    build,
    demonstrations,
    learning,
    offline,
    session as session_lib,
)
from agentrl.modes.build import Run
from agentrl.modes.session import Session
from agentrl.rollout import (
    collector as collector_lib,
    demonstrations as conversion,
)
from agentrl.serving.start import Serving
from agentrl.training import supervised
from agentrl.types import Episode


def _run(session: Session) -> None:
  config: modes.Dpo = session.config
  setup = build.make_setup(
      session,
      expert=config.plays_expert,
  )
  run, params = build.make_run(
      setup,
      lambda: build.expert_texts(
          session, setup.arena, config.warmstart.horizon
      ),
  )
  # The policy before the first update: a warm start makes version 1 of it.
  version = int(config.warmstart.episodes > 0)
  # The better episode of each pair before the worse one.
  path = session.directory / 'episodes' / 'pairs.jsonl'
  resumed = run.checkpoints.latest is not None
  serving = None
  if not resumed:
    params, serving = _begin(run, params, path, version)
  batch = supervised.as_batch(list(episodes_lib.read(path)))
  learner = offline.make_learner(
      run,
      params,
      len(batch.valid),
      functools.partial(dpo.loss, hyperparams=config.algo),
      rows_per_example=2,
  )
  del params  # the learner has a copy, which its first update donates
  if not config.algo.reference_free:
    batch = offline.with_reference(
        session, batch, learner, path.with_suffix('.npz')
    )
  if resumed:
    learner = offline.at_checkpoint(run, learner)
    if config.eval.num_tasks:
      serving = learning.start_sampling(
          run, learner.state.params, version + learner.start
      )
  else:
    offline.save(run, learner.state, 0, version)
  offline.learn(
      run,
      serving,
      learner,
      batch,
      version=version,
      shown=('policy/loss', 'preference/accuracy', 'preference/margin'),
  )


run = session_lib.command(_run)


def _begin(
    run: Run, params: Any, path: pathlib.Path, version: int
) -> tuple[Any, Serving | None]:
  """Imitates, evaluates, plays, pairs: all that comes before the first update.

  Returns:
    The parameters that the updates begin with, and the servers that sample.
  """
  session, config = run.session, run.session.config
  if session.first:
    # Of other pairs: a run that was killed before its first checkpoint.
    path.with_suffix('.npz').unlink(missing_ok=True)
  if config.pairs.files:
    # Refused now rather than after the warm start.
    read = functools.partial(preference.read, env=config.env.name)
    items = conversion.read_files(config.pairs.files, read, session.console)
    _write_pairs(run, path, items)
  serving, expert = None, []
  if config.eval.num_tasks or config.explore.tasks:
    serving = learning.start_sampling(run, params, 0)
  if config.pairs.with_expert and not config.warmstart.episodes:
    # As many turns as the policy will have: its equal but for skill.
    expert = learning.play_expert(
        run, run.arena, config.explore.tasks, config.explore.horizon
    )
  if config.warmstart.episodes:
    if serving is not None:
      learning.evaluate_all(run, serving, 'untrained', 0, 0, checkpoint=None)
    warm = config.warmstart
    expert = learning.play_expert(
        run, run.arena, warm.episodes, warm.horizon, warm.stumbles
    )
    params = learning.warm_start(run, params, expert)
    if serving is not None:
      learning.push(run, serving, params, version)
  if serving is not None:
    learning.evaluate_all(run, serving, 'before', 0, version, checkpoint=0)
  if config.explore.tasks:
    assert serving is not None  # started above
    played = _explore(run, serving, version)
    _write_pairs(
        run, path, expert + played if config.pairs.with_expert else played
    )
  return params, serving


def _explore(run: Run, serving: Serving, version: int) -> list[Episode]:
  """Episodes of the policy, on the tasks that the expert met first."""
  config = run.session.config
  tasks = TaskIterator(
      run.arena.tasks, seed=collector_lib.expert_seed(config.seed)
  ).next_tasks(config.explore.tasks)
  groups = offline.explore(
      run, serving, 'explore', tasks, policy_version=version
  )
  played = [episode for group in groups for episode in group.episodes]
  path = run.session.directory / 'episodes' / 'explore.jsonl'
  demonstrations.write_episodes(
      run.session, path, played, tokens=config.rollout.save_tokens
  )
  return played


def _write_pairs(
    run: Run, path: pathlib.Path, items: Sequence[Pair | Episode]
) -> None:
  """Keeps these pairs, and those that can be made of these episodes.

  Raises:
    DataError: there is no pair; names the reasons.
  """
  config, console = run.session.config, run.session.console
  pairs, without = preference.build(
      [item for item in items if isinstance(item, Episode)],
      gap=config.pairs.gap,
      threshold=config.pairs.threshold,
      per_task=config.pairs.per_task,
  )
  pairs += [item for item in items if isinstance(item, Pair)]
  reasons = [
      f'{report.counted(count, "task")} {why}' for why, count in without.items()
  ]
  if not pairs:
    raise DataError(
        f'No preference pair in {len(items)} episodes: {"; ".join(reasons)}.'
        ' Play more (explore.tasks, explore.samples) or lower'
        ' pairs.threshold or pairs.gap.'
    )
  console.print(
      '; '.join([f'{len(pairs)} preference pairs', *reasons]), highlight=False
  )
  episodes = conversion.to_episodes(
      run.collector.agent,
      pairs,
      max_context=config.rollout.max_context,
      own_opening=config.pairs.own_opening,
      console=console,
      judge=preference.unusable,
  )
  demonstrations.write_episodes(run.session, path, episodes)
