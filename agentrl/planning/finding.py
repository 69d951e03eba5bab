"""What a check of a machine found."""

import dataclasses

OK, WARNING, FAULT = 'ok', 'warning', 'fault'


@dataclasses.dataclass(frozen=True)
class Finding:
  """What a check found, and what to do about it."""

  level: str
  subject: str
  words: str
  remedy: str = ''
