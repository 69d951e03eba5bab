"""Tests for agentrl.parallel.distributed in one process."""

import jax.numpy as jnp
import numpy as np

from agentrl.parallel import distributed


def test_one_process_is_all_there_is():
  assert distributed.is_first() and distributed.count() == 1
  assert distributed.share(b'word') == [b'word']
  assert distributed.agree(True) and not distributed.agree(False)
  assert distributed.own([3, 1, 2]) == [3, 1, 2]
  distributed.wait('nobody')


def test_copies_keep_their_values():
  x = np.arange(6.0, dtype=np.float32).reshape(3, 2)
  one = jnp.asarray(x)
  np.testing.assert_array_equal(distributed.to_host(one), x)
  np.testing.assert_array_equal(distributed.to_host(x), x)
  assert distributed.on_one_device(one) is one
