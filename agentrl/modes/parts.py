"""What the modes compose: an environment, a policy, and who samples from it."""

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import rich.console
from absl import logging
from jax.sharding import Mesh

from agentrl import envs, metrics as metrics_lib, types
from agentrl.config import sections
from agentrl.data import tasks as tasks_lib
from agentrl.envs import tokens
from agentrl.envs.client import EnvClient
from agentrl.envs.pool import EnvPool
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError, DataError, EnvError
from agentrl.inference.sampler import Policy
from agentrl.models import lora as lora_lib, transformer
from agentrl.models.config import TransformerConfig
from agentrl.models.options import Lora
from agentrl.models.transformer import Transformer
from agentrl.parallel import distributed
from agentrl.rollout.agent import Agent
from agentrl.rollout.collect import Assignment, Play, collect
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.runtime.event_loop import EnvServer, EventLoop
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.text.tokenizer import Tokenizer
from agentrl.training import meshes, ranks
from agentrl.types import Episode, Group
from agentrl.weights import pretrained

DTYPES = {'float32': jnp.float32, 'bfloat16': jnp.bfloat16}


class Environment:
  """The servers of one environment, started here or found at URLs."""

  def __init__(
      self,
      host: EventLoop,
      env: sections.Env,
      *,
      task_file: str | None = None,
      expert: bool = False,
  ):
    """Starts or finds the servers.

    Args:
      host: whose session the clients use.
      env: which environment, and where.
      task_file: an item file of tasks to train on; None: the train list.
      expert: whether the servers must offer the expert's actions.

    Raises:
      ConfigError: a URL has a server of another environment, or no expert.
      EnvError: they do not start, or no URL has one.
    """
    self.spec = envs.get(env.name)
    self.name = self.spec.name
    self._env = env
    self._task_file = task_file
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
    if env.urls:
      host.run(self._pool.probe(self.tasks('train')[0], expert=expert))

  def tasks(self, split: str) -> tuple[int, ...]:
    """The fixed task list of a split, or the config's own training tasks."""
    if split == 'train' and self._task_file:
      return self._items(self._task_file)
    return self.spec.tasks(split, **self._env.options)

  def subtasks(self) -> Callable[[int], str]:
    """What names the kind of a task."""
    return self.spec.subtasks(**self._env.options)

  def panel(self, wanted: sections.Eval) -> tuple[int, ...]:
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
        # A child that died is started again by `revive`, at another URL.
        retry_s=self._env.retry_s if self._env.urls else 0.0,
        token=(
            tokens.read(self._env.token_file) if self._env.token_file else None
        ),
    )


@dataclasses.dataclass(frozen=True)
class Model:
  """A network, its tokenizer and where they came from."""

  config: TransformerConfig
  params: Any  # trainer layout; with a base, an adapter
  tokenizer: Tokenizer
  path: str
  base: lora_lib.Base | None = None  # frozen, see `adapters`
  lora: Lora = Lora()  # of the adapter

  def __post_init__(self):
    if self.tokenizer.vocab_size > self.config.vocab_size:
      raise ConfigError(
          f'The tokenizer of {self.path} has {self.tokenizer.vocab_size} ids,'
          f' its embedding only {self.config.vocab_size} rows: they belong to'
          ' different models. Put the files of one model there.'
      )

  def module(self, model: sections.TrainModel) -> Transformer:
    """The trainer's module for it."""
    return make_module(self.config, model)


def make_module(
    config: TransformerConfig, model: sections.TrainModel
) -> Transformer:
  """The trainer's module of a decoder of this shape."""
  return Transformer(
      config,
      scan_layers=True,
      remat=model.remat,
      attention=model.attention,
      dtype=DTYPES[model.dtype],
  )


def check_attention(model: sections.TrainModel) -> None:
  """Refuses kernels that are not for the devices of this run."""
  backend = jax.default_backend()
  if model.attention == 'flash' and backend != 'gpu':
    raise ConfigError(
        "model.attention='flash' needs a GPU, and the devices of this run are"
        f" of kind {backend!r}; set model.attention='reference'."
    )


def check_context(config: TransformerConfig, name: str, length: int) -> None:
  """Refuses rows that are longer than the model is for.

  Rotary scalings that follow the length of a row ('dynamic') begin there: what
  is trained on such rows would be another network than what is served.

  Args:
    config: the decoder's shape.
    name: of the config field that asks for them.
    length: tokens of the longest row.
  """
  if length > config.max_positions:
    raise ConfigError(
        f'{name}={length} exceeds the {config.max_positions} positions of the'
        ' model; lower it, or raise max_position_embeddings in the'
        " model's config.json if its rotary scaling was made for more."
    )


def load_model(
    name: str, mesh: Mesh | None = None, *, dtype: Any = jnp.float32
) -> Model:
  """A pretrained model: a known name, a directory, a .gguf or a hub name.

  Args:
    name: of the model.
    mesh: where its parameters live; None: on the host.
    dtype: of its parameters.

  Raises:
    AgentrlError: it cannot be read, or does not fit on the mesh.
  """
  path = pretrained.resolve(name)
  reader = pretrained.open_gguf(path)
  place = mesh and functools.partial(meshes.shardings, mesh=mesh)
  config, params = pretrained.load(
      path, dtype=dtype, reader=reader, place=place
  )
  return Model(config, params, tokenizer_lib.load(path, reader), str(path))


def new_model(
    config: TransformerConfig,
    tokenizer: Tokenizer,
    *,
    seed: int,
    path: str,
    mesh: Mesh,
) -> Model:
  """A random model of this shape, for this tokenizer's vocabulary.

  Each device of the mesh draws its own slices of the parameters; they are the
  same numbers on any mesh.
  """
  module = Transformer(config, scan_layers=True)
  init = functools.partial(transformer.init_params, module)
  key = jax.random.key(seed)
  shardings = meshes.shardings(config, jax.eval_shape(init, key), mesh)
  params = jax.jit(init, out_shardings=shardings)(key)
  return Model(config, params, tokenizer, path)


def make_agent(
    spec: EnvSpec, agent: sections.Agent, tokenizer: Tokenizer
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
    rollout: sections.Limits,
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
    host: EventLoop,
    console: rich.console.Console,
    title: str,
    tasks: Sequence[tuple[int, int]],
    group_size: int,
    play: Play,
    limits: sections.Limits,
    *,
    seed: int,
) -> list[Group]:
  """Collects with a progress bar.

  Of several processes each plays its share of the tasks, and all get all
  groups.

  Raises:
    AgentrlError: as `collect`.
    Interrupted: the user asked to stop.
  """
  own = distributed.own(tasks)

  def work() -> list[Group]:
    with metrics_lib.progress(console) as bar:
      task = bar.add_task(title, total=len(own) * group_size)
      return host.run(
          collect(
              own,
              group_size,
              play,
              seed=seed,
              concurrency=limits.concurrency,
              attempts=limits.attempts,
              max_failed_share=limits.max_failed_share,
              on_episode=lambda _: bar.advance(task),
          )
      )

  return sorted(ranks.gather(work), key=lambda group: group.ordinal)
