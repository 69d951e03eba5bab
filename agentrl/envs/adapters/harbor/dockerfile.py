"""Reading of a Dockerfile."""

import shlex
from collections.abc import Iterator

# What they say changes no command of a policy.
SKIPPED = (
    *('USER', 'LABEL', 'MAINTAINER', 'EXPOSE', 'CMD', 'ENTRYPOINT'),
    *('STOPSIGNAL', 'VOLUME'),
)


def instructions(text: str) -> Iterator[tuple[int, str, str]]:
  """Line, name and rest of each instruction of a Dockerfile."""
  held, began = '', 0
  for number, line in enumerate(text.splitlines(), 1):
    if not line.strip() or line.lstrip().startswith('#'):
      continue
    began = began if held else number
    held += line.rstrip()
    if held.endswith('\\'):
      held = held[:-1] + ' '
      continue
    word, _, rest = held.strip().partition(' ')
    yield began, word.upper(), rest.strip()
    held = ''
  if held:
    yield began, held.split()[0].upper(), held.partition(' ')[2].strip()


def pairs(rest: str) -> dict[str, str]:
  """The variables of ENV, in either of its forms."""
  name, _, value = rest.partition(' ')
  if '=' not in name:
    return {name: value.strip()}
  return dict(word.partition('=')[::2] for word in shlex.split(rest))
