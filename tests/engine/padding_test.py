"""Tests for agentrl.engine.padding."""

import numpy as np

from agentrl.engine import decode, padding
from agentrl.engine.logit_processors import LogitParams
from agentrl.engine.request import SamplingParams

UNUSED = 9  # the slot after the last


def test_a_chunk_names_slots_and_counts_real_tokens():
  chunk = padding.chunk([(4, 10, [1, 2]), (2, 0, [3])], 3, 4, unused=UNUSED)
  assert chunk.slots.tolist() == [4, 2, UNUSED, UNUSED]
  assert chunk.starts.tolist() == [10, 0, 0, 0]
  assert chunk.counts.tolist() == [2, 1, 0, 0]
  assert chunk.tokens.tolist() == [[1, 2, 0], [3, 0, 0], [0] * 3, [0] * 3]


def test_padding_copies_nothing_to_a_slot_of_use():
  sources, targets = padding.copies([(1, 3, 7)], 2, unused=UNUSED)
  assert sources.tolist() == [1, 0] and targets.tolist() == [3, UNUSED]


def row(**changes):
  return {
      'slot': 3,
      'token': 5,
      'position': 7,
      'budget': 2,
      'seed': 11,
      'stop_ids': tuple(range(10, 20)),
      'temperature': 0.5,
      'top_p': 0.9,
      'top_k': 2**30,
      'min_p': 0.1,
      'logit_params': None,
      'top_logprobs': 0,
  } | changes


def test_rows_that_pad_have_no_budget_and_change_no_distribution():
  rows = padding.decode_rows([row()], 2, vocab=8, adjusted=False, unused=UNUSED)
  assert rows.slots.tolist() == [3, UNUSED]
  assert rows.budgets.tolist() == [2, 0]
  assert rows.stop_ids[0].tolist() == list(range(10, 10 + padding.STOP_IDS))
  assert (rows.stop_ids[1] == -1).all()
  assert rows.uniforms.shape == (2, decode.MAX_STEPS)
  assert rows.settings.top_k.tolist() == [8, 8]  # no more than there are
  assert rows.settings.temperature.tolist() == [0.5, 1.0]
  assert rows.settings.top_p[1] == 1 and rows.settings.min_p[1] == 0
  assert rows.logit_arrays is None


def test_logit_arrays_are_made_where_a_row_needs_them():
  params = SamplingParams(logit_bias=((2, 1.5),))
  rows = padding.decode_rows(
      [row(), row(logit_params=LogitParams(params, (), ()))],
      4,
      vocab=8,
      adjusted=True,
      unused=UNUSED,
  )
  expected = np.zeros((4, 8))
  expected[1, 2] = 1.5
  np.testing.assert_array_equal(rows.logit_arrays.bias, expected)
