"""The servers of one environment, and how episodes are played on them."""

import asyncio
import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import logging

from agentrl import envs, types
from agentrl.envs import items, options
from agentrl.envs.client import EnvClient
from agentrl.envs.pool import EnvPool
from agentrl.errors import ConfigError, DataError, EnvError
from agentrl.http import auth
from agentrl.inference.chat import ChatPolicy
from agentrl.inference.sampler import Policy
from agentrl.rollout import panel, seeds
from agentrl.rollout.acting import ActingPolicy
from agentrl.rollout.collect import Assignment, Play
from agentrl.rollout.episode import run_episode
from agentrl.rollout.expert import Expert
from agentrl.rollout.options import Limits
from agentrl.rollout.text_agent import TextAgent
from agentrl.runtime import children
from agentrl.runtime.children import Child
from agentrl.runtime.event_loop import EventLoop
from agentrl.types import Episode, Turns

_ROOT = pathlib.Path(__file__).parents[2]  # what `agentrl` is imported from
_START_S = 60.0
_LAST_WORDS_S = 2.0  # for a server that ends
_ENDING_S = 0.5  # from a connection that broke to the end of the process


class TaskLists:
  """The tasks of an environment, which need none of its servers."""

  def __init__(self, env: options.EnvOptions, task_file: str | None = None):
    """Finds the environment.

    Args:
      env: which environment, and its options.
      task_file: an item file of tasks to train on; None: the train list.

    Raises:
      ConfigError: there is no such environment.
    """
    self.spec = envs.get(env.name)
    self.name = self.spec.name
    self._env = env
    self._task_file = task_file

  def tasks(self, split: str) -> tuple[int, ...]:
    """The fixed task list of a split, or the config's own training tasks."""
    if split == 'train' and self._task_file:
      return self._items(self._task_file)
    return self.spec.tasks(split, **self._env.options)

  def subtasks(self) -> Callable[[int], str]:
    """A function from a task to its kind."""
    return self.spec.subtasks(**self._env.options)

  def clusters(self) -> Callable[[int], str] | None:
    """A function from a task to its template; None: each stands alone.

    Raises:
      EnvError: a package that tells is missing.
    """
    return self.spec.clusters(**self._env.options)

  def panel(
      self, split: str, count: int, task_file: str | None = None
  ) -> tuple[int, ...]:
    """`count` tasks of a split, or of an item file, spread over their kinds.

    Those of a smaller count are among them, see `panel.spread`.

    Raises:
      ConfigError: there are fewer.
      DataError: the item file cannot be read, or names an unknown task.
    """
    if task_file:
      tasks, source = self._items(task_file), task_file
    else:
      tasks = self.tasks(split)
      source = f'the {split} split of {self.name}'
    if count > len(tasks):
      raise ConfigError(
          f'eval.num_tasks={count}, but {source} has {len(tasks)} tasks.'
      )
    kind_of, stratum_of = self.subtasks(), self.spec.stratum
    return panel.spread(
        tasks,
        count,
        lambda task: (kind_of(task), stratum_of and stratum_of(task)),
    )

  def _items(self, path: str) -> tuple[int, ...]:
    task_ids = items.read(path, self.name)
    kind_of = self.subtasks()
    for index, task_id in enumerate(task_ids):
      try:
        kind_of(task_id)
      except EnvError as error:
        raise DataError(f'Item {index} of {path}: {error}') from error
    return task_ids


class Environment(TaskLists):
  """The servers of one environment, started here or found at URLs."""

  def __init__(
      self,
      loop: EventLoop,
      env: options.EnvOptions,
      *,
      task_file: str | None = None,
      expert: bool = False,
  ):
    """Starts or finds the servers.

    Args:
      loop: runs the clients, with one HTTP session.
      env: which environment, and where.
      task_file: an item file of tasks to train on; None: the train list.
      expert: whether the servers must offer the expert's actions.

    Raises:
      ConfigError: a URL has a server of another environment, or no expert.
      EnvError: they do not start, or no URL has one.
    """
    super().__init__(env, task_file)
    self._loop = loop
    self._lock = asyncio.Lock()
    self._children: list[EnvServer] = []
    self._deaths: list[str] = []
    if not env.urls:
      try:
        for _ in range(env.workers):
          self._children.append(EnvServer(env.name, env.options, expert=expert))
      except BaseException:
        self.close()  # do not leave half of them behind
        raise
    self._connect()
    if env.urls:
      loop.run(
          self._pool.probe(
              self.tasks('train')[0],
              expert=expert,
              data_version=self.spec.data_version,
          )
      )

  def client(self) -> EnvClient:
    """A client for one episode."""
    return self._pool.client()

  @property
  def deaths(self) -> Sequence[str]:
    """How each child ended that died so far, with its last words."""
    return tuple(self._deaths)

  async def revive(self) -> None:
    """Starts children again that died; their episodes are lost, not the run."""
    if all(child.alive for child in self._children):
      await asyncio.sleep(_ENDING_S)
    async with self._lock:
      dead = [child for child in self._children if not child.alive]
      for child in dead:
        words = f'The {self.name} server {child.last_words()}'
        self._deaths.append(words)
        logging.warning('%s; starting it again.', words)
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

  def _connect(self) -> None:
    urls = [child.url for child in self._children] or self._env.urls
    self._pool = EnvPool(
        self._loop.session,
        urls,
        env_name=self._env.name,
        timeout_s=self._env.timeout_s,
        # A child that died is started again by `revive`, at another URL.
        retry_s=self._env.retry_s if self._env.urls else 0.0,
        token=(
            auth.read_token(self._env.token_file)
            if self._env.token_file
            else None
        ),
    )


class EnvServer:
  """An environment server as a child process, which ends with this one."""

  def __init__(
      self,
      name: str,
      options: Mapping[str, Any],
      *,
      expert: bool = False,
      flags: Sequence[str] = (),
  ):
    """Starts the server and waits until it listens.

    Args:
      name: of the environment.
      options: its options.
      expert: whether it offers the expert's actions.
      flags: more of `python -m agentrl.envs.server`.

    Raises:
      EnvError: it did not start; quotes its last words.
    """
    self._command = [
        sys.executable,
        '-m',
        'agentrl.envs.server',
        f'--env={name}',
        '--port=0',
        f'--options={json.dumps(dict(options))}',
        '--exit_with_parent',
        *(['--expert'] if expert else []),
        *flags,
    ]
    self._name = name
    self._start()

  @property
  def url(self) -> str:
    """Changes when the server is started again."""
    return self._url

  @property
  def pid(self) -> int:
    """The process id of the child."""
    return self._child.pid

  @property
  def alive(self) -> bool:
    return self._child.ending() is None

  def last_words(self) -> str:
    """The ending of a server that died, and the last lines that it wrote."""
    return f'{self._child.ending()}: {self._child.last_words()}'

  def restart(self) -> None:
    """Starts the server again after it died, on another port."""
    self.stop()
    self._start()

  def stop(self) -> None:
    """Ends the child; never hangs."""
    self._child.stop()

  def _start(self) -> None:
    path = filter(None, [str(_ROOT), os.environ.get('PYTHONPATH')])
    self._child = Child(
        self._command,
        name=f'{self._name} server',
        env=children.environment() | {'PYTHONPATH': os.pathsep.join(path)},
    )
    try:
      line = self._child.read_line(_START_S)
      self._url = f'http://127.0.0.1:{json.loads(line)["port"]}'
    except (TimeoutError, json.JSONDecodeError, KeyError, TypeError) as error:
      how = f'did not start within {_START_S:g} s'
      if not isinstance(error, TimeoutError):
        # Its output may have ended just before it did.
        ending = self._child.ending(_LAST_WORDS_S)
        how = 'did not say where it listens'
        if ending is not None:
          how = f'{ending} before it listened'
      self._child.kill()
      raise EnvError(
          f'The {self._name} server {how}: {self._child.last_words()}'
      ) from error


def make_play(
    environment: Environment,
    agent: TextAgent,
    policy: Policy | ChatPolicy | None,
    rollout: Limits,
    *,
    acting: Callable[..., ActingPolicy] = Expert,
    name: str,
    split: str,
    horizon: int | Turns,
    policy_version: int,
) -> Play:
  """A function that plays one assignment.

  Args:
    environment: where.
    agent: how the policy talks.
    policy: continues the conversation; None: `acting` does.
    rollout: limits.
    acting: plays where there is no policy: `Expert` or `RandomPolicy`.
    name: begins the names of the episodes.
    split: of the tasks, for the record.
    horizon: most turns; of `Turns` each episode draws its own.
    policy_version: for the record.

  Raises:
    ConfigError: pictures are wanted of an environment that has none.
  """
  if rollout.save_views and not environment.spec.dialect.renders:
    raise ConfigError(
        f'rollout.save_views=True, and {environment.name} draws no pictures;'
        ' switch it off.'
    )

  async def play(assignment: Assignment) -> Episode:
    env, deaths = environment.client(), len(environment.deaths)
    which = f'{assignment.replica}'
    if assignment.attempt:
      which += f'.{assignment.attempt}'
    episode = await run_episode(
        env,
        agent,
        policy or acting(env, agent),
        episode_id=f'{name}-{assignment.ordinal}-{which}',
        env_name=environment.name,
        task_id=assignment.task_id,
        split=split,
        seed=assignment.seed,
        policy_version=policy_version,
        horizon=seeds.draw_turns(horizon, assignment.seed),
        limits=rollout,
        sample=assignment.replica,
        attempt=assignment.attempt,
        data_version=environment.spec.data_version,
        previous=assignment.previous,
    )
    if episode.stop_reason == types.ENV_ERROR and episode.retryable:
      await environment.revive()
      if died := environment.deaths[deaths:]:
        words = f'{died[-1]} ({episode.error})'
        episode = dataclasses.replace(episode, error=words)
    return episode

  return play
