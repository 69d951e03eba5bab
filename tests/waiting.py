"""Waiting for what other processes do."""

import time


def wait_until(condition, seconds=20):
  """Whether `condition()` came true within so many seconds."""
  deadline = time.monotonic() + seconds
  while time.monotonic() < deadline:
    if condition():
      return True
    time.sleep(0.05)
  return False
