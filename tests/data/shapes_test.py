"""Tests for agentrl.data.shapes: few programs, and little computed for that."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.data import packing
from agentrl.data.packing import Members, Shape
from agentrl.data.shapes import Shapes

LIMITS = dict(max_tokens=4096, multiple=1)
MINIBATCHES = st.lists(
    st.lists(st.integers(1, 500), min_size=1, max_size=40),
    min_size=1,
    max_size=20,
)


def pack(shapes, needs, *, multiple=1):
  members = Members(needs, [0] * len(needs))
  _, pieces = shapes.pack([members], max_tokens=4096, multiple=multiple)
  return pieces


def price_of(pieces):
  return packing.total(pieces)


def check(pieces, needs):
  """All members once, in rows and pieces that hold them."""
  rows = [row for piece in pieces for row in piece.rows]
  assert sorted(sum(rows, [])) == list(range(len(needs)))
  for piece in pieces:
    assert len(piece.rows) <= piece.shape.height
    for row in piece.rows:
      assert sum(needs[member] for member in row) <= piece.shape.length


@given(minibatches=MINIBATCHES, price=st.sampled_from([0, 1e3, 1e4, 1e6]))
@settings(max_examples=60)
def test_whatever_comes_little_is_lost(minibatches, price):
  """Programs and padding cost at most what exact shapes do, and a bit each."""
  shapes, compiled, spent, least = Shapes(price=price), set(), 0.0, 0.0
  exact = set()
  for needs in minibatches:
    pieces, best = pack(shapes, needs), pack(Shapes(), needs)
    check(pieces, needs)
    spent, least = spent + price_of(pieces), least + price_of(best)
    compiled |= {piece.shape for piece in pieces}
    exact |= {piece.shape for piece in best}
  if not price:
    assert compiled == exact and spent == least
  # What is lost on a shape is at most its price.
  assert spent + price * len(compiled) <= least + 2 * price * len(exact) + 1e-6


def test_a_shape_is_ordered_once_it_has_paid_for_itself():
  ordered = []
  shapes = Shapes(price=10_000, order=ordered.append)
  shapes.add(Shape(4, 1024))
  # Four rows of 64 would do: 3,840 tokens are computed in vain.
  for step in range(4):
    (piece,) = pack(shapes, [60] * 4)
    assert piece.shape == Shape(4, 1024) and len(ordered) == (step >= 1)
  assert ordered == [Shape(4, 64)]
  shapes.add(ordered[0])
  (piece,) = pack(shapes, [60] * 4)
  assert piece.shape == Shape(4, 64)


def test_what_cannot_be_served_has_a_program_of_its_own():
  shapes = Shapes(price=10_000, order=pytest.fail)
  assert [p.shape for p in pack(shapes, [60] * 4)] == [Shape(4, 64)]
  assert [p.shape for p in pack(shapes, [60] * 3)] == [Shape(4, 64)]
  assert [p.shape for p in pack(shapes, [65])] == [Shape(1, 96)]
  # Three pieces of what there is, which costs less than a program.
  assert [p.shape for p in pack(shapes, [60] * 12)] == [Shape(4, 64)] * 3


def test_a_program_that_was_compiled_before_costs_a_quarter():
  ordered = []
  shapes = Shapes(price=10_000, order=ordered.append)
  shapes.add(Shape(4, 1024))
  # Of the 3,840 tokens in vain fewer pay for it: it is waited for.
  shapes.kept = {Shape(4, 64)}
  assert [p.shape for p in pack(shapes, [60] * 4)] == [Shape(4, 64)]
  shapes.kept = {Shape(4, 512)}  # 2,048 in vain: more than half of its price
  assert [p.shape for p in pack(shapes, [500] * 4)] == [Shape(4, 1024)]
  assert ordered == [Shape(4, 512)]


def test_to_wait_for_a_program_may_be_cheaper_than_to_do_without():
  shapes = Shapes(price=1000, order=pytest.fail)
  shapes.add(Shape(4, 1024))
  assert [p.shape for p in pack(shapes, [60] * 4)] == [Shape(4, 64)]


@pytest.mark.parametrize('multiple', [1, 4])
def test_prefixes_need_programs_for_prefixes(multiple):
  needs, groups = [40] * 8, [0] * 8
  ways = [
      Members([340] * 8, groups),
      Members(needs, groups, prefix_length=300),
  ]
  limits = dict(max_tokens=4096, multiple=multiple)
  shapes = Shapes(price=1e9)
  shapes.add(Shape(8, 512))
  way, pieces = shapes.pack(ways, **limits)
  assert way == 0 and [p.shape for p in pieces] == [Shape(8, 512)]
  shapes.add(Shape(8, 64, multiple, 384))
  way, pieces = shapes.pack(ways, **limits)
  assert way == 1 and [p.shape for p in pieces] == [Shape(8, 64, multiple, 384)]
  # Prefixes that are longer do not fit, and rows that are longer neither.
  for longer in (
      Members(needs, groups, prefix_length=400),
      Members([70] * 8, groups, prefix_length=300),
  ):
    assert packing.plan_within(longer, {Shape(8, 64, multiple, 384)}) is None


@given(
    needs=st.lists(st.integers(1, 200), min_size=1, max_size=60),
    groups=st.integers(1, 4),
    prefix_length=st.sampled_from([0, 100]),
    known=st.lists(
        st.tuples(
            st.sampled_from([1, 2, 8]),
            st.sampled_from([64, 128, 256]),
            st.sampled_from([(0, 0), (1, 64), (2, 128)]),
        ),
        max_size=5,
    ),
)
@settings(max_examples=100)
def test_pieces_within_known_shapes_hold_every_member(
    needs, groups, prefix_length, known
):
  members = Members(needs, np.arange(len(needs)) % groups, prefix_length)
  known = {Shape(height, length, *p) for height, length, p in known}
  pieces = packing.plan_within(members, known)
  needed = Shape(1, max(needs), *((1, prefix_length) if prefix_length else ()))
  assert (pieces is None) == (not any(s.holds(needed) for s in known))
  for piece in pieces or []:
    assert piece.shape in known
    assert len(set(piece.prefixes)) <= (piece.shape.prefixes or 1e9)
  if pieces is not None:
    check(pieces, needs)


def test_a_token_costs_more_the_more_keys_it_sees():
  cost = lambda *shape: packing.cost(Shape(*shape), per_key=0.01)
  assert cost(2, 100) == 200 * 1.5
  assert cost(1, 200) == 200 * 2.0
  assert cost(2, 100, 1, 50) == 200 * (1 + 0.5 + 0.5) + 50 * 1.25
