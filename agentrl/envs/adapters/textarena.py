"""TextArena's games of one player, played in words.

`env.options.id` names one of its registry (`GuessTheNumber-v0`, `Mastermind-v0`,
`Sudoku-v0-easy`), `kwargs` are arguments of its making. A task is a game by its seed, and
the episode's seed is what chance does later. Observations are the messages of the game
since the last move, so that a transcript grows by what is new; the first holds the rules.
A game that ends gives its reward once, 1 for one that was won.

Games of several players are refused by name. Those that look words up need NLTK's data,
and a few need a judge behind OpenRouter.
"""

import random
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from agentrl.envs import base
from agentrl.envs.adapters import seeds
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError, EnvError, one_line
from agentrl.types import StepResult

T = TypeVar('T')
_WON = 1.0
# The games draw from the generator of the module `random`, which all threads share.
_DRAWS = threading.Lock()
_DATA = 'python -m nltk.downloader words averaged_perceptron_tagger_eng'


class Game:
  """One game at a time; see `base.Env`."""

  def __init__(self, id: str, kwargs: Mapping[str, Any] | None):
    self._id, self._kwargs = id, dict(kwargs or {})
    self._game: Any = None

  def reset(self, task_id: int, seed: int) -> str:
    base.check_task('textarena', task_id, seeds.COUNT)
    self._chance = random.Random(zlib.crc32(f'{task_id}/{seed}'.encode()))
    world = zlib.crc32(f'{self._id}/{task_id}'.encode())

    def start() -> None:
      self._game = make(self._id, self._kwargs)
      self._game.reset(num_players=1, seed=world)

    _drawing(random.Random(world), start)
    return self._news()

  def _news(self) -> str:
    """The messages since the last move, without the move itself."""
    import textarena

    _, messages = self._game.get_observation()
    own = textarena.ObservationType.PLAYER_ACTION
    # Countdown, Cryptarithm and Slitherlink give their move's fields in another order.
    return '\n'.join(
        text.strip()
        for sender, text, kind in messages
        if own not in (sender, kind)
    )

  def step(self, action: str) -> StepResult:
    over, _ = _drawing(self._chance, lambda: self._game.step(action))
    news = self._news()
    if not over:
      return StepResult(news, 0.0, False)
    rewards, infos = self._game.close()
    reward, reason = rewards[0], str(infos[0].get('reason') or '')
    if isinstance(reward, str):
      # Countdown and others give the two of an invalid move in another order: the
      # reason is "Invalid Move: 0.5".
      start, _, number = reason.rpartition(' ')
      reward, reason = number, f'{start} {reward}'
    reward = float(reward)
    ending = '\n'.join(filter(None, [news, reason or 'The game is over.']))
    return StepResult(ending, reward, True, success=reward >= _WON)

  def available_actions(self) -> list[str]:
    return ['{text}']

  def expert_action(self) -> str:
    expert = EXPERTS.get(self._id.partition('-')[0])
    if expert is None:
      raise EnvError(
          f'{self._id} has no expert (there is one of {", ".join(EXPERTS)}):'
          ' train without a warm start, warmstart.episodes=0.'
      )
    return expert(self._game)

  def close(self) -> None:
    self._game = None


def _drawing(chance: random.Random, call: Callable[[], T]) -> T:
  """The result of a call that draws from `random`, as if that were `chance`."""
  with _DRAWS:
    before = random.getstate()
    random.setstate(chance.getstate())
    try:
      return call()
    finally:
      chance.setstate(random.getstate())
      random.setstate(before)


def _halve(game: Any) -> str:
  """The guess in the middle of the numbers that are left."""
  low, high = game.min_number, game.max_number
  for guess, hint in game.state.game_state['guess_history']:
    if hint == 'higher':
      low = max(low, guess + 1)
    else:
      high = min(high, guess - 1)
  return f'[{(low + high) // 2}]'


# Name of a game, without version -> its next move.
EXPERTS: Mapping[str, Callable[[Any], str]] = {'GuessTheNumber': _halve}


def make(id: str, kwargs: Mapping[str, Any]) -> Any:
  """A game that was not begun.

  It has none of the registry's wrappers, which repeat all earlier messages at every
  turn, but the one that puts a move in brackets where the registry does.

  Args:
    id: of the registry.
    kwargs: further arguments of its making.

  Raises:
    ConfigError: there is no such game, or it cannot be made here.
  """
  import textarena
  from textarena.envs.registration import ENV_REGISTRY

  if id not in ENV_REGISTRY or id.endswith('-raw'):
    raise ConfigError(
        f'env.options.id={id!r} is no game of TextArena, such as'
        ' GuessTheNumber-v0; textarena.pprint_registry_detailed() lists them.'
    )
  try:
    game = textarena.make(f'{id}-raw', **kwargs)
  except LookupError as error:
    raise ConfigError(
        f'env.options.id={id!r} needs data of NLTK: {_DATA}'
    ) from error
  except Exception as error:  # of games: of many kinds
    raise ConfigError(f'env.options.id={id!r}: {_words(error)}') from error
  brackets = textarena.wrappers.ActionFormattingWrapper
  if brackets in (ENV_REGISTRY[id].default_wrappers or ()):
    return brackets(game)
  return game


def _words(error: BaseException) -> str:
  return f'{type(error).__name__} {one_line(error)}'


def check(id: str, kwargs: Mapping[str, Any]) -> None:
  """Begins a game, to refuse one that cannot be played.

  Raises:
    ConfigError: there is no such game, it is of several players, or it cannot be
      made here.
  """
  import textarena

  game = make(id, kwargs)
  several = (
      f'env.options.id={id!r} is a game of several players: name one of a'
      ' single player, such as GuessTheNumber-v0.'
  )
  try:
    _drawing(random.Random(0), lambda: game.reset(num_players=1, seed=0))
  except Exception as error:  # of games: of many kinds
    if 'player' in str(error).lower():
      raise ConfigError(several) from error
    raise ConfigError(f'env.options.id={id!r}: {_words(error)}') from error
  # Some of several players can be begun by one.
  if not isinstance(game.state, textarena.SinglePlayerState):
    raise ConfigError(several)


def _open(**options: Any) -> base.EnvFactory:
  check(options['id'], options['kwargs'] or {})
  return base.independent(Game, options)


SPEC = EnvSpec(
    name='textarena',
    dialect=Dialect(),
    words=Words(
        full=(
            'You play a game in words. Its first message has the rules and how'
            ' a move is written. Your action is your next move alone.'
        ),
        compact='Play.',
    ),
    functions=(Function('move', ('{text}',)),),
    options={'id': 'GuessTheNumber-v0', 'kwargs': None},
    meanings={
        'id': "name of a game of one player in TextArena's registry",
        'kwargs': 'arguments of its making, a dict',
    },
    open_factory=_open,
    list_tasks=lambda split, **of_ids: seeds.SPLITS[split],
    task_options=('id', 'kwargs'),
    success='The game gives its full reward, 1.',
    packages=('textarena',),
    requirements=('adapters',),
)
