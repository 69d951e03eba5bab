"""Tests for agentrl.modes.base."""

import jax.numpy as jnp
import pytest

from agentrl.config.modes import Sft
from agentrl.config.sections import Data
from agentrl.errors import DivergedError
from agentrl.modes import base
from agentrl.training.checkpoint import Checkpoints


class Diverging(base.Run):
  """Saves some checkpoints, and then its parameters are not finite."""

  numbers = ()

  def run(self):
    self.checkpoints = Checkpoints(self.directory / 'checkpoints')
    self.stack.callback(self.checkpoints.close)
    for number in self.numbers:
      self.checkpoints.save(number, {'params': {'w': jnp.ones(3)}}, {})
    raise DivergedError('Update 7 was too much.')


@pytest.mark.parametrize(
    'numbers, said',
    [
        ((), 'There was no checkpoint yet.*'),
        ((2, 4), r'Go on from the last checkpoint, .*/run/checkpoints/4, .*'),
    ],
)
def test_a_run_that_diverged_names_its_last_checkpoint(
    tmp_path, monkeypatch, numbers, said
):
  monkeypatch.setattr(Diverging, 'numbers', numbers)
  monkeypatch.setattr(base.compile_cache, 'use', lambda folder: None)
  wanted = Sft(data=Data(expert_episodes=1))
  with pytest.raises(DivergedError, match=f'^Update 7 was too much. {said}$'):
    base.start(Diverging, wanted, str(tmp_path / 'run'))
