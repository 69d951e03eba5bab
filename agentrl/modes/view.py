"""mode='view': pages over the runs below a folder, until it is told to stop."""

import asyncio
import pathlib

from ml_collections import ConfigDict

from agentrl.errors import ConfigError
from agentrl.modes import reading
from agentrl.viewer import server


def run(config: ConfigDict, workdir: str | None) -> None:
  """Serves the pages at `config.view`; writes nothing but its index.

  Raises:
    AgentrlError: something that the user can mend.
  """
  view = reading.read(config).view
  if not workdir or not pathlib.Path(workdir).is_dir():
    raise ConfigError(
        'Name a folder with runs, or the workdir of one:'
        f' --workdir=runs; got {workdir!r}, which is no folder.'
    )
  asyncio.run(
      server.serve(
          pathlib.Path(workdir),
          host=view.host,
          port=view.port,
          token_file=view.token_file,
          environments=view.environments,
          samplers=view.samplers,
          sampler_key_file=view.sampler_key_file,
      )
  )
