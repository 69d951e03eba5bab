"""Finds the sandboxes that this machine has."""

from agentrl.envs.adapters.harbor import containers, namespaces
from agentrl.errors import ConfigError

NAMESPACE = 'bubblewrap'


def find(name: str | None) -> str:
  """The kind of sandbox of this machine, or `name` if it has that one.

  Raises:
    ConfigError: it has none.
  """
  for engine in containers.ENGINES:
    if name in (None, engine) and containers.runs(engine):
      return engine
  if name in (None, NAMESPACE) and namespaces.run_here():
    return NAMESPACE
  if name not in (None, NAMESPACE, *containers.ENGINES):
    known = ', '.join((*containers.ENGINES, NAMESPACE))
    raise ConfigError(f'There is no sandbox {name!r}; known: {known}.')
  raise ConfigError(
      f'No sandbox runs here ({name or "docker, podman or bubblewrap"}): start'
      ' a container engine, or install bubblewrap (apt-get install'
      ' bubblewrap).'
  )
