"""Tests for agentrl.rollout.compatibility."""

import logging as std_logging

import pytest
from absl import logging

from agentrl.errors import EngineError
from agentrl.rollout import compatibility

URL = 'http://gpu1:30000'


@pytest.mark.parametrize(
    'version, warning',
    [
        ('0.5.11', None),
        ('0.5.23', None),
        ('0.5.23.post1', None),
        ('agentrl-1', None),
        ('0.5.24', 'newer than the supported 0.5.11 to 0.5.23'),
        ('1.0.0', 'newer than the supported'),
        ('unknown', "gives the version 'unknown'"),
        (None, 'gives the version None'),
    ],
)
def test_versions_outside_the_tested_range_are_told(version, warning, caplog):
  logging.use_absl_handler()
  with caplog.at_level(std_logging.WARNING, logger='absl'):
    compatibility.check(URL, {'version': version}, 100)
  assert (warning in caplog.text) if warning else not caplog.text


@pytest.mark.parametrize('version', ['0.5.10', '0.4.9.post2'])
def test_a_server_that_is_too_old_is_refused(version):
  with pytest.raises(EngineError, match=f'runs SGLang {version}; 0.5.11 to'):
    compatibility.check(URL, {'version': version}, 100)


def test_a_context_that_is_too_short_is_refused():
  info = {'version': '0.5.23', 'context_length': 64}
  with pytest.raises(EngineError, match='64 tokens.*--context-length 100'):
    compatibility.check(URL, info, 100)
  compatibility.check(URL, info, 64)
