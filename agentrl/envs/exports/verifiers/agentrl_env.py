r"""Any environment as one of verifiers (0.4): taskset, loop and harness.

    PYTHONPATH=.:agentrl/envs/exports/verifiers vf-eval agentrl-env -n 20 -m MODEL --no-push \
        --env.taskset.env textcraft --env.taskset.options '{"max_depth": 1}' --env.horizon 20

A task is one of a split. The policy is told the instructions, its replies are read in one
of our formats, and observations answer them. The reward is the return; `success` and
`turns` are metrics. An environment that fails is an error of its episode, and no reward
of 0. In the process of verifiers, without a server. verifiers finds this by the name of
its module, so that the folder has to be on the path.
"""

import asyncio
import functools
import random
from collections.abc import Iterator
from typing import Any

import pydantic
import verifiers.v1 as vf

from agentrl import envs
from agentrl.envs.adapters.verifiers_child.agentrl_chat import ChatHarness
from agentrl.envs.base import EnvFactory
from agentrl.envs.exports import chat
from agentrl.envs.exports.chat import Chat
from agentrl.envs.spec import EnvSpec

__all__ = ['ChatHarness', 'Tasks', 'Episodes']

_SEEDS = 2**31


class Data(vf.TaskData):
  """A task of an environment."""

  task_id: int


class Task(vf.Task[Data, vf.State, vf.TaskConfig]):
  """A task, whose rewards come from its episode."""


class TasksConfig(vf.TasksetConfig):
  """Whose tasks, and how a policy acts in them."""

  env: str = ''
  """A name of `envs.ENVS`, or `module:SPEC`, `FILE.py:SPEC` of your own."""
  split: str = 'test'
  """'train', 'dev' or 'test'."""
  format: str = 'react'
  """Form of the model's actions, as `agent.format` of a config."""
  instructions: str = 'full'
  """As `agent.instructions` of a config."""
  options: dict[str, Any] = {}
  """The environment's own, as JSON."""

  @property
  def spec(self) -> EnvSpec:
    """The environment's specification, under its options."""
    return envs.get(self.env).under(**self.options)


class Tasks(vf.Taskset[Task, TasksConfig]):
  """The tasks of a split, in its order."""

  def load(self) -> Iterator[Task]:
    """Each of them.

    Raises:
      ConfigError: a name or an option is unknown or wrong.
    """
    config = self.config
    spec = config.spec
    words = chat.instructions(spec, config.format, config.instructions, 1)
    for task_id in spec.tasks(config.split, **config.options):
      yield Task(
          Data(
              name=f'{spec.name}, task {task_id}',
              task_id=task_id,
              system_prompt=words or None,
          ),
          config.task,
      )


class EpisodesConfig(vf.EnvConfig):
  """The player, and how long it plays."""

  agent: vf.AgentConfig = vf.AgentConfig(runtime={'type': 'subprocess'})
  horizon: int = pydantic.Field(30, ge=1)
  """Turns of an episode, at most."""


class Episodes(vf.Env[EpisodesConfig]):
  """Plays a policy against an environment."""

  async def start(self) -> None:
    """Starts what the environments share."""
    config = self.config.taskset
    self._factory: EnvFactory = await asyncio.to_thread(
        functools.partial(config.spec.open, **config.options)
    )
    self._free = asyncio.Semaphore(self._factory.slots or chat.MOST_ENVS)

  async def stop(self) -> None:
    """Ends what `start` started."""
    if factory := self.__dict__.pop('_factory', None):
      await asyncio.to_thread(factory.close)

  async def run(self, task: Task, agents: vf.Agents) -> None:
    """An episode; what its task leaves to chance is drawn anew.

    Raises:
      EnvError: the environment failed.
    """
    config = self.config.taskset
    async with self._free:
      env = self._factory.make()
      try:
        talk = Chat(env, config.spec, config.format, self.config.horizon)
        message = await asyncio.to_thread(
            talk.begin, task.data.task_id, random.randrange(_SEEDS)
        )
        async with agents.agent.interaction(task) as interaction:
          while not talk.over:
            segment = await interaction.turn(message)
            if segment.terminated:  # a limit of verifiers, or a failure
              break
            message = await asyncio.to_thread(talk.answer, segment.last_reply)
          interaction.trace.record_reward('return', talk.returned)
          interaction.trace.record_metrics(
              {'success': float(talk.success), 'turns': float(talk.turns)}
          )
      finally:
        await asyncio.to_thread(env.close)
