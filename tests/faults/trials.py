"""A trial: a run, a moment, a fault, and what became of the run."""

import contextlib
import dataclasses
import json
import pathlib
import shutil
import signal
import subprocess
import time
from typing import Any

import numpy as np

from tests.faults import checks, services as services_lib
from tests.faults.clock import Clock
from tests.faults.course import Course
from tests.faults.draws import RANDOM, Trial
from tests.faults.runs import PHASES, Run
from tests.faults.scenarios import SCENARIOS

_FOLDER = pathlib.Path('/tmp/trial')  # a file system of its own
_SIZE = '256m'
_WHOLE_S = 1200.0  # of a run that is left alone
# By faults: a crash is no end by a signal of ours.
_ENDED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT)


class Trials:
  """Plays trials beside runs that are left alone, which it keeps."""

  def __init__(self, out: pathlib.Path):
    self._out = out
    _FOLDER.mkdir(exist_ok=True)
    self._clock = Clock(out)
    checks.KEPT.update(x.name for x in _FOLDER.parent.iterdir())

  def play(self, trial: Trial) -> dict[str, Any]:
    """The result of a trial, JSON values."""
    self.whole(trial.scenario)
    began = time.monotonic()
    with _disk(), self._services(trial.scenario) as services:
      self._clock.set(0)
      run = Run(trial.scenario, _FOLDER, self._clock, trial.broken)
      result = self._play(trial, run, services)
      if result['outcome'] == 'lost':
        kept = self._out / 'lost' / f'{trial.seed}-{trial.number}'
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(_FOLDER, kept, symlinks=True)
        (kept / 'said.log').write_bytes(run.log)
    return {
        'number': trial.number,
        'seed': trial.seed,
        'scenario': trial.scenario,
        'broken': trial.broken,
        **result,
        'seconds': round(time.monotonic() - began, 1),
    }

  def whole(self, name: str) -> pathlib.Path:
    """The folder of a scenario's run that was left alone; plays it first.

    Twice: the first one compiles. The two have to be equal, too.
    """
    kept = self._out / 'whole' / name
    first = self._out / 'whole' / f'{name}-first'
    if not (kept / 'moments.json').exists():
      for folder in (first, kept):
        shutil.rmtree(folder, ignore_errors=True)
        with _disk(), self._services(name):
          run = Run(name, _FOLDER, self._clock)
          run.start()
          if not run.wait(_WHOLE_S) or run.endings[-1].code:
            raise RuntimeError(
                f'The run {name} that is left alone fails: {run.said()[-3000:]}'
            )
          moments = _moments(run)
          shutil.copytree(_FOLDER, folder, symlinks=True)
      found = checks.problems(
          first / 'run', kept / 'run', run.scenario, [], b''
      )
      if found:
        raise RuntimeError(f'Two runs {name} left alone differ: {found}')
      shutil.rmtree(first)
      (kept / 'moments.json').write_text(json.dumps(moments))
    return kept

  def _services(self, name: str):
    if not SCENARIOS[name].found:
      return contextlib.nullcontext()
    return services_lib.Services(
        self.whole('babyai') / 'run', self._out / 'engine.log'
    )

  def _play(self, trial: Trial, run: Run, services: Any) -> dict[str, Any]:
    whole = self.whole(trial.scenario)
    moments = json.loads((whole / 'moments.json').read_text())
    course = Course(run, services, moments)
    blows, problems = [], []
    for index, blow in enumerate(trial.blows):
      rng = np.random.default_rng([trial.seed, abs(trial.number), 2, index])
      hit, note = course.strike(blow, rng)
      blows.append(dataclasses.asdict(blow) | {'hit': hit, 'note': note})
    course.finish()
    problems += course.problems
    if not problems and not course.over:
      problems += checks.problems(
          whole / 'run', run.workdir, run.scenario, course.damaged, run.log
      )
    known = services.pids() if services is not None else set()
    # The next run that serves removes the weights of one that was killed.
    problems += [
        x
        for x in checks.remains(known)
        if not course.over or '/dev/shm/agentrl-' not in x
    ]
    problems += checks.secrets(_FOLDER, run.log)
    problems += [
        f'ended without a name: {x}'
        for x in run.endings
        if not x.named and x.code not in _ENDED
    ]
    outcome = 'lost' if problems else 'typed' if course.ways else 'equal'
    return {
        'blows': blows,
        'endings': [[x.code, x.last[-300:]] for x in run.endings],
        'ways': course.ways,
        'outcome': outcome,
        'problems': problems,
    }


@contextlib.contextmanager
def _disk():
  """A small file system for a trial."""
  subprocess.run(
      ['mount', '-t', 'tmpfs', '-o', f'size={_SIZE}', 'faults', str(_FOLDER)],
      check=True,
  )
  try:
    yield
  finally:
    subprocess.run(['umount', '-l', str(_FOLDER)], check=True)


def _moments(run: Run) -> dict[str, Any]:
  """Seconds of each phase of a run that has ended, and of all of it."""
  found: dict[str, Any] = {phase: [] for phase in PHASES}
  begun: dict[str, float] = {}
  marks = run.marks()
  for i, mark in enumerate(marks):
    if mark.begins:
      begun[mark.phase] = mark.at
      continue
    end = mark.at
    if mark.phase == 'checkpoint':  # it is written until the next begins
      end = max([mark.at, *(x.at for x in marks[i + 1 : i + 2])])
    found[mark.phase].append(round(end - begun[mark.phase], 4))
  return found | {RANDOM: [round(time.monotonic() - run.began, 4)]}
