r"""Times commands of `launch.py` from the shell to their first results, by part.

    python -m experiments.benchmarks.bench_launch --pairs=3
    python -m experiments.benchmarks.bench_launch --against=../other-checkout

Each pair runs configs/quickstart.py:tiny twice with an empty folder for compiled
programs: the first start fills it, the second one, in a new workdir, finds them.
`--help`, a refused config and dry runs are timed beside them. With `--against` the
commands of another checkout take turns with this one's, which other work on the
machine changes less than their times.

Prints one JSON line per case and part: medians of seconds by the clock (`wall_s`)
and of all cores (`cpu_s`, without the environment server but in `total`). Parts
that begin with `to` are counted from the command; `programs` are sums over all
threads, and lie within the others. Bytecode of the modules is there before.
"""

import collections
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from absl import app, flags

_PAIRS = flags.DEFINE_integer('pairs', 3, 'First and second starts.')
_AGAINST = flags.DEFINE_string('against', None, 'Another checkout to time.')
_RUNS = flags.DEFINE_bool('runs', True, 'Time whole runs, not commands alone.')

_ROOT = pathlib.Path(__file__).parents[2]
_TINY = '--config=configs/quickstart.py:tiny'
_COMMANDS = {
    '--help': ('--help',),
    'a refused config': (_TINY, '--config.optim.lr=-1', '--workdir=runs/none'),
    '--dry_run of a server': ('--config=configs/view.py', '--dry_run'),
    '--dry_run of a run': (_TINY, '--dry_run'),
}
# Runs launch.py with a clock around some of its functions. The first argument is
# the file for what it measures, the second the time of the command.
_CHILD = """
import functools, importlib, json, sys, time
sys.path.insert(0, '.')
out, began = sys.argv[1], float(sys.argv[2])
sys.argv = ['launch.py', *sys.argv[3:]]
import launch

parts = {}
def add(name, wall, cpu):
  old = parts.get(name, (0.0, 0.0))
  parts[name] = old[0] + wall, old[1] + cpu

def timed(owner, attribute, name):
  function = getattr(owner, attribute)
  @functools.wraps(function)
  def run(*args, **kwargs):
    wall, cpu = time.time(), time.process_time()
    try:
      return function(*args, **kwargs)
    finally:
      add(name, time.time() - wall, time.process_time() - cpu)
  setattr(owner, attribute, run)

def reached(owner, attribute, name):
  function = getattr(owner, attribute)
  @functools.wraps(function)
  def run(*args, **kwargs):
    result = function(*args, **kwargs)
    if name not in parts:
      add(name, time.time() - began, time.process_time())
    return result
  setattr(owner, attribute, run)

PROGRAMS = {
    '/jax/core/compile/jaxpr_trace_duration': 'programs: tracing',
    '/jax/core/compile/jaxpr_to_mlir_module_duration': 'programs: lowering',
    '/jax/core/compile/backend_compile_duration':
        'programs: compiling or loading',
}

def watch():
  import jax
  from agentrl.engine import model_runner
  from agentrl.rollout import collector, environment
  from agentrl.serving import start
  from agentrl.text import tokenizer
  from agentrl.training import language_model, run_record
  timed(environment.Environment, '__init__', 'environment server')
  timed(collector, 'expert_texts', 'expert play for the tokenizer')
  timed(tokenizer, 'train_bpe', 'tokenizer training')
  timed(language_model, 'init_random', 'model init')
  timed(start, 'start_serving', 'engine start')
  reached(model_runner.ModelRunner, 'decode', 'to the first token')
  reached(run_record.RunRecord, 'write_step', 'to the first rl step')
  def listen(event, seconds, **how):
    if event in PROGRAMS:
      add(PROGRAMS[event], seconds, 0.0)
  jax.monitoring.register_event_duration_secs_listener(listen)

real = importlib.import_module
def imported(name, package=None):
  of_mode = name == 'agentrl.modes.train'
  if of_mode:
    add('interpreter and config', time.time() - began, time.process_time())
  wall, cpu = time.time(), time.process_time()
  module = real(name, package)
  if of_mode:
    add('imports', time.time() - wall, time.process_time() - cpu)
    watch()
  return module
importlib.import_module = imported
try:
  # `_run` of an earlier checkout.
  (getattr(launch, 'run', None) or launch._run)()
finally:
  with open(out, 'w') as file:
    json.dump(parts, file)
"""

Parts = dict[str, tuple[float, float]]


def run(root: pathlib.Path, *words: str, folder: str | None = None) -> Parts:
  """Wall and CPU seconds of a command by part; `total` is the whole process.

  Args:
    root: the checkout.
    *words: of Python.
    folder: of caches.
  """
  environment = {
      name: value
      for name, value in os.environ.items()
      if name not in ('PYTHONDONTWRITEBYTECODE', 'JAX_COMPILATION_CACHE_DIR')
  }
  if folder is not None:
    environment['AGENTRL_CACHE'] = folder
  begin, before = time.perf_counter(), _children()
  done = subprocess.run(
      [sys.executable, *words],
      cwd=root,
      env=environment,
      capture_output=True,
      text=True,
  )
  wall = time.perf_counter() - begin
  if 'Traceback' in done.stderr:
    raise RuntimeError(f'The command failed: {done.stderr}')
  return {'total': (wall, _children() - before)}


def run_tiny(root: pathlib.Path, folder: str) -> Parts:
  """As `run` of a whole tiny run, with its parts."""
  with tempfile.TemporaryDirectory(prefix='bench-') as place:
    out = pathlib.Path(place) / 'parts.json'
    words = ('-c', _CHILD, str(out), str(time.time()), _TINY)
    total = run(root, *words, f'--workdir={place}/run', folder=folder)
    parts = json.loads(out.read_text())
  return {name: tuple(value) for name, value in parts.items()} | total


def _children() -> float:
  usage = resource.getrusage(resource.RUSAGE_CHILDREN)
  return usage.ru_utime + usage.ru_stime


def main(argv):
  del argv
  roots = {'here': _ROOT}
  if _AGAINST.value:
    roots['against'] = pathlib.Path(_AGAINST.value).absolute()
  found = collections.defaultdict(list)
  for root in roots.values():
    run(root, 'launch.py', _TINY, '--dry_run')  # leaves bytecode
  for _ in range(_PAIRS.value):
    for case, words in _COMMANDS.items():
      for name, root in roots.items():
        found[name, case].append(run(root, 'launch.py', *words))
    if not _RUNS.value:
      continue
    with tempfile.TemporaryDirectory(prefix='bench-') as place:
      for start in ('first', 'second'):
        for name, root in roots.items():
          folder = f'{place}/{name}'
          case = f'quickstart:tiny, {start} start'
          found[name, case].append(run_tiny(root, folder))
  for (name, case), measured in found.items():
    for part in measured[-1]:
      walls, cpus = zip(*(parts[part] for parts in measured), strict=True)
      line = dict(
          case=case,
          part=part,
          checkout=name,
          wall_s=round(statistics.median(walls), 3),
          wall_s_range=[round(min(walls), 3), round(max(walls), 3)],
          cpu_s=round(statistics.median(cpus), 3),
          n=len(measured),
          cores=os.cpu_count(),
      )
      print(json.dumps(line), flush=True)


if __name__ == '__main__':
  app.run(main)
