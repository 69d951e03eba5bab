r"""Any environment as a task of Inspect, with its solver and scorer.

    PYTHONPATH=. inspect eval agentrl/envs/exports/inspect.py -T env=textcraft \
        -T options='{"max_depth": 1}' --limit 20 --model MODEL

A sample is a task of a split. The solver tells the model the instructions, takes its
actions in one of our formats, and answers with observations; the scorer gives `success`
and `return`. An environment that fails is an error of its sample, and no score of 0. In
this process, without a server. Needs `pip install inspect-ai`.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

import anyio.to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from agentrl import envs
from agentrl.envs.base import Env
from agentrl.envs.exports import chat
from agentrl.envs.exports.chat import Chat
from agentrl.envs.spec import EnvSpec
from agentrl.errors import ConfigError

_KEY = 'agentrl'  # of a sample's store


@task
def environment(
    env: str,
    split: str = 'test',
    format: str = 'react',
    instructions: str = 'full',
    horizon: int = 30,
    options: str | Mapping[str, Any] = '{}',
) -> Task:
  """An environment as a task.

  Args:
    env: a name of `envs.ENVS`, or `module:SPEC`, `FILE.py:SPEC` of your own.
    split: 'train', 'dev' or 'test'.
    format: how the model writes its actions, as `agent.format` of a config.
    instructions: as `agent.instructions` of a config.
    horizon: turns of an episode, at most.
    options: of the environment, as JSON or as they are.

  Raises:
    ConfigError: a name or an option is unknown or wrong.
    EnvError: a package that it needs is missing.
  """
  try:
    given = json.loads(options) if isinstance(options, str) else dict(options)
  except ValueError as error:
    raise ConfigError(f'options={options!r} is no JSON: {error}') from error
  spec = envs.get(env).under(**given)
  words = chat.instructions(spec, format, instructions, horizon)
  samples = [
      Sample(input=f'{spec.name}, task {x}', id=x, metadata={'task_id': x})
      for x in spec.tasks(split, **given)
  ]
  return Task(
      dataset=MemoryDataset(samples, name=f'{spec.name}-{split}'),
      solver=play(spec, given, words, format, horizon),
      scorer=outcome(),
      name=spec.name,
  )


@solver
def play(
    spec: EnvSpec,
    options: Mapping[str, Any],
    words: str,
    format: str,
    horizon: int,
) -> Solver:
  """The solver: plays an episode of the sample's task.

  Args:
    spec: of the environment, under its options.
    options: of the environment.
    words: the instructions.
    format: name of an action format.
    horizon: turns of an episode, at most.
  """
  # A simulator or an index is made once, by the first sample.
  factory = functools.cache(lambda: spec.open(**options))
  limiter = functools.cache(
      lambda: anyio.CapacityLimiter(factory().slots or chat.MOST_ENVS)
  )

  async def episode(
      env: Env, state: TaskState, generate: Generate
  ) -> dict[str, Any]:
    talk = Chat(env, spec, format, horizon)
    # Replicas of an epoch are other draws of what the task leaves to chance.
    message = await anyio.to_thread.run_sync(
        talk.begin, state.metadata['task_id'], state.epoch
    )
    system = [ChatMessageSystem(content=words)] if words else []
    state.messages = [*system, ChatMessageUser(content=message)]
    while not talk.over:
      await generate(state)
      message = await anyio.to_thread.run_sync(
          talk.answer, state.output.completion
      )
      state.messages.append(ChatMessageUser(content=message))
    return talk.outcome

  async def solve(state: TaskState, generate: Generate) -> TaskState:
    made = await anyio.to_thread.run_sync(factory)
    async with limiter():
      env = made.make()
      try:
        state.store.set(_KEY, await episode(env, state, generate))
      finally:
        env.close()
    return state

  return solve


@scorer(
    metrics={
        'success': [mean(), stderr()],
        'return': [mean(), stderr()],
    }
)
def outcome() -> Any:
  """The scorer: success (0 or 1) and return of the episode that was played."""

  async def score(state: TaskState, target: Target) -> Score:
    del target
    found = state.store.get(_KEY)
    value = {'success': float(found['success']), 'return': found['return']}
    return Score(value=value, explanation=f'{found["turns"]} turns')

  return score
