r"""Runs a config: `python -m agentrl.launch --config=FILE --workdir=DIR`.

`python launch.py` in a clone is the same. FILE is yours, or `configs/NAME.py`.

Every field of a config is a flag (`--config.optim.lr=1e-5`); `--fields` lists
them, `--fields=optim` those of a section. An argument of the config file
follows a colon (`--config=configs/NAME.py:tiny`). `--dry_run` checks the config
and starts nothing: it prints every value and its origin (default, config, flag,
or run: the one that it goes on from), and of a run that learns what each device
of its mesh needs, and what its machines send each other. `--view` prints a link
to pages that show the run.
"""

import contextlib
import difflib
import errno
import gc
import importlib
import math
import os
import re
import sys
from collections.abc import Collection
from typing import Any

from absl import app, flags, logging
from ml_collections import ConfigDict

from agentrl import shipped
from agentrl.config import MODES, commandline, report
from agentrl.config.modes import Learning
from agentrl.errors import AgentrlError, ConfigError
from agentrl.runtime import ending, streams, workdir

_CONFIG = flags.DEFINE_string(
    'config', None, 'Config file, with its argument after a colon.'
)
_WORKDIR = flags.DEFINE_string(
    'workdir', None, 'Directory of everything that the run leaves behind.'
)
_DRY_RUN = flags.DEFINE_bool(
    'dry_run', False, 'Check the config, print what it means and stop.'
)
_FIELDS = flags.DEFINE_string(
    'fields',
    None,
    "List the fields of the config's mode, or of a section of it, and stop;"
    " without a config those of mode 'train'.",
)
_VIEW = flags.DEFINE_bool(
    'view', False, 'Show the workdir in a browser while the run goes on.'
)
_DEVICE_MEMORY = flags.DEFINE_float(
    'device_memory_gib',
    None,
    'With --dry_run: what a device has, 80 by default.',
    lower_bound=0.0,
)

_HOST_DEVICES = flags.DEFINE_integer(
    'host_devices',
    None,
    'With --dry_run: devices of a machine, 8 by default.',
    lower_bound=1,
)

# Those that learn: a dry run plans their memory.
PLANNED = tuple(name for name in MODES if issubclass(MODES[name], Learning))

# Those that leave no episodes in the workdir.
UNRECORDED = (
    'compare',
    'export',
    'inspect',
    'serve_env',
    'serve_policy',
    'study',
    'view',
)

# New objects, by count, after which garbage is looked for; Python's are 700.
_GARBAGE = 10_000

# A file that cannot be written or read: these are the user's to mend.
_DISK = (*workdir.FULL, errno.EACCES)


def main(arguments):
  config, argv, paths = arguments
  if len(argv) > 1:
    raise ConfigError(f'Unexpected arguments {argv[1:]}; flags begin with --.')
  for name in (_CONFIG.name, _WORKDIR.name):
    if flags.FLAGS[name].present > 1:
      raise ConfigError(f'--{name} is given twice: leave one out.')
  if _CONFIG.value is None and (_FIELDS.value is None or paths):
    raise ConfigError('Name a config: --config=configs/quickstart.py')
  mode = config.mode
  if _FIELDS.value is not None:
    named = lambda section: config.get(section, {}).get('name') or ''
    report.show_fields(mode, _FIELDS.value, named('algo'), named('env'))
    return
  memory = _DEVICE_MEMORY.value
  for flag, modes in ((_DEVICE_MEMORY, PLANNED), (_HOST_DEVICES, ('train',))):
    if flag.value is not None and not (_DRY_RUN.value and mode in modes):
      raise ConfigError(
          f'--{flag.name}={flag.value:g} acts with --dry_run only, in'
          f' mode{"s" * (len(modes) > 1)} {", ".join(modes)}.'
      )
  if memory is not None and not math.isfinite(memory):
    raise ConfigError(f'--device_memory_gib={memory:g} is no amount of memory.')
  if _VIEW.value and (mode in UNRECORDED or _DRY_RUN.value):
    raise ConfigError(
        '--view shows what a run writes, and this command writes none:'
        ' leave it out.'
    )
  # What imports make stays, so that looking for garbage among it is in vain.
  gc.disable()
  # Before jax is imported: a config that is refused need not wait for that.
  reading = importlib.import_module('agentrl.modes.reading')
  checked = reading.read(config, None if _DRY_RUN.value else _WORKDIR.value)
  if _DRY_RUN.value:
    _show(config, checked, paths)
    return
  with contextlib.ExitStack() as stack:
    if mode not in UNRECORDED:
      stack.enter_context(streams.lasting())
    if _VIEW.value:
      beside = importlib.import_module('agentrl.viewer.beside')
      folder = workdir.make(_WORKDIR.value)
      print(stack.enter_context(beside.viewer(folder)), flush=True)
    how = {}
    if mode in PLANNED and _WORKDIR.value:
      early = importlib.import_module('agentrl.modes.early')
      servers = stack.enter_context(early.servers(checked))
      how['begin_env'] = servers.take
    # Imported late: an environment server needs no accelerator, and XLA_FLAGS
    # must be set before jax is imported.
    module = importlib.import_module(f'agentrl.modes.{mode}')
    gc.freeze()
    # What tracing makes stays as well: a start spent 0.4 s on looking through it
    # again and again.
    gc.set_threshold(_GARBAGE)
    gc.enable()
    module.run(config, _WORKDIR.value, **how)


def _show(config: ConfigDict, checked: Any, paths: Collection[str]) -> None:
  """The dry run of a config that was read; `paths` are those that flags set."""
  preflight = importlib.import_module('agentrl.modes.preflight')
  preflight.check(config, checked, _WORKDIR.value)
  run = None
  if checked.BROUGHT:
    told = importlib.import_module('agentrl.modes.told')
    run = told.trained_with(config)
  report.show_values(config, checked, run, paths)
  if config.mode in PLANNED:
    plan_report = importlib.import_module('agentrl.planning.report')
    plan_report.show(
        config.mode, checked, _DEVICE_MEMORY.value, _HOST_DEVICES.value
    )


def _parse(argv):
  """The config with its overrides, what is no flag, and what was overridden."""
  if any(re.fullmatch('-+(help.*|[?])', word) for word in argv):
    files = report.overview(shipped.ROOT / 'configs')
    # Where absl takes its text from.
    sys.modules['__main__'].__doc__ = f'{__doc__}\n{files}\n'
  argv = ['--fields=' if word == '--fields' else word for word in argv]
  try:
    config = commandline.named(argv)
    return config, *commandline.override(config, argv, flags.FLAGS)
  except ConfigError as error:
    _fail(error)
  except flags.UnrecognizedFlagError as error:
    known = list(flags.FLAGS)
    near = difflib.get_close_matches(error.flagname, known, 3, 0.75)
    meant = ' or '.join(f'--{name}' for name in near)
    _fail(
        ConfigError(
            f'Unknown flag --{error.flagname}.'
            + (f' Did you mean {meant}?' if meant else ' --help lists them.')
        )
    )
  except (flags.Error, ValueError) as error:
    _fail(ConfigError(f'The flags cannot be used: {error}'))


def _main(arguments):
  logging.set_verbosity(logging.WARNING)
  ending.mute_closed_loops()
  try:
    main(arguments)
  except AgentrlError as error:
    _fail(error)
  except OSError as error:
    if error.errno not in _DISK:
      raise
    _fail(error)


def _fail(error: Exception):
  """Prints one line: these errors are the user's to mend, not ours."""
  print(f'{type(error).__name__}: {error}', file=sys.stderr, flush=True)
  ending.end(2)


def run():
  """Runs the command; a listing whose reader has gone ends without a word."""
  try:
    try:
      app.run(_main, flags_parser=_parse)
    finally:
      sys.stdout.flush()
  except BrokenPipeError:
    # Parsing itself prints --help. A run's pipes are no listing's.
    parsed = flags.FLAGS.is_parsed()
    if parsed and not (_DRY_RUN.value or _FIELDS.value is not None):
      raise
    # Else Python complains once more when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


if __name__ == '__main__':
  run()
