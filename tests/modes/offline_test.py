"""Tests for agentrl.modes.offline; whole runs are in tests.e2e."""

import json
import math

import numpy as np
import pytest

from agentrl import config as config_lib
from agentrl.algos import agentevol, sft
from agentrl.modes import offline
from agentrl.runtime.event_loop import Interrupted
from agentrl.training import supervised
from configs import babyai_sft
from tests import fakes, tiny

pytestmark = pytest.mark.usefixtures('quick_compilation')


def read(**fields):
  config = babyai_sft.get_config('tiny')
  config.eval.num_tasks = 0
  config.algo.update(epochs=3, minibatch_size=2)
  config.checkpoint.every = 2
  config.update_from_flattened_dict(fields)
  return config_lib.read(config)


BATCH = supervised.as_batch([fakes.make_episode()] * 4)


def make_learner(run, loss=sft.loss):
  return offline.make_learner(run, tiny.init_params(), 4, loss)


def learn(run, learner, batch=BATCH, **options):
  offline.learn(run, None, learner, batch, version=1, shown=(), **options)


def lines(run):
  text = (run.session.directory / 'metrics.jsonl').read_text()
  return [json.loads(line) for line in text.splitlines()]


def test_the_warm_up_is_a_share_of_the_updates(make_run):
  run = make_run(config_lib.read(babyai_sft.get_config('tiny')))
  found, config = offline.rate(run, 45), run.session.config
  assert found.warmup_steps == 5 == math.ceil(config.algo.warmup * 45)
  assert found.lr == config.optim.lr and found.total_steps == 45


def test_a_learner_is_what_the_config_says(make_run):
  run = make_run(read())
  learner = make_learner(run)
  assert learner.total == 6 and int(learner.state.step) == 0
  config = run.session.config
  assert learner.passes == supervised.Passes(
      3, 2, config.optim.max_tokens, run.session.seed('rows')
  )
  pairs = offline.make_learner(
      run, tiny.init_params(), 4, sft.loss, rows_per_example=2
  )
  assert pairs.total == 3 and pairs.passes.rows_per_example == 2


def test_learning_writes_saves_and_sums_up(make_run):
  run, measured = make_run(read()), []

  def measure(done, state):
    measured.append(done)
    assert int(state.step) == done
    return {'policy/heldout_loss': 1.0 / done}

  learn(run, make_learner(run), measure=measure)
  assert measured == [1, 2, 3, 4, 5, 6]
  found = lines(run)
  assert [line['step'] for line in found] == [0, 1, 2, 3, 4, 5]
  assert found[3]['policy/heldout_loss'] == 0.25
  assert found[0]['train/lr'] == pytest.approx(run.session.config.optim.lr)
  assert run.checkpoints.numbers == [4, 6]  # every second, two are kept
  assert run.checkpoints.host()['books'] == {'step': 6, 'policy_version': 7}
  summary = json.loads((run.session.directory / 'summary.json').read_text())
  assert (summary['mode'], summary['steps'], summary['updates']) == (
      'sft',
      6,
      6,
  )
  assert summary['tokens'] == 3 * 4 * len(fakes.make_episode().tokens)


def test_the_rate_is_that_of_the_updates_that_were_applied(make_run):
  weights = BATCH.completion_mask.astype(np.float32)
  weights[1] = np.nan  # its update is skipped
  fields = {'algo.epochs': 2, 'algo.minibatch_size': 1, 'algo.warmup': 0.9}
  run = make_run(read(**fields))
  learner = make_learner(run, agentevol.loss)
  learn(run, learner, BATCH.replace(advantages=weights))
  applied = 0
  for line in lines(run):
    rate = float(learner.learning_rate(applied))
    assert line['train/lr'] == pytest.approx(rate)
    applied += not line['train/skipped']
  assert applied == 6 and rate > lines(run)[0]['train/lr']


def test_a_stopped_run_is_saved_and_goes_on(make_run):
  whole = make_run(read())
  learn(whole, make_learner(whole))
  expected, expected_lines = offline.at_checkpoint(
      whole, make_learner(whole)
  ).state, lines(whole)
  for path in whole.session.directory.glob('*.json*'):
    path.unlink()
  whole.checkpoints.close()
  (whole.session.directory / 'checkpoints').rename(
      whole.session.directory / 'whole'
  )

  run = make_run(read())
  run.session.loop.interrupted = True
  with pytest.raises(Interrupted):
    learn(run, make_learner(run))
  run.session.loop.interrupted = False
  assert run.checkpoints.latest == 1 and len(lines(run)) == 1

  again = make_run(read())
  learner = offline.at_checkpoint(again, make_learner(again))
  assert int(learner.state.step) == 1
  learn(again, learner)
  final = offline.at_checkpoint(again, make_learner(again)).state
  tiny.assert_trees_equal(final, expected)
  loss = lambda found: [line['policy/loss'] for line in found]
  assert loss(lines(again)) == loss(expected_lines)


def test_a_minibatch_without_a_token_to_learn_is_one_that_is_done(make_run):
  mask = BATCH.completion_mask.copy()
  mask[1] = False
  batch = BATCH.replace(completion_mask=mask)
  fields = {'algo.minibatch_size': 1, 'checkpoint.every': 1}
  whole = make_run(read(**fields))
  learn(whole, make_learner(whole), batch)
  assert whole.checkpoints.latest == 12  # 9 of them have made an update
  state = offline.at_checkpoint(whole, make_learner(whole)).state
  assert int(state.step) == 9
  expected = lines(whole)
  assert [line['step'] for line in expected] == list(range(12))
  assert sum('policy/loss' in line for line in expected) == 9
  summary = json.loads((whole.session.directory / 'summary.json').read_text())
  assert (summary['steps'], summary['updates']) == (12, 9)
  # The same command again does nothing.
  again = make_run(read(**fields))
  learner = offline.at_checkpoint(again, make_learner(again))
  assert learner.start == 12
  learn(again, learner, batch)
  assert lines(again) == expected
  tiny.assert_trees_equal(
      offline.at_checkpoint(again, make_learner(again)).state, state
  )
