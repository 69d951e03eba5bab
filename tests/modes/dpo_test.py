"""Tests for mode='dpo': pairs and the reference; runs are in tests.e2e."""

import dataclasses
import functools
import types

import numpy as np
import pytest

from agentrl import config as config_lib, envs
from agentrl.algos import dpo as algo
from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.modes import dpo, offline
from agentrl.rollout.agent import make_agent
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import supervised
from agentrl.types import Message
from configs import babyai_dpo
from tests import fakes, tiny

pytestmark = pytest.mark.usefixtures('quick_compilation')


def read(**fields):
  config = babyai_dpo.get_config('tiny')
  config.update_from_flattened_dict(fields)
  return config_lib.read(config)


def played(*returns, task_id=0):
  """Episodes of a task, each with words of its own."""
  found = [
      fakes.make_episode(
          (value,), task_id=task_id, prompt=(Message('user', 'go'),)
      )
      for value in returns
  ]
  return [
      dataclasses.replace(
          episode,
          turns=(
              dataclasses.replace(
                  episode.turns[0], completion=f'go {task_id} {number}'
              ),
          ),
      )
      for number, episode in enumerate(found)
  ]


def test_the_better_episode_of_a_pair_comes_first(make_run, tmp_path, said):
  config = read()
  tokenizer = tokenizer_lib.train_bpe(['go on'], 300)
  agent = make_agent(envs.get('babyai'), tokenizer, config.agent)
  run = make_run(config, collector=types.SimpleNamespace(agent=agent))
  path = tmp_path / 'pairs.jsonl'
  found = [*played(0.0, 1.0), *played(0.9, 0.0, 0.1, task_id=1)]
  dpo._write_pairs(run, path, found)
  pairs = list(episodes_lib.read(path))
  assert [(e.task_id, e.episode_return) for e in pairs] == [
      (0, 1.0),
      (0, 0.0),
      (1, 0.9),
      (1, 0.0),
  ]
  assert '2 preference pairs' in said(run)


def test_pairs_that_teach_nothing_are_left_out_and_counted(
    make_run, tmp_path, said
):
  config = read()
  tokenizer = tokenizer_lib.train_bpe(['go on'], 300)
  agent = make_agent(envs.get('babyai'), tokenizer, config.agent)
  run = make_run(config, collector=types.SimpleNamespace(agent=agent))
  same = played(1.0)[0]
  worse = dataclasses.replace(
      same, turns=(dataclasses.replace(same.turns[0], reward=0.0),)
  )
  path = tmp_path / 'pairs.jsonl'
  dpo._write_pairs(run, path, [same, worse, *played(1.0, 0.0, task_id=1)])
  assert [e.task_id for e in episodes_lib.read(path)] == [1, 1]
  assert '1 left out for equal sides' in said(run)


def test_no_pair_is_told_with_reasons_and_the_way_out(make_run, tmp_path):
  run = make_run(read())
  found = [*played(0.2, 0.1), *played(1.0, 1.0, task_id=1)]
  with pytest.raises(DataError) as refused:
    dpo._write_pairs(run, tmp_path / 'pairs.jsonl', found)
  said = str(refused.value)
  assert said.startswith('No preference pair in 4 episodes: ')
  assert 'whose best return is below 0.7' in said
  assert 'whose returns differ by less than 0.01' in said
  assert 'explore.tasks' in said


def test_the_reference_is_the_starting_policy_and_is_kept(make_run, tmp_path):
  run, path = make_run(read()), tmp_path / 'pairs.npz'
  batch = supervised.as_batch(played(1.0, 0.0))
  loss = functools.partial(algo.loss, hyperparams=run.session.config.algo)
  learner = offline.make_learner(
      run, tiny.init_params(), 2, loss, rows_per_example=2
  )
  first = offline.with_reference(run.session, batch, learner, path)
  mask = np.asarray(batch.completion_mask)
  assert (first.ref_logprobs[mask] < 0).all()
  # Later the policy is another; its log-probabilities are not those.
  other = learner._replace(
      state=learner.state.replace(params=tiny.init_params(seed=1))
  )
  again = offline.with_reference(run.session, batch, other, path)
  np.testing.assert_array_equal(again.ref_logprobs, first.ref_logprobs)
  path.unlink()
  anew = offline.with_reference(run.session, batch, other, path)
  assert (anew.ref_logprobs != first.ref_logprobs)[mask].any()
