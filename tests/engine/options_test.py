"""Tests for agentrl.engine.options."""

import dataclasses

import pytest

from agentrl.engine.options import EngineOptions
from agentrl.http.auth import Keys

SIZES = EngineOptions(model_path='x', max_running=2, max_len=16, slots=4)


@pytest.mark.parametrize(
    'change, words',
    [
        ({'max_running': 0}, 'max_running=0 and slots=4'),
        ({'max_running': 5}, 'max_running=5 and slots=4'),
        ({'max_body': 0}, 'max_body=0'),
        ({'stream_interval': 0}, 'stream_interval=0'),
    ],
)
def test_impossible_sizes_are_refused(change, words):
  with pytest.raises(ValueError, match=words):
    dataclasses.replace(SIZES, **change)


def test_keys_are_not_shown():
  options = dataclasses.replace(SIZES, keys=Keys(api='s3cret', admin='m0re'))
  assert 's3cret' not in repr(options) and 'm0re' not in repr(options)
