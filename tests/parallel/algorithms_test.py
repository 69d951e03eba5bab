"""Every advantage and every loss is the same over 1 and 8 devices."""

import numpy as np
import pytest

from tests import variants
from tests.parallel import eight_devices, simulated_algorithms

ALONE, MESH = '1x1', '4x2'


@pytest.fixture(scope='module', name='found')
def _found(tmp_path_factory):
  """Arrays by `mesh/what/name`, all from one process with eight devices."""
  path = tmp_path_factory.mktemp('devices') / 'found.npz'
  found = {}
  arrays = eight_devices.arrays_of('tests.parallel.simulated_algorithms', path)
  for key, value in arrays.items():
    *prefix, leaf = key.split('/', 3)  # a leaf's own name may hold more
    found.setdefault('/'.join(prefix), {})[leaf] = value
  return found


@pytest.mark.parametrize(
    'what, name',
    [('advantages', name) for name in variants.ADVANTAGES]
    + [('losses', name) for name in variants.LOSSES]
    + [('dpo', name) for name in simulated_algorithms.DPO],
)
def test_eight_devices_agree_with_one(found, what, name):
  expected = found[f'{ALONE}/{what}/{name}']
  actual = found[f'{MESH}/{what}/{name}']
  assert actual.keys() == expected.keys()
  assert any(np.abs(value).max() > 0.01 for value in expected.values())
  for key, value in expected.items():
    assert np.isfinite(value).all(), key
    # Float32 sums in another order.
    np.testing.assert_allclose(
        actual[key], value, rtol=1e-5, atol=1e-6, err_msg=key
    )
