"""Tests for agentrl.modes.checkpoints; files are in training.checkpoint_test."""

import dataclasses
import json

import jax
import pytest

from agentrl import config as config_lib
from agentrl.errors import CheckpointError
from agentrl.modes import checkpoints
from agentrl.training import state as state_lib
from configs import quickstart
from tests import tiny


def read():
  return config_lib.read(quickstart.get_config('tiny'))


def saved(make_run, **parts):
  """A run that has saved step 2, and written the lines of three steps."""
  run, state = make_run(read(), **parts), tiny.new_state()
  ref_params = jax.tree.map(lambda x: x + 1, tiny.init_params())
  run.record.add_tokens(7)
  run.record.add_evaluation('before', {'mean': 0.5})
  loop = {'step': 2, 'policy_version': 3}
  checkpoints.save(run, state, loop, ref_params=ref_params)
  run.checkpoints.wait()
  lines = ''.join(f'{{"step": {step}}}\n' for step in range(3))
  (run.session.directory / 'metrics.jsonl').write_text(lines)
  return state, ref_params, loop


def test_what_was_saved_comes_back_and_later_lines_are_set_aside(
    make_run, said
):
  state, ref_params, loop = saved(make_run)
  directory = make_run(read()).session.directory
  assert json.loads((directory / 'config.json').read_text())['mode'] == 'train'

  run = make_run(read())
  like = state_lib.abstract(tiny.new_state())
  found, found_ref, found_loop = checkpoints.restore(run, like, reference=True)
  tiny.assert_trees_equal((found, found_ref), (state, ref_params))
  assert found_loop == loop
  assert run.record.state()['evals'] == {'before': {'mean': 0.5}}
  assert run.record.state()['totals']['tokens'] == 7
  lines = (directory / 'metrics.jsonl').read_text().splitlines()
  assert [json.loads(line)['step'] for line in lines] == [0, 1]
  assert said(run) == (
      'Continuing after step 2; 1 later lines of metrics set aside\n'
  )


@pytest.mark.parametrize('other', ['model', 'adapter'])
def test_a_checkpoint_of_another_network_is_refused(make_run, other):
  saved(make_run)
  run = make_run(read())
  config = dataclasses.replace(tiny.CONFIG, num_layers=3)
  changed = {
      'model': dataclasses.replace(run.model, config=config),
      'adapter': {'rank': 2},
  }
  run = dataclasses.replace(run, **{other: changed[other]})
  with pytest.raises(CheckpointError, match='^The checkpoint in .*/run'):
    checkpoints.restore(run, state_lib.abstract(tiny.new_state()))
  lines = (run.session.directory / 'metrics.jsonl').read_text().splitlines()
  assert len(lines) == 3  # nothing was set aside
