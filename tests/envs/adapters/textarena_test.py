"""Tests for agentrl.envs.adapters.textarena, on the package's own games."""

import random

import pytest

from agentrl import envs
from agentrl.errors import ConfigError, EnvError

textarena = pytest.importorskip('textarena')
SPEC = envs.get('textarena')


def make(**options):
  return SPEC.open(**options).make()


def test_the_expert_wins():
  for options in ({}, {'id': 'GuessTheNumber-v0-hardcore'}):
    env = make(**options)
    for task_id in SPEC.tasks('test')[:30]:
      assert 'guess the number between 1 and' in env.reset(task_id, 0)
      while not (result := env.step(env.expert_action())).terminated:
        assert 'The target number is ' in result.observation
        assert (result.reward, result.success) == (0.0, None)
      assert (result.reward, result.success) == (1.0, True)
      assert 'You guessed the correct number' in result.observation


@pytest.mark.parametrize(
    'id, moves',
    [
        ('2048-v0', ('[up]', '[left]', '[down]', '[right]')),
        ('Mastermind-v0', ('[1 2 3 4]', '[5 6 1 2]', '[3 3 3 3]')),
        ('FrozenLake-v0-random', ('[up]', '[left]', '[down]', '[right]')),
        ('TowerOfHanoi-v0', ('[A C]', '[A B]', '[C B]')),
        ('Minesweeper-v0-small', ('[0 0]', '[4 4]', '[2 2]')),
        ('Blackjack-v0', ('[Hit]', '[Stand]', '[Stand]')),
        # Their moves come back with fields in another order.
        ('Countdown-v0', ('[0 1 +]', '[0 1 +]', '[9 9 +]')),
        ('Cryptarithm-v0', ('[A 1]', '[B 2]')),
        ('Slitherlink-v0', ('[h 0 0]', '[v 0 0]')),
    ],
)
def test_games_are_as_the_package_plays_them(id, moves):
  """The same messages as of the game itself, in two episodes that take turns."""
  env, other = make(id=id), make(id=id)
  before = random.getstate()
  said = [env.reset(7, 3)]
  assert other.reset(7, 3) == said[0]
  for move in moves:
    result = env.step(move)
    said.append(result.observation)
    assert other.step(move) == result
    if result.terminated:
      break
  assert random.getstate() == before  # others' draws go on as they were
  # Nothing is said twice: a message comes in the turn in which it is new.
  assert all(len(text) < 1500 for text in said[1:])
  game = textarena.make(f'{id}-raw')
  game.reset(num_players=1, seed=0)
  rules = game.state.logs[0][1].strip().splitlines()[0]
  assert said[0].startswith(rules)
  assert not any(rules in text for text in said[1:])


def test_a_task_is_another_game():
  env = make(id='Mastermind-v0')

  def said(task_id):
    env.reset(task_id, 0)
    return env.step('[1 2 3 4]').observation

  assert said(0) == said(0)
  assert len({said(task_id) for task_id in range(20)}) > 4


def test_a_seed_is_what_chance_does_after_the_start():
  env = make(id='2048-v0')
  starts = {env.reset(5, seed) for seed in range(4)}
  assert len(starts) == 1

  def later(seed):
    env.reset(5, seed)
    return tuple(env.step(x).observation for x in ('[up]', '[left]') * 3)

  assert later(0) == later(0)
  assert len({later(seed) for seed in range(4)}) > 1


def test_a_move_without_brackets_gets_them_and_a_second_wrong_one_ends_it():
  env = make()
  env.reset(0, 0)
  assert 'The target number is' in env.step('10').observation
  first = env.step('I do not know.')
  assert 'You attempted an invalid move' in first.observation
  assert not first.terminated
  lost = env.step('I still do not.')
  assert lost.terminated and lost.success is False and 0 <= lost.reward < 1
  assert 'Invalid Move' in lost.observation


@pytest.mark.parametrize('id', ['GuessTheNumber-v0', 'Countdown-v0'])
@pytest.mark.parametrize(
    'text',
    [
        '',
        '\x00',
        '\ud800',
        '[' * 3000,
        '[٣]',
        '[1e999]',
        '[9**9**9]',
        'x' * 10**6,
    ],
)
def test_any_text_is_a_move(id, text):
  env = make(id=id)
  env.reset(0, 0)
  for _ in range(2):
    result = env.step(text)
    assert isinstance(result.observation, str)
    if result.terminated:
      break
  assert result.success in (None, False)


def test_arguments_of_its_making():
  env = make(kwargs={'min_number': 5, 'max_number': 5})
  env.reset(0, 0)
  assert env.step('[5]').success


@pytest.mark.parametrize(
    'options, said',
    [
        ({'id': 'Nonesuch-v0'}, 'is no game of TextArena'),
        ({'id': 'GuessTheNumber-v0-raw'}, 'is no game of TextArena'),
        ({'kwargs': {'size': 3}}, "unexpected keyword argument 'size'"),
        ({'id': 'TicTacToe-v0'}, 'is a game of several players'),
        ({'id': 'Nim-v0'}, 'is a game of several players'),
        ({'id': 'SecretMafia-v0'}, 'is a game of several players'),
        ({'id': 'QuantumTicTacToe-v0'}, 'is a game of several players'),
        ({'id': 'TwentyQuestions-v0'}, 'OPENROUTER_API_KEY'),
    ],
)
def test_what_cannot_be_played_is_refused(options, said, monkeypatch):
  monkeypatch.delenv('OPENROUTER_API_KEY', raising=False)
  with pytest.raises(ConfigError, match=said):
    SPEC.open(**options)


def test_words_that_are_not_there_are_a_command_away(monkeypatch):
  def lacks(id, **kwargs):
    raise LookupError(f'Resource words not found for {id}')

  monkeypatch.setattr(textarena, 'make', lacks)
  with pytest.raises(ConfigError, match='needs data of NLTK: python -m nltk'):
    SPEC.open(id='Wordle-v0')


def test_a_game_without_an_expert_and_a_task_that_is_not_there():
  env = make(id='Mastermind-v0')
  env.reset(0, 0)
  with pytest.raises(EnvError, match='Mastermind-v0 has no expert'):
    env.expert_action()
  with pytest.raises(EnvError, match='has no task 20000'):
    env.reset(20_000, 0)
