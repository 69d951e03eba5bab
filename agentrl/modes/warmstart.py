"""Before RL: the expert plays, a tokenizer and a policy learn from it."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import optax
import rich.console
from jax.sharding import Mesh

from agentrl import metrics as metrics_lib
from agentrl.algos import sft
from agentrl.batch import TokenBatch
from agentrl.data import collate, conversations
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError
from agentrl.models.transformer import Transformer
from agentrl.modes import parts, settings
from agentrl.modes.host import Host
from agentrl.rollout import seeds
from agentrl.rollout.agent import Agent
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import (
    optim as optim_lib,
    state as state_lib,
    step,
    supervised,
)
from agentrl.types import Episode, Group

# Texts of so many expert episodes train a tiny policy's tokenizer.
_TOKENIZER_EPISODES = 64


def play_expert(
    host: Host,
    environment: parts.Environment,
    agent: Agent,
    limits: settings.Limits,
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
  seed = seeds.derive_seed(seed, 'expert')
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


def expert_texts(
    host: Host,
    environment: parts.Environment,
    agent: settings.Agent,
    limits: settings.Limits,
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
      parts.make_agent(environment.name, agent, plain),
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
        f' warmstart.horizon={horizon} turns; allow more.'
    )
  rest = len(played) - len(good)
  console.print(
      f'Warm start on {len(good)} expert episodes'
      + (f'; {rest} more failed or were cut' if rest else ''),
      highlight=False,
  )
  return good


def as_batch(episodes: Sequence[Episode]) -> TokenBatch:
  """Demonstrations, one a row."""
  batch = collate.collate([Group(e.task_id, 0, (e,)) for e in episodes])
  # Nobody sampled these tokens: there is no sampler to agree with.
  return batch.replace(sampler_logprobs=None)


def make_tx(
    wanted: settings.Optim, total: int
) -> tuple[optax.GradientTransformation, optax.Schedule]:
  """The optimiser of a supervised phase of `total` updates, and its rate."""
  schedule = dict(
      warmup_steps=wanted.warmup_steps,
      schedule=wanted.schedule,
      total_steps=total,
  )
  tx = optim_lib.make_optimizer(
      wanted.lr,
      **schedule,
      grad_clip=wanted.grad_clip,
      weight_decay=wanted.weight_decay,
      b1=wanted.b1,
      b2=wanted.b2,
  )
  return tx, optim_lib.make_schedule(wanted.lr, **schedule)


def imitate(
    params: Any,
    batch: TokenBatch,
    *,
    epochs: int,
    minibatch_size: int,
    optim: settings.Optim,
    seed: int,
    module: Transformer,
    mesh: Mesh,
    directory: pathlib.Path,
    console: rich.console.Console,
    check: Callable[[], None],
    name: str = 'warmstart',
    loss: step.LossFn = sft.loss,
) -> tuple[Any, int]:
  """Supervised learning on episodes, from its start to its end.

  Args:
    params: trainer layout; not donated.
    batch: NumPy arrays; what to learn, one demonstration a row.
    epochs: passes over it.
    minibatch_size: demonstrations an update.
    optim: the optimiser.
    seed: of the order.
    module: the trainer's.
    mesh: the devices.
    directory: gets `NAME.jsonl`, anew.
    console: where progress is shown.
    check: called after each update; may raise to stop.
    name: of the phase.
    loss: of an offline algorithm, its knobs bound.

  Returns:
    The parameters learnt, and the tokens seen.
  """
  total = supervised.num_updates(len(batch.valid), minibatch_size, epochs)
  tx, _ = make_tx(optim, total)
  state, shardings = state_lib.create(params, tx, mesh)
  steps = step.make_steps(module, loss, tx, mesh, state, shardings)
  filename = f'{name}.jsonl'
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
  tokens = 0

  def on_update(index: int, _: Any, values: step.Metrics) -> None:
    nonlocal tokens
    tokens += int(values['train/tokens'])
    writer.write(index, values)
    check()

  with contextlib.closing(writer):
    state = supervised.fit(
        state,
        batch,
        steps=steps,
        epochs=epochs,
        minibatch_size=minibatch_size,
        max_tokens=optim.max_tokens,
        seed=seed,
        on_update=on_update,
    )
  return state.params, tokens
