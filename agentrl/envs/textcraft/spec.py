"""TextCraft, as it is served, explained and split."""

from typing import Any

from agentrl.envs import base, dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.envs.textcraft import random_rule, replay_view, tasks

DIALECT = dialect.Dialect(
    create_resets=True,
    default_task=0,
    queries=('commands', 'goal'),  # the original's only ever fail
    greeting='This is environment TextCraft.',
)

WORDS = Words(
    compact='Craft the goal.',
    full="""\
You are crafting an item in Minecraft. You will be given a list of crafting \
commands and a goal. You have three kinds of commands:
- get N ITEM: takes N of an item that no command crafts, for example: get 2 oak \
logs
- craft N ITEM using N ITEM, N ITEM: crafts by one of the listed commands, with \
exactly its counts; you must hold what it uses. Where it names a kind of item, \
such as planks, use one item of that kind, such as oak planks.
- inventory: lists what you hold.
Always give the counts. Only listed commands work, one at a time; to make more, \
repeat them. The task ends when you craft the goal.""",
)

FUNCTIONS = (
    Function('get', ('get {count} {item}',), numbers=('count',)),
    Function(
        'craft',
        ('craft {count} {item} using {ingredients}',),
        numbers=('count',),
    ),
    Function('inventory', ('inventory',)),
)


def _open(**options: Any) -> base.EnvFactory:
  from agentrl.envs.textcraft.env import TextCraft

  return base.independent(TextCraft, options, inline=('reset', 'step'))


SPEC = EnvSpec(
    name='textcraft',
    data_version=1,
    dialect=DIALECT,
    words=WORDS,
    functions=FUNCTIONS,
    options={
        'min_depth': 1,
        'max_depth': None,
        'max_ingredients': None,
        'min_family': 0,
        'distractors': 10,
        'worlds': 1,
    },
    meanings={
        'min_depth': 'depth of a goal in the tree of recipes, at least',
        'max_depth': (
            'depth of a goal in the tree of recipes, at most; None: any'
        ),
        'max_ingredients': (
            'kinds of things in a goal, at most; None: any number'
        ),
        'min_family': "training goals of a goal's family, at least",
        'distractors': 'commands that are shown without need, at most',
        'worlds': 'number of worlds to train in',
    },
    open_factory=_open,
    list_tasks=tasks.tasks,
    task_options=(
        'min_depth',
        'max_depth',
        'max_ingredients',
        'min_family',
        'worlds',
    ),
    subtasks_of=tasks.subtasks,
    stratum=tasks.goal_of,
    clusters_of=tasks.clusters,
    success='The goal item was crafted.',
    random_rule=random_rule.draw,
    view=replay_view.view,
    refuses=replay_view.refuses,
)
