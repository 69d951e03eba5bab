"""The subject of a check of a machine, and its result."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.envs.options import EnvName

OK, WARNING, FAULT = 'ok', 'warning', 'fault'


@dataclasses.dataclass(frozen=True)
class Finding:
  """The result of a check, and its remedy."""

  level: str
  subject: str
  words: str
  remedy: str = ''


class Examined(NamedTuple):
  """A config that would run on this machine.

  Attributes:
    config: of its mode.
    values: the same by dotted paths.
    workdir: where it would run; need not exist.
    environments: all that it plays.
  """

  config: Any
  values: Mapping[str, Any]
  workdir: pathlib.Path
  environments: Sequence[EnvName]
