"""Tests for agentrl.modes.offline; whole runs are in tests.e2e."""

import types

from agentrl.modes import offline, sft
from configs import babyai_sft


def test_the_warm_up_is_a_share_of_the_updates():
  wanted = sft.read(babyai_sft.get_config('tiny'))
  run = types.SimpleNamespace(wanted=wanted)
  found = offline.OfflineRun.schedule(run, 45)
  assert found.warmup_steps == 5 and found.lr == wanted.optim.lr
