"""What decoders of other families add computes the same on any mesh."""

import numpy as np
import pytest

from tests.parallel.eight_devices import arrays_of


@pytest.mark.slow
def test_any_mesh_gives_the_same_gradients(tmp_path):
  found = arrays_of('tests.parallel.simulated_families', tmp_path / 'a.npz')
  alone = {k: v for k, v in found.items() if k.startswith('1x1x1x1/')}
  assert len(alone) > 15
  for name, expected in alone.items():
    assert np.abs(expected).max() > 1e-6, name  # it acts on the loss
    for mesh in ('2x2x2x1', '1x2x2x2'):
      actual = found[name.replace('1x1x1x1', mesh)]
      np.testing.assert_allclose(
          actual, expected, rtol=1e-4, atol=1e-6, err_msg=f'{mesh} {name}'
      )
