"""mode='sft': supervised fine-tuning on conversations and episodes.

A run that was killed continues when the same command is started again.
"""

from collections.abc import Sequence

import numpy as np
from ml_collections import ConfigDict

from agentrl.algos import sft
from agentrl.data import episodes as episodes_lib
from agentrl.modes import base, offline, offline_settings, warmstart
from agentrl.rollout import seeds
from agentrl.training import supervised
from agentrl.training.state import TrainState
from agentrl.types import Episode


def run(config: ConfigDict, workdir: str | None) -> None:
  """Trains as `config` says and leaves everything in `workdir`.

  Raises:
    AgentrlError: something that the user can mend.
  """
  base.start(config, workdir, offline_settings.read_sft, _Run)


class _Run(offline.OfflineRun):
  """One run, from its data to its summary."""

  wanted: offline_settings.SftRun

  def run(self) -> None:
    wanted = self.wanted
    self.build_world(expert=wanted.data.expert_episodes > 0)
    # What is trained on is kept: a resume needs neither files nor expert.
    kept = self.directory / 'episodes' / 'demonstrations.jsonl'
    resumed = self.checkpoints.latest is not None
    found = [] if resumed else self.read_data()
    self.build_policy(lambda: self.data_texts(found))
    if not resumed:
      episodes_lib.write(kept, self.demonstrations(found))
    train, heldout = split(
        list(episodes_lib.read(kept)),
        wanted.algo.heldout,
        seed=seeds.derive_seed(wanted.seed, 'heldout'),
    )
    self.heldout = warmstart.as_batch(heldout) if heldout else None
    self.prepare(warmstart.as_batch(train), sft.loss)
    if resumed:
      self.resume()
    if wanted.eval.num_tasks:
      self.start_sampling(int(self.state.step))
    if not resumed:
      self.evaluate('before', 0, 0)
      self.keep(self.state, 0)
    self.learn('sft', 0, ('policy/loss', 'validation/loss'))

  def measure(self, index: int, state: TrainState) -> dict[str, float]:
    """The validation loss, when it is time."""
    if self.heldout is None:
      return {}
    algo = self.wanted.algo
    every = algo.validate_every or self.total // algo.epochs
    done = index + 1
    if done % every and done != self.total:
      return {}
    return {
        'validation/loss': supervised.mean_loss(
            state,
            self.heldout,
            steps=self.steps,
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
