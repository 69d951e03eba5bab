"""A mixture as a user runs it, killed and started again."""

import dataclasses
import json
import pathlib
import statistics

import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.data.quotas import Quotas
from tests.e2e.running import (
    assert_equal_to_the_bit,
    finish,
    finish_killed,
    launch,
    lines,
    small,
)

pytestmark = pytest.mark.slow
CONFIG = small('mixture_grpo')
WEIGHTS = {'babyai': 2.0, 'textcraft': 1.0}
MEMBERS = {
    'babyai': {
        'weight': WEIGHTS['babyai'],
        'env': {
            'name': 'babyai',
            'options': {'levels': ('GoToRedBall',), 'style': 'compact'},
        },
        'horizon': {'kind': 'random', 'turns': (1, 2)},
    },
    'textcraft': {
        'env': {'name': 'textcraft', 'options': {'max_depth': 1}},
        'horizon': {
            'kind': 'success',
            'turns': (2, 3),
            'metric': 'eval',
            'window': 1,
        },
        'agent': {
            'format': 'react',
            'context': {'kind': 'notes', 'window': 1},
            'plan': {'kind': 'every', 'every': 2, 'tokens': 4},
        },
    },
}
SMALL = (
    f'--config.mixture={MEMBERS}',
    '--config.num_steps=3',
    '--config.rollout.tasks_per_step=4',
    '--config.rollout.max_context=1024',
    # Two attempts at a task, of which the second has a lesson.
    '--config.rollout.group_size=1',
    "--config.agent.reflect={'attempts': 2, 'tokens': 4}",
    '--config.warmstart.episodes=9',
    '--config.eval.horizon=2',
    '--config.eval.every=2',
    '--config.sampler.deterministic=True',
)


@dataclasses.dataclass(frozen=True)
class Runs:
  whole: pathlib.Path
  resumed: pathlib.Path


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  base = tmp_path_factory.mktemp('runs')
  whole, resumed = base / 'whole', base / 'resumed'
  finish(whole, *SMALL, config=CONFIG)
  finish_killed(resumed, *SMALL, config=CONFIG)
  return Runs(whole, resumed)


def test_a_killed_mixture_continues_as_if_nothing_had_happened(runs):
  assert_equal_to_the_bit(runs.whole, runs.resumed)


def test_each_step_has_its_quotas_and_metrics_of_each_member(runs):
  quotas, drawn = Quotas(list(WEIGHTS.values()), 4), set()
  for step, line in enumerate(lines(runs.whole / 'metrics.jsonl')):
    counts = dict(zip(WEIGHTS, quotas.at(step), strict=True))
    path = episodes_lib.step_path(runs.whole, 'train', step)
    played = list(episodes_lib.read(path))
    assert len({e.episode_id for e in played}) == len(played) == 4 * 2
    for name, count in counts.items():
      own = [e for e in played if e.env == name]
      assert len(own) == 2 * count == line[f'{name}/rollout/episodes']
      assert line[f'{name}/quota'] == count
      assert all(e.episode_id.startswith(f'train-{step}-{name}') for e in own)
      for episode in own:
        kinds = [turn.kind for turn in episode.turns]
        assert kinds.count('lesson') == episode.attempt
        assert ('plan' in kinds) == (name == 'textcraft')
        assert len(episode.segments) > episode.attempt
      assert f'{name}/rollout/success_attempt_2' in line
    horizons = [e.horizon for e in played if e.env == 'babyai']
    drawn.update(horizons)
    assert line['babyai/rollout/horizon'] == 2
    assert line['babyai/rollout/horizon_mean'] == statistics.fmean(horizons)
    assert {e.horizon for e in played if e.env == 'textcraft'} == {
        line['textcraft/rollout/horizon']
    }
  assert drawn == {1, 2}


def test_experts_of_all_members_warm_it_up_and_make_its_tokenizer(runs):
  played = list(episodes_lib.read(runs.whole / 'episodes' / 'warmstart.jsonl'))
  assert [e.env for e in played].count('babyai') == 6
  assert [e.env for e in played].count('textcraft') == 3
  words = (runs.whole / 'tokenizer' / 'tokenizer.json').read_text()
  assert 'ball' in words and 'craft' in words


def test_each_member_is_evaluated_on_its_own_panel(runs):
  summary = json.loads((runs.whole / 'summary.json').read_text())
  names = ('untrained', 'before', 'step_2', 'after')
  expected = [f'{name}/{member}' for name in names for member in WEIGHTS]
  assert list(summary['eval']) == expected
  levels = summary['chance']
  assert list(levels) == [
      f'{kind}/{member}' for member in WEIGHTS for kind in ('random', 'expert')
  ]
  # Two attempts at each of two tasks.
  assert {level['n'] for level in levels.values()} == {4}
  resumed = json.loads((runs.resumed / 'summary.json').read_text())
  assert resumed['chance'] == levels
  metrics = lines(runs.whole / 'metrics.jsonl')
  for member in WEIGHTS:
    after = summary['eval'][f'after/{member}']
    assert after['n'] == 4 and 0 <= after['low'] <= after['high'] <= 1
    assert metrics[-1][f'eval/{member}/success'] == after['mean']
    assert f'eval/{member}/success' in metrics[1]
    assert f'eval_before/{member}/success' in metrics[0]
  # Its horizon follows it.
  assert metrics[1]['eval/textcraft/success_within_2'] == (
      summary['eval']['step_2/textcraft']['success_within']['2']
  )


def test_another_mixture_is_not_continued_by_mistake(runs):
  done = launch(
      runs.whole, *SMALL, '--config.mixture.babyai.weight=3', config=CONFIG
  )
  assert done.returncode == 2 and 'mixture.babyai.weight' in done.stderr
