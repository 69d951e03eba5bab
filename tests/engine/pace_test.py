"""Tests for agentrl.engine.pace."""

import math

import pytest

from agentrl.engine.pace import Pace


def test_nothing_that_decodes_is_delayed_before_anything_was_timed():
  pace = Pace()
  assert pace.limit_s(decoding=1, waiting=1) == 0
  assert pace.limit_s(decoding=0, waiting=1) == math.inf
  assert pace.tokens(0.1) == math.inf


def test_a_prompt_delays_a_sequence_by_less_than_a_decode_dispatch():
  pace = Pace()
  pace.add_decode(0.1)
  pace.add_prefill(0.02, 64)
  alone = pace.limit_s(decoding=1, waiting=1)
  assert 0.05 < alone < 0.1
  # More wait for fewer the longer; fewer for more not the shorter.
  assert pace.limit_s(decoding=2, waiting=6) == pytest.approx(3 * alone)
  assert pace.limit_s(decoding=6, waiting=2) == alone
  assert pace.tokens(0.04) == pytest.approx(128)


def test_a_dispatch_that_compiles_moves_the_estimate_a_bit_only():
  pace = Pace()
  pace.add_prefill(0.02, 64)
  pace.add_prefill(60.0, 64)
  assert pace.tokens(0.04) == pytest.approx(128 / 1.25)
  pace.add_prefill(0.01, 64)  # and a quick one at once
  assert pace.tokens(0.04) == pytest.approx(256)
