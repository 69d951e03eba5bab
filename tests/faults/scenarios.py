"""The runs that get faults: small, whole, and the same whenever they are left alone."""

import dataclasses
import sys

from tests.e2e import running
from tests.e2e.running import small
from tests.sglang import server as sglang
from third_party.sglang_cpu import install

ROOT = running.ROOT
STEPS = 4
# A warm start, evaluations, four steps with checkpoints after two of them. The
# policy moves although hardly an episode succeeds.
_ALL = (
    f'--config.num_steps={STEPS}',
    '--config.warmstart.episodes=8',
    '--config.horizon.turns=(2, 2)',
    '--config.rollout.tasks_per_step=2',
    '--config.rollout.group_size=4',
    '--config.rollout.concurrency=8',
    # An episode that is dropped would make another run: it ends by name instead.
    '--config.rollout.max_failed_share=0.0',
    '--config.rollout.deadline_s=120.0',
    '--config.algo.entropy_coef=0.01',
    '--config.eval.num_tasks=2',
    '--config.eval.horizon=2',
    '--config.eval.every=2',
    '--config.checkpoint.every=2',
)
_ALONE = (
    '--config.sampler.max_running=8',
    '--config.sampler.deterministic=True',
)
_SERVED = (
    '--config.sampler.kind=sglang',
    '--config.sampler.timeout_s=60.0',
)
_AHEAD = (
    '--config.rollout.ahead=2',
    '--config.rollout.max_staleness=4',
    '--config.algo.ratio=sampler',
    # No parameter moves, so that episodes follow from their seeds: which policy
    # plays a turn depends on the moment.
    '--config.optim.lr=1e-30',
)
# An expert that stumbles may find no way back, which would end the run.
_SURE = '--config.warmstart.stumbles=0.0'
_OWN_SERVER = (
    f'--config.sampler.launch.python={sys.executable}',
    '--config.sampler.launch.module=agentrl.serving.launch_server',
    (
        "--config.sampler.launch.flags=('--enable-deterministic-inference',"
        " '--skip-server-warmup')"
    ),
    '--config.sampler.launch.restarts=10',
    '--config.sampler.launch.backoff_s=0.0',
)
ENGINE_PORT, PROXY_PORT = 31000, 31001
# Of a real server; the harness has another folder of caches.
_SGLANG = install.environment() / 'bin' / 'python'


@dataclasses.dataclass(frozen=True)
class Scenario:
  """A run of mode 'train'.

  Attributes:
    config: its config file and argument.
    flags: after those of all scenarios.
    targets: processes that it has, see `runs.Run.find`.
    exact: whether a run equals another one to the last bit; else what it played
      and trained on does.
    found: whether its engine is somebody else's, behind a proxy.
    processes: of the run.
    loose: whether not even the engine samples the same again.
    end_s: seconds that a start may take after its last fault.
  """

  config: str
  flags: tuple[str, ...]
  targets: tuple[str, ...]
  exact: bool = True
  found: bool = False
  processes: int = 1
  loose: bool = False
  end_s: float = 300.0

  @property
  def staleness(self) -> int:
    return 4 if '--config.rollout.max_staleness=4' in self.flags else 0


_BABYAI, _TEXTCRAFT = small('quickstart'), small('textcraft_laptop')
SCENARIOS = {
    'babyai': Scenario(_BABYAI, _ALONE, ('trainer', 'environment')),
    'babyai-ahead': Scenario(
        _BABYAI, (*_ALONE, *_AHEAD), ('trainer', 'environment'), exact=False
    ),
    'textcraft-served': Scenario(
        _TEXTCRAFT,
        (*_SERVED, *_OWN_SERVER, _SURE),
        ('trainer', 'environment', 'engine'),
    ),
    'babyai-proxied': Scenario(
        _BABYAI,
        (*_SERVED, f'--config.sampler.urls=("http://127.0.0.1:{PROXY_PORT}",)'),
        ('trainer', 'engine'),
        found=True,
    ),
    'babyai-proxied-ahead': Scenario(
        _BABYAI,
        (
            *_SERVED,
            *_AHEAD,
            f'--config.sampler.urls=("http://127.0.0.1:{PROXY_PORT}",)',
        ),
        ('trainer', 'engine'),
        exact=False,
        found=True,
    ),
    'sciworld': Scenario(
        small('sciworld_laptop'),
        (*_ALONE, _SURE, '--config.rollout.concurrency=4'),
        ('trainer', 'environment', 'java'),
    ),
    'miniwob': Scenario(
        small('miniwob_grpo'),
        (*_ALONE, '--config.rollout.concurrency=4'),
        ('trainer', 'environment', 'browser'),
    ),
    'babyai-ranks': Scenario(
        _BABYAI,
        (*_ALONE, '--config.mesh.tensor=2'),
        ('trainer', 'rank'),
        processes=2,
    ),
    'babyai-sglang': Scenario(
        _BABYAI,
        (
            *_SERVED,
            f'--config.sampler.launch.python={_SGLANG}',
            f'--config.sampler.launch.module={sglang.MODULE}',
            '--config.sampler.launch.restarts=10',
        ),
        ('trainer', 'engine', 'scheduler'),
        exact=False,
        loose=True,
        end_s=1200.0,
    ),
}


def flags_of(name: str) -> tuple[str, ...]:
  """The flags of a scenario."""
  return (*_ALL, *SCENARIOS[name].flags)


def available(name: str) -> bool:
  """Whether this machine has what a scenario needs beside this project."""
  return name != 'babyai-sglang' or _SGLANG.exists()
