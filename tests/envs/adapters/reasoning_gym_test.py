"""Tests for agentrl.envs.adapters.reasoning_gym, on the package itself."""

import contextlib
import os
import time

import pytest

from agentrl import envs
from agentrl.envs.adapters import answer_scorer
from agentrl.errors import ConfigError, EnvError, EnvFault

reasoning_gym = pytest.importorskip('reasoning_gym')
SPEC = envs.get('reasoning_gym')


@pytest.fixture
def make():
  with contextlib.ExitStack() as stack:

    def make(**options):
      factory = SPEC.open(**options)
      stack.callback(factory.close)
      return factory.make()

    yield make


@pytest.mark.parametrize(
    'dataset',
    ['chain_sum', 'word_sorting', 'spell_backward', 'maze', 'sokoban'],
)
def test_the_answer_of_the_package_is_right(dataset, make):
  env = make(dataset=dataset)
  for task_id in SPEC.tasks('test')[:5]:
    assert env.reset(task_id, 0)
    result = env.step(env.expert_action())
    assert (result.success, result.reward, result.terminated) == (
        True,
        1.0,
        True,
    )


def test_questions_are_those_of_the_package(make):
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


def test_fields_may_be_lists(make):
  env = make(dataset='basic_arithmetic', config={'operators': ['+']})
  assert '+' in env.reset(0, 0)


def test_a_wrong_answer_may_be_tried_again(make):
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


def test_a_task_that_is_not_there(make):
  with pytest.raises(EnvError, match='has no task 21000'):
    make().reset(21_000, 0)


def test_an_answer_that_computes_without_end_is_wrong(make):
  env = make(dataset='n_queens')
  env.reset(0, 0)
  began = time.process_time()
  result = env.step('9**9**9**9')
  assert (result.reward, result.success) == (0.0, False)
  assert (
      time.process_time() - began < answer_scorer.CPU_S
  )  # not in this process
  env.reset(1, 0)
  assert env.step(env.expert_action()).success


# `eval` of n_queens runs what an answer says.
@pytest.mark.parametrize(
    'code',
    [
        'open({path!r}, "w").write("x")',
        '__import__("os").system("touch {path}")',
        '__import__("subprocess").run(["touch", {path!r}])',
        '__import__("os").kill({pid}, 9)',
        '__import__("socket").create_connection(("127.0.0.1", 9))',
        '__import__("shutil").rmtree({folder!r})',
        'exit()',
        '[0] * 10**12',
        '__import__("sys").setrecursionlimit(10**9)',
        '(' * 3000,
        'x' * 1_000_000,
        '\ud800\x00',
    ],
)
def test_an_answer_that_is_code_does_nothing(code, make, tmp_path):
  folder = tmp_path / 'kept'
  folder.mkdir()
  path = folder / 'file'
  env = make(dataset='n_queens', attempts=2)
  env.reset(0, 0)
  said = code.replace('{path!r}', repr(str(path))).replace('{path}', str(path))
  said = said.replace('{folder!r}', repr(str(folder)))
  result = env.step(said.replace('{pid}', str(os.getpid())))
  assert (result.success, result.terminated) == (False, False)
  assert folder.is_dir() and not path.exists()
  assert env.step(env.expert_action()).success


def test_an_answer_that_the_scorer_cannot_read_is_wrong(make):
  env = make(dataset='prime_factorization', attempts=2)
  env.reset(0, 0)
  assert env.step('two and three').success is False  # int('two') raises there
  assert env.step(env.expert_action()).success


def test_a_scorer_that_dies_is_an_error_and_the_next_answer_is_scored(make):
  env = make(dataset='n_queens')
  env.reset(0, 0)
  with pytest.raises(EnvError, match='scores answers ended with exit code 3'):
    env.step('__import__("os")._exit(3)')
  assert env.step(env.expert_action()).success


def test_a_dataset_that_cannot_score_its_own_answer_is_a_fault(make):
  env = make(dataset='prime_factorization')
  env.reset(0, 0)
  env._item = env._item | {'answer': 'none', 'metadata': {}}
  with pytest.raises(EnvFault, match='KeyError|ValueError'):
    env.step('x')
