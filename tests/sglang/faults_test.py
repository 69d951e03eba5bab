"""Real servers under faults and traffic; soaks of a few minutes.

At full size: `python -m experiments.benchmarks.soak_faults` and `soak_sglang`.
"""

import asyncio

import pytest

from experiments.benchmarks import soak_faults, soak_sglang
from tests.sglang import server as server_lib

pytestmark = [pytest.mark.sglang, pytest.mark.slow]


def test_a_run_lives_through_faults(tmp_path):
  server_lib.python()  # or there is nothing to start
  report = asyncio.run(
      soak_faults.soak(
          tmp_path / 'run',
          faults=3,
          seed=0,
          engine=False,
          weights={'kill_scheduler': 1, 'pause': 1, 'stop_server': 1},
      )
  )
  assert report.failures == []
  assert sum(report.kinds.values()) == 3


def test_replies_under_traffic_have_the_trainers_log_probabilities(
    exported, real_url, tmp_path
):
  directory, *_ = exported
  report = asyncio.run(
      soak_sglang.soak(
          real_url, directory, tmp_path, requests=300, clients=32, seed=1
      )
  )
  assert report.failures == []
  assert sum(report.ends.values()) == report.requests == 300
  assert report.ends['left'] and report.replies['abort']
  # Each way of pushing, and replies over entries of two versions.
  assert report.versions >= 4
  assert report.spans['several versions']
  assert max(report.worst.values()) < 1e-4
