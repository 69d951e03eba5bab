"""Optimizers whose state is spread over simulated devices."""

import numpy as np
import pytest

from tests.parallel import eight_devices

ALONE, MESH = '1x1x1x1', '1x4x2x1'


@pytest.mark.slow
@pytest.mark.parametrize(
    'names',
    [('adamw8bit', 'adafactor'), ('adamw', 'muon')],
)
def test_a_split_state_is_that_of_one_device(names, tmp_path):
  cases = [f'{name}/{mesh}' for name in names for mesh in (ALONE, MESH)]
  updates = eight_devices.arrays_of(
      'tests.parallel.simulated_optimizers', tmp_path / 'updates.npz', *cases
  )
  for name in names:
    held, total = updates.pop(f'{name}/{MESH}/held')
    # An eighth, but for norms and what is small: factors, scales of blocks.
    assert held < (0.6 if name == 'adafactor' else 0.2) * total, name
    del updates[f'{name}/{ALONE}/held']
  compared = 0
  for key, expected in updates.items():
    if f'/{ALONE}/' not in key:
      continue
    found = updates[key.replace(ALONE, MESH)]
    compared += 1
    if expected.dtype.itemsize == 1:
      # A number at the edge of its cell may fall to either side.
      apart = np.abs(found.astype(int) - expected)
      assert apart.max() <= 1 and (apart > 0).mean() < 1e-3, key
    else:
      np.testing.assert_allclose(
          found, expected, rtol=1e-4, atol=1e-5, err_msg=key
      )
  assert compared > 50
