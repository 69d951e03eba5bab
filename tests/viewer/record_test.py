"""Tests for agentrl.viewer.record."""

import json

import numpy as np
import pytest

from agentrl.data import episodes
from agentrl.viewer import record
from tests import tiny


@pytest.mark.parametrize('chance', [0.0, 1.0])
def test_segments_are_joined_as_the_episode_has_them(chance):
  [group] = tiny.random_groups(0, num_groups=1)
  group = tiny.with_segments(group, np.random.default_rng(0), chance)
  for episode in group.episodes:
    found = record.decode(episodes.to_line(episode).encode())
    for name in ('tokens', 'completion_mask', 'sampler_logprobs'):
      joined = json.loads(bytes(getattr(found, name)))
      assert joined == list(getattr(episode, name))
