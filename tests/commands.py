"""Parses command lines as their programs would, and runs none of them.

Reads a JSON list of argument vectors from stdin and writes the list of what is
wrong with each, '' where nothing is. They are tried in forks, which have flags
and patches of their own, of a process that has imported what takes long.
"""

import argparse
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import sys
import traceback

from absl import app, flags
from absl.testing import flagsaver

from agentrl.config import MODES
from agentrl.modes import reading
from agentrl.runtime import ending


def _app_run(main, argv=None, flags_parser=None):
  """`absl.app.run` up to `main`; launch.py also reads the config."""
  del main, argv
  if flags_parser is None:
    flags.FLAGS(sys.argv)
  else:
    config, rest, _ = flags_parser(sys.argv)
    assert len(rest) == 1, f'arguments {rest[1:]} are no flags'
    reading.read(config)
  sys.exit()


def _parse_args(parser, args=None, namespace=None):
  argparse.ArgumentParser.parse_known_args(parser, args, namespace)
  sys.exit()


def check(argv: list[str]) -> str:
  """The complaint of a command's own program; empty if it takes the words."""
  app.run = _app_run
  if argv[:2] == ['-m', 'agentrl.launch']:  # the same, and imported already
    argv = ['launch.py', *argv[2:]]
  ending.end = sys.exit  # without the timer that would end what comes after
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


def in_fork(vectors: list[list[str]]) -> list[str]:
  """`check` of each, one after the other, in a process of their own."""
  read, write = os.pipe()
  child = os.fork()
  if not child:
    said = []
    if 'launch.py' in vectors[0] or 'agentrl.launch' in vectors[0]:
      # Defines its flags once, and each `flagsaver` forgets what came after it.
      importlib.import_module('agentrl.launch')
    for argv in vectors:
      with flagsaver.flagsaver():
        said.append(check(argv))
    with os.fdopen(write, 'w') as pipe:
      json.dump(said, pipe)
    os._exit(0)
  os.close(write)
  with os.fdopen(read) as pipe:
    said = json.load(pipe)
  os.waitpid(child, 0)
  return said


def main() -> None:
  # Else each fork would copy all that collecting garbage touches.
  gc.disable()
  for name in MODES:
    importlib.import_module(f'agentrl.modes.{name}')
  gc.freeze()
  vectors = json.load(sys.stdin)
  groups = {}
  for i, argv in enumerate(vectors):
    # A fork takes longer than to read a config: those of one file share it. A
    # module defines its flags once, so that other programs are alone.
    file = next((word for word in argv if word.startswith('--config=')), '')
    key = file.partition(':')[0] if argv[0] == 'launch.py' else i
    groups.setdefault(key, []).append(i)
  said = {}
  for indices in groups.values():
    found = in_fork([vectors[i] for i in indices])
    said |= zip(indices, found, strict=True)
  print(json.dumps([said[i] for i in range(len(vectors))]))


if __name__ == '__main__':
  main()
