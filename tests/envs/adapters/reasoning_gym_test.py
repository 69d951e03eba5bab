"""Tests for agentrl.envs.adapters.reasoning_gym, on the package itself."""

import pytest

from agentrl import envs
from agentrl.errors import ConfigError, EnvError

reasoning_gym = pytest.importorskip('reasoning_gym')
SPEC = envs.get('reasoning_gym')


def make(**options):
  return SPEC.open(**options).make()


@pytest.mark.parametrize(
    'dataset',
    ['chain_sum', 'word_sorting', 'spell_backward', 'maze', 'sokoban'],
)
def test_the_answer_of_the_package_is_right(dataset):
  env = make(dataset=dataset)
  for task_id in SPEC.tasks('test')[:5]:
    assert env.reset(task_id, 0)
    result = env.step(env.expert_action())
    assert (result.success, result.reward, result.terminated) == (
        True,
        1.0,
        True,
    )


def test_questions_are_those_of_the_package():
  env = make(dataset='gcd', config={'max_numbers': 3})
  theirs = reasoning_gym.create_dataset(
      'gcd', seed=0, size=20_000, max_numbers=3
  )
  assert [env.reset(i, 0) for i in range(4)] == [
      theirs[i]['question'] for i in range(4)
  ]
  # Splits are other questions.
  asked = [env.reset(SPEC.tasks(split)[0], 0) for split in ('train', 'dev')]
  assert asked[0] != asked[1]


def test_fields_may_be_lists():
  env = make(dataset='basic_arithmetic', config={'operators': ['+']})
  assert '+' in env.reset(0, 0)


def test_a_wrong_answer_may_be_tried_again():
  env = make(attempts=2)
  env.reset(0, 0)
  first = env.step('no number')
  assert (first.terminated, first.reward, first.success) == (False, 0.0, False)
  assert first.observation == 'This is not right.'
  assert env.step(env.expert_action()).success
  env.reset(0, 0)
  assert [env.step('x').terminated for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    'options, said',
    [
        ({'dataset': 'nonesuch'}, "dataset='nonesuch'"),
        ({'config': {'max_words': 3}}, 'max_words'),
        ({'config': {'seed': 3}}, 'seed is what splits and tasks decide'),
    ],
)
def test_what_cannot_be_made_is_refused(options, said):
  with pytest.raises(ConfigError, match=said):
    SPEC.open(**options)


def test_a_task_that_is_not_there():
  with pytest.raises(EnvError, match='has no task 21000'):
    make().reset(21_000, 0)
