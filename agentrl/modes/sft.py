"""mode='sft': supervised fine-tuning on conversations and episodes.

A run that was killed continues when the same command is started again.
"""

from collections.abc import Sequence

import numpy as np
from ml_collections import ConfigDict

from agentrl.algos import sft
from agentrl.config import modes
from agentrl.modes import base, offline, resume, warmstart
from agentrl.rollout import seeds
from agentrl.training import supervised
from agentrl.training.state import TrainState
from agentrl.types import Episode

read = resume.read


def run(config: ConfigDict, workdir: str | None) -> None:
  """Trains as `config` says and leaves everything in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  base.start(_Run, read(config), workdir)


class _Run(offline.OfflineRun):
  """One run, from its data to its summary."""

  wanted: modes.Sft

  def run(self) -> None:
    train, heldout = split(
        self.build_data(),
        self.wanted.algo.heldout,
        seed=seeds.derive_seed(self.wanted.seed, 'heldout'),
    )
    self.heldout = warmstart.as_batch(heldout) if heldout else None
    learner = self.make_learner(len(train), sft.loss)
    resumed = self.checkpoints.latest is not None
    if resumed:
      learner = self.at_checkpoint(learner)
    if self.wanted.eval.num_tasks:
      self.start_sampling(int(learner.state.step))
    if not resumed:
      self.evaluate('before', 0, 0)
      self.keep(learner.state, 0)
    self.learn(
        'sft',
        learner,
        warmstart.as_batch(train),
        version=0,
        shown=('policy/loss', 'policy/heldout_loss'),
    )

  def measure(
      self, learner: warmstart.Learner, done: int, state: TrainState
  ) -> dict[str, float]:
    """The loss of the held-out demonstrations, when it is time."""
    algo = self.wanted.algo
    every = algo.validate_every or learner.total // algo.epochs
    if self.heldout is None or (done % every and done != learner.total):
      return {}
    return {
        'policy/heldout_loss': supervised.mean_loss(
            state,
            self.heldout,
            programs=learner.programs,
            max_tokens=self.wanted.optim.max_tokens,
        )
    }


def split(
    episodes: Sequence[Episode], share: float, *, seed: int
) -> tuple[list[Episode], list[Episode]]:
  """Episodes to train on, one at least, and others to hold out.

  A share above 0 holds out one at least, where there are two.
  """
  size = len(episodes)
  count = min(max(round(share * size), int(share > 0)), size - 1)
  order = np.random.default_rng(seed).permutation(size)
  held = set(order[:count].tolist())
  return (
      [e for i, e in enumerate(episodes) if i not in held],
      [e for i, e in enumerate(episodes) if i in held],
  )
