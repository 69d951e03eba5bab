"""The parts that are ours: a format, a reward, a tracker, an algorithm."""

import csv
import dataclasses

import jax.numpy as jnp

from agentrl.algos.algorithm import Algorithm
from agentrl.algos.hyperparams import Online
from agentrl.envs.formats import Format
from agentrl.fields import field
from agentrl.ops import advantage


def read(text, functions):
  _, sign, move = text.partition('= ')
  return (move.strip(), None) if sign else ('', 'it has no "= ".')


FORMAT = Format(
    read, lambda action, functions: f'= {action}', full='Write = MOVE.'
)


def reward(episode):
  return episode.episode_return - 0.02 * len(episode.turns)


class Csv:
  """Success of each step, as a spreadsheet."""

  link = 'success.csv'

  def __init__(self, workdir, config):
    self._file = (workdir / self.link).open('a', newline='')

  def start(self, folder, prefix, step):
    def write(step, values):
      if 'rollout/success' in values:
        csv.writer(self._file).writerow([step, values['rollout/success']])

    return write

  def finish(self):
    self._file.close()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hyperparams(Online):
  """Returns less their group's mean, over one deviation of all groups."""

  name = 'parts.py:ALGORITHM'
  GROUPS = True
  floor: float = field(0.1, 'deviation of a group, at least', gt=0)


def advantages(batch, hyperparams, *, num_groups):
  centred = advantage.group_relative(
      *(batch.episode_return, batch.group_ids, batch.valid),
      num_groups=num_groups,
      scale=False,
  )
  scale = jnp.sqrt(jnp.mean(jnp.where(batch.valid, centred**2, 0.0)))
  centred = centred / jnp.maximum(scale, hyperparams.floor)
  return batch.replace(advantages=advantage.to_tokens(centred, batch))


ALGORITHM = Algorithm(hyperparams=Hyperparams, advantages=advantages)
