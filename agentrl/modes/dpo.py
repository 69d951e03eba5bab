"""mode='dpo': learning from preferences between episodes of a task.

The pairs come from files, or from episodes that the policy plays first. A run
that was killed continues when the same command is started again.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence

import numpy as np
from ml_collections import ConfigDict

from agentrl.algos import dpo
from agentrl.batch import TokenBatch
from agentrl.config import modes
from agentrl.data import episodes as episodes_lib, preference
from agentrl.data.preference import Pair
from agentrl.data.tasks import TaskIterator
from agentrl.errors import DataError
from agentrl.modes import (
    base,
    demonstrations,
    offline,
    resume,
    warmstart,
)
from agentrl.parallel import distributed
from agentrl.training import programs as programs_lib
from agentrl.types import Episode

read = resume.read


def run(config: ConfigDict, workdir: str | None) -> None:
  """Trains as `config` says and leaves everything in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  base.start(_Run, read(config), workdir)


class _Run(offline.OfflineRun):
  """One run, from its pairs to its summary."""

  wanted: modes.Dpo

  def run(self) -> None:
    wanted = self.wanted
    self.build_world(
        expert=wanted.warmstart.episodes > 0 or wanted.pairs.with_expert
    )
    self.build_policy(lambda: self.expert_texts(wanted.warmstart.horizon))
    # The policy before the first update: a warm start makes version 1 of it.
    version = int(wanted.warmstart.episodes > 0)
    # The better episode of each pair before the worse one.
    path = self.directory / 'episodes' / 'pairs.jsonl'
    resumed = self.checkpoints.latest is not None
    if not resumed:
      self._begin(path, version)
    batch = warmstart.as_batch(list(episodes_lib.read(path)))
    learner = self.make_learner(
        len(batch.valid) // 2,
        functools.partial(dpo.loss, hyperparams=wanted.algo),
    )
    if not wanted.algo.reference_free:
      batch = self._with_reference(batch, learner, path.with_suffix('.npz'))
    if resumed:
      learner = self.at_checkpoint(learner)
      if wanted.eval.num_tasks:
        self.start_sampling(version + int(learner.state.step))
    else:
      self.keep(learner.state, version)
    self.learn(
        'dpo',
        learner,
        batch,
        version=version,
        shown=('policy/loss', 'preference/accuracy', 'preference/margin'),
        rows_per_example=2,
    )

  def _begin(self, path: pathlib.Path, version: int) -> None:
    """Imitates, evaluates, plays, pairs: what comes before the first update."""
    wanted = self.wanted
    if self.first:
      # Of other pairs: a run that was killed before its first checkpoint.
      path.with_suffix('.npz').unlink(missing_ok=True)
    if wanted.pairs.files:
      # Refused now rather than after the warm start.
      read = functools.partial(preference.read, env=wanted.env.name)
      found = demonstrations.read_files(wanted.pairs.files, read, self.console)
      self._write_pairs(path, found)
    samples = bool(wanted.eval.num_tasks or wanted.explore.tasks)
    if samples:
      self.start_sampling(0)
    expert: list[Episode] = []
    if wanted.pairs.with_expert and not wanted.warmstart.episodes:
      # As many turns as the policy will have: its equal but for skill.
      expert = self.play_expert(wanted.explore.tasks, wanted.explore.horizon)
    if wanted.warmstart.episodes:
      self.evaluate('untrained', 0, 0)
      expert = self.play_expert(
          wanted.warmstart.episodes, wanted.warmstart.horizon
      )
      params = self.warm_start(expert)
      self.model = dataclasses.replace(self.model, params=params)
      if samples:
        self.push(params, version)
    self.evaluate('before', 0, version)
    if wanted.explore.tasks:
      found = self._explored(version)
      self._write_pairs(
          path, expert + found if wanted.pairs.with_expert else found
      )

  def _explored(self, version: int) -> list[Episode]:
    """Episodes of the policy, on the tasks that the expert met first."""
    wanted = self.wanted
    tasks = TaskIterator(
        self.train_tasks, seed=warmstart.expert_seed(wanted.seed)
    ).next_tasks(wanted.explore.tasks)
    groups = self.explore('explore', tasks, policy_version=version)
    played = [episode for group in groups for episode in group.episodes]
    path = self.directory / 'episodes' / 'explore.jsonl'
    self.write_episodes(path, played, tokens=wanted.rollout.save_tokens)
    return played

  def _write_pairs(
      self, path: pathlib.Path, found: Sequence[Pair | Episode]
  ) -> None:
    """Keeps these pairs, and those that can be made of these episodes.

    Raises:
      DataError: there are none; says why.
    """
    wanted = self.wanted
    pairs, without = preference.build(
        [item for item in found if isinstance(item, Episode)],
        gap=wanted.pairs.gap,
        threshold=wanted.pairs.threshold,
        per_task=wanted.pairs.per_task,
    )
    pairs += [item for item in found if isinstance(item, Pair)]
    reasons = [f'{count} tasks {why}' for why, count in without.items()]
    if not pairs:
      raise DataError(
          f'No preference pair in {len(found)} episodes: {"; ".join(reasons)}.'
          ' Play more (explore.tasks, explore.samples) or lower'
          ' pairs.threshold or pairs.gap.'
      )
    self.console.print(
        '; '.join([f'{len(pairs)} preference pairs', *reasons]), highlight=False
    )
    self.write_episodes(
        path,
        demonstrations.to_episodes(
            self.agent,
            pairs,
            max_context=wanted.rollout.max_context,
            own_opening=wanted.pairs.own_opening,
            console=self.console,
        ),
    )

  def _with_reference(
      self, batch: TokenBatch, learner: warmstart.Learner, path: pathlib.Path
  ) -> TokenBatch:
    """The batch with log-probabilities of the starting policy.

    They are computed once and kept: later the policy is another.
    """
    if not distributed.agree(path.exists()):
      scores = programs_lib.score(
          learner.programs,
          learner.state.networks,
          batch,
          max_tokens=self.wanted.optim.max_tokens,
      )
      if self.first:
        episodes_lib.write_learned(path, ref_logprobs=scores.logprobs)
      distributed.wait(path.name)
    with np.load(path) as kept:
      return batch.replace(ref_logprobs=kept['ref_logprobs'])
