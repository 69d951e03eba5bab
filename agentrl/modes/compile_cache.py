"""Compiled programs that outlive the process: JAX's persistent cache."""

import os
import pathlib

import jax
from absl import logging

from agentrl.envs import cache
from agentrl.errors import ConfigError

# Programs that compile faster are not kept: reading them takes as long.
_MIN_COMPILE_S = 0.1


def use(folder: str | None) -> None:
  """Makes this process keep what it compiles; to be called before it does.

  An entry is found by program, versions, flags and kind of processor, so a
  stale one is never used. Nothing is ever removed: the folder may be deleted at
  any time. Whoever can write into it can make the process run anything.

  Args:
    folder: where; None: where JAX_COMPILATION_CACHE_DIR says, else compiled/ in
      $AGENTRL_CACHE or the user's cache folder; empty: nothing is kept.

  Raises:
    ConfigError: the folder that is named cannot be written.
  """
  if folder is None and jax.config.jax_compilation_cache_dir:
    return
  if folder == '':
    jax.config.update('jax_compilation_cache_dir', None)
    return
  path = pathlib.Path(folder) if folder else cache.root('compiled')
  try:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not os.access(path, os.W_OK):
      raise PermissionError(f'{path} is read-only')
  except OSError as error:
    if folder:
      raise ConfigError(
          f'Cannot keep compiled programs in {path}: {error}; name another'
          ' folder, or none with an empty name.'
      ) from error
    logging.warning(
        'Every start will compile anew: %s. Set AGENTRL_CACHE to a folder that'
        ' can be written.',
        error,
    )
    return
  jax.config.update('jax_compilation_cache_dir', str(path))
  jax.config.update(
      'jax_persistent_cache_min_compile_time_secs', _MIN_COMPILE_S
  )
