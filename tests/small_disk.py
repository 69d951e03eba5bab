"""A disk that is soon full."""

import contextlib
import subprocess

import pytest


@contextlib.contextmanager
def mounted(directory, megabytes):
  """A disk of this size, where this user may mount one; else the test is skipped."""
  directory.mkdir(exist_ok=True)
  size = f'size={megabytes}m'
  command = ['mount', '-t', 'tmpfs', '-o', size, 'none', str(directory)]
  try:
    subprocess.run(command, check=True, capture_output=True)
  except (OSError, subprocess.CalledProcessError):
    pytest.skip('mounting is not permitted')
  try:
    yield
  finally:
    subprocess.run(['umount', '-l', str(directory)], check=True)
