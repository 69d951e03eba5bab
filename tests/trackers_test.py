"""Trackers; TensorBoard's are tested in metrics_test, beside the lines."""

import functools
import importlib.util
import json
import socket

import pytest

from agentrl import trackers
from agentrl.errors import ConfigError
from tests import forks

KEY = 'a' * 40
needs_wandb = pytest.mark.skipif(
    importlib.util.find_spec('wandb') is None,
    reason='needs third_party/requirements/wandb.txt',
)
# A run: its warm start, then steps from argv[2] to 3, and an evaluation.
PROGRAM = """
import contextlib, pathlib, sys
from agentrl import metrics, trackers

folder, start = pathlib.Path(sys.argv[1]), int(sys.argv[2])
found = trackers.make(
    ['wandb'], folder, {'seed': 3}, project='mine', name=None
)
found_all = list(found.values())
with contextlib.closing(
    metrics.Writer(folder, filename='warmstart.jsonl', prefix='warmstart/',
                   total=1, trackers=found_all)) as writer:
  writer.write(0, {'policy/loss': 9.0})
writer = metrics.Writer(folder, total=4, start=start, trackers=found_all)
for step in range(start, 4):
  writer.write(step, {'policy/loss': step / 2})
writer.amend({'eval/success': 0.5})
writer.close()
print('link', found['wandb'].link)
found['wandb'].finish()
"""


@pytest.fixture(name='run', scope='module')
def _run(tmp_path_factory):
  """Runs the program in a folder from a step, with these variables."""
  path = tmp_path_factory.mktemp('program') / 'program.py'
  path.write_text(PROGRAM)
  # Of what takes long; W&B starts nothing of its own before it is used.
  with forks.starter('wandb', 'agentrl.metrics') as run:
    yield functools.partial(run, str(path))


def read_offline(path):
  """The records of an offline run, by W&B's own reader."""
  from wandb.proto import wandb_internal_pb2

  data, records = path.read_bytes(), []
  place, parts = 7, []  # behind the header
  while place + 7 <= len(data):
    length = int.from_bytes(data[place + 4 : place + 6], 'little')
    kind = data[place + 6]
    parts.append(data[place + 7 : place + 7 + length])
    place += 7 + length
    if 32768 - place % 32768 < 7:  # the rest of a block is padding
      place += 32768 - place % 32768
    if kind in (1, 4):  # whole, or its last part
      record = wandb_internal_pb2.Record()
      record.ParseFromString(b''.join(parts))
      records.append(record)
      parts = []
  return records


def history(records):
  """The metrics of each logged record."""
  return [
      {
          '/'.join(item.nested_key) or item.key: json.loads(item.value_json)
          for item in record.history.item
      }
      for record in records
      if record.HasField('history')
  ]


@needs_wandb
def test_an_offline_run_has_what_the_lines_have_and_goes_on(run, tmp_path):
  for start in (0, 2):
    done = run(str(tmp_path), str(start), WANDB_MODE='offline')
    assert done.returncode == 0, done.stderr
    (link,) = [x for x in done.stdout.splitlines() if x.startswith('link')]
    folder = tmp_path / link.removeprefix('link ')
    (path,) = folder.glob('*.wandb')
    assert json.loads((tmp_path / 'wandb.json').read_text())['id'] in path.name
    records = read_offline(path)
    lines = history(records)
    assert [line['policy/loss'] for line in lines if 'policy/loss' in line] == [
        step / 2 for step in range(start, 4)
    ]
    assert [line['step'] for line in lines if 'step' in line] == [
        *range(start, 4), 3,
    ]  # fmt: skip
    assert lines[0]['warmstart/policy/loss'] == 9.0
    assert lines[-1]['eval/success'] == 0.5
    (begun,) = [x.run for x in records if x.HasField('run')][:1]
    assert begun.project == 'mine' and begun.display_name == tmp_path.name
    config = {x.key: x.value_json for x in begun.config.update}
    assert config['seed'] == '3'
  assert len(list((tmp_path / 'wandb').glob('offline-run-*'))) == 2


@needs_wandb
def test_without_network_one_line_says_the_way_out(run, tmp_path):
  done = run(
      str(tmp_path),
      '0',
      WANDB_API_KEY=KEY,
      WANDB_BASE_URL='http://127.0.0.1:9',
  )
  last = done.stderr.strip().splitlines()[-1]
  assert "track.to='wandb' cannot use http://127.0.0.1:9" in last
  assert 'WANDB_MODE=offline' in last
  assert not list(tmp_path.iterdir())


@needs_wandb
def test_without_a_key_one_line_says_the_way_out(run, tmp_path, unused_server):
  done = run(
      str(tmp_path),
      '0',
      WANDB_API_KEY='',
      HOME=str(tmp_path),
      WANDB_BASE_URL=unused_server,
  )
  last = done.stderr.strip().splitlines()[-1]
  assert "track.to='wandb' has no key: run `wandb login`" in last
  assert 'WANDB_MODE=offline' in last


@pytest.fixture
def unused_server():
  """A URL at which somebody listens."""
  with socket.create_server(('127.0.0.1', 0)) as server:
    yield f'http://127.0.0.1:{server.getsockname()[1]}'


def test_without_the_package_its_file_is_named(tmp_path, monkeypatch):
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  with pytest.raises(ConfigError, match=r'pip install -r .*wandb\.txt'):
    trackers.make(['wandb'], tmp_path, {}, project='p', name=None)


def test_no_tracker_is_a_choice(tmp_path):
  assert trackers.make([], tmp_path, {}, project='p', name=None) == {}
