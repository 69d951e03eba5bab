"""Tests for agentrl.parallel.mesh."""

import jax
import pytest
from jax.sharding import AxisType

from agentrl.parallel import mesh


def test_minus_one_takes_the_rest():
  found = mesh.make_mesh(dict(data=-1, fsdp=1, tensor=1))
  assert dict(found.shape) == dict(data=jax.device_count(), fsdp=1, tensor=1)
  assert set(found.axis_types) == {AxisType.Auto}
  assert mesh.batch_size(found) == jax.device_count()


@pytest.mark.parametrize(
    'axes',
    [
        dict(data=2, fsdp=2),  # leaves two devices idle
        dict(data=4, fsdp=-1),
        dict(data=-1, fsdp=-1),
        dict(data=16, fsdp=1),
        dict(data=0, fsdp=-1),
        dict(data=-2, fsdp=-3),
    ],
)
def test_axes_that_do_not_fit_are_refused(axes):
  devices = jax.devices()[:1] * 6
  with pytest.raises(ValueError, match=r'Cannot lay 6 devices out as \{'):
    mesh.make_mesh(axes, devices)
