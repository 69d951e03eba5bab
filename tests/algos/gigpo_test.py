"""GiGPO's advantages against its paper (arXiv:2505.10978), turn by turn."""

import collections
import dataclasses

import numpy as np
import pytest

from agentrl.algos import gigpo
from tests import tiny


def random_groups(seed):
  """Groups whose turns often answer the same observation."""
  rng = np.random.default_rng(seed)

  def episode(e):
    turns = tuple(
        dataclasses.replace(turn, observation=str(rng.choice(['door', 'key'])))
        for turn in e.turns
    )
    return dataclasses.replace(e, turns=turns)

  return [
      dataclasses.replace(group, episodes=tuple(map(episode, group.episodes)))
      for group in tiny.random_groups(seed, num_groups=3, failures=0.2)
  ]


def standardised(value, others, normalise_std):
  if len(others) < 2:
    return 0.0
  centred = value - np.mean(others)
  return centred / (np.std(others, ddof=1) + 1e-6) if normalise_std else centred


def oracle(groups, *, gamma, step_weight, normalise_std):
  """`{(row, turn): advantage}`: of the episode and of the step, in float64."""
  episodes = [(g, e) for g, group in enumerate(groups) for e in group.episodes]
  of_group = collections.defaultdict(list)
  of_anchor = collections.defaultdict(list)
  turns = {}
  for row, (g, e) in enumerate(episodes):
    if not e.valid:
      continue
    rewards = [turn.reward for turn in e.turns]
    of_group[g].append(sum(rewards))
    for k in range(len(rewards)):
      seen = e.turns[k - 1].observation if k else ('start of task', g)
      to_go = sum(gamma**i * r for i, r in enumerate(rewards[k:]))
      of_anchor[g, seen].append(to_go)
      turns[row, k] = g, sum(rewards), seen, to_go
  return {
      key: (
          standardised(total, of_group[g], normalise_std)
          + step_weight * standardised(to_go, of_anchor[g, seen], normalise_std)
      )
      for key, (g, total, seen, to_go) in turns.items()
  }


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize(
    'hyperparams',
    [
        dict(gamma=0.95, step_weight=1.0, normalise_std=True),
        dict(gamma=0.5, step_weight=0.3, normalise_std=True),
        dict(gamma=0.9, step_weight=1.0, normalise_std=False),
    ],
)
def test_matches_oracle(seed, hyperparams):
  groups = random_groups(seed)
  batch = tiny.advantages(gigpo, tiny.make_batch(groups), **hyperparams)
  expected = oracle(groups, **hyperparams)
  assert len(expected) > 12
  for row, t in np.argwhere(batch.completion_mask & batch.valid[:, None]):
    np.testing.assert_allclose(
        batch.advantages[row, t],
        expected[row, batch.turn_ids[row, t]],
        rtol=1e-4,
        atol=1e-4,
    )


def test_without_steps_it_is_grpo():
  groups = random_groups(3)
  batch = tiny.make_batch(groups)  # with GRPO's advantages
  found = tiny.advantages(gigpo, batch, step_weight=0.0).advantages
  np.testing.assert_allclose(found, batch.advantages, rtol=1e-5, atol=1e-6)
