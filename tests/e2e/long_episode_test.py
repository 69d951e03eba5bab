"""Episodes far longer than their context, as a user trains on them."""

import pytest

from agentrl.data import episodes as episodes_lib
from tests.e2e.running import (
    assert_equal_to_the_bit,
    finish,
    finish_killed,
    lines,
)

pytestmark = pytest.mark.slow
TURNS, CONTEXT = 24, 512
CONFIG = 'tests/e2e/small.py:experiments.sweeps.memory_config:tiny'
FLAGS = (
    f'--config.horizon.turns=({TURNS},)',
    f'--config.rollout.max_context={CONTEXT}',
    '--config.rollout.max_completion_tokens=8',
    '--config.rollout.tasks_per_step=1',
    '--config.rollout.group_size=2',
    '--config.sampler.max_running=2',
    '--config.sampler.deterministic=True',
    '--config.eval.num_tasks=0',
    '--config.warmstart.episodes=8',
    '--config.optim.max_tokens=1024',
    # There is something to learn although nothing is solved.
    '--config.algo.entropy_coef=0.01',
)


@pytest.mark.parametrize(
    'context',
    [
        # Summaries cut an episode into segments as well, and sample more.
        pytest.param(
            {'kind': 'window', 'window': 3},
            id='window',
            marks=pytest.mark.extra,
        ),
        pytest.param(
            {'kind': 'summary', 'budget': 384, 'summary_tokens': 32},
            id='summary',
        ),
    ],
)
def test_many_turns_outgrow_their_context_and_go_on_exactly(tmp_path, context):
  flags = (*FLAGS, f'--config.agent.context={context}')
  whole, killed = tmp_path / 'whole', tmp_path / 'killed'
  finish(whole, *flags, config=CONFIG)
  finish_killed(killed, *flags, config=CONFIG)
  assert_equal_to_the_bit(whole, killed)
  for line in lines(whole / 'metrics.jsonl'):
    assert line['train/update_norm'] > 0
    assert line['sampler/logprob_abs_diff_max'] < 1e-3
  path = episodes_lib.step_path(whole, 'train', 1)
  longest = max(episodes_lib.read(path), key=lambda e: len(e.acts))
  assert len(longest.acts) == TURNS and longest.stop_reason == 'horizon'
  # No part is longer than the context, and all of it would not fit.
  starts_and_stops = longest.segment_spans
  assert all(stop - start <= CONTEXT for start, stop in starts_and_stops)
  opening = longest.segments[0].completion_mask.index(True)
  assert (
      opening + sum(longest.completion_mask) + 10 * TURNS > CONTEXT
  )  # tokens of answers
