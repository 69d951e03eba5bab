"""Tests for agentrl.weights.fingerprint."""

import hashlib
import json

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.weights import fingerprint

PARAMS = {
    'b': {'kernel': np.arange(6, dtype=np.float32).reshape(2, 3)},
    'a': np.float32([1.0, -0.0]),
}


def test_it_is_the_hash_of_names_types_shapes_and_bytes():
  digest = hashlib.sha256()
  for name, array in (('a', PARAMS['a']), ('b/kernel', PARAMS['b']['kernel'])):
    said = json.dumps([name, 'float32', list(array.shape)])
    digest.update(said.encode() + b'\n' + array.tobytes())
  assert fingerprint.of_params(PARAMS) == digest.hexdigest()


def test_arrays_on_a_device_and_in_other_orders_are_the_same():
  kernel = jnp.asarray(np.asfortranarray(PARAMS['b']['kernel']))
  same = {'a': jnp.asarray(PARAMS['a']), 'b': {'kernel': kernel}}
  assert fingerprint.of_params(same) == fingerprint.of_params(PARAMS)


@pytest.mark.parametrize(
    'changed',
    [
        {'a': np.float32([1.0, 0.0])},
        {'a': np.float32([[1.0, -0.0]])},
        {'a': np.float64([1.0, -0.0])},
        {'a': jnp.bfloat16([1.0, -0.0])},
        {'c': np.float32([1.0])},
    ],
)
def test_whatever_differs_shows(changed):
  assert fingerprint.of_params(PARAMS | changed) != fingerprint.of_params(
      PARAMS
  )
  renamed = {'B' if k == 'b' else k: v for k, v in PARAMS.items()}
  assert fingerprint.of_params(renamed) != fingerprint.of_params(PARAMS)


def test_half_precision_and_scalars_have_one():
  params = {'x': jnp.ones((3,), jnp.bfloat16), 'y': np.float32(2.0)}
  assert len(fingerprint.of_params(params)) == 64
