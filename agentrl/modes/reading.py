"""The reading of each mode's config.

Imports no jax: a config that is refused is refused before that takes a second.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ml_collections import ConfigDict

from agentrl import config as config_lib
from agentrl.config import mixture, resume
from agentrl.modes import told


def read(config: ConfigDict, workdir: str | None = None) -> Any:
  """The config as the dataclass of its mode, checked.

  Args:
    config: of any mode.
    workdir: where it is to run: what is there already counts, and an evaluation
      waits for servers that are still starting. None: it is only looked at.

  Raises:
    AgentrlError: names the field, the value and the way out.
  """
  if (of_mode := _READ.get(config.mode)) is not None:
    return of_mode(config, workdir)
  return config_lib.read(config)


# Modes that go on from a run, whose config fills what theirs leaves open.
_READ: Mapping[str, Callable[[ConfigDict, str | None], Any]] = {
    'train': mixture.read,
    'sft': resume.read,
    'dpo': resume.read,
    'agentevol': resume.read,
    'evaluate': told.whole,
    'serve_policy': lambda config, workdir: resume.read(config),
}
