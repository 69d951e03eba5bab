"""What the modes compose: an environment, a policy, and who samples from it."""

import asyncio
import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import rich.console
from absl import logging

from agentrl import envs, metrics as metrics_lib, types
from agentrl.data import tasks as tasks_lib
from agentrl.engine.server import Engine
from agentrl.envs import tokens
from agentrl.envs.client import EnvClient, EnvPool
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError, DataError, EnvError
from agentrl.models import transformer
from agentrl.models.transformer import Transformer, TransformerConfig
from agentrl.modes import settings
from agentrl.modes.host import EnvServer, Host
from agentrl.rollout.agent import Agent
from agentrl.rollout.collect import Assignment, Play, collect
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.rollout.sampler import Policy, Sampler
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.text.tokenizer import Tokenizer
from agentrl.training import weight_sync
from agentrl.types import Episode, Group
from agentrl.weights import load as weights

DTYPES = {'float32': jnp.float32, 'bfloat16': jnp.bfloat16}


class Environment:
  """The servers of one environment, started here or found at URLs."""

  def __init__(self, host: Host, env: settings.Env, *, expert: bool = False):
    """Starts or finds the servers.

    Args:
      host: whose session the clients use.
      env: which environment, and where.
      expert: whether servers started here offer the expert's actions.
    """
    self.spec = envs.get(env.name)
    self.name = self.spec.name
    self._env = env
    self._host = host
    self._lock = asyncio.Lock()
    self._children: list[EnvServer] = []
    if not env.urls:
      try:
        for _ in range(env.workers):
          self._children.append(EnvServer(env.name, env.options, expert=expert))
      except BaseException:
        self.close()  # do not leave half of them behind
        raise
    self._connect()

  def tasks(self, split: str) -> tuple[int, ...]:
    """The fixed task list of a split, or the config's own training tasks."""
    if split == 'train' and self._env.task_file:
      return self._items(self._env.task_file)
    return self.spec.tasks(split, **self._env.options)

  def subtasks(self) -> Callable[[int], str]:
    """What names the kind of a task."""
    return self.spec.subtasks(**self._env.options)

  def panel(self, wanted: settings.Eval) -> tuple[int, ...]:
    """The tasks that evaluations compare on, evenly spread over those there are.

    Raises:
      ConfigError: there are fewer.
      DataError: the item file cannot be read, or has a task that is none.
    """
    count = wanted.num_tasks
    if wanted.task_file:
      tasks, source = self._items(wanted.task_file), wanted.task_file
    else:
      tasks = self.tasks(wanted.split)
      source = f'the {wanted.split} split of {self.name}'
    if count > len(tasks):
      raise ConfigError(
          f'eval.num_tasks={count}, but {source} has {len(tasks)} tasks.'
      )
    return tuple(tasks[i * len(tasks) // count] for i in range(count))

  def client(self) -> EnvClient:
    """A client for one episode."""
    return self._pool.client()

  async def revive(self) -> None:
    """Starts children again that died; their episodes are lost, not the run."""
    async with self._lock:
      dead = [child for child in self._children if not child.alive]
      for child in dead:
        logging.warning('The %s server died; starting it again.', self.name)
        await asyncio.to_thread(child.restart)
      if dead:
        self._connect()

  def close(self) -> None:
    for child in self._children:
      child.stop()

  def __enter__(self) -> 'Environment':
    return self

  def __exit__(self, *exc_info) -> None:
    self.close()

  def _items(self, path: str) -> tuple[int, ...]:
    task_ids = tasks_lib.read_items(path, self.name)
    kind_of = self.subtasks()
    for index, task_id in enumerate(task_ids):
      try:
        kind_of(task_id)
      except EnvError as error:
        raise DataError(f'Item {index} of {path}: {error}') from error
    return task_ids

  def _connect(self) -> None:
    urls = [child.url for child in self._children] or self._env.urls
    self._pool = EnvPool(
        self._host.session,
        urls,
        env_name=self._env.name,
        timeout_s=self._env.timeout_s,
        token=(
            tokens.read(self._env.token_file) if self._env.token_file else None
        ),
    )


@dataclasses.dataclass(frozen=True)
class Model:
  """A network, its tokenizer and where they came from."""

  config: TransformerConfig
  params: Any  # trainer layout
  tokenizer: Tokenizer
  path: str

  def module(self, model: settings.Model) -> Transformer:
    """The trainer's module for it."""
    return Transformer(
        self.config,
        scan_layers=True,
        remat=model.remat,
        dtype=DTYPES[model.dtype],
    )


def load_model(name: str) -> Model:
  """A pretrained model: a known name, a directory, a .gguf or a hub name."""
  path = weights.resolve(name)
  config, params = weights.load(path)
  tokenizer = tokenizer_lib.load(path)
  if tokenizer.vocab_size > config.vocab_size:
    raise ConfigError(
        f'The tokenizer of {name} has {tokenizer.vocab_size} ids, its embedding'
        f' only {config.vocab_size} rows: they belong to different models.'
    )
  return Model(config, params, tokenizer, str(path))


def new_model(
    config: TransformerConfig, tokenizer: Tokenizer, *, seed: int, path: str
) -> Model:
  """A random model of this shape, for this tokenizer's vocabulary."""
  module = Transformer(config, scan_layers=True)
  params = jax.jit(lambda key: transformer.init_params(module, key))(
      jax.random.key(seed)
  )
  return Model(config, params, tokenizer, path)


def make_agent(
    spec: EnvSpec, agent: settings.Agent, tokenizer: Tokenizer
) -> Agent:
  """How this policy talks in this environment."""
  return Agent(
      ChatFormat(tokenizer, agent.template),
      instructions=spec.instructions(agent.format, agent.instructions),
      format=agent.format,
      functions=spec.functions,
  )


def make_play(
    environment: Environment,
    agent: Agent,
    policy: Policy | None,
    rollout: settings.Limits,
    *,
    name: str,
    split: str,
    horizon: int,
    policy_version: int,
) -> Play:
  """A function that plays one assignment.

  Args:
    environment: where.
    agent: how the policy talks.
    policy: who continues the transcript; None: the environment's expert.
    rollout: limits.
    name: begins the names of the episodes.
    split: whose tasks these are.
    horizon: most turns.
    policy_version: for the record.
  """

  async def play(assignment: Assignment) -> Episode:
    env = environment.client()
    episode = await run_episode(
        env,
        agent,
        policy or Expert(env, agent),
        episode_id=f'{name}-{assignment.ordinal}-{assignment.replica}',
        env_name=environment.name,
        task_id=assignment.task_id,
        split=split,
        seed=assignment.seed,
        policy_version=policy_version,
        horizon=horizon,
        max_completion_tokens=rollout.max_completion_tokens,
        max_context=rollout.max_context,
        deadline_s=rollout.deadline_s,
    )
    if episode.stop_reason == types.ENV_ERROR:
      await environment.revive()
    return episode

  return play


def collect_groups(
    host: Host,
    console: rich.console.Console,
    title: str,
    tasks: Sequence[tuple[int, int]],
    group_size: int,
    play: Play,
    limits: settings.Limits,
    *,
    seed: int,
) -> list[Group]:
  """Collects with a progress bar.

  Raises:
    AgentrlError: as `collect`.
    Interrupted: the user asked to stop.
  """
  with metrics_lib.progress(console) as bar:
    task = bar.add_task(title, total=len(tasks) * group_size)
    return host.run(
        collect(
            tasks,
            group_size,
            play,
            seed=seed,
            concurrency=limits.concurrency,
            attempts=limits.attempts,
            max_failed_share=limits.max_failed_share,
            on_episode=lambda _: bar.advance(task),
        )
    )


@dataclasses.dataclass(frozen=True)
class Serving:
  """Servers that sample from the current policy, and how to update them."""

  urls: Sequence[str]
  push: weight_sync.Push


def start_engine(
    stack: contextlib.ExitStack,
    model: Model,
    *,
    sampler: settings.Sampler,
    max_context: int,
    dtype: str,
    seed: int,
    version: str,
    host: str = '127.0.0.1',
    port: int = 0,
) -> tuple[Engine, str]:
  """Starts the embedded engine; it stops when `stack` unwinds."""
  engine = Engine(
      model.config,
      weight_sync.engine_layout(model.params, dtype=DTYPES[dtype]),
      model.tokenizer,
      eos_ids=model.tokenizer.eos_ids,
      model_path=model.path,
      max_running=sampler.max_running,
      max_len=min(max_context, model.config.max_positions),
      slots=sampler.slots or 2 * sampler.max_running,
      dtype=DTYPES[dtype],
      seed=seed,
      weight_version=version,
  )
  url = engine.start(host, port)
  stack.callback(engine.stop)
  return engine, url


def start_serving(
    stack: contextlib.ExitStack,
    host: Host,
    model: Model,
    *,
    sampler: settings.Sampler,
    max_context: int,
    dtype: str,
    seed: int,
    version: int,
) -> Serving:
  """The embedded engine, or the SGLang servers that the config names."""
  if max_context > model.config.max_positions:
    raise ConfigError(
        f'rollout.max_context={max_context} exceeds the'
        f' {model.config.max_positions} positions of the model.'
    )
  if sampler.kind == 'embedded':
    engine, url = start_engine(
        stack,
        model,
        sampler=sampler,
        max_context=max_context,
        dtype=dtype,
        seed=seed,
        version=str(version),
    )
    return Serving([url], weight_sync.EmbeddedPush(engine, dtype=DTYPES[dtype]))
  client = make_sampler(host, sampler.urls, sampler, temperature=1.0)
  host.run(client.wait_ready(sampler.timeout_s))
  directory = pathlib.Path(sampler.push_dir)
  tokenizer_files = directory / 'tokenizer'
  model.tokenizer.save(tokenizer_files)
  return Serving(
      sampler.urls,
      weight_sync.DiskPush(
          client, directory, model.config, tokenizer_files=tokenizer_files
      ),
  )


def make_sampler(
    host: Host,
    urls: Sequence[str],
    sampler: settings.Sampler,
    *,
    temperature: float,
) -> Sampler:
  """A client of the servers at `urls`."""
  return Sampler(
      host.session,
      urls,
      temperature=temperature,
      timeout_s=sampler.timeout_s,
      max_attempts=sampler.max_attempts,
      api_key=sampler.api_key,
  )
