"""mode='serve_env': one environment behind HTTP until it is told to stop."""

import asyncio
from typing import Any

from ml_collections import ConfigDict

from agentrl.envs import server
from agentrl.errors import ConfigError

# Not in settings.py, which a server without an accelerator library must not
# import.
_KNOWN = {
    'env': ('name', 'options'),
    'serve': (
        'host',
        'port',
        'expert',
        'lease_s',
        'max_episodes',
        'deadline_s',
        'workers',
        'token_file',
    ),
}


def read(config: ConfigDict) -> dict[str, Any]:
  """Checks the fields of a config of mode 'serve_env'.

  Raises:
    ConfigError: one is unknown or missing.
  """
  _check(config)
  return config.to_dict()


def run(config: ConfigDict, workdir: str | None) -> None:
  """Serves `config.env` at `config.serve`; writes nothing.

  Raises:
    AgentrlError: something that the user can mend.
  """
  del workdir
  wanted = read(config)
  env = wanted['env']
  asyncio.run(server.serve(env['name'], env['options'], **wanted['serve']))


def _check(config: ConfigDict) -> None:
  """Refuses fields that nobody reads, and names those that are missing."""
  fields = {('mode',)} | {
      (section, key) for section, keys in _KNOWN.items() for key in keys
  }
  given = {('mode',)} | {
      (section, key)
      for section in config
      if section != 'mode'
      for key in (
          config[section] if isinstance(config[section], ConfigDict) else ('',)
      )
  }
  for wrong, word in ((given - fields, 'unknown'), (fields - given, 'missing')):
    if wrong:
      names = ', '.join('.'.join(path).rstrip('.') for path in sorted(wrong))
      raise ConfigError(f'Config fields {word} to mode serve_env: {names}.')
