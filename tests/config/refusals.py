"""The messages about values that a config does not take."""

from agentrl import config as config_lib
from agentrl.errors import ConfigError


def set_fields(config, fields):
  """The config with these values, by dotted paths."""
  for path, value in fields.items():
    *parents, name = path.split('.')
    section = config
    for part in parents:
      section = section[part]
    setattr(section, name, value)
  return config


def refusal(config, fields, run=None):
  """The words with which a config refuses these values; '' if it takes them."""
  try:
    config_lib.read(set_fields(config, fields), run)
  # What is assigned is refused at once, with the errors of a ConfigDict.
  except (AttributeError, ConfigError, KeyError, TypeError) as error:
    return _words(error)
  return ''


def _words(error):
  found = error.args[0]
  # An unknown attribute is raised from the KeyError that has the words.
  return _words(found) if isinstance(found, Exception) else found
