r"""Runs a config: `python launch.py --config=configs/NAME.py --workdir=DIR`.

Fields are overridden on the command line (`--config.optim.lr=1e-5`); an
argument of the config file follows a colon (`--config=configs/NAME.py:tiny`).
`--dry_run` checks the config, prints every value with its defaults and starts
nothing; of a run that learns it also prints what each device of its mesh needs.
"""

import errno
import importlib
import pprint
import sys

from absl import app, flags, logging
from ml_collections import config_flags

from agentrl.errors import AgentrlError, ConfigError

_CONFIG = config_flags.DEFINE_config_file(
    'config', None, 'Config file, with its argument after a colon.'
)
_WORKDIR = flags.DEFINE_string(
    'workdir', None, 'Directory of everything that the run leaves behind.'
)
_DRY_RUN = flags.DEFINE_bool(
    'dry_run', False, 'Check the config, print what it means and stop.'
)
_DEVICE_MEMORY = flags.DEFINE_float(
    'device_memory_gib',
    None,
    'With --dry_run: what a device has, 80 by default.',
    lower_bound=0.0,
)

# Modes are modules of agentrl.modes. They are imported late: an environment
# server needs no accelerator, and XLA_FLAGS must be set before jax is imported.
MODES = (
    'train',
    'sft',
    'dpo',
    'agentevol',
    'evaluate',
    'serve_env',
    'serve_policy',
    'inspect',
    'export',
)
# Those that learn: a dry run plans their memory.
PLANNED = ('train', 'sft', 'dpo', 'agentevol')

# A file that cannot be written: full, over quota, read-only, forbidden.
_DISK = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
)


def main(argv):
  if len(argv) > 1:
    raise ConfigError(f'Unexpected arguments {argv[1:]}; flags begin with --.')
  if _CONFIG.value is None:
    raise ConfigError('Name a config: --config=configs/quickstart.py')
  config = _CONFIG.value
  try:
    mode = config.get('mode')
  except OSError as error:  # it waited until somebody looked
    raise ConfigError(
        f'The config file cannot be loaded: {str(error).splitlines()[-1]}'
    ) from error
  if mode not in MODES:
    raise ConfigError(f'Unknown mode {mode!r}; known: {", ".join(MODES)}.')
  memory = _DEVICE_MEMORY.value
  if memory is not None and not (_DRY_RUN.value and mode in PLANNED):
    raise ConfigError(
        f'--device_memory_gib={memory:g} acts with --dry_run only, in the modes'
        f' {", ".join(PLANNED)}.'
    )
  module = importlib.import_module(f'agentrl.modes.{mode}')
  if _DRY_RUN.value:
    wanted = module.read(config)
    pprint.pprint(wanted, width=80)
    if mode in PLANNED:
      plan_report = importlib.import_module('agentrl.modes.plan_report')
      plan_report.show(mode, wanted, memory)
    return
  module.run(config, _WORKDIR.value)


def _parse(argv):
  """Reads the flags; what a config file says of a wrong one is enough."""
  try:
    return flags.FLAGS(argv)
  except flags.Error as error:
    # A config file's own error comes as a traceback that ends in its words.
    reason = str(error).strip().splitlines()[-1]
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    reason = str(error)
    unknown = error.__context__
    if isinstance(unknown, KeyError):  # whose own text is a repr, of two lines
      lines = f'the config has no field {unknown.args[0]}'.splitlines()
      reason = '. '.join(lines)
  _fail(ConfigError(f'The flags cannot be used: {reason}'))


def _main(argv):
  logging.set_verbosity(logging.WARNING)
  try:
    main(argv)
  except AgentrlError as error:
    _fail(error)
  except OSError as error:
    if error.errno not in _DISK:
      raise
    _fail(error)


def _fail(error: Exception):
  """Prints one line: these errors are the user's to mend, not ours."""
  print(f'{type(error).__name__}: {error}', file=sys.stderr)
  sys.exit(2)


if __name__ == '__main__':
  app.run(_main, flags_parser=_parse)
