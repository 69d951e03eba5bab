"""Tests for agentrl.parallel.distributed in one process."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.parallel import distributed


def test_one_process_is_all_there_is():
  assert distributed.is_first() and distributed.count() == 1
  assert distributed.share(b'word') == [b'word']
  assert distributed.agree(True) and not distributed.agree(False)
  assert distributed.anywhere(True) and not distributed.anywhere(False)
  assert distributed.own([3, 1, 2]) == [3, 1, 2]
  distributed.wait('nobody')


@pytest.mark.parametrize(
    'words',
    [
        (
            'Gloo AllGather failed: [pair.cc:547] Connection closed by peer'
            ' [::1]:1'
        ),
        'read: Connection reset by peer',
        'NCCL operation ncclAllReduce failed: remote error',
        'The following tasks are unhealthy (heartbeat timeout): /task:1',
    ],
)
def test_errors_that_another_process_is_gone(monkeypatch, words):
  found = RuntimeError(f'INTERNAL\n{words}\nmore')
  assert distributed.lost(found) is None  # of one process: something else
  monkeypatch.setattr(distributed, 'count', lambda: 2)
  assert distributed.lost(found) == words
  try:
    raise ValueError('Checkpoint 4 could not be written') from found
  except ValueError as error:
    assert distributed.lost(error) == words
  try:
    try:
      raise found
    finally:
      raise OSError('while it closed')
  except OSError as error:
    assert distributed.lost(error) == words
  assert distributed.lost(OSError('No space left on device')) is None


def test_copies_keep_their_values():
  x = np.arange(6.0, dtype=np.float32).reshape(3, 2)
  one = jnp.asarray(x)
  np.testing.assert_array_equal(distributed.to_host(one), x)
  np.testing.assert_array_equal(distributed.to_host(x), x)
  assert distributed.on_one_device(one) is one
