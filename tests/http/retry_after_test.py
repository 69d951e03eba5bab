"""Tests for agentrl.http.retry_after."""

import datetime

import pytest
from hypothesis import given, strategies as st

from agentrl.http import retry_after

NOW = datetime.datetime(2026, 11, 24, 12, 0, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    'value, seconds',
    [
        (None, None),
        ('0', 0.0),
        (' 7 ', 7.0),
        ('0.25', 0.25),
        ('Tue, 24 Nov 2026 12:01:30 GMT', 90.0),
        ('Tue, 24 Nov 2026 13:01:30 +0100', 90.0),
        ('Tue, 24 Nov 2026 12:01:30 -0000', 90.0),
        ('Tue, 24 Nov 2026 11:00:00 GMT', 0.0),  # it has passed
        ('-3', None),
        ('soon', None),
        ('', None),
        ('nan', None),
        ('1e9', None),
        ('9' * 5000, None),
        ('Tue, 99 Nov 99999 12:01:30 GMT', None),
    ],
)
def test_seconds_and_dates(value, seconds):
  assert retry_after.parse(value, NOW) == seconds


@given(st.text(max_size=60))
def test_whatever_a_server_writes_is_a_pause_or_nothing(value):
  seconds = retry_after.parse(value, NOW)
  assert seconds is None or 0 <= seconds < float('inf')
