"""Tests for agentrl.modes.sft."""

import pytest

from agentrl.modes import sft
from tests import fakes


@pytest.mark.parametrize(
    'size, share, held', [(40, 0.05, 2), (10, 0.05, 1), (10, 0, 0), (1, 0.5, 0)]
)
def test_a_share_is_held_out_and_the_rest_keeps_its_order(size, share, held):
  episodes = [fakes.make_episode(episode_id=str(i)) for i in range(size)]
  train, heldout = sft.split(episodes, share, seed=3)
  assert len(heldout) == held and len(train) == size - held
  number = lambda e: int(e.episode_id)
  assert sorted([*train, *heldout], key=number) == episodes
  assert sorted(train, key=number) == train
  assert sft.split(episodes, share, seed=3) == (train, heldout)
