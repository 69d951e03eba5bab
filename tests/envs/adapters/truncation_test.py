"""Tests for agentrl.envs.adapters.truncation."""

import pytest

from agentrl.envs.adapters.truncation import truncate


@pytest.mark.parametrize(
    'most_chars, keep_end, cut',
    [
        (10, False, '0123456789'),
        (10, True, '0123456789'),
        (4, False, '0123\n[6 characters were cut]'),
        (4, True, '01\n[6 characters were cut]\n89'),
        (1, True, '0\n[9 characters were cut]'),
        (0, True, '\n[10 characters were cut]'),
    ],
)
def test_a_long_text_is_cut(most_chars, keep_end, cut):
  assert truncate('0123456789', most_chars, keep_end=keep_end) == cut
