"""Section of mode 'doctor'."""

import dataclasses

from agentrl.errors import ConfigError
from agentrl.fields import field


@dataclasses.dataclass(frozen=True, kw_only=True)
class Examined:
  """The config that is to run on this machine."""

  config: str = field(
      '', 'config file; its arguments follow a colon, parted by ;'
  )
  flags: tuple[str, ...] = field(
      (), 'fields to override, each FIELD=VALUE', example=('optim.lr=1e-4',)
  )

  def check(self) -> None:
    if not self.config:
      raise ConfigError('Name a config: --config=configs/doctor.py:config=FILE')
