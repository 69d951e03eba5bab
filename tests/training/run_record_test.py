"""Tests for agentrl.training.run_record; the writer's are in metrics_test."""

import contextlib
import io
import json

import numpy as np
import pytest
import rich.console

from agentrl.data import episodes as episodes_lib
from agentrl.errors import EnvError
from agentrl.runtime import summary as summary_lib
from agentrl.training import policy_update
from agentrl.training.rl import RlStep
from agentrl.training.run_record import RunRecord
from tests import tiny

SUMMARY = dict(
    mean=0.25,
    low=0.1,
    high=0.5,
    n=16,
    invalid=0,
    return_mean=0.2,
    turns_mean=3.0,
)


@pytest.fixture
def stack():
  with contextlib.ExitStack() as stack:
    yield stack


@pytest.fixture
def console():
  return rich.console.Console(file=io.StringIO(), width=500)


@pytest.fixture
def make_record(tmp_path, console):
  return lambda writes=True: RunRecord(tmp_path, console, writes=writes)


def open_record(record, stack, start=0):
  record.open(stack, 4, start, shown=())


def lines(directory, name='metrics.jsonl'):
  text = (directory / name).read_text()
  return [json.loads(line) for line in text.splitlines()]


def made(step=0, suspects=()):
  groups = tiny.random_groups(step)
  batch = tiny.make_batch(groups)
  batch = batch.replace(old_logprobs=batch.sampler_logprobs)
  last = policy_update.no_update(batch)
  last.logprobs[0] = -0.5
  return RlStep(step, {}, groups, batch, list(suspects), last)


def played(step):
  return [episode for group in step.groups for episode in group.episodes]


def test_evaluations_stand_in_the_line_of_the_step_before_them(
    make_record, stack, tmp_path
):
  record = make_record()
  record.add_evaluation('untrained', SUMMARY | {'mean': 0.0})
  record.add_evaluation('before', SUMMARY)
  open_record(record, stack)
  record.write(0, {'a/b': 1.0})
  record.write(1, {'a/b': 2.0})
  record.add_evaluation('step_2', SUMMARY | {'mean': 0.5})
  stack.close()
  first, second = lines(tmp_path)
  assert first['eval_untrained/success'] == 0.0
  assert first['eval_before/success'] == 0.25
  assert 'eval/success' not in first
  assert second['eval/success'] == 0.5 and second['a/b'] == 2.0
  assert not any(name.startswith('eval_') for name in second)


def test_lines_of_earlier_processes_can_be_read_again(make_record, stack):
  assert list(make_record().lines()) == []
  record = make_record()
  open_record(record, stack)
  for step in range(3):
    record.write(step, {'a/b': float(step)})
  stack.close()
  again = make_record()
  open_record(again, stack, start=2)
  assert [line['a/b'] for line in again.lines()] == [0.0, 1.0]
  assert list(make_record(writes=False).lines()) == []


@pytest.mark.parametrize('tokens', [True, False])
def test_a_step_leaves_its_episodes_and_what_was_trained_on(
    make_record, stack, tmp_path, tokens
):
  record, step = make_record(), made(2)
  open_record(record, stack, start=2)
  record.write_step(step, {'a/b': 1.0}, tokens=tokens, shaped=False)
  path = episodes_lib.step_path(tmp_path, 'train', 2)
  found = list(episodes_lib.read(path))
  assert [e.episode_return for e in found] == [
      e.episode_return for e in played(step)
  ]
  assert (found == played(step)) == tokens
  assert path.with_suffix('.npz').exists() == tokens
  if tokens:
    with np.load(path.with_suffix('.npz')) as learnt:
      assert {'advantages', 'old_logprobs', 'turn_groups'} <= set(learnt)
      assert 'shaped_rewards' not in learnt
      np.testing.assert_array_equal(learnt['advantages'], step.batch.advantages)
      np.testing.assert_array_equal(learnt['last_logprobs'], step.last.logprobs)
      assert learnt['placements'].shape == (len(found), 5)
      assert np.isnan(learnt['entropy']).all()
  assert not (tmp_path / 'diverged').exists()


def test_episodes_in_question_are_kept_with_their_tokens(
    make_record, stack, tmp_path, console
):
  record, step = make_record(), made(suspects=(1, 3))
  open_record(record, stack)
  record.write_step(step, {}, tokens=False, shaped=False)
  found = list(episodes_lib.read(tmp_path / 'diverged' / '000000.jsonl'))
  assert found == [played(step)[row] for row in (1, 3)]
  assert 'Step 1 skipped an update' in console.file.getvalue()


def test_a_run_goes_on_with_its_counts_and_evaluations(
    make_record, stack, tmp_path
):
  first = make_record()
  open_record(first, stack)
  for step in range(3):
    metrics = {
        'train/compile_wait_s': 2.0,
        'train/programs': 3.0,
        'rollout/completion_tokens': 5.0,
    }
    first.write_step(made(step), metrics, tokens=False, shaped=False)
  first.add_evaluation('before', SUMMARY)
  first.add_tokens(7)
  state = json.loads(json.dumps(first.state()))  # as a checkpoint keeps it
  stack.close()

  again = make_record()
  again.restore(state)
  assert again.discard_from(2) == 1
  assert [line['step'] for line in lines(tmp_path)] == [0, 1]
  assert not episodes_lib.step_path(tmp_path, 'train', 2).exists()
  open_record(again, stack, start=2)
  again.write(
      2,
      {
          'train/compile_wait_s': 0.5,
          'sampler/compile_wait_s': 1.0,
          'train/programs': 1.0,
          'sampler/programs': 2.0,
      },
  )
  assert [line['step'] for line in lines(tmp_path)] == [0, 1, 2]
  again.add_tokens(1)
  assert again.sampled_tokens == 15
  again.summarise('train', 3, updates=9)
  summary = json.loads((tmp_path / 'summary.json').read_text())
  assert summary.pop('wall_s') > state['totals']['wall_s']
  assert summary.pop('tokens') >= 8
  assert summary == {
      'status': 'finished',
      'mode': 'train',
      'steps': 3,
      'episodes': 0,  # these metrics count none
      'updates': 9,
      'sampled_tokens': 15,
      'compile_wait_s': 7.5,  # of both processes
      'programs': 3,  # of this one
      'eval': {'before': SUMMARY},
      'links': {},
  }


def test_a_run_that_ends_early_leaves_how_far_it_came(
    make_record, stack, tmp_path
):
  record = make_record()
  with pytest.raises(EnvError), record:
    open_record(record, stack)
    record.begin('train')
    for step in range(2):
      values = {'rollout/episodes': 4.0, 'rollout/completion_tokens': 5.0}
      record.write_step(made(step), values, tokens=False, shaped=False)
    record.add_evaluation('before', SUMMARY)
    stack.close()
    with (tmp_path / 'metrics.jsonl').open('a') as file:
      file.write('{"step": 2, "roll')  # here the disk was full
    raise EnvError('down')
  found = summary_lib.read(tmp_path)
  assert (found['status'], found['reason']) == ('failed', 'EnvError: down')
  assert (found['steps'], found['episodes']) == (2, 8)
  assert found['sampled_tokens'] == 10 and found['checkpoint'] is None
  assert found['eval'] == {'before': SUMMARY}

  # Refused before it begins, the next process leaves what it has found.
  with pytest.raises(EnvError), make_record():
    raise EnvError('refused')
  assert summary_lib.read(tmp_path) == found
  again = make_record()
  assert again.summarised(2)['eval'] == {'before': SUMMARY}
  with again:
    again.begin('train')
    assert not summary_lib.read(tmp_path)  # it goes on
  with pytest.raises(KeyboardInterrupt), make_record(writes=False) as other:
    other.begin('train')
    raise KeyboardInterrupt
  assert not summary_lib.read(tmp_path)


def test_lines_of_a_run_without_a_checkpoint_are_set_aside(
    make_record, stack, tmp_path
):
  (tmp_path / 'metrics.jsonl').write_text('{"step": 0}\n{"step": 1}\n')
  open_record(make_record(), stack)
  assert lines(tmp_path) == []
  (kept,) = tmp_path.glob('metrics.jsonl.discarded*')
  assert len(kept.read_text().splitlines()) == 2


def test_other_processes_count_and_write_nothing(make_record, stack, tmp_path):
  record = make_record(writes=False)
  open_record(record, stack)
  record.write_step(made(), {}, tokens=True, shaped=False)
  record.write(1, {})
  record.add_evaluation('after', SUMMARY)
  record.add_tokens(3)
  record.summarise('train', 1)
  assert record.discard_from(0) == 0
  assert record.state()['evals'] == {'after': SUMMARY}
  assert record.state()['totals']['tokens'] >= 3
  assert not list(tmp_path.iterdir())
