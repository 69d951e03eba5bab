"""Tests for agentrl.engine.core, on a runner that computes nothing."""

import pytest

from agentrl.engine.cache import FREE, PARKED, SlotTable
from agentrl.engine.core import EngineCore
from agentrl.engine.request import Request, SamplingParams
from agentrl.engine.sequence import Sequence
from agentrl.errors import EngineError


class Runner:
  """Keeps parameters."""

  def __init__(self):
    self.params, self.resets = 'old', 0

  def set_params(self, params):
    if params == 'bad':
      raise EngineError('does not fit', retryable=False)
    self.params = params

  def reset(self):
    self.resets += 1


@pytest.fixture
def table():
  return SlotTable(4, 32)


@pytest.fixture
def core(table):
  return EngineCore(Runner(), table, max_running=4, weight_version='0')


@pytest.fixture
def add(core, table):
  """Adds a request; `run=True` gives it a slot with its prompt filled."""

  def add(rid, run=False, adapter=None):
    request = Request(rid, (1, 2, 3), SamplingParams(), adapter=adapter)
    sequence = Sequence(request, seed=0, eos_ids=(), tokenizer=None)
    core.sequences.add(sequence)
    if run:
      core.sequences.waiting.remove(sequence)
      lease = table.acquire(sequence.tokens, 0, None)
      sequence.start(lease.slot, lease.shared)
      table.set_filled(lease.slot, 2)
      core.sequences.running.append(sequence)
    return sequence

  return add


def ended(*sequences):
  return [s.future.done() for s in sequences]


def test_an_abort_takes_a_known_id_and_those_that_begin_with_it(core, add):
  runs, waits, other = add('job-1', run=True), add('job-10'), add('x-job-1')
  assert core.abort('job-') == 0 and core.abort('job') == 0  # no such ids
  assert core.abort('job-1') == 2
  assert ended(runs, waits, other) == [True, True, False]
  assert runs.future.result().finish_reason['message'] == 'Aborted'
  assert 'queue' in waits.future.result().finish_reason['message']
  assert core.abort(None) == 1 and not core.has_work


def test_only_the_very_requests_are_abandoned(core, add):
  mine, others = add('a'), add('a')
  assert core.abandon([mine.request]) == 1
  assert ended(mine, others) == [True, False]


def test_pause_modes_end_requeue_or_freeze_what_runs(core, add, table):
  first, second, late = add('1', run=True), add('2', run=True), add('3')
  core.pause('in_place')
  assert core.sequences.running == [first, second] and not core.has_work
  core.pause('retract')
  assert list(core.sequences.waiting) == [first, second, late]
  assert first.num_retractions == 1 and table.count(PARKED) == 2
  core.pause('abort')
  assert all(ended(first, second, late))
  with pytest.raises(ValueError, match="pause mode 'soft'; known: abort"):
    core.pause('soft')
  add('4')
  assert core.paused and not core.has_work
  core.resume()
  assert core.has_work


def test_a_flush_needs_an_idle_engine_or_a_pause(core, add, table):
  add('1', run=True)
  assert not core.flush()
  core.pause('retract')
  assert table.count(PARKED) == 1
  assert core.flush() and table.count(FREE) == 4  # what waits has no entries
  core.resume()
  assert not core.flush()


def test_weights_that_do_not_fit_change_nothing(core, add):
  add('1', run=True)
  with pytest.raises(EngineError, match='does not fit'):
    core.swap('bad', '1', flush=True)
  assert core.weights.base == 'old' and core.weights.version == '0'
  assert core.swap('new', '1', flush=False) == 1
  assert core.weights.base == 'new' and core.weights.version == '1'
  core.set_version('2', abort_all=True)
  assert core.weights.version == '2' and not core.has_work


def test_an_adapter_goes_when_its_requests_have_ended(core, add):
  core.load_adapter('a', '/a', 'merged')
  with pytest.raises(EngineError, match='loaded already'):
    core.load_adapter('a', '/b', 'merged')
  with pytest.raises(EngineError, match='Unload them first'):
    core.swap('new', '1', flush=True)
  before = add('1', adapter='a')
  assert not core.unload_adapter('a')  # in use; new requests are refused
  late = add('2', adapter='a').future.result()
  assert late.finish_reason['status_code'] == 400
  assert "'a' is not loaded; loaded: none" in late.finish_reason['message']
  core.abandon([before.request])
  assert core.unload_adapter('a') and not core.weights.paths
  with pytest.raises(EngineError, match="'a' is not loaded"):
    core.unload_adapter('a')


def test_a_failure_ends_everything_in_a_new_cache(core, add, table):
  runs, waits = add('1', run=True), add('2')
  core.recover('it broke')
  for sequence in (runs, waits):
    reason = sequence.future.result().finish_reason
    assert reason['message'] == 'it broke' and reason['status_code'] == 500
  assert table.count(FREE) == 4 and core.model_runner.resets == 1
  last = add('3')
  core.close('the end')
  assert last.future.result().finish_reason['status_code'] == 503
