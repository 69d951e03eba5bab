r"""Times the host's part of an rl step as episodes, turns and contexts grow.

    python -m experiments.benchmarks.bench_growth
    python -m experiments.benchmarks.bench_growth --axes=episodes --sizes=64,4096
    python -m experiments.benchmarks.bench_growth \
        --figure=experiments/2026-11-growth/figure.svg

No network and no model: a policy and an environment that answer at once play
real episodes, token ids included, and the programs of the update return zeros.
The rest is the code of a run. Each axis changes one number of 64 episodes of 10
turns in 1,024 tokens (for turns, in 16,384); groups have 8 episodes.

  collect: plays the groups (`rollout.collect`, the agent, the transcript). Every
    request repeats the transcript, as the sampler's contract has it, so a token
    costs more the more turns follow it.
  metrics: `rollout_metrics` of them.
  collate: the rows of a batch.
  pack, shared, known: `collate.microbatches` alone, with prompts shared, and by
    the shapes that there are programs for.
  advantages: GRPO's, compiled before.
  cross: the batch of `training.gauges`.
  update: `policy_update` with two updates: scoring, packing, the arrays' way to
    the device and back, advantages.
  record: `write_step`: JSON lines, arrays, a line of metrics.
  read: the JSON lines.

Prints one JSON line a case with seconds of CPU of each part, of all threads, the
least of `--repeats`, and a table with `us` per episode (axis `episodes`) or ns per
token (the other two); `growth` is the most that a unit costs more than at a smaller
size, from 64 episodes on: 1.2 is a fifth more. `host` is the sum of what an rl step
does: collect, metrics, collate, cross, update, record.
"""

import asyncio
import contextlib
import dataclasses
import gc
import io
import json
import pathlib
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import matplotlib
import numpy as np
import rich.console
from absl import app, flags
from matplotlib import figure as figure_lib

from agentrl.algos import grpo, online
from agentrl.algos.policy import Outputs
from agentrl.data import collate, episodes as episodes_lib
from agentrl.data.shapes import ANY, Shapes
from agentrl.parallel import mesh as mesh_lib
from agentrl.rollout import collect
from agentrl.rollout.agent import Agent
from agentrl.rollout.episode import run_episode
from agentrl.rollout.options import Limits
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.training import gauges, policy_update
from agentrl.training.policy_update import Update, UpdatePlan
from agentrl.training.programs import Programs, Scores
from agentrl.training.rl import RlStep
from agentrl.training.run_record import RunRecord
from agentrl.training.state import TrainState
from agentrl.types import Completion, Episode, Group, StepResult

_AXES = flags.DEFINE_list(
    'axes', ['episodes', 'turns', 'context'], 'Which numbers grow.'
)
_SIZES = flags.DEFINE_list('sizes', [], 'Of each axis; its own when empty.')
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Timings of each part.')
_FIGURE = flags.DEFINE_string('figure', None, 'File to draw; None: no figure.')

_GROUP = 8
_MAX_TOKENS = 16_384  # of a microbatch
_LONGEST_S = 30.0  # of a part: one timing is enough beyond


@dataclasses.dataclass(frozen=True)
class Case:
  """The size of a collection."""

  episodes: int = 64
  turns: int = 10
  context: int = 1024  # tokens of an episode, at most; nearly all are used


_SIZES_OF = dict(
    episodes=(8, 64, 256, 1024, 4096),
    turns=(3, 10, 50, 200),
    context=(512, 1024, 4096, 16_384),
)
_FIXED = dict(episodes={}, turns=dict(context=16_384), context={})
_PARTS = (
    'collect', 'metrics', 'collate', 'pack', 'shared', 'known', 'advantages',
    'cross', 'update', 'record', 'read',
)  # fmt: skip
_HOST = ('collect', 'metrics', 'collate', 'cross', 'update', 'record')
_SHOWN = (*_PARTS, 'host')


class InstantEnv:
  """An environment that answers at once, in texts of one length."""

  def __init__(self, text: str, turns: int):
    self._text, self._turns = text, turns
    self._steps = 0

  async def __aenter__(self):
    return self

  async def __aexit__(self, *exc_info):
    pass

  async def reset(self, task_id, seed=None):
    del seed
    return f'{task_id} {self._text}'

  async def step(self, action):
    del action
    self._steps += 1
    return StepResult(
        f'{self._steps} {self._text}',
        reward=0.1,
        terminated=self._steps == self._turns,
        success=True,
    )


class InstantPolicy:
  """A policy that says the same at once."""

  def __init__(self, ids: Sequence[int]):
    self._ids = tuple(ids)
    self._logprobs = tuple(-0.5 - i / 128 for i in range(len(ids)))

  async def generate(self, input_ids, **request) -> Completion:
    del request
    return Completion(
        self._ids, self._logprobs, 'stop', '0', len(input_ids), 0, 0.0
    )


class InstantProgram:
  """A program of the update that returns zeros."""

  ahead = False

  def __init__(self, shapes: Shapes, function: Callable[..., Any]):
    self.shapes = shapes
    self._function = function

  def __call__(self, *args):
    return self._function(*args)

  def timed(self):
    return contextlib.nullcontext()


def instant_programs() -> Programs:
  """Programs that compute nothing."""
  zeros = lambda batch: np.zeros(batch.tokens.shape, np.float32)
  return Programs(
      score=InstantProgram(ANY, lambda networks, batch: Scores(zeros(batch))),
      accumulate=InstantProgram(
          ANY,
          lambda networks, grads, batch, counts: (
              grads,
              {},
              Outputs(zeros(batch), zeros(batch)),
          ),
      ),
      apply=lambda state, grads: (
          state,
          {'train/skipped': 0.0, 'train/broken': 0.0},
      ),
      zeros=lambda: None,
      mesh=mesh_lib.make_mesh(dict(data=1, fsdp=-1, tensor=1, sequence=1)),
  )


class Bench:
  """The parts of a step on one collection."""

  def __init__(self, case: Case, directory: pathlib.Path):
    self._case, self._directory = case, directory
    bpe = tokenizer_lib.train_bpe(['go', 'system user assistant'], 300)
    self._agent = Agent(ChatFormat(bpe), instructions='Go.', format='plain')
    self._policy = InstantPolicy(self._agent.write('go'))
    # One character, one token. What stands around an observation is measured.
    framed = len(self._agent.observation_ids('', self._agent.write('go')))
    own = len(self._agent.write('go')) + framed + len('199 ')
    self._text = '.' * max(case.context // (case.turns + 1) - own, 1)
    self.groups = self.collect()
    self.batch = collate.collate(self.groups)
    self._rows = np.arange(case.episodes)
    hyperparams = grpo.Hyperparams(minibatches=2)
    advantages = jax.jit(
        online.bind_advantages(hyperparams), static_argnames='num_groups'
    )
    self._update = Update(
        instant_programs(),
        UpdatePlan(hyperparams, max_tokens=_MAX_TOKENS, seed=0),
        advantages,
        learning_rate=lambda update: 0.0,
    )
    self._state = TrainState(np.int32(0), {}, None)
    self._known = Shapes(price=1e6)
    self._step = self.update()
    self._record = RunRecord(
        directory, rich.console.Console(file=io.StringIO()), writes=True
    )

  @property
  def tokens(self) -> int:
    return sum(len(e.tokens) for group in self.groups for e in group.episodes)

  def collect(self) -> list[Group]:
    case = self._case

    async def play(assignment: collect.Assignment) -> Episode:
      return await run_episode(
          InstantEnv(self._text, case.turns),
          self._agent,
          self._policy,
          episode_id=f'{assignment.ordinal}-{assignment.replica}',
          env_name='instant',
          task_id=assignment.task_id,
          split='train',
          seed=assignment.seed,
          policy_version=0,
          horizon=case.turns,
          limits=Limits(
              max_completion_tokens=64,
              max_context=2 * case.context,
              deadline_s=600,
          ),
      )

    tasks = [(i, i) for i in range(case.episodes // _GROUP)]
    return asyncio.run(
        collect.collect(tasks, _GROUP, play, seed=0, concurrency=64)
    )

  def metrics(self):
    return collect.rollout_metrics(self.groups, self._case.turns)

  def collate(self):
    return collate.collate(self.groups)

  def _pack(self, *, share: bool, shapes: Shapes = ANY):
    return collate.microbatches(
        self.batch,
        self._rows,
        max_tokens=_MAX_TOKENS,
        share_prefixes=share,
        shapes=shapes,
    )

  def pack(self):
    return self._pack(share=False)

  def shared(self):
    return self._pack(share=True)

  def known(self):
    return self._pack(share=True, shapes=self._known)

  def advantages(self):
    batch = self.batch.replace(old_logprobs=self.batch.sampler_logprobs)
    return jax.block_until_ready(
        self._update.advantages(batch, num_groups=len(self.groups)).advantages
    )

  def cross(self):
    return gauges.cross(self.batch)

  def update(self):
    return policy_update.update_policy(
        self._state,
        self.batch,
        self._update,
        num_groups=len(self.groups),
        learnt=policy_update.learnt_episodes(
            self.batch, self.groups, self._update.plan
        ),
        kl_coef=0.0,
        rl_step=0,
    )

  def record(self):
    with contextlib.ExitStack() as stack:
      self._record.open(stack, 1, 0, shown=())
      self._record.write_step(
          RlStep(
              0,
              self._step.metrics,
              self.groups,
              self._step.batch,
              [],
              self._step.last,
          ),
          self._step.metrics,
          tokens=True,
          shaped=False,
      )

  def read(self):
    path = episodes_lib.step_path(self._directory, 'train', 0)
    return sum(1 for _ in episodes_lib.read(path))


def time_parts(case: Case) -> dict[str, Any]:
  """Seconds of CPU of each part."""
  with tempfile.TemporaryDirectory() as directory:
    bench = Bench(case, pathlib.Path(directory))
    seconds = {}
    for part in _PARTS:
      run = getattr(bench, part)
      # What is first met, as memory of that size, is timed by no one.
      run()
      gc.collect()
      seconds[part] = least(run)
    return dict(tokens=bench.tokens, cpu_s=seconds)


def least(run: Callable[[], Any]) -> float:
  """The least seconds of CPU of a call."""
  times = []
  for _ in range(_REPEATS.value):
    start, count = time.process_time(), 0
    while not count or time.process_time() - start < 0.05:
      run()  # a short one again, until a clock can tell
      count += 1
    times.append((time.process_time() - start) / count)
    if times[-1] > _LONGEST_S:
      break
  return min(times)


def unit(axis: str, row: Mapping[str, Any]) -> float:
  """The count that divides the seconds of a case, for its table."""
  if axis == 'episodes':
    return row['episodes'] / 1e6
  return row['tokens'] / 1e9


def cost(axis: str, row: Mapping[str, Any], part: str) -> float:
  """CPU time of a unit."""
  parts = _HOST if part == 'host' else (part,)
  return sum(row['cpu_s'][name] for name in parts) / unit(axis, row)


def growth(axis: str, rows: Sequence[Mapping[str, Any]], part: str) -> float:
  """The most that a unit costs more than at a smaller size, as a quotient."""
  costs = [cost(axis, row, part) for row in rows if row['episodes'] >= 64]
  return max(later / min(costs[: i + 1]) for i, later in enumerate(costs))


def show(axis: str, rows: Sequence[Mapping[str, Any]]) -> None:
  """Prints the table of an axis."""
  per = 'us per episode' if axis == 'episodes' else 'ns per token'
  sizes = [str(row[axis]) for row in rows]
  print(f'{per:>16}', *(f'{size:>9}' for size in sizes), f'{"growth":>8}')
  for part in _SHOWN:
    cells = [f'{cost(axis, row, part):9.1f}' for row in rows]
    print(f'{part:>16}', *cells, f'{growth(axis, rows, part):8.2f}', flush=True)


def draw(
    found: Mapping[str, Sequence[Mapping[str, Any]]], path: pathlib.Path
) -> None:
  """Writes the figure: a panel an axis, a line a part."""
  style = {'svg.fonttype': 'none', 'svg.hashsalt': 'growth', 'font.size': 9}
  with matplotlib.rc_context(style):
    figure = figure_lib.Figure(figsize=(11, 3.8), layout='constrained')
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    for (axis, rows), panel in zip(found.items(), panels, strict=True):
      for part, colour in zip(
          _SHOWN, matplotlib.colormaps['tab20'].colors, strict=False
      ):
        costs = [cost(axis, row, part) for row in rows]
        sizes = [row[axis] for row in rows]
        panel.plot(sizes, costs, marker='.', color=colour, label=part)
      panel.set(xscale='log', yscale='log', xlabel=axis)
      per = 'us per episode' if axis == 'episodes' else 'ns per token'
      panel.set_ylabel(f'{per}, CPU')
    panels[-1].legend(frameon=False, loc='center left', bbox_to_anchor=(1, 0.5))
    date = {'Date': None} if path.suffix == '.svg' else None
    figure.savefig(path, metadata=date)


def main(argv):
  del argv
  found = {}
  for axis in _AXES.value:
    rows = found[axis] = []
    for size in map(int, _SIZES.value or _SIZES_OF[axis]):
      case = Case(**{**_FIXED[axis], axis: size})
      about = dict(case='growth', axis=axis) | dataclasses.asdict(case)
      rows.append(about | time_parts(case))
      print(json.dumps(rows[-1]), flush=True)
  for axis, rows in found.items():
    show(axis, rows)
  if _FIGURE.value:
    draw(found, pathlib.Path(_FIGURE.value))


if __name__ == '__main__':
  app.run(main)
