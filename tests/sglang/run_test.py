"""Runs of launch.py whose servers are real, started by the run itself."""

import json

import pytest

from tests.e2e.running import launch, lines
from tests.e2e.sglang_test import mentioning
from tests.sglang import server as server_lib

pytestmark = pytest.mark.sglang


def sglang_flags(push_dir):
  return (
      '--config.sampler.kind=sglang',
      f'--config.sampler.launch.python={server_lib.python()}',
      f'--config.sampler.launch.module={server_lib.MODULE}',
      f'--config.sampler.push_dir={push_dir}',
  )


def check(run, push_dir, bound):
  """What every run on a real server has to leave."""
  summary = json.loads((run / 'summary.json').read_text())
  metrics = lines(run / 'metrics.jsonl')
  assert [line['step'] for line in metrics] == list(range(summary['steps']))
  versions = [line['policy/version'] for line in metrics]
  assert all(a < b for a, b in zip(versions, versions[1:], strict=False))
  for line in metrics:
    assert line['sampler/logprob_abs_diff_mean'] < bound
    assert line['sampler/stale_turns'] == 0
  assert not mentioning(str(push_dir))
  log = (run / 'servers' / '0.log').read_text()
  assert '/update_weights_from_disk HTTP/1.1" 200' in log
  # The default `verify`: each push was read back.
  assert '/get_weights_by_name HTTP/1.1" 200' in log


def test_the_quickstart_trains_on_a_real_server(tmp_path):
  run, push_dir = tmp_path / 'run', tmp_path / 'push'
  done = launch(
      run, *sglang_flags(push_dir), config='configs/quickstart.py:tiny'
  )
  assert done.returncode == 0, done.stdout + done.stderr
  check(run, push_dir, 1e-5)


@pytest.mark.slow
def test_a_pretrained_model_trains_on_a_real_server(tmp_path):
  run, push_dir = tmp_path / 'run', tmp_path / 'push'
  config = 'configs/textcraft_grpo.py:model=smollm2-135m,tiny'
  done = launch(run, *sglang_flags(push_dir), config=config)
  assert done.returncode == 0, done.stdout + done.stderr
  check(run, push_dir, 1e-4)
