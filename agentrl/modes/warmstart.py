"""Before RL: the expert plays, a tokenizer and a policy learn from it."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import optax
import rich.console
from jax.sharding import Mesh

from agentrl import metrics as metrics_lib
from agentrl.algos import sft
from agentrl.batch import TokenBatch
from agentrl.config import sections
from agentrl.data import collate, conversations
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError
from agentrl.models.lora import Base
from agentrl.models.transformer import Transformer
from agentrl.modes import parts
from agentrl.rollout import seeds
from agentrl.rollout.agent import Agent
from agentrl.runtime.event_loop import EventLoop
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import (
    optim as optim_lib,
    programs as programs_lib,
    state as state_lib,
    supervised,
)
from agentrl.training.programs import LossFn, Metrics, Programs
from agentrl.training.state import TrainState
from agentrl.types import Episode, Group

# Texts of so many expert episodes train a tiny policy's tokenizer.
_TOKENIZER_EPISODES = 64


def play_expert(
    host: EventLoop,
    environment: parts.Environment,
    agent: Agent,
    limits: sections.Limits,
    count: int,
    *,
    horizon: int,
    seed: int,
    max_context: int,
    console: rich.console.Console,
) -> list[Episode]:
  """Episodes of the expert on the first `count` tasks of its own order.

  Args:
    host: of the run.
    environment: offers its expert.
    agent: writes the actions.
    limits: of collecting; an action is as long as it is.
    count: episodes.
    horizon: turns an expert may take.
    seed: of the run.
    max_context: tokens of an episode.
    console: where progress is shown.
  """
  limits = dataclasses.replace(
      limits,
      # An expert's action is as long as it is; the context is what counts.
      max_completion_tokens=max_context - 1,
      max_context=max_context,
  )
  play = parts.make_play(
      environment,
      agent,
      None,
      limits,
      name='expert',
      split='train',
      horizon=horizon,
      policy_version=0,
  )
  seed = expert_seed(seed)
  groups = parts.collect_groups(
      host,
      console,
      'expert episodes',
      TaskIterator(environment.tasks('train'), seed=seed).next_tasks(count),
      1,
      play,
      limits,
      seed=seed,
  )
  return [episode for group in groups for episode in group.episodes]


def expert_seed(seed: int) -> int:
  """Seed of the expert's task order, of the run's seed."""
  return seeds.derive_seed(seed, 'expert')


def expert_texts(
    host: EventLoop,
    environment: parts.Environment,
    agent: sections.Agent,
    limits: sections.Limits,
    *,
    horizon: int,
    seed: int,
    console: rich.console.Console,
) -> list[str]:
  """Texts of expert episodes, for a tokenizer; arguments as `play_expert`."""
  # Bytes alone are enough to play; what counts here is the text.
  plain = tokenizer_lib.train_bpe([], 256 + 3)
  played = play_expert(
      host,
      environment,
      parts.make_agent(environment.spec, agent, plain),
      limits,
      _TOKENIZER_EPISODES,
      horizon=horizon,
      seed=seed,
      max_context=1 << 20,
      console=console,
  )
  return [
      text for episode in played for text in conversations.texts_of(episode)
  ]


def solved(
    played: Sequence[Episode], console: rich.console.Console, *, horizon: int
) -> list[Episode]:
  """The episodes worth imitating.

  Raises:
    ConfigError: there are none.
  """
  good = [episode for episode in played if episode.success]
  if not good:
    raise ConfigError(
        f'The expert solved none of {len(played)} episodes within'
        f' {horizon} turns; allow more (warmstart.horizon or'
        ' data.expert_horizon).'
    )
  rest = len(played) - len(good)
  console.print(
      f'{len(good)} episodes of the expert'
      + (f'; {rest} more failed or were cut' if rest else ''),
      highlight=False,
  )
  return good


def as_batch(episodes: Sequence[Episode]) -> TokenBatch:
  """Demonstrations, one a row."""
  batch = collate.collate([Group(e.task_id, 0, (e,)) for e in episodes])
  # Nobody sampled these tokens: there is no sampler to agree with.
  return batch.replace(sampler_logprobs=None)


class Learner(NamedTuple):
  """A supervised phase before its first update."""

  state: TrainState
  programs: Programs
  learning_rate: optax.Schedule
  total: int  # updates


class Schedule(NamedTuple):
  """The learning rate of a phase."""

  lr: float  # the highest
  warmup_steps: int  # updates
  schedule: str  # what follows them


def make_optimizer(
    optim: sections.Optim, schedule: Schedule, total: int
) -> tuple[optax.GradientTransformation, optax.Schedule]:
  """The optimizer of a phase of `total` updates, and its learning rate."""
  rate = dict(**schedule._asdict(), total_steps=total)
  tx = optim_lib.make_optimizer(
      **rate,
      name=optim.name,
      grad_clip=optim.grad_clip,
      weight_decay=optim.weight_decay,
      b1=optim.b1,
      b2=optim.b2,
      momentum=optim.momentum,
  )
  return tx, optim_lib.make_schedule(**rate)


def make_learner(
    params: Any,
    total: int,
    *,
    optim: sections.Optim,
    schedule: Schedule,
    module: Transformer,
    mesh: Mesh,
    loss: LossFn,
    offload: bool = False,
    base: Base | None = None,
) -> Learner:
  """A learner of `total` updates.

  Args:
    params: trainer layout; not donated.
    total: updates, for the schedule.
    optim: the optimizer; its rate is `schedule`'s.
    schedule: of the learning rate.
    module: the trainer's.
    mesh: the devices.
    loss: of an offline algorithm, its hyperparameters bound.
    offload: see `state.create`.
    base: what the parameters, an adapter's then, add to.
  """
  tx, learning_rate = make_optimizer(optim, schedule, total)
  state, shardings = state_lib.create(params, tx, mesh, offload=offload)
  return Learner(
      state,
      programs_lib.compile_programs(
          module, loss, tx, mesh, state, shardings, base=base
      ),
      learning_rate,
      total,
  )


def imitate(
    params: Any,
    batch: TokenBatch,
    *,
    epochs: int,
    minibatch_size: int,
    optim: sections.Optim,
    schedule: Schedule,
    seed: int,
    module: Transformer,
    mesh: Mesh,
    directory: pathlib.Path,
    console: rich.console.Console,
    check: Callable[[], None],
    name: str = 'warmstart',
    loss: LossFn = sft.loss,
    base: Base | None = None,
    write: bool = True,
    offload: bool = False,
) -> tuple[Any, Metrics]:
  """Supervised learning on episodes, from its start to its end.

  Args:
    params: trainer layout; not donated.
    batch: NumPy arrays; what to learn, one demonstration a row.
    epochs: passes over it.
    minibatch_size: demonstrations an update.
    optim: the optimizer; its rate is `schedule`'s.
    schedule: of the learning rate.
    seed: of the order.
    module: the trainer's.
    mesh: the devices.
    directory: gets `NAME.jsonl`, anew.
    console: where progress is shown.
    check: called after each update; may raise to stop.
    name: of the phase.
    loss: of an offline algorithm, its hyperparameters bound.
    base: what the parameters, an adapter's then, add to.
    write: whether it is this process that writes and shows.
    offload: see `state.create`.

  Returns:
    The parameters learnt, and the last update's metrics, but with the tokens
    of all updates.
  """
  total = supervised.num_updates(len(batch.valid), minibatch_size, epochs)
  learner = make_learner(
      params,
      total,
      optim=optim,
      schedule=schedule,
      module=module,
      mesh=mesh,
      loss=loss,
      offload=offload,
      base=base,
  )
  filename = f'{name}.jsonl'
  tokens, last = 0.0, {}
  with contextlib.ExitStack() as stack:
    if write:
      (directory / filename).unlink(missing_ok=True)
      writer = metrics_lib.Writer(
          directory,
          filename=filename,
          prefix=f'{name}/',
          total=total,
          shown=('policy/loss', 'train/grad_norm'),
          console=console,
          show_every=max(total // 10, 1),
      )
      stack.callback(writer.close)

    def on_update(index: int, _: TrainState, values: Metrics) -> None:
      nonlocal tokens, last
      # A skipped update has learnt from none.
      tokens, last = tokens + values.get('train/tokens', 0.0), values
      if write:
        writer.write(index, values)
      check()

    state = supervised.fit(
        learner.state,
        batch,
        programs=learner.programs,
        epochs=epochs,
        minibatch_size=minibatch_size,
        max_tokens=optim.max_tokens,
        seed=seed,
        on_update=on_update,
    )
  return state.params, last | {'train/tokens': tokens}
