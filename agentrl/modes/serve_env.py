"""mode='serve_env': one environment behind HTTP until it is told to stop."""

import asyncio
import dataclasses

from ml_collections import ConfigDict

from agentrl import config as config_lib
from agentrl.config.modes import ServeEnv
from agentrl.envs import server


def read(config: ConfigDict) -> ServeEnv:
  """Reads and checks a config of mode 'serve_env'."""
  return config_lib.read(config)


def run(config: ConfigDict, workdir: str | None) -> None:
  """Serves `config.env` at `config.serve`; writes nothing.

  Raises:
    AgentrlError: something that the user can mend.
  """
  del workdir
  config = read(config)
  settings = dataclasses.asdict(config.serve)
  asyncio.run(server.serve(config.env.name, config.env.options, **settings))
