"""A lift: an environment that sets all that agentrl's own ones set."""

import pathlib

from agentrl.envs.base import Independent
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec, Program
from agentrl.errors import EnvError
from lift import env, view

SPLITS = {'train': range(200, 400), 'dev': range(100, 200), 'test': range(100)}
REQUIREMENTS = pathlib.Path(__file__).with_name('requirements.txt')


def draw(rng, offered, seen):
  """Never looks: the floor of a table."""
  del seen
  return rng.choice([action for action in offered if action != 'look'])


def find_motor(options):
  if options['motor'] != 'here':
    raise EnvError(f'The motor {options["motor"]} does not run.')
  return 'motor 1.0'


def in_a_house(floors, **others):
  """The policy is told how high the house is."""
  del others
  words = f'You are in a lift of {floors} floors: use up, down and open.'
  return {'words': Words(full=words, compact='Go there.')}


SPEC = EnvSpec(
    name='lift',
    dialect=Dialect(success=lambda total: total >= 1.0),
    words=Words(
        full='You are in a lift: go to a floor with up, down and open.',
        compact='Go there.',
    ),
    functions=(
        Function('up', ('up',)),
        Function('down', ('down',)),
        Function('open', ('open',)),
    ),
    options={'floors': 3, 'motor': 'here', 'plan': None, 'cabins': 2},
    meanings={
        'floors': 'of the house',
        'motor': "'here', or the name of another",
        'plan': 'file with a plan of the house',
        'cabins': 'at a time',
    },
    task_options=('floors',),
    machine_options=('cabins',),
    slots_option='cabins',
    unsafe_options={'plan': bool},
    open_factory=lambda floors, cabins, **others: Independent(
        lambda: env.Lift(floors), slots=cabins
    ),
    list_tasks=lambda split, floors: SPLITS[split],
    subtask=lambda task_id: f'to floor {task_id % 3}',
    stratum=lambda task_id: str(task_id % 9),
    clusters_of=lambda floors, **others: lambda task_id: str(task_id % floors),
    success='The doors open on the floor that was asked for.',
    random_rule=draw,
    view=view.view,
    refuses=view.refuses,
    probe='look',
    packages=('json',),
    requirements=(REQUIREMENTS,),
    programs=(Program(name='motor', find=find_motor, remedy='buy a motor'),),
    data_version=3,
    conversations=True,
    specialise=in_a_house,
)
