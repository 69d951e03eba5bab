"""Tests for agentrl.runtime.summary."""

import pathlib

import pytest

from agentrl.errors import CheckpointError, DivergedError
from agentrl.runtime import summary
from agentrl.runtime.event_loop import Interrupted

VALUES = {'mode': 'train', 'steps': 3}


def test_only_the_end_of_a_run_is_its_finish(tmp_path):
  assert summary.read(tmp_path) == {} and not summary.finished({})
  assert summary.finished(VALUES)  # of an earlier version
  path = summary.write(tmp_path, VALUES)
  assert summary.read(tmp_path) == {'status': 'finished', **VALUES}
  assert summary.finished(summary.read(tmp_path))
  summary.withdraw(tmp_path)
  assert path.exists()
  path.write_text('{')
  with pytest.raises(CheckpointError, match='summary.json .* not JSON'):
    summary.read(tmp_path)
  summary.withdraw(tmp_path)
  assert path.exists()


@pytest.mark.parametrize(
    'error, status, reason',
    [
        (Interrupted('SIGTERM'), 'stopped', 'SIGTERM'),
        (Interrupted(), 'stopped', 'a signal'),
        (
            KeyboardInterrupt('SIGINT, after SIGTERM'),
            'stopped',
            'SIGINT, after',
        ),
        (
            OSError(28, 'No space left'),
            'failed',
            'OSError: [Errno 28] No space',
        ),
    ],
)
def test_an_interrupted_run_says_why_and_how_to_go_on(
    tmp_path, error, status, reason
):
  (tmp_path / 'checkpoints' / '2').mkdir(parents=True)
  summary.leave(tmp_path, error, VALUES)
  found = summary.read(tmp_path)
  assert found['status'] == status and found['reason'].startswith(reason)
  assert (found['steps'], found['checkpoint']) == (3, 2)
  assert found['go_on'].startswith('The same command continues from')
  assert found['command'].startswith('python ')
  assert not summary.finished(found)
  summary.withdraw(tmp_path)
  assert not summary.read(tmp_path)


def test_the_way_on_is_that_of_the_error(tmp_path):
  summary.leave(tmp_path, DivergedError('too much'), VALUES)
  assert 'lower learning rate' in summary.read(tmp_path)['go_on']
  summary.leave(tmp_path, Interrupted(), VALUES, go_on='Again.')
  assert summary.read(tmp_path)['go_on'] == 'Again.'
  assert summary.read(tmp_path)['checkpoint'] is None


def test_a_finished_run_without_another_step_stays_finished(tmp_path):
  summary.write(tmp_path, VALUES)
  summary.leave(tmp_path, Interrupted(), VALUES)
  assert summary.finished(summary.read(tmp_path))
  summary.leave(tmp_path, Interrupted(), VALUES | {'steps': 4})
  assert summary.read(tmp_path)['status'] == 'stopped'


def test_a_disk_that_is_full_is_no_second_error(tmp_path, monkeypatch):
  def full(*args, **how):
    raise OSError(28, 'No space left on device')

  summary.leave(tmp_path / 'deleted', Interrupted(), VALUES)
  monkeypatch.setattr(pathlib.Path, 'replace', full)
  summary.leave(tmp_path, Interrupted(), VALUES)
  assert list(tmp_path.iterdir()) == []
  with pytest.raises(OSError, match='No space'):
    summary.write(tmp_path, VALUES)
