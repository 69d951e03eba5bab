"""Tests for mode='serve_policy'; serving is in serving.policy_server_test."""

import pytest

from agentrl.errors import ConfigError
from agentrl.modes import serve_policy
from configs.serve_policy import get_config


@pytest.mark.parametrize('field', ['api_key_file', 'admin_api_key_file'])
def test_a_key_that_cannot_be_read_stops_before_the_model_is_loaded(
    tmp_path, field
):
  config = get_config('model=/no/such/model')
  config.serve[field] = str(tmp_path / 'missing')
  with pytest.raises(ConfigError, match='missing'):
    serve_policy.run(config, None)
