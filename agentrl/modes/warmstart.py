"""Before RL: the expert plays, a tokenizer and a policy learn from it."""

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import rich.console
from jax.sharding import Mesh

from agentrl import metrics as metrics_lib
from agentrl.algos import sft
from agentrl.data import collate
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError
from agentrl.models.transformer import Transformer
from agentrl.modes import parts, settings
from agentrl.modes.host import Host
from agentrl.rollout import seeds
from agentrl.rollout.agent import Agent
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import optim, state as state_lib, step, supervised
from agentrl.types import Episode, Group

# Texts of so many expert episodes train a tiny policy's tokenizer.
_TOKENIZER_EPISODES = 64


def play_expert(
    host: Host,
    environment: parts.Environment,
    agent: Agent,
    wanted: settings.Train,
    count: int,
    *,
    max_context: int,
    console: rich.console.Console,
) -> list[Episode]:
  """Episodes of the expert on the first `count` tasks of its own order."""
  limits = dataclasses.replace(
      wanted.rollout,
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
      horizon=wanted.warmstart.horizon,
      policy_version=0,
  )
  seed = seeds.derive_seed(wanted.seed, 'expert')
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


def train_tokenizer(
    host: Host,
    environment: parts.Environment,
    wanted: settings.Train,
    vocab_size: int,
    *,
    console: rich.console.Console,
) -> tokenizer_lib.Tokenizer:
  """A byte-level BPE of the texts that the policy will read and write.

  Raises:
    ConfigError: there is no expert to read.
  """
  if not wanted.warmstart.episodes:
    raise ConfigError(
        'A tiny policy needs warmstart.episodes: its tokenizer is trained on'
        " the expert's episodes."
    )
  # Bytes alone are enough to play; what counts here is the text.
  plain = tokenizer_lib.train_bpe([], 256 + 3)
  played = play_expert(
      host,
      environment,
      parts.make_agent(wanted.env.name, wanted.agent, plain),
      wanted,
      _TOKENIZER_EPISODES,
      max_context=1 << 20,
      console=console,
  )
  texts = [
      text
      for episode in played
      for text in (
          *(message.content for message in episode.prompt),
          *(turn.completion for turn in episode.turns),
          *(turn.observation for turn in episode.turns),
      )
  ]
  return tokenizer_lib.train_bpe(texts, vocab_size)


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


def imitate(
    params: Any,
    demonstrations: Sequence[Episode],
    wanted: settings.Train,
    *,
    module: Transformer,
    mesh: Mesh,
    directory: pathlib.Path,
    console: rich.console.Console,
    check: Callable[[], None],
) -> tuple[Any, int]:
  """Supervised learning on episodes.

  Args:
    params: trainer layout; not donated.
    demonstrations: what to learn.
    wanted: the config.
    module: the trainer's.
    mesh: the devices.
    directory: gets `warmstart.jsonl`, anew.
    console: where progress is shown.
    check: called after each update; may raise to stop.

  Returns:
    The parameters learnt, and the tokens seen.
  """
  warm, rest = wanted.warmstart, wanted.optim
  total = supervised.num_updates(
      len(demonstrations), warm.minibatch_size, warm.epochs
  )
  tx = optim.make_optimizer(
      warm.lr,
      warmup_steps=warm.warmup_steps,
      schedule=warm.schedule,
      total_steps=total,
      grad_clip=rest.grad_clip,
      weight_decay=rest.weight_decay,
      b1=rest.b1,
      b2=rest.b2,
  )
  state, shardings = state_lib.create(params, tx, mesh)
  steps = step.make_steps(module, sft.loss, tx, mesh, state, shardings)
  batch = collate.collate([Group(e.task_id, 0, (e,)) for e in demonstrations])
  # Nobody sampled these tokens: there is no sampler to agree with.
  batch = batch.replace(sampler_logprobs=None)
  (directory / 'warmstart.jsonl').unlink(missing_ok=True)
  writer = metrics_lib.Writer(
      directory,
      filename='warmstart.jsonl',
      prefix='warmstart/',
      total=total,
      shown=('policy/loss', 'train/grad_norm'),
      console=console,
      show_every=max(total // 10, 1),
  )
  tokens = 0

  def on_update(index: int, values: step.Metrics) -> None:
    nonlocal tokens
    tokens += int(values['train/tokens'])
    writer.write(index, values)
    check()

  with contextlib.closing(writer):
    state = supervised.fit(
        state,
        batch,
        steps=steps,
        epochs=warm.epochs,
        minibatch_size=warm.minibatch_size,
        max_tokens=rest.max_tokens,
        seed=seeds.derive_seed(wanted.seed, 'warmstart'),
        on_update=on_update,
    )
  return state.params, tokens
