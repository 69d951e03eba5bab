"""The course of a run: started until it ends well, with faults on the way."""

import pathlib
import re
import shutil
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil

from tests.faults.draws import RANDOM, Blow
from tests.faults.faults import FAULTS, Strike, Undo
from tests.faults.runs import PHASES, Run

_LIFTED_S = 10.0  # after which what a fault holds is given back
_STARTS = 12
_POLL_S = 0.004


class Course:
  """Plays a run on, from start to start.

  Attributes:
    ways: what the run's last words asked for, and was done.
    damaged: files, from the workdir, that faults have changed.
    problems: by which the run cannot go on.
    over: whether the run has said that it cannot go on in its workdir.
  """

  def __init__(self, run: Run, services: Any, moments: dict[str, Any]):
    """Starts nothing.

    Args:
      run: to be started.
      services: engine and proxy of the harness, where the run has no own.
      moments: seconds of each phase of a run that is left alone.
    """
    self._run, self._services, self._moments = run, services, moments
    self.ways: list[str] = []
    self.damaged: list[str] = []
    self.problems: list[str] = []
    self.over = False
    self._held: Undo | None = None  # by a fault, to be given back
    self._restore: Undo | None = None  # a file, if the run asks for it
    self._since = 0.0  # the last fault or start, by time.monotonic
    self._last = 0.0  # the last fault

  def strike(self, blow: Blow, rng: np.random.Generator) -> tuple[str, str]:
    """Waits for the moment and does it.

    Returns:
      The phase that it hit, '' for none, and a word on it.
    """
    fault, run = FAULTS[blow.fault], self._run
    lengths = self._moments[blow.phase]
    which = blow.occurrence
    if which < 0:
      # Half of the run, so that there is a rest for the next one; the later half
      # for damage, which needs something that was kept.
      early = blow.phase == PHASES[0]
      half = len(lengths) if early else -(-len(lengths) // 2)
      which = int(rng.integers(half)) + (fault.between and len(lengths) - half)
    delay = float(rng.uniform(0, 0.9)) * lengths[which]
    if not self._go_on(lambda: self._begun(blow.phase, which, delay)):
      return '', 'the run was over'
    process = self._find(blow.target)
    if blow.target and process is None:
      return '', 'there was no target'
    self._give_back()
    hit = run.phase()
    if fault.between:
      run.kill()
    try:
      undo, note = fault.strike(Strike(run, process, rng, self._services))
    except (psutil.NoSuchProcess, OSError) as error:
      return '', f'it could not be done: {error!r}'
    finally:
      self._since = self._last = time.monotonic()
    if fault.lasts:
      self._restore = undo
      self.damaged += [note] * bool(note)
    else:
      self._held = undo
    return hit, note

  def finish(self) -> None:
    """Starts the run until it ends well."""
    self._go_on(lambda: False)

  def _begun(self, phase: str, which: int, delay: float) -> bool:
    if phase == RANDOM:
      return time.monotonic() >= self._run.began + delay
    found = [
        mark
        for mark in self._run.marks()
        if mark.begins and mark.phase == phase and mark.at > self._last
    ]
    if self._last:  # part of the run is over
      which = min(which, 1)
    now = time.monotonic()
    return len(found) > which and now >= found[which].at + delay

  def _find(self, target: str) -> psutil.Process | None:
    deadline = time.monotonic() + 5
    while target and self._run.running and time.monotonic() < deadline:
      if target == 'engine' and self._services is not None:
        process = self._services.engine.process
      else:
        process = self._run.find(target)
      if process is not None:
        return process
    return None

  def _go_on(self, moment: Callable[[], bool]) -> bool:
    """Whether the moment comes before the run ends for good."""
    run = self._run
    while not self.problems and not self.over:
      if run.running:
        if moment():
          return True
        waited = time.monotonic() - self._since
        if waited > _LIFTED_S:
          self._give_back()
        if waited > run.scenario.end_s:
          said = ' | '.join(run.said().splitlines()[-5:])
          run.kill()
          self.problems.append(f'the run hangs: {said}')
        time.sleep(_POLL_S)
        continue
      if (
          run.processes
      ):  # else a fault has killed it, which the next start meets
        run.wait(1)
        self._give_back()
      if run.endings and run.endings[-1].code == 0:
        return False
      self._look_at_the_end()
      if not self.problems and not self.over:
        self._since = time.monotonic()
        run.start()
    return False

  def _look_at_the_end(self) -> None:
    """Does what a run asks for that has ended twice by the same words."""
    endings = self._run.endings
    if len(endings) >= _STARTS:
      self.problems.append(f'{_STARTS} starts did not finish it')
    if len(endings) < 2 or endings[-1].code != 2 or endings[-1] != endings[-2]:
      return
    words = endings[-1].last
    if remove := re.search(r'[Rr]emove (/\S+?)[.,:;]? ', f'{words} '):
      _remove(pathlib.Path(remove[1]))
      self.ways.append(f'removed {remove[1]}')
    elif self._restore is not None and re.search(r'Put (it|the file) b', words):
      self._restore()
      self.ways.append('put the file back')
    elif 'another --workdir' in words:
      self.ways.append('another --workdir')
      self.over = True
    else:
      self.problems.append(f'no way on: {words}')

  def _give_back(self) -> None:
    if self._held is not None:
      self._held()
      self._held = None


def _remove(path: pathlib.Path) -> None:
  if path.is_dir():
    shutil.rmtree(path)
  else:
    path.unlink(missing_ok=True)
