"""Environments, by the name that configs use.

One of your own needs nothing in here: see README.md beside this file.
"""

from collections.abc import Iterator

from agentrl import plugins
from agentrl.envs.spec import EnvSpec

# Adapters of what others wrote: name -> module of the SPEC.
ADAPTERS = {
    'gymnasium': 'gymnasium',
    'harbor': 'harbor.spec',
    'mcp': 'mcp',
    'openenv': 'openenv.spec',
    'program': 'program',
    'reasoning_gym': 'reasoning_gym',
    'textarena': 'textarena',
    'verifiers': 'verifiers',
}
# AgentGym's, which only its own servers play.
AGENTGYM = (
    'webshop',
    'alfworld',
    'lmrlgym_maze',
    'lmrlgym_wordle',
    'tool_academia',
    'tool_movie',
    'tool_sheet',
    'tool_todo',
    'tool_weather',
)
# Each is imported when it is asked for.
ENVS = {
    name: f'agentrl.envs.{name}.spec:SPEC'
    for name in (
        'textcraft',
        'babyai',
        'sciworld',
        'searchqa',
        'miniwob',
        'webarena',
    )
}
ENVS |= {
    name: f'agentrl.envs.adapters.{module}:SPEC'
    for name, module in ADAPTERS.items()
}
ENVS |= {
    name: f'agentrl.envs.adapters.agentgym:{name.upper()}' for name in AGENTGYM
}


def get(name: str) -> EnvSpec:
  """The environment called `name`.

  Args:
    name: in ENVS, or `module:NAME` of an `EnvSpec` elsewhere, such as
      `my_package.my_env:SPEC`.

  Raises:
    ConfigError: no environment has this name.
  """
  return plugins.get(name, ENVS, EnvSpec, 'environment ')


def every() -> Iterator[EnvSpec]:
  """The environments of agentrl; imports all of them."""
  return map(get, ENVS)
