"""mode='serve_env': one environment behind HTTP until it is told to stop."""

import asyncio
import dataclasses

from ml_collections import ConfigDict

from agentrl.envs import server
from agentrl.modes import reading


def run(config: ConfigDict, workdir: str | None) -> None:
  """Serves `config.env` at `config.serve`; writes nothing.

  Raises:
    AgentrlError: something that the user can mend.
  """
  del workdir
  config = reading.read(config)
  settings = dataclasses.asdict(config.serve)
  asyncio.run(server.serve(config.env.name, config.env.options, **settings))
