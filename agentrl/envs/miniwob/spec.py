"""MiniWoB++, as it is served, explained and split."""

import dataclasses
from typing import Any

from agentrl.envs.base import EnvFactory
from agentrl.envs.miniwob import tasks
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.envs.web import interface, random_rule, replay_view

# Pages of another benchmark, served as WebArena's are.
DIALECT = dataclasses.replace(interface.DIALECT, failed_reset=None)

WORDS = Words(
    compact='Reach the objective.',
    full=f"""\
{interface.INSTRUCTIONS}
The task ends by itself when it is done. What you do last counts, so act with \
care: most tasks are lost by one wrong click.""",
)


def _open(**options: Any) -> EnvFactory:
  from agentrl.envs.miniwob.env import MiniWoBFactory

  return MiniWoBFactory(**options)


SPEC = EnvSpec(
    name='miniwob',
    data_version=2,
    dialect=DIALECT,
    words=WORDS,
    functions=interface.FUNCTIONS,
    options={
        'tasks': 'expert',
        'split_by': 'seed',
        'observe': 'page',
        'style': 'full',
        'navigation': 'always',
        'most_chars': 16_000,
        'episodes': 32,
        'chromium': None,
    },
    meanings={
        **interface.MEANINGS,
        'tasks': (
            'which are played: names, or a set that agentrl/envs/README.md'
            ' lists'
        ),
        'split_by': "what splits differ in: 'seed' or 'page'",
    },
    machine_options=('chromium', 'episodes'),
    open_factory=_open,
    list_tasks=tasks.tasks,
    task_options=('tasks', 'split_by'),
    subtask=tasks.page_of,
    clusters_of=tasks.clusters,
    success='The page ended the episode with its full reward, 1.',
    random_rule=random_rule.draw,
    view=replay_view.view,
    refuses=replay_view.refuses,
    element_of=replay_view.acted_on,
    packages=('playwright',),
    requirements=('envs', 'data'),
    programs=(interface.BROWSER,),
)
