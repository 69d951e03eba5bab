"""A trial: a run, a moment, a fault, and what became of the run."""

import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
import subprocess
import time
from typing import Any

import numpy as np

from tests.faults import checks, services as services_lib
from tests.faults.draws import RANDOM, Trial
from tests.faults.faults import FAULTS, Strike, Undo
from tests.faults.runs import PHASES, Run
from tests.faults.scenarios import SCENARIOS

_FOLDER = pathlib.Path('/tmp/trial')  # a file system of its own
_SIZE = '256m'
_END_S = 300.0  # of a start, after its fault
_LIFTED_S = 10.0  # after which what a fault holds is given back
_STARTS = 8


class Trials:
  """Plays trials beside runs that are left alone, which it keeps."""

  def __init__(self, out: pathlib.Path):
    self._out = out
    _FOLDER.mkdir(exist_ok=True)
    checks.KEPT.add(_FOLDER.name)

  def play(self, trial: Trial) -> dict[str, Any]:
    """The result of a trial, JSON values."""
    self.whole(trial.scenario)
    began = time.monotonic()
    with _disk(), self._services(trial.scenario) as services:
      result = self._play(trial, services)
      if result['outcome'] == 'lost':
        kept = self._out / 'lost' / str(trial.number)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(_FOLDER, kept, symlinks=True)
    return {
        **dataclasses.asdict(trial),
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
          run = Run(name, _FOLDER)
          run.start()
          if not run.wait(_END_S * 4) or run.endings[-1].code:
            raise RuntimeError(
                f'The run {name} that is left alone fails: {run.said()[-3000:]}'
            )
          moments = _moments(run)
          shutil.copytree(_FOLDER, folder, symlinks=True)
      found = checks.problems(first / 'run', kept / 'run', run.scenario, '')
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

  def _play(self, trial: Trial, services: Any) -> dict[str, Any]:
    rng = np.random.default_rng([trial.seed, trial.number, 2])
    run = Run(trial.scenario, _FOLDER, trial.broken)
    run.start()
    whole = self.whole(trial.scenario)
    moments = json.loads((whole / 'moments.json').read_text())
    problems: list[str] = []
    hit = ''
    if _await_moment(run, trial, moments, rng):
      hit, undo, note = _strike(run, trial, services, rng)
    else:
      undo, note = None, 'the run was over'
    fault = FAULTS[trial.fault]
    ways, problems = _finish(run, undo, fault.lasts)
    if not problems:
      damaged = note if fault.between else ''
      problems += checks.problems(
          whole / 'run', run.workdir, run.scenario, damaged
      )
    known = set()
    if services is not None and (engine := services.engine.process):
      known = {engine.pid, *(x.pid for x in engine.children(recursive=True))}
    problems += checks.remains(known)
    problems += checks.secrets(_FOLDER)
    unnamed = [x for x in run.endings if not x.named and not _signalled(x)]
    problems += [f'ended without a name: {x}' for x in unnamed]
    outcome = 'lost' if problems else 'typed' if ways else 'equal'
    return {
        'hit': hit,
        'note': note,
        'endings': [[x.code, x.last[-300:]] for x in run.endings],
        'ways': ways,
        'outcome': outcome,
        'problems': problems,
    }


def _signalled(ending) -> bool:
  return ending.code < 0


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
  return found | {RANDOM: [round(time.time() - run.began, 4)]}


def _await_moment(run: Run, trial: Trial, moments, rng) -> bool:
  """Whether the run is at the moment of the trial, and not over before."""
  lengths = moments[trial.phase]
  which = trial.occurrence
  if which < 0:
    # Damage needs something that was kept: the second half of the run.
    first = len(lengths) // 2 if FAULTS[trial.fault].between else 0
    which = int(rng.integers(first, len(lengths)))
  delay = float(rng.uniform(0, 0.9)) * lengths[which]
  if trial.phase == RANDOM:
    begun = run.began
  else:
    while True:
      found = [x for x in run.marks() if x.begins and x.phase == trial.phase]
      if len(found) > which:
        begun = found[which].at
        break
      if not run.running:
        return False
      time.sleep(0.002)
  while time.time() < begun + delay and run.running:
    time.sleep(0.002)
  return run.running


def _strike(
    run: Run, trial: Trial, services, rng
) -> tuple[str, Undo | None, str]:
  """Does it; the phase that it hit, what takes it back, and a word on it."""
  fault = FAULTS[trial.fault]
  process = None
  deadline = time.monotonic() + 5
  while trial.target and process is None and run.running:
    if trial.target == 'engine' and services is not None:
      process = services.engine.process
    else:
      process = run.find(trial.target)
    if time.monotonic() > deadline:
      break
  if trial.target and process is None:
    return '', None, 'there was no target'
  hit = run.phase()
  if fault.between:
    run.kill()
  strike = Strike(run, process, rng, services)
  try:
    return hit, *fault.strike(strike)
  except Exception as error:
    return '', None, f'the fault failed: {error!r}'


def _finish(
    run: Run, undo: Undo | None, lasts: bool
) -> tuple[list[str], list[str]]:
  """Starts the command until it ends well.

  Args:
    run: that goes on, or was killed.
    undo: takes the fault back; called after a while, or when a start has ended.
    lasts: it is called only where the run asks for it.

  Returns:
    What the run's last words asked for and was done, and problems.
  """
  ways: list[str] = []
  restore, undo = (undo, None) if lasts else (None, undo)
  if not run.processes:  # killed, with a fault in between
    run.start()
  while True:
    if undo is not None and not run.wait(_LIFTED_S):
      undo()
      undo = None
    if run.processes and not run.wait(_END_S):
      said = ' | '.join(run.said().splitlines()[-5:])
      run.kill()
      return ways, [f'the run hangs: {said}']
    if undo is not None:
      undo()
      undo = None
    ending = run.endings[-1]
    if ending.code == 0:
      return ways, []
    if len(run.endings) >= _STARTS:
      return ways, [f'{_STARTS} starts did not finish it']
    if [x.last for x in run.endings[-2:]] == [ending.last] * 2:
      way = _follow(ending.last, restore)
      if not way:
        return ways, [f'no way on: {ending.last}']
      ways.append(way)
    run.start()


def _follow(words: str, restore: Undo | None) -> str:
  """Does what the last words of a run ask for; '' if that is nothing."""
  if remove := re.search(r'[Rr]emove (/\S+?)[.,:;]? ', f'{words} '):
    _remove(pathlib.Path(remove[1]))
    return f'removed {remove[1]}'
  if restore is not None and re.search(r'Put (it|the file) back', words):
    restore()
    return 'put the file back'
  return ''


def _remove(path: pathlib.Path) -> None:
  if path.is_dir():
    shutil.rmtree(path)
  else:
    path.unlink(missing_ok=True)
