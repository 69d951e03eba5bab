"""The result of a check of a machine."""

import dataclasses

OK, WARNING, FAULT = 'ok', 'warning', 'fault'


@dataclasses.dataclass(frozen=True)
class Finding:
  """The result of a check, and its remedy."""

  level: str
  subject: str
  words: str
  remedy: str = ''
