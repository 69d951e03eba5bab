"""Tests for agentrl.engine.prefill_budget."""

import math

import pytest

from agentrl.engine.prefill_budget import PrefillBudget


def test_nothing_that_decodes_is_delayed_before_anything_was_timed():
  budget = PrefillBudget()
  assert budget.limit_s(decoding=1, waiting=1) == 0
  assert budget.limit_s(decoding=0, waiting=1) == math.inf
  assert budget.tokens(0.1) == math.inf


def test_a_prompt_delays_a_sequence_by_less_than_a_decode_dispatch():
  budget = PrefillBudget()
  budget.add_decode(0.1)
  budget.add_prefill(0.02, 64)
  alone = budget.limit_s(decoding=1, waiting=1)
  assert 0.05 < alone < 0.1
  # More wait for fewer the longer; fewer for more not the shorter.
  assert budget.limit_s(decoding=2, waiting=6) == pytest.approx(3 * alone)
  assert budget.limit_s(decoding=6, waiting=2) == alone
  assert budget.tokens(0.04) == pytest.approx(128)


def test_a_dispatch_that_compiles_moves_the_estimate_a_bit_only():
  budget = PrefillBudget()
  budget.add_prefill(0.02, 64)
  budget.add_prefill(60.0, 64)
  assert budget.tokens(0.04) == pytest.approx(128 / 1.25)
  budget.add_prefill(0.01, 64)  # and a quick one at once
  assert budget.tokens(0.04) == pytest.approx(256)
