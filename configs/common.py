"""Helpers shared by config files."""

from ml_collections import ConfigDict


def parse_arg(arg: str | None, **defaults) -> ConfigDict:
  """Reads `--config=file.py:key=value,flag` into the types of `defaults`."""
  values = dict(defaults)
  for item in filter(None, (arg or '').split(',')):
    key, has_value, text = item.partition('=')
    if key not in defaults:
      raise ValueError(
          f'Unknown config argument {key!r}; known: {", ".join(defaults)}.'
      )
    kind = type(defaults[key])
    if kind is bool:
      if text.lower() not in ('', 'true', 'false'):
        raise ValueError(f'{key!r} is a boolean, got {text!r}.')
      values[key] = text.lower() != 'false'
    elif not has_value:
      raise ValueError(f'{key!r} needs a value, as in {key}={defaults[key]}.')
    else:
      values[key] = kind(text)
  return ConfigDict(values)
