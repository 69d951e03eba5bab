r"""Troubles a run on two SGLang servers at random moments and checks its record.

    python -m experiments.benchmarks.soak_faults --faults=50 --traffic_seed=0
    python -m experiments.benchmarks.soak_faults --faults=5 --engine

The servers are real ones of `third_party/sglang_cpu/install.py`, or embedded
engines in processes of their own (`--engine`). Processes of a server are killed
or stopped, the trainer is killed and started again by the same command, and
somebody else aborts, pauses and flushes; a quarter each of the moments lie in a
push, in the pause of one and while a server has requests. After each fault the run must make a step with all of
its servers. At the end it is interrupted, continued for two steps, and must
have ended well: every step once, nothing doubled, no process and no memory
left. Prints a JSON line a fault and a summary; exits with 1 if anything is off.
"""

import asyncio
import collections
import contextlib
import dataclasses
import json
import pathlib
import signal
import sys
import tempfile
import time

import aiohttp
import numpy as np
import psutil
from absl import app, flags

from agentrl.errors import EngineError
from agentrl.inference.control import ControlClient
from agentrl.runtime.event_loop import KEEP_ALIVE_S
from experiments.benchmarks import soak_flags, soak_run
from third_party.sglang_cpu import install

_FAULTS = flags.DEFINE_integer('faults', 50, 'Faults in all.')
_MINUTES = flags.DEFINE_float('minutes', None, 'No more faults after so long.')
_ENGINE = flags.DEFINE_bool('engine', False, 'Embedded engines as servers.')
_WORKDIR = flags.DEFINE_string('workdir', None, 'New; default: a passing one.')
_KINDS = flags.DEFINE_list(
    'kinds', [], 'KIND:WEIGHT of some kinds instead of all, see WEIGHTS.'
)

# How often each kind is drawn: what costs no start of a server the most.
WEIGHTS = {
    'kill_server': 2,
    'kill_scheduler': 2,
    'kill_detokenizer': 1,
    'hang_server': 0.5,
    'hang_scheduler': 0.5,
    'kill_trainer': 1.5,
    'interrupt_trainer': 1,
    'stop_server': 7,
    'stop_scheduler': 5,
    'abort_all': 11,
    'pause': 11.5,
    'flush': 7,
}
_TITLES = {
    'scheduler': 'sglang::scheduler',
    'detokenizer': 'sglang::detokenizer',
}
_MOMENTS = ('any', 'request', 'push', 'pause')
_REPLICAS = 2
# Servers that answer nothing for this long are started again.
_TIMEOUT_S = 60
_CHECKPOINT_EVERY = 2
_TASKS, _GROUP = 2, 4
# A start of everything takes one to four minutes, as busy as the machine is.
_RECOVERY_S = 900.0
_PATIENCE_S = 60.0  # for a moment that may not come
_STEPS = 100_000  # more than a run ever makes


@dataclasses.dataclass
class Report:
  """What was done, and what was wrong."""

  seed: int
  kinds: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  moments: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  recover_s: dict[str, list[float]] = dataclasses.field(default_factory=dict)
  steps: int = 0
  seconds: float = 0.0
  discards: int = 0
  failures: list[str] = dataclasses.field(default_factory=list)


def run_flags(*, engine: bool) -> tuple[str, ...]:
  """The run: small, and of more steps than it is let make."""
  python, module = sys.executable, 'agentrl.serving.launch_server'
  if not engine:
    python, module = install.python(), 'sglang_on_cpu'
  return (
      f'--config={soak_run.ROOT}/configs/quickstart.py:tiny',
      f'--config.num_steps={_STEPS}',
      # Short steps, so that faults meet pushes often.
      '--config.eval.num_tasks=0',
      '--config.warmstart.episodes=8',
      '--config.horizon.turns=(1,2)',
      '--config.rollout.max_completion_tokens=4',
      f'--config.rollout.tasks_per_step={_TASKS}',
      f'--config.rollout.group_size={_GROUP}',
      f'--config.checkpoint.every={_CHECKPOINT_EVERY}',
      '--config.sampler.kind=sglang',
      f'--config.sampler.timeout_s={_TIMEOUT_S}',
      f'--config.sampler.launch.python={python}',
      f'--config.sampler.launch.module={module}',
      f'--config.sampler.launch.replicas={_REPLICAS}',
      '--config.sampler.launch.restarts=1000',
      '--config.sampler.launch.backoff_s=0',
  )


class Faults:
  """One run, and what is done to it."""

  def __init__(self, run: soak_run.Run, session, rng: np.random.Generator):
    self.run = run
    self.discards = 0  # most steps that may have been done again
    self._session = session
    self._rng = rng
    self._problems: list[str] = []

  async def recovered(self) -> float:
    """Seconds until all servers serve and a step was made after that.

    Raises:
      EngineError: the run ended, or it takes too long.
    """
    start = time.monotonic()
    while not await self._all_serve():
      await self._wait(start)
    before = self.run.steps()
    while self.run.steps() <= before:
      await self._wait(start)
    return time.monotonic() - start

  async def _wait(self, start: float) -> None:
    code = self.run.process.poll()
    if code is not None:
      words = self.run.last_words()
      raise EngineError(f'the run ended with {code}: {words}')
    if time.monotonic() - start > _RECOVERY_S:
      raise EngineError(f'no recovery within {_RECOVERY_S:g} s')
    await asyncio.sleep(0.5)

  async def _all_serve(self) -> bool:
    servers = self.run.servers()
    if len(servers) < _REPLICAS:
      return False
    control = self._control(*servers)
    with contextlib.suppress(EngineError):
      await control.wait_ready(10.0)
      return True
    return False

  def _control(self, *servers: soak_run.Server) -> ControlClient:
    urls = [server.url for server in servers]
    return ControlClient(self._session, urls, timeout_s=30.0)

  async def moment(self, name: str, server: soak_run.Server) -> str:
    """Waits for a moment; gives 'any' if that did not come."""
    deadline = time.monotonic() + _PATIENCE_S
    if name == 'any':
      await asyncio.sleep(self._rng.uniform(0, 8))
      return name
    versions = lambda: set(server.model.parent.glob('version_*'))
    known = versions()
    while time.monotonic() < deadline:
      if name == 'push' and versions() - known:
        await asyncio.sleep(self._rng.uniform(0, 0.5))
        return name
      if name == 'pause' and await self._is_paused(server):
        return name
      if name == 'request' and await self._is_busy(server):
        return name
      await asyncio.sleep(0.003)
    return 'any'

  async def _is_paused(self, server: soak_run.Server) -> bool:
    try:
      async with self._session.get(
          f'{server.url}/ready', timeout=aiohttp.ClientTimeout(total=5)
      ) as response:
        return response.status == 503
    except (aiohttp.ClientError, TimeoutError):
      return False

  async def _is_busy(self, server: soak_run.Server) -> bool:
    try:
      return bool(await self._control(server).num_requests())
    except EngineError:
      return False

  async def inject(self, kind: str, moment: str) -> tuple[str, str]:
    """Does it; gives the moment that it was, and the detail."""
    servers = self.run.servers()
    server = servers[self._rng.integers(len(servers))]
    moment = await self.moment(moment, server)
    deed, _, what = kind.partition('_')
    return moment, await getattr(self, f'_{deed}')(server, what) or ''

  async def _kill(self, server: soak_run.Server, what: str) -> None:
    if what == 'trainer':
      await self._end_trainer(signal.SIGKILL, -signal.SIGKILL)
    elif what == 'server':
      server.main.kill()
    else:
      server.child(_TITLES[what]).kill()

  async def _interrupt(self, server: soak_run.Server, what: str) -> None:
    del server, what
    await self._end_trainer(signal.SIGINT, 130)

  async def _end_trainer(self, number: int, expected: int) -> None:
    """Ends the trainer; nothing of it may stay. Starts the same command."""
    await self.ended(number, expected)
    self.run.start()

  async def ended(self, number: int, expected: int) -> None:
    process = self.run.process
    process.send_signal(number)
    code = await asyncio.to_thread(process.wait, _RECOVERY_S)
    if code != expected:
      self._problems.append(f'{number} of the trainer gave {code}')
    self.discards += _CHECKPOINT_EVERY
    for _ in range(300):  # keepers give their servers ten seconds
      if not self._processes():
        return
      await asyncio.sleep(0.1)
    self._problems.append(f'after {number} of the trainer: {self._processes()}')

  def _processes(self) -> list[str]:
    return [text for text in self.run.remains() if text.startswith('process')]

  async def _hang(self, server: soak_run.Server, what: str) -> None:
    """Stops processes for good; the run has to notice."""
    for process in self._processes_of(server, what):
      process.suspend()

  async def _stop(self, server: soak_run.Server, what: str) -> str:
    seconds = self._rng.uniform(1, 15)
    stopped = self._processes_of(server, what)
    for process in stopped:
      process.suspend()
    await asyncio.sleep(seconds)
    for process in stopped:
      with contextlib.suppress(psutil.NoSuchProcess):
        process.resume()
    return f'{seconds:.1f} s'

  def _processes_of(self, server: soak_run.Server, what: str) -> list:
    if what == 'scheduler':
      return [server.child(_TITLES[what])]
    return [server.main, *server.main.children(recursive=True)]

  async def _abort(self, server: soak_run.Server, what: str) -> None:
    del what
    await self._post(server, 'abort_request', abort_all=True)

  async def _flush(self, server: soak_run.Server, what: str) -> str:
    del what
    return str(await self._post(server, 'flush_cache'))

  async def _pause(self, server: soak_run.Server, what: str) -> str:
    del what
    mode = ('retract', 'in_place', 'abort')[self._rng.integers(3)]
    seconds = self._rng.uniform(0.1, 5)
    await self._post(server, 'pause_generation', mode=mode)
    await asyncio.sleep(seconds)
    await self._post(server, 'continue_generation')
    return f'{mode} {seconds:.1f} s'

  async def _post(self, server: soak_run.Server, route: str, **body) -> int:
    """Sends what need not arrive: the server may be on its way out."""
    try:
      async with self._session.post(
          f'{server.url}/{route}',
          json=body,
          timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
      ) as response:
        await response.read()
        return response.status
    except (aiohttp.ClientError, TimeoutError):
      return 0

  def problems(self) -> list[str]:
    found, self._problems = self._problems, []
    return found


async def soak(
    directory: pathlib.Path,
    *,
    faults: int,
    seed: int,
    engine: bool,
    weights: dict[str, float],
    minutes: float | None = None,
) -> Report:
  """Makes the run and the faults; raises nothing for what it finds."""
  report = Report(seed)
  rng = np.random.default_rng(seed)
  run = soak_run.Run(directory, run_flags(engine=engine))
  start = time.monotonic()
  names = sorted(name for name, weight in weights.items() if weight)
  shares = np.array([weights[name] for name in names], float)
  # Each kind comes once before any comes twice, however few faults there are.
  first = rng.permutation(names)
  connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
  try:
    async with aiohttp.ClientSession(connector=connector) as session:
      troubled = Faults(run, session, rng)
      run.start()
      await troubled.recovered()
      for number in range(faults):
        if minutes and time.monotonic() - start > 60 * minutes:
          break
        if number < len(first):
          kind = str(first[number])
        else:
          kind = str(rng.choice(names, p=shares / shares.sum()))
        wanted = str(rng.choice(_MOMENTS))
        step = run.steps()
        moment, detail = await troubled.inject(kind, wanted)
        seconds = await troubled.recovered()
        report.kinds[kind] += 1
        report.moments[moment] += 1
        report.recover_s.setdefault(kind, []).append(round(seconds, 1))
        report.failures += [f'{kind}: {p}' for p in troubled.problems()]
        facts = dict(
            fault=number,
            kind=kind,
            moment=moment,
            detail=detail,
            step=step,
            recover_s=round(seconds, 1),
            total_s=round(time.monotonic() - start),
        )
        print(json.dumps(facts), flush=True)
      await troubled.ended(signal.SIGINT, 130)
      report.failures += troubled.problems()
      report.discards = troubled.discards
      report.steps = run.steps() + 2
      run.start(f'--config.num_steps={report.steps}')
      code = await asyncio.to_thread(run.process.wait, _RECOVERY_S)
      if code:
        report.failures.append(f'the end gave {code}: {run.last_words()}')
      else:
        report.failures += soak_run.problems_of_record(
            directory,
            steps=report.steps,
            episodes=_TASKS * _GROUP,
            discards=report.discards,
        )
  except (EngineError, TimeoutError) as error:
    report.failures.append(
        f'after {sum(report.kinds.values())} faults: {error}'
    )
  finally:
    run.end()
  report.failures += run.await_end(30)
  report.seconds = round(time.monotonic() - start, 1)
  return report


def main(argv):
  del argv
  weights = dict(WEIGHTS)
  if _KINDS.value:
    pairs = [item.partition(':') for item in _KINDS.value]
    weights = {kind: float(weight or 1) for kind, _, weight in pairs}
  elif _ENGINE.value:  # it is one process
    weights = {k: w for k, w in weights.items() if not k.endswith('izer')}
    weights = {k: w for k, w in weights.items() if not k.endswith('scheduler')}
  with tempfile.TemporaryDirectory() as passing:
    report = asyncio.run(
        soak(
            pathlib.Path(_WORKDIR.value or f'{passing}/run').absolute(),
            faults=_FAULTS.value,
            seed=soak_flags.SEED.value,
            engine=_ENGINE.value,
            weights=weights,
            minutes=_MINUTES.value,
        )
    )
  print(json.dumps(vars(report), indent=1))
  if report.failures:
    sys.exit(1)


if __name__ == '__main__':
  app.run(main)
