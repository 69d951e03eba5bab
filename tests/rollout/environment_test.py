"""Tests for agentrl.rollout.environment: servers that do not start."""

import os
import sys
import time

import pytest

from agentrl.errors import EnvError
from agentrl.rollout import environment
from agentrl.rollout.environment import EnvServer
from agentrl.runtime.children import SECRETS


def started(monkeypatch, tmp_path, script):
  """An environment server whose process is this shell script."""
  program = tmp_path / 'program'
  program.write_text(f'#!/bin/sh\n{script}\n')
  program.chmod(0o755)
  monkeypatch.setattr(sys, 'executable', str(program))
  return EnvServer('babyai', {})


@pytest.mark.parametrize(
    'script, said',
    [
        (
            'echo No module named jericho >&2; exit 3',
            'ended with exit code 3 before it listened: No module named jeri',
        ),
        (
            'kill -9 $$',
            'was killed by SIGKILL before it listened: it said noth',
        ),
        # What it started lives on, and has its output open.
        (
            'sleep 20 & echo $! >$(dirname $0)/pid; exit 1',
            'ended with exit code 1 before',
        ),
        ('echo Hello; exec sleep 20', 'did not say where it listens'),
        ('echo 5; exec sleep 20', 'did not say where it listens'),
    ],
)
def test_a_server_that_does_not_start_is_told_at_once(
    tmp_path, monkeypatch, script, said
):
  before = time.monotonic()
  with pytest.raises(EnvError, match=f'^The babyai server {said}'):
    started(monkeypatch, tmp_path, script)
  assert time.monotonic() - before < 10
  if (tmp_path / 'pid').exists():
    os.kill(int((tmp_path / 'pid').read_text()), 9)


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(
    tmp_path, monkeypatch
):
  monkeypatch.setattr(environment, '_START_S', 0.3)
  with pytest.raises(EnvError, match='did not start within 0.3 s: it imports'):
    started(monkeypatch, tmp_path, 'echo it imports >&2; exec sleep 20')


def test_a_server_gets_no_secret_of_the_run(tmp_path, monkeypatch):
  for name in SECRETS:
    monkeypatch.setenv(name, 'secret')
  monkeypatch.setenv('ITS_OWN', 'known')
  script = f'echo "$ITS_OWN:${SECRETS[0]}${SECRETS[1]}" >&2; exit 1'
  with pytest.raises(EnvError, match='listened: known:$'):
    started(monkeypatch, tmp_path, script)
