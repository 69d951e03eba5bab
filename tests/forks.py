"""Processes of a program without the seconds that its imports take each time.

Each is a fork of one process that has made them. It has flags, devices,
standard streams and an exit code of its own, and ends as Python does.
"""

import contextlib
import functools
import gc
import importlib
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]
_LONGEST_S = 600


@contextlib.contextmanager
def starter(*modules, **variables):
  """Gives a function that runs a script to its end; see `_run`.

  Args:
    *modules: that are imported once.
    **variables: of the environment, from before they are.
  """
  process = subprocess.Popen(
      [sys.executable, '-m', 'tests.forks', *modules],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      text=True,
      cwd=ROOT,
      env=os.environ | variables,
  )
  with process:
    yield functools.partial(_run, process)


def _run(process, *argv, reader=True, **variables):
  """The exit code and the output of a script, run to its end.

  Args:
    process: that forks it.
    *argv: the script's path, and its arguments.
    reader: whether somebody reads its standard output.
    **variables: of its environment.
  """
  print(json.dumps([argv, reader, variables]), file=process.stdin, flush=True)
  ended = json.loads(process.stdout.readline())
  return subprocess.CompletedProcess(argv, *ended)


def _become(argv, reader, variables, out, err):
  """Makes this process one that was just started with these arguments."""
  signal.alarm(_LONGEST_S)
  gc.enable()
  os.environ.update(variables)
  if not reader:
    read_end, out = os.pipe()
    os.close(read_end)
  nothing = os.open(os.devnull, os.O_RDONLY)
  for number, file in enumerate((nothing, out, err)):
    os.dup2(file, number)
  sys.argv = argv


def _main():
  # Else a fork would copy all that collecting garbage touches.
  gc.disable()
  for name in sys.argv[1:]:
    importlib.import_module(name)
  gc.freeze()
  for line in sys.stdin:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
      child = os.fork()
      if not child:
        _become(*json.loads(line), out.fileno(), err.fileno())
        break
      code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
      said = []
      for file in (out, err):
        file.seek(0)
        said.append(file.read().decode())
    print(json.dumps([code, *said]), flush=True)
  else:
    return
  runpy.run_path(sys.argv[0], run_name='__main__')


if __name__ == '__main__':
  _main()
