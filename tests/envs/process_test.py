"""Tests for an environment server as a child process."""

import json
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from agentrl.envs import ENVS
from tests.envs.conformance import IN_A_BROWSER, OF_A_FILE
from tests.waiting import gone, wait_until

ROOT = pathlib.Path(__file__).parents[2]
COMMAND = [sys.executable, '-m', 'agentrl.envs.server', '--port=0']


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
  """Children import agentrl from the working directory."""
  monkeypatch.chdir(ROOT)


def start(*flags, **kwargs):
  """A server and its ready line."""
  child = subprocess.Popen(
      [*COMMAND, *flags],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
      **kwargs,
  )
  return child, json.loads(child.stdout.readline())


def finish(child, timeout=60):
  """Its exit code, once the pipes that we hold are closed."""
  code = child.wait(timeout)
  child.stdin.close()
  child.stdout.close()
  return code


def is_up(url):
  try:
    with urllib.request.urlopen(f'{url}/health', timeout=30) as response:
      return json.load(response)['status'] == 'ok'
  except OSError:
    return False


def test_it_says_one_line_when_it_is_ready_and_ends_with_its_stdin():
  child, ready = start('--env=textcraft', '--exit_with_parent')
  assert ready['env'] == 'textcraft' and is_up(ready['url'])
  assert ready['url'].endswith(f':{ready["port"]}')
  child.stdin.close()
  assert child.wait(60) == 0
  assert child.stdout.read() == ''
  child.stdout.close()


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_code_zero(number):
  child, ready = start('--env=textcraft')
  assert is_up(ready['url'])
  child.send_signal(number)
  assert finish(child) == 0


def test_without_the_flag_it_outlives_its_stdin():
  child, ready = start('--env=textcraft')
  child.stdin.close()
  time.sleep(0.3)
  assert is_up(ready['url'])
  child.terminate()
  assert child.wait(60) == 0
  child.stdout.close()


def test_it_does_not_outlive_a_parent_that_was_killed():
  parent_code = (
      'import subprocess, sys, time\n'
      f'child = subprocess.Popen({COMMAND!r} + ["--env=textcraft",'
      ' "--exit_with_parent"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,'
      ' text=True)\n'
      'print(child.pid, child.stdout.readline(), flush=True)\n'
      'time.sleep(60)\n'
  )
  parent = subprocess.Popen(
      [sys.executable, '-c', parent_code], stdout=subprocess.PIPE, text=True
  )
  pid, _, line = parent.stdout.readline().partition(' ')
  url = json.loads(line)['url']
  assert is_up(url)
  parent.send_signal(signal.SIGKILL)
  parent.wait()
  parent.stdout.close()
  assert wait_until(lambda: not is_up(url))
  assert gone(int(pid))


@pytest.mark.parametrize(
    'names',
    [
        pytest.param(
            sorted(
                ENVS.keys()
                - IN_A_BROWSER
                - OF_A_FILE
                - {'reasoning_gym', 'textarena'}
            ),
            id='most',
        ),
        pytest.param(
            sorted(IN_A_BROWSER), id='in a browser', marks=pytest.mark.browser
        ),
    ],
)
def test_it_needs_no_accelerator_library(names):
  code = (
      'import sys; import agentrl.envs.server, agentrl.envs.client;'
      f' from agentrl import envs; [envs.get(x).open() for x in {names}];'
      ' bad = {"jax", "flax", "optax", "torch"} & set(sys.modules);'
      ' sys.exit(f"imported {bad}" if bad else 0)'
  )
  done = subprocess.run([sys.executable, '-c', code], capture_output=True)
  assert done.returncode == 0, done.stderr.decode()


def test_wrong_flags_are_one_line_and_code_one():
  for flags, words in (
      (['--env=chess'], 'known: textcraft, babyai'),
      (
          ['--env=babyai', '--options={"levels": ["x"]}'],
          'Unknown BabyAI levels',
      ),
  ):
    done = subprocess.run(
        [*COMMAND, *flags], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1 and done.stdout == ''
    (line,) = done.stderr.splitlines()
    assert line.startswith('error: ') and words in line


def test_nothing_but_the_ready_line_reaches_stdout():
  # minigrid prints the layouts that it rejects.
  child, ready = start('--env=babyai', '--exit_with_parent')
  for task_id in (39, 79, 119, 159):
    for route, body in (
        ('create', {}),
        ('reset', {'id': task_id // 40, 'data_idx': task_id}),
    ):
      request = urllib.request.Request(
          f'{ready["url"]}/{route}', json.dumps(body).encode()
      )
      with urllib.request.urlopen(request, timeout=120) as response:
        assert response.status == 200
  child.stdin.close()
  assert child.wait(60) == 0
  assert child.stdout.read() == ''
  child.stdout.close()
