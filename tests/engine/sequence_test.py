"""Tests for agentrl.engine.sequence: when a sequence ends."""

import pytest

from agentrl.engine.request import Request, SamplingParams
from agentrl.engine.sequence import Sequence


def sequence(tokenizer=None, eos_ids=(9,), **params):
  return Sequence(
      Request('r', (1, 2, 3), SamplingParams(**params)),
      seed=0,
      eos_ids=eos_ids,
      tokenizer=tokenizer,
  )


def test_extend_takes_no_more_than_the_sequence_has():
  s = sequence(max_new_tokens=4)
  assert s.extend([5, 6], [-1.0, -2.0], 'a') == [5, 6]
  assert s.finish_reason is None and s.budget == 2
  assert s.extend([7, 9, 5], [-3.0, -4.0, -5.0], 'b') == [7, 9]
  # The stop id and the length coincide: what the model said counts.
  assert s.finish_reason == {'type': 'stop', 'matched': 9}
  result = s.result('b')
  assert result.output_ids == (5, 6, 7, 9)
  assert result.output_logprobs == (-1.0, -2.0, -3.0, -4.0)
  assert result.spans == (('a', 0, 2), ('b', 2, 4))


def test_ignore_eos_ignores_stop_ids_too():
  s = sequence(max_new_tokens=3, ignore_eos=True, stop_token_ids=(8,))
  s.extend([9, 8, 9], [0.0] * 3, 'a')
  assert s.finish_reason == {'type': 'length', 'length': 3}


@pytest.mark.parametrize('top_k, expected', [(-1, 2**30), (7, 7)])
def test_rows_spell_an_absent_top_k_out(top_k, expected):
  s = sequence(top_k=top_k)
  s.start(slot=4, shared=1)
  row = s.row()
  assert row['top_k'] == expected and row['slot'] == 4
  assert row['token'] == 3 and row['position'] == 2
