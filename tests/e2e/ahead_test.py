"""A run that plays ahead of its learner, killed and continued, against one in turns.

With a learning rate that moves no parameter all policies are the same, and the
deterministic engine's episodes follow from their seeds alone: the two runs must
play and learn the same, whatever was in flight when one was killed.
"""

import dataclasses

import numpy as np
import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.rollout import ahead as ahead_lib
from tests.e2e.running import (
    QUICKSTART,
    SMALL,
    finish,
    finish_killed,
    lines,
    measured,
)

pytestmark = pytest.mark.slow
STEPS = 5
FLAGS = (
    *SMALL,
    f'--config.num_steps={STEPS}',
    '--config.horizon.turns=(2, 2)',
    '--config.algo.ratio=sampler',
    '--config.optim.lr=1e-30',
)
# When and by which number of pushes an episode was played.
_OF_TIME = ('policy_version', 'turns')


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  base = tmp_path_factory.mktemp('ahead')
  in_turns, ahead = base / 'in_turns', base / 'ahead'
  finish(in_turns, *FLAGS, config=QUICKSTART)
  flags = (
      *FLAGS, '--config.rollout.ahead=2', '--config.rollout.max_staleness=3',
  )  # fmt: skip
  finish_killed(ahead, *flags, config=QUICKSTART)
  return in_turns, ahead


def episodes_of(run):
  """All episodes that were trained on, by their names."""
  found = [
      episode
      for step in range(STEPS)
      for episode in episodes_lib.read(
          episodes_lib.step_path(run, 'train', step)
      )
  ]
  names = {episode.episode_id: episode for episode in found}
  assert len(names) == len(found)  # none was trained on twice
  return names


def test_both_train_on_the_same_episodes(runs):
  one, other = map(episodes_of, runs)
  assert one.keys() == other.keys()
  for name, episode in one.items():
    for field in dataclasses.fields(episode):
      if field.name not in _OF_TIME:
        a, b = (getattr(x[name], field.name) for x in (one, other))
        assert a == b, (name, field.name)
    words = lambda turns: [(t.completion, t.observation) for t in turns]
    assert words(episode.turns) == words(other[name].turns)


def test_both_measure_the_same_over_the_run(runs):
  one, other = (measured(run / 'metrics.jsonl') for run in runs)
  # An update sees other groups at a time, so that sums differ in their order.
  for name in ('policy/entropy', 'policy/approx_kl', 'rollout/turns_mean'):
    a, b = (np.mean([line[name] for line in found]) for found in (one, other))
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=name)
  for name in ('rollout/episodes', 'rollout/completion_tokens', 'train/tokens'):
    a, b = (sum(line[name] for line in found) for found in (one, other))
    assert a == b, name


def test_the_bound_holds_and_samples_are_those_of_their_policy(runs):
  metrics = lines(runs[1] / 'metrics.jsonl')
  assert [line['step'] for line in metrics] == list(range(STEPS))
  assert metrics[0]['rollout/staleness_max'] == 0
  assert max(line['rollout/staleness_max'] for line in metrics) in (1, 2, 3)
  for line in metrics:
    assert line['sampler/logprob_abs_diff_mean'] < 1e-4
    assert line['rollout/token_staleness_max'] <= line['rollout/staleness_max']
    assert line['time/sampler_idle_s'] >= 0
  behind = {name for line in metrics for name in line if 'kl_behind' in name}
  assert {f'sampler/kl_behind_{age}' for age in (0, 1)} <= behind
  # Nothing that a checkpoint would need is left behind, or lies about.
  assert not list((runs[1] / ahead_lib.FOLDER).glob('*'))
