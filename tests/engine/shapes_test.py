"""Tests for agentrl.engine.shapes: when a larger program is good enough."""

import pytest
from hypothesis import given, strategies as st

from agentrl.engine.shapes import (
    COPY,
    DECODE,
    PREFILL,
    SCORE,
    Kinds,
    Shapes,
    bucket,
    usual_programs,
)

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


def test_another_kind_stands_in_until_its_waste_would_pay():
  kinds = Kinds(lambda kind: Shapes(ROWS, LENGTHS), lambda kind: 'all')
  assert kinds.choose('some', 1, 100).kind == 'some'  # nothing of 'all' exists
  kinds['all'].add((16, 256))
  choice = kinds.choose('other', 4, 200)
  assert choice[:2] == ('all', (16, 256))
  choice.waste(2.0)
  assert kinds.choose('other', 4, 200).kind == 'all'
  choice.waste(2.0)
  choice = kinds.choose('other', 4, 200)
  assert choice == ('other', (4, 256), None)
  # What stands in for others is chosen as ever, and so is what fits nowhere.
  assert kinds.choose('all', 4, 200).shape == (16, 256)
  assert kinds.choose('third', 1, 500)[:2] == ('third', (4, 512))


def test_a_stand_in_of_the_right_shape_wastes_a_quarter():
  kinds = Kinds(lambda kind: Shapes(ROWS, LENGTHS), lambda kind: 'all')
  kinds.patience_s = 5.0
  kinds['all'].add((4, 256))
  kinds.choose('some', 4, 256).waste(19.9)
  assert kinds.choose('some', 4, 256).kind == 'all'
  kinds.choose('some', 4, 256).waste(0.2)
  assert kinds.choose('some', 4, 256).kind == 'some'


@pytest.mark.parametrize('most', [1, 2, 4, 8, 16, 64])
def test_every_dispatch_of_up_to_16_rows_has_a_usual_program(most):
  decode = [n for n in (1, 4, 16, 64) if n < most] + [most]
  prefill = {16: (1, 4, 16), 256: (1, 4)}
  usual = list(usual_programs(decode, prefill, 128, deterministic=False))
  assert len(usual) == len(set(usual))
  for rows in range(1, min(most, 16) + 1):
    holds = lambda name, kind: any(
        (name, kind) == program[:2] and program[2][0] >= rows  # noqa: B023
        for program in usual
    )
    assert holds(DECODE, (False,) * 3) and holds(DECODE, (True,) * 3)
    assert holds(COPY, None) and holds(PREFILL, 16)
    assert rows > 4 or holds(PREFILL, 256)
  assert {kind for name, kind, _ in usual if name == SCORE} == {
      (16, True),
      (256, True),
  }


def ordering(**options):
  ordered = []
  return Shapes(ROWS, LENGTHS, order=ordered.append, **options), ordered


def test_a_larger_program_serves_until_the_one_that_was_ordered_is_there():
  shapes, ordered = ordering()
  shapes.choose(16, 256)  # compiles (64, 512)
  shapes.waste(4, 128, (64, 512), seconds=10.0)
  for _ in range(2):
    assert shapes.choose(4, 128) == ((64, 512), True)
    assert ordered == [(4, 128)]
  shapes.add((4, 128))
  assert shapes.choose(4, 128) == ((4, 128), False)


def test_the_next_length_is_ordered_before_it_is_needed():
  shapes, ordered = ordering(room=1)
  assert shapes.choose(4, 100) == ((4, 256), False)
  assert not ordered
  for _ in range(2):
    shapes.choose(4, 200)
    assert ordered == [(4, 512)]
  # Not for rows that no program has, and not past the last length.
  shapes, ordered = ordering(room=1)
  shapes.add((1, 512))
  shapes.choose(4, 200)
  shapes.choose(4, 512)
  assert not ordered


def test_another_kind_stands_in_until_the_program_is_there():
  ordered = []
  kinds = Kinds(
      lambda kind: Shapes(ROWS, LENGTHS, order=ordered.append),
      lambda kind: 'all',
  )
  kinds['all'].add((16, 256))
  for _ in range(3):
    choice = kinds.choose('other', 4, 200)
    assert choice[:2] == ('all', (16, 256))
    choice.waste(9.0)
  assert ordered == [(4, 256)]
  kinds['other'].add((4, 256))
  assert kinds.choose('other', 4, 200) == ('other', (4, 256), None)
