"""Tests for agentrl.engine.shapes: when a larger program is good enough."""

import pytest
from hypothesis import given, strategies as st

from agentrl.engine.shapes import Shapes, bucket

ROWS, LENGTHS = (1, 4, 16, 64), (128, 256, 512)


def test_bucket_is_the_smallest_that_holds():
  assert [bucket(n, ROWS) for n in (1, 2, 4, 5, 64)] == [1, 4, 4, 16, 64]
  with pytest.raises(ValueError, match='65 is over the largest'):
    bucket(65, ROWS)


def test_the_first_program_is_roomy():
  shapes = Shapes(ROWS, LENGTHS)
  assert shapes.choose(1, 100) == ((4, 256), False)
  assert shapes.choose(3, 200) == ((4, 256), False)  # fits exactly
  assert Shapes(ROWS, LENGTHS, room=1).choose(1, 100) == ((1, 256), False)


def test_a_larger_program_serves_until_its_waste_would_pay_for_another():
  shapes = Shapes(ROWS, LENGTHS)
  shapes.choose(16, 256)  # compiles (64, 512)
  assert shapes.choose(4, 128) == ((64, 512), True)
  shapes.waste(4, 128, (64, 512), seconds=1.0)
  assert shapes.choose(4, 128) == ((64, 512), True)
  shapes.waste(4, 128, (64, 512), seconds=1.2)
  assert shapes.choose(4, 128) == ((4, 128), False)
  assert shapes.choose(4, 100) == ((4, 128), False)
  assert shapes.choose(1, 100) == ((4, 128), True)


def test_what_nothing_holds_is_compiled():
  shapes = Shapes(ROWS, LENGTHS)
  shapes.choose(1, 100)  # (4, 256)
  assert shapes.choose(5, 100) == ((64, 256), False)
  assert shapes.choose(1, 300) == ((4, 512), False)


@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.integers(1, 512), st.floats(0, 1))
    )
)
def test_the_shape_always_holds_the_dispatch(dispatches):
  shapes, compiled = Shapes(ROWS, LENGTHS), set()
  for rows, length, seconds in dispatches:
    shape, larger = shapes.choose(rows, length)
    assert shape[0] >= rows and shape[1] >= length
    assert shape[0] in ROWS and shape[1] in LENGTHS
    if larger:
      assert shape in compiled
      shapes.waste(rows, length, shape, seconds)
    compiled.add(shape)
