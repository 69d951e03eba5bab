"""mode='sft': supervised fine-tuning on conversations and episodes.

A run that was killed continues when the same command is started again.
"""

import functools
from collections.abc import Sequence

import numpy as np

from agentrl.algos import sft
from agentrl.config import modes
from agentrl.modes import (
    demonstrations,
    learning,
    offline,
    session as session_lib,
)
from agentrl.modes.session import Session
from agentrl.training import supervised
from agentrl.training.state import TrainState
from agentrl.types import Episode


def _run(session: Session) -> None:
  config: modes.Sft = session.config
  run, params, episodes = demonstrations.build_data(session)
  train, held = split(
      episodes, config.algo.heldout, seed=session.seed('heldout')
  )
  heldout = supervised.as_batch(held) if held else None
  if heldout is not None and not heldout.completion_mask.any():
    session.console.print(
        'The held-out demonstrations have no token to learn, so there is no'
        ' policy/heldout_loss.',
        highlight=False,
    )
    heldout = None
  weight = config.algo.prompt_weight
  learner = offline.make_learner(
      run,
      params,
      len(train),
      functools.partial(sft.loss, prompt_weight=weight),
      learns_prompts=weight > 0,
  )
  del params  # the learner has a copy, which its first update donates
  resumed = run.checkpoints.latest is not None
  if resumed:
    learner = offline.at_checkpoint(run, learner)
  serving = None
  if config.eval.num_tasks:
    serving = learning.start_sampling(run, learner.state.params, learner.start)
  if not resumed:
    if serving is not None:
      learning.evaluate_all(run, serving, 'before', 0, 0, checkpoint=0)
    offline.save(run, learner.state, 0, 0)

  def measure(done: int, state: TrainState) -> dict[str, float]:
    """The loss of the held-out demonstrations, when it is time."""
    algo = config.algo
    every = algo.validate_every or learner.total // algo.epochs
    if heldout is None or (done % every and done != learner.total):
      return {}
    return {
        'policy/heldout_loss': supervised.mean_loss(
            state,
            heldout,
            programs=learner.programs,
            max_tokens=config.optim.max_tokens,
        )
    }

  offline.learn(
      run,
      serving,
      learner,
      supervised.as_batch(train),
      version=0,
      shown=('policy/loss', 'policy/heldout_loss'),
      measure=measure,
  )


run = session_lib.command(_run)


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
