"""mode='serve_env': one environment behind HTTP until it is told to stop."""

import asyncio

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
  env, serve = config.env, config.serve
  asyncio.run(
      server.serve(
          env.name,
          env.options,
          host=serve.host,
          port=serve.port,
          expert=serve.expert,
          lease_s=serve.lease_s,
          max_episodes=serve.max_episodes,
          deadline_s=serve.deadline_s,
          workers=serve.workers,
          token_file=serve.token_file,
      )
  )
