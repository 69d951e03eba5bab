"""Parses command lines as their programs would, and runs none of them.

Reads a JSON list of argument vectors from stdin and writes the list of what is
wrong with each, '' where nothing is. Each is tried in a fork, which has flags and
patches of its own, of a process that has imported what takes long.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import runpy
import sys
import traceback

from absl import app, flags

from agentrl.config import MODES


def load(mode: str):
  """The module of a mode."""
  return importlib.import_module(f'agentrl.modes.{mode}')


def _app_run(main, argv=None, flags_parser=None):
  """`absl.app.run` up to `main`; launch.py also reads the config."""
  del main, argv
  if flags_parser is None:
    flags.FLAGS(sys.argv)
  else:
    config, rest, _ = flags_parser(sys.argv)
    assert len(rest) == 1, f'arguments {rest[1:]} are no flags'
    load(config.mode).read(config)
  sys.exit()


def _parse_args(parser, args=None, namespace=None):
  argparse.ArgumentParser.parse_known_args(parser, args, namespace)
  sys.exit()


def check(argv: list[str]) -> str:
  """The complaint of a command's own program; empty if it takes the words."""
  app.run = _app_run
  argparse.ArgumentParser.parse_args = _parse_args
  said = io.StringIO()
  try:
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
      if argv[0] == '-m':
        sys.argv = argv[1:]
        runpy.run_module(argv[1], run_name='__main__', alter_sys=True)
      else:
        sys.argv = argv
        runpy.run_path(argv[0], run_name='__main__')
  except SystemExit as end:
    if end.code:
      return said.getvalue().strip() or str(end.code)
    return ''
  except Exception as error:
    return ''.join(traceback.format_exception(error)[-2:])
  return 'it does not parse flags'


def in_fork(argv: list[str]) -> str:
  """`check` in a process of its own."""
  read, write = os.pipe()
  child = os.fork()
  if not child:
    with os.fdopen(write, 'w') as pipe:
      pipe.write(check(argv))
    os._exit(0)
  os.close(write)
  with os.fdopen(read) as pipe:
    said = pipe.read()
  os.waitpid(child, 0)
  return said


if __name__ == '__main__':
  for name in MODES:
    load(name)
  print(json.dumps([in_fork(argv) for argv in json.load(sys.stdin)]))
