"""What waits in the memory of the host, and that it changes nothing else."""

import jax
import numpy as np
import pytest

from agentrl.parallel import sharding
from agentrl.training import (
    optim,
    policy_update,
    programs as programs_lib,
    state as state_lib,
)
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.compiled import Program
from tests import tiny


def kinds(tree):
  return {leaf.sharding.memory_kind for leaf in jax.tree.leaves(tree)}


def learner(*, offload):
  tx = optim.make_optimizer(**tiny.OPTIMIZER)
  mesh = tiny.one_device()
  state = state_lib.create(tiny.init_params(), tx, mesh, offload=offload)
  programs = programs_lib.compile_programs(tiny.MODULE, tiny.bound(), tx, state)
  # The gradient is not what differs: compiled once for all tests.
  return state, programs._replace(accumulate=tiny.programs().accumulate)


def updated(state, programs, batch):
  rows = np.arange(len(batch.tokens))
  return programs_lib.update(
      programs, state, batch, rows, max_tokens=tiny.ROW * 8
  )


def test_the_optimizers_state_is_on_the_device_for_the_update_alone(tmp_path):
  batch = tiny.random_batch(0)
  expected, programs = learner(offload=False)
  state, offloading = learner(offload=True)
  for _ in range(2):
    waiting = jax.tree.leaves(state.opt_state)
    assert kinds(state.opt_state) == {'pinned_host'}
    assert kinds(state.params) == {'device'}
    state, metrics, *_ = updated(state, offloading, batch)
    expected, same, *_ = updated(expected, programs, batch)
    assert metrics == same
    assert all(leaf.is_deleted() for leaf in waiting)
  tiny.assert_trees_equal(state, expected)
  assert kinds(expected) == {'device'} and metrics['train/update_norm'] > 0
  # A checkpoint brings it back to where it waits.
  checkpoints = Checkpoints(tmp_path)
  items = {'optimizer': {'opt_state': state.opt_state}}
  checkpoints.save(1, items, {})
  checkpoints.wait()
  found = checkpoints.restore(state_lib.abstract(items))
  checkpoints.close()
  tiny.assert_trees_equal(found, items)
  assert kinds(found) == {'pinned_host'}


@pytest.mark.slow
def test_the_reference_is_on_the_device_for_its_scores_alone(monkeypatch):
  scored, programs = [], tiny.programs()
  batch = tiny.random_batch(0)
  call = Program.__call__

  def spy(program, networks, *args):
    if program is programs.score:
      scored.append(kinds(networks))
    return call(program, networks, *args)

  monkeypatch.setattr(Program, '__call__', spy)

  def update(ref_params):
    updated = policy_update.update_policy(
        tiny.new_state(),
        batch,
        policy_update.Update(
            programs,
            tiny.plan(max_tokens=tiny.ROW * 8, kl_coef=0.1, kl_in='reward'),
            advantages=lambda batch, num_groups: batch,
            learning_rate=lambda update: 0.0,
            ref_params=ref_params,
        ),
        num_groups=2,
        learnt=np.asarray(batch.valid),
        kl_coef=0.1,
        rl_step=0,
    )
    return updated.metrics, updated.batch.ref_logprobs

  on_device = jax.device_put(tiny.init_params(1), jax.devices()[0])
  metrics, logprobs = update(on_device)
  waiting = sharding.to_host(on_device)
  assert kinds(waiting) == {'pinned_host'}
  again, same = update(waiting)
  assert metrics == again and np.abs(logprobs).max() > 0
  np.testing.assert_array_equal(same, logprobs)
  assert kinds(waiting) == {'pinned_host'}
  assert scored and set.union(*scored) == {'device'}
