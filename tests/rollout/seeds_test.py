"""Tests for agentrl.rollout.seeds."""

import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from agentrl.rollout import seeds
from agentrl.types import Turns

PARTS = st.lists(st.integers() | st.text(), max_size=5)


@given(PARTS, PARTS)
def test_different_parts_give_different_seeds(a, b):
  # 31 bits collide by chance once in 2e9 pairs; a systematic collision, such
  # as joining parts without a separator, shows at once.
  assert (seeds.derive_seed(*a) == seeds.derive_seed(*b)) == (a == b)


@given(PARTS)
def test_seeds_have_31_bits(parts):
  assert 0 <= seeds.derive_seed(*parts) < 2**31


def test_seeds_do_not_depend_on_the_process():
  code = 'from agentrl.rollout import seeds; print(seeds.derive_seed(1, "a"))'
  printed = {
      subprocess.run(
          [sys.executable, '-c', code],
          env={**os.environ, 'PYTHONHASHSEED': hash_seed},
          capture_output=True,
          check=True,
          text=True,
      ).stdout
      for hash_seed in ('0', '1')
  }
  assert printed == {f'{seeds.derive_seed(1, "a")}\n'}


def test_what_has_no_stable_text_is_refused():
  with pytest.raises(TypeError):
    seeds.derive_seed(object())


def test_the_horizons_of_episodes_are_uniform_and_of_their_seeds():
  drawn = [seeds.draw_turns(Turns(3, 6), seed) for seed in range(4000)]
  assert drawn == [seeds.draw_turns(Turns(3, 6), seed) for seed in range(4000)]
  counts = Counter(drawn)
  assert sorted(counts) == [3, 4, 5, 6]
  # Four standard deviations of a count.
  assert max(abs(n - 1000) for n in counts.values()) < 4 * (750**0.5)
  assert {seeds.draw_turns(Turns(2, 2), seed) for seed in range(9)} == {2}
  assert {seeds.draw_turns(5, seed) for seed in range(9)} == {5}
