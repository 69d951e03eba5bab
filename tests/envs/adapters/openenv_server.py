"""A server of openenv-core: an environment of one text field, and under /tools of tools.

python tests/envs/adapters/openenv_server.py PORT

It runs under a Python of its own, see openenv_test.py, and so imports nothing of ours.
"""

import sys
import time

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class GuessAction(Action):
  """Guesses a number."""

  guess: str


class GuessObservation(Observation):
  hint: str
  tries: int | None = None


class Guess(Environment):
  """Guess a number from 0 to 9."""

  SUPPORTS_CONCURRENT_SESSIONS = True

  def reset(self, seed=None, episode_id=None, low=0, **kwargs):
    if low == 'high':
      raise ValueError('low is no number')
    self._number, self._tries = low + seed % 10, 0
    return GuessObservation(hint=f'From {low} to {low + 9}.')

  def step(self, action, timeout_s=None, **kwargs):
    self._tries += 1
    match action.guess:
      case 'hang':
        time.sleep(3)
      case 'shout':
        return GuessObservation(hint='x' * 1_000_000)
      case 'flood':
        return GuessObservation(hint='x' * 40_000_000)
    guess = int(action.guess)  # its own error for what is no number
    right = guess == self._number
    hint = (
        'Right.' if right else 'Higher.' if guess < self._number else 'Lower.'
    )
    return GuessObservation(
        hint=hint, tries=self._tries, done=right, reward=float(right)
    )

  @property
  def state(self):
    return State(step_count=self._tries)


def tools():
  from fastmcp import FastMCP
  from openenv.core.env_server.mcp_environment import MCPEnvironment

  mcp = FastMCP('people')

  @mcp.tool
  def age(who: str) -> str:
    """The age of a person."""
    return f'{who} is {len(who)} years old.'

  class People(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
      super().__init__(mcp)

    def reset(self, seed=None, episode_id=None, **kwargs):
      return Observation(metadata={'seed': seed})

    def _step_impl(self, action, timeout_s=None, **kwargs):
      raise ValueError('call a tool')

    @property
    def state(self):
      return State()

  return create_fastapi_app(People, Action, Observation, 4)


if __name__ == '__main__':
  app = create_fastapi_app(Guess, GuessAction, GuessObservation, 4)
  app.mount('/tools', tools())
  uvicorn.run(app, port=int(sys.argv[1]), log_level='warning')
