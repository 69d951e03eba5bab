"""Interpreted flash kernels on a mesh give what `ops.attention` gives alone."""

import numpy as np
import pytest

from tests.parallel import eight_devices


@pytest.fixture(scope='module', name='found')
def _found(tmp_path_factory):
  path = tmp_path_factory.mktemp('flash') / 'found.npz'
  return eight_devices.arrays_of('tests.parallel.simulated_flash', path)


@pytest.mark.parametrize(
    'case', ['causal/split', 'causal/copied', 'prefix/split']
)
def test_any_mesh_gives_the_same_result_and_gradients(found, case):
  of, _ = case.split('/')
  for i in range(6):
    np.testing.assert_allclose(
        found[f'{case}/{i}'], found[f'{of}/expected/{i}'], rtol=1e-4, atol=1e-5
    )
  # Queries, keys and values have a gradient, prefixes if there are any.
  has = [np.any(found[f'{case}/{i}']) for i in range(1, 6)]
  assert has == [True] * 3 + [of == 'prefix'] * 2
