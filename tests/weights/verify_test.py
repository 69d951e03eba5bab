"""Tests for agentrl.weights.verify."""

import dataclasses

import jax
import numpy as np
import pytest

from agentrl.errors import WeightsError
from agentrl.weights import hf, verify


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_only_rounding_is_allowed(model, tmp_path, dtype):
  config, params = model
  params = jax.tree.map(np.copy, params)
  # Equal numbers with other bits, and a number that does not equal itself.
  params['embed'][0, :2] = 0.0, np.nan
  kind = np.dtype(dtype)
  hf.save(tmp_path / 'a', config, params, dtype=kind)
  verify.check(tmp_path / 'a', config, params, kind)
  params['embed'][0, 0] = -0.0
  with pytest.raises(WeightsError, match='gives another embed back than was'):
    verify.check(tmp_path / 'a', config, params, kind)


def test_another_shape_is_refused(model, tmp_path):
  config, params = model
  hf.save(tmp_path / 'a', config, params)
  other = dataclasses.replace(config, rope_theta=1.0)
  with pytest.raises(WeightsError, match=r'a reads as .*, not .*rope_theta=1'):
    verify.check(tmp_path / 'a', other, params, np.dtype('float32'))
