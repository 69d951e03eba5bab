"""Tests for agentrl.runtime.workdir; config.json's are in config.resume_test."""

import pytest

from agentrl.errors import CheckpointError, ConfigError
from agentrl.runtime import workdir as workdir_lib


@pytest.fixture
def run(tmp_path):
  """A workdir with two checkpoints, and one that is being written."""
  for name in ('2', '10', '11.orbax-checkpoint-tmp-1'):
    (tmp_path / 'checkpoints' / name).mkdir(parents=True)
  return tmp_path


def test_a_workdir_is_made_with_its_parents(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  path = workdir_lib.make('runs/new')
  assert path == tmp_path / 'runs' / 'new' and path.is_dir()
  assert workdir_lib.make('runs/new') == path and not list(path.iterdir())


@pytest.mark.parametrize('workdir', [None, ''])
def test_a_mode_that_writes_needs_a_workdir(workdir):
  with pytest.raises(ConfigError, match='--workdir=runs/NAME'):
    workdir_lib.make(workdir)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
  path = tmp_path / 'file'
  path.write_text('')
  with pytest.raises(ConfigError, match=f'Cannot write to --workdir={path}'):
    workdir_lib.make(str(path))


def test_a_record_is_read_back(tmp_path):
  path = tmp_path / 'config.json'
  path.write_text('{"mode": "träin"}', encoding='utf-8')
  assert workdir_lib.read_record(path) == {'mode': 'träin'}


@pytest.mark.parametrize(
    'content, said',
    [
        (None, 'No such file'),
        (b'{"mode": "tr', 'it is not JSON'),
        (b'[' * 99999, 'it is not JSON'),
        (b'\xff', 'it is not JSON'),
        (b'[]', 'it is no JSON object'),
    ],
)
def test_a_torn_record_is_one_line_that_names_the_file(tmp_path, content, said):
  path = tmp_path / 'config.json'
  if content is not None:
    path.write_bytes(content)
  with pytest.raises(CheckpointError) as refused:
    workdir_lib.read_record(path)
  message = str(refused.value)
  assert str(path) in message and said in message and '\n' not in message


def test_a_name_means_a_run_or_one_of_its_checkpoints(run):
  assert workdir_lib.run_of(str(run)) == (run, None)
  assert workdir_lib.run_of(str(run / 'checkpoints' / '2')) == (run, 2)
  assert workdir_lib.run_of('smollm2-135m') is None
  assert workdir_lib.run_of(str(run / 'checkpoints')) is None


def test_a_run_names_its_best_checkpoint(run):
  folder = run / 'checkpoints'
  assert workdir_lib.best_checkpoint(folder) is None
  with pytest.raises(CheckpointError, match='names no .*keep_best=True'):
    workdir_lib.run_of(str(folder / 'best'))
  for number in (10, 2):
    workdir_lib.name_best(folder, number)
    assert workdir_lib.best_checkpoint(folder) == number
    assert workdir_lib.run_of(str(folder / 'best')) == (run, number)
  assert workdir_lib.last_checkpoint(run) == folder / '10'
  (folder / 'best').write_text('ten')
  with pytest.raises(CheckpointError, match="best has 'ten' in place of the"):
    workdir_lib.run_of(str(folder / 'best'))
  assert workdir_lib.run_of(str(run / 'other' / 'checkpoints' / 'best')) is None


def test_the_last_checkpoint_is_the_newest_that_is_complete(run, tmp_path):
  assert workdir_lib.last_checkpoint(run) == run / 'checkpoints' / '10'
  assert workdir_lib.last_checkpoint(tmp_path / 'none') is None


def test_only_what_was_written_is_hinted_at(run, tmp_path):
  empty = tmp_path / 'none'
  assert 'no checkpoint' in workdir_lib.way_on(empty)
  assert 'no checkpoint' in workdir_lib.way_out(empty)
  assert 'continues from the last checkpoint' in workdir_lib.way_on(run)
  assert f'model.name={run}' in workdir_lib.way_out(run)
