"""BabyAI, as it is served, explained and split."""

from typing import Any

from agentrl.envs import base, dialect
from agentrl.envs.babyai import levels, replay_view, tasks
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec

# The original repeats its last reward in later replies and adds it to `score`
# each time, so only the reply that ends the episode can be believed.
DIALECT = dialect.Dialect(
    success=lambda total: total > 0.0,
    reward_kind=dialect.TERMINAL,
    has_score=True,
    renders=True,
    observation_is_state=True,
    greeting='This is environment BabyAI.',
)

WORDS = Words(
    compact='Reach the goal.',
    full="""\
You are in a world of rooms and have a goal to reach. You see only what is in \
front of you, up to walls and closed doors. Objects have a number to tell equal \
ones apart, counted from the nearest. Your actions are:
- turn left, turn right, move forward
- go to OBJECT N: walks there and faces it, for example: go to red ball 1
- pick up OBJECT N: walks there and takes it; you can hold one object
- drop: puts down what you hold, in front of you
- go through DOOR N: walks into an open door
- toggle and go through DOOR N: opens a closed door, or a locked one if you hold \
the key of its colour, and walks into it
- toggle: opens or closes what is in front of you
- check available actions
Every answer ends with the actions that you can do now. When you do not see what \
you need, turn and explore. Use few steps: fewer are worth more.""",
)

FUNCTIONS = (
    Function('turn_left', ('turn left',)),
    Function('turn_right', ('turn right',)),
    Function('move_forward', ('move forward',)),
    Function('go_to', ('go to {object} {number}',), numbers=('number',)),
    Function('pick_up', ('pickup {object} {number}',), numbers=('number',)),
    Function('drop', ('drop',)),
    Function(
        'go_through', ('go through {door} {number}',), numbers=('number',)
    ),
    Function(
        'toggle_and_go_through',
        ('toggle and go through {door} {number}',),
        numbers=('number',),
    ),
    Function('toggle', ('toggle',)),
    Function('check_available_actions', ('check available actions',)),
)


def _open(**options: Any) -> base.EnvFactory:
  from agentrl.envs.babyai.env import BabyAI

  return base.independent(BabyAI, options, inline=('step',))


SPEC = EnvSpec(
    name='babyai',
    data_version=1,
    dialect=DIALECT,
    words=WORDS,
    functions=FUNCTIONS,
    options={'levels': None, 'style': 'full', 'expert_macros': True},
    meanings={
        'levels': 'names of the levels that are played; None: all',
        'style': "observations, 'full' or 'compact'",
        'expert_macros': 'the expert says "go to X" and the like where it can',
    },
    open_factory=_open,
    list_tasks=tasks.tasks,
    task_options=('levels',),
    subtasks_of=levels.subtasks,
    stratum=levels.level_of,
    success=(
        "The whole instruction was fulfilled, in its order, by minigrid's"
        ' verdict and within its limit of steps.'
    ),
    view=replay_view.view,
    refuses=replay_view.refuses,
)
