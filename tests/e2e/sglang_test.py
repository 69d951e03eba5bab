"""A run whose servers are processes of its own, killed and continued."""

import json
import pathlib
import signal
import sys

import pytest

from tests.e2e.running import QUICKSTART, launch, lines, start, wait_for
from tests.waiting import wait_until

FLAGS = (
    '--config.num_steps=3',
    '--config.horizon.turns=(1, 2)',
    '--config.warmstart.episodes=8',
    '--config.eval.num_tasks=2',
    '--config.sampler.kind=sglang',
    f'--config.sampler.launch.python={sys.executable}',
    '--config.sampler.launch.module=agentrl.serving.launch_server',
    "--config.sampler.launch.flags=('--skip-server-warmup',)",
)


def mentioning(text):
  """Processes whose command line has `text`."""
  found = []
  for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
    try:
      if text.encode() in path.read_bytes():
        found.append(int(path.parent.name))
    except OSError:  # it has just ended
      continue
  return found


@pytest.mark.slow
def test_a_killed_run_leaves_no_server_and_continues_with_new_ones(tmp_path):
  run, weights = tmp_path / 'run', tmp_path / 'weights'
  flags = (*FLAGS, f'--config.sampler.push_dir={weights}')
  process = start(run, *flags, config=QUICKSTART)
  wait_for((run / 'checkpoints' / '1').exists, process)
  server = f'--model-path\0{weights}'
  assert mentioning(server)
  process.send_signal(signal.SIGKILL)
  process.wait()
  process.stdout.close()
  assert wait_until(lambda: not mentioning(server))

  again = launch(run, *flags, config=QUICKSTART)
  assert again.returncode == 0, again.stdout + again.stderr
  assert 'Continuing after step' in again.stdout
  metrics = lines(run / 'metrics.jsonl')
  assert [line['step'] for line in metrics] == [0, 1, 2]
  for line in metrics:
    assert line['sampler/logprob_abs_diff_mean'] < 1e-4
    assert line['sampler/stale_turns'] == 0
  assert json.loads((run / 'summary.json').read_text())['steps'] == 3
  assert not mentioning(server)
  log = (run / 'servers' / '0.log').read_text()
  assert log.count('Serving') == 2
