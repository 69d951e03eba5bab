"""The recorded control sequences against a real server.

A server that is named by $AGENTRL_SGLANG_URL serves nobody else meanwhile. It
updates its weights from its own model path, or from $AGENTRL_SGLANG_WEIGHTS, a
path as the server sees it; $AGENTRL_SGLANG_KEY is sent where it wants a key.
$AGENTRL_SGLANG_LONG tokens should take seconds, on a GPU too, so that what comes
in between does.
"""

import os

import pytest

from tests.engine import sequences_test
from tests.engine.conftest import contract  # noqa: F401  (a fixture)

pytestmark = pytest.mark.sglang
oracle = sequences_test.oracle


@pytest.mark.parametrize(
    'sequence', sequences_test.SEQUENCES, ids=sequences_test.name_of
)
def test_a_server_plays_the_sequence(real_url, oracle, sequence):
  sequences_test.play(
      sequence,
      real_url,
      oracle,
      weights=os.environ.get('AGENTRL_SGLANG_WEIGHTS'),
      long=int(os.environ.get('AGENTRL_SGLANG_LONG', '1000')),
      key=os.environ.get('AGENTRL_SGLANG_KEY'),
  )
