"""A run that played ahead, from its record: sampled again, and trained on again.

Which group meets which push depends on how fast each episode was. From the record
both runs give the same numbers to the bit, also where a push cut a completion.
"""

import pytest

from agentrl.data import episodes as episodes_lib
from tests.e2e.running import (
    QUICKSTART,
    SMALL,
    finish,
    lines,
    measured,
)

pytestmark = pytest.mark.slow
STEPS = 6
FLAGS = (
    *SMALL,
    f'--config.num_steps={STEPS}',
    '--config.horizon.turns=(3, 6)',
    '--config.eval.num_tasks=0',
    '--config.eval.every=0',
    "--config.eval.small={'num_tasks': 0}",
    '--config.checkpoint.keep_best=False',
    '--config.rollout.concurrency=4',
    '--config.rollout.max_completion_tokens=32',
    '--config.algo.ratio=sampler',
    '--config.algo.entropy_coef=0.01',  # the policy moves without a success
)


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  base = tmp_path_factory.mktemp('recorded')
  record = base / 'record'
  recorded = f'--config.rollout.recorded={record}'
  finish(record, *FLAGS, '--config.rollout.ahead=2', config=QUICKSTART)
  finish(base / 'same', *FLAGS, recorded, config=QUICKSTART)
  resampled = (*FLAGS, recorded, '--config.rollout.resample=True')
  finish(base / 'again', *resampled, config=QUICKSTART)
  return record, base / 'same', base / 'again'


def comparable(run):
  """What is measured, without what a record does not repeat: who was ahead."""
  return [
      {
          name: value
          for name, value in line.items()
          if not name.startswith(('rollout/ahead_', 'rollout/staleness_'))
      }
      for line in measured(run / 'metrics.jsonl')
  ]


@pytest.mark.parametrize('index', [1, 2], ids=['trained', 'sampled'])
def test_a_record_is_repeated_to_the_bit(runs, index):
  found = comparable(runs[index])
  assert found == comparable(runs[0]) and len(found) == STEPS
  assert all(line['train/grad_norm'] > 0 for line in found)
  one, other = (
      [
          episode
          for step in range(STEPS)
          for episode in episodes_lib.read(
              episodes_lib.step_path(run, 'train', step)
          )
      ]
      for run in (runs[0], runs[index])
  )
  spans = lambda episodes: [t.spans for e in episodes for t in e.turns]
  assert [e.tokens for e in one] == [e.tokens for e in other]
  assert [e.sampler_logprobs for e in one] == [
      e.sampler_logprobs for e in other
  ]
  assert spans(one) == spans(other)


def test_the_record_was_behind(runs):
  metrics = lines(runs[0] / 'metrics.jsonl')
  assert max(line['rollout/staleness_max'] for line in metrics) >= 2
