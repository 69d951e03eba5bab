"""Tests for agentrl.runtime.supervisor: nothing that it runs outlives its parent."""

import glob
import mmap
import os
import shutil
import signal
import subprocess
import sys

import pytest

from agentrl.runtime import supervisor
from tests.waiting import alive, gone

# A server with a child of its own, as SGLang has; says both ids.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(999)'])
print(os.getpid(), child.pid, flush=True)
time.sleep(999)
"""
STUBBORN = 'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
RUN = [sys.executable, supervisor.__file__]


def start(code, command=RUN):
  return subprocess.Popen(
      [*command, sys.executable, '-c', code],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
  )


def family(process):
  return [int(word) for word in process.stdout.readline().split()]


@pytest.fixture
def clean():
  """Ends what a failed test leaves."""
  processes = []
  yield processes.append
  for process in processes:
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


@pytest.mark.parametrize('end', ['pipe', 'SIGTERM', 'SIGKILL'])
def test_whatever_ends_the_keeper_ends_the_command(clean, end):
  process = start(FAMILY)
  clean(process)
  pids = family(process)
  assert all(map(alive, pids))
  if end == 'pipe':
    process.stdin.close()
  else:
    process.send_signal(getattr(signal, end))
  # After SIGKILL the kernel ends the command, which has to end its own.
  assert gone(*(pids if end != 'SIGKILL' else pids[:1]))
  if end == 'SIGKILL':
    os.kill(pids[1], signal.SIGKILL)


def test_a_command_that_ignores_sigterm_is_killed(clean):
  # As the supervisor, with less patience.
  patient = f"""
import sys
sys.path.insert(0, {os.path.dirname(supervisor.__file__)!r})
import supervisor
supervisor.GRACE_S = 0.5
sys.exit(supervisor.main(sys.argv[1:]))
"""
  process = start(STUBBORN + FAMILY, [sys.executable, '-c', patient])
  clean(process)
  pids = family(process)
  process.stdin.close()
  assert gone(*pids)
  assert process.wait(60) == 128 + signal.SIGKILL


def test_a_crash_takes_what_it_leaves_behind_along(clean):
  process = start(FAMILY)
  clean(process)
  pids = family(process)
  os.kill(pids[0], signal.SIGKILL)
  assert gone(*pids)
  assert process.wait(60) == 128 + signal.SIGKILL


@pytest.mark.parametrize('code', [0, 3])
def test_the_exit_code_is_the_commands(clean, code):
  process = start(f'import sys; print("bye"); sys.exit({code})')
  clean(process)
  assert process.wait(60) == code
  assert process.stdout.read() == 'bye\n'


def test_a_command_that_does_not_exist_is_named():
  done = subprocess.run(
      [*RUN, '/no/such/python'],
      stdin=subprocess.PIPE,
      capture_output=True,
      text=True,
      timeout=60,
  )
  assert done.returncode == 127
  assert 'cannot run /no/such/python' in done.stderr


# A process that maps files of shared memory; says their names.
SHARES = """
import mmap, os, sys, time
maps = []
for path in sys.argv[1:]:
  with open(path, 'w+b') as file:
    file.truncate(4096)
    maps.append(mmap.mmap(file.fileno(), 4096))
print('mapped', flush=True)
time.sleep(999)
"""


def test_files_in_memory_that_nobody_else_uses_go_with_the_command(clean):
  name = f'/dev/shm/test-{os.getpid()}'
  own, others, folder = f'{name}-own', f'{name}-others', f'{name}-folder'
  os.mkdir(folder)
  paths = [own, others, f'{folder}/weights']
  try:
    command = [sys.executable, '-c', SHARES]
    process = subprocess.Popen(
        [*RUN, *command, *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    clean(process)
    assert process.stdout.readline() == 'mapped\n'
    with open(others, 'r+b') as file, mmap.mmap(file.fileno(), 4096):
      # Renamed, as semaphores are: it is the file that counts, not its name.
      os.rename(own, f'{own}-renamed')
      process.stdin.close()
      process.wait(60)
    left = [path for path in (f'{own}-renamed', *paths) if os.path.exists(path)]
    assert left == [others, f'{folder}/weights']
  finally:
    shutil.rmtree(folder)
    for path in glob.glob(f'{name}*'):
      os.remove(path)
