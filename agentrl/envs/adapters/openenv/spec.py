"""An OpenEnv server: its actions are functions, its observations texts.

`env.options.server` is the URL of a running server, or the command of one that the run
starts and ends, in which `{port}` stands for its port:

    ('python', '-m', 'uvicorn', 'echo_env.server.app:app', '--port', '{port}')

Each episode is a session over a WebSocket of its own. An action is a call of `act` with
the fields of the server's action type, or of a tool where the server has tools; a server
whose actions have a single text field takes plain text as well. A task is the seed of a
reset, or a line of the file `env.options.tasks`, whose parts may all be left out:

    {"reset": {"seed": 3, "level": "easy"}, "split": "train",
     "expert": [{"name": "act", "arguments": {"message": "up"}}, "down"]}

openenv-core itself is needed by the server alone.
"""

from collections.abc import Sequence
from typing import Any

from agentrl.envs.adapters import caching, seeds, task_files
from agentrl.envs.adapters.openenv import actions, env, server as server_lib
from agentrl.envs.dialect import Dialect
from agentrl.envs.functions import Function
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec, is_set


def _list_tasks(split: str, tasks: str | None, **of_ids: Any) -> Sequence[int]:
  del of_ids  # ids are the same on each server
  lines = env.load_tasks(tasks)
  if lines is None:
    return seeds.SPLITS[split]
  return task_files.of_split(split, lines)


@caching.by_options
def _described(
    server: str | Sequence[str] | None, timeout_s: float
) -> dict[str, Any]:
  """Functions and words of a server."""
  with server_lib.opened(server, timeout_s) as client:
    about = client.metadata()
    full = f'You act in {about.name}. {" ".join(about.description.split())}'
    return {
        'functions': actions.of_server(client).functions,
        'words': Words(full=full.strip(), compact=about.name),
    }


SPEC = EnvSpec(
    name='openenv',
    dialect=Dialect(),
    words=Words(full='You act in an environment.', compact='Act.'),
    functions=(Function(actions.ACT, ('{action}',)),),
    specialise=lambda server, timeout_s, **rest: _described(
        server=server, timeout_s=timeout_s
    ),
    options={
        'server': None,
        'tasks': None,
        'fields': None,
        'success': 1.0,
        'show_errors': False,
        'timeout_s': 60.0,
        'most_chars': 8000,
        'episodes': 16,
    },
    meanings={
        'server': (
            'URL of a server, or its command with {port}, a list of words'
        ),
        'tasks': 'file of tasks, a JSON object a line; None: seeds',
        'fields': 'of an observation that are shown; None: all that are set',
        'success': 'return of an episode that succeeds, at least',
        'show_errors': (
            'an error that an action raises costs a turn and is told to the'
            ' policy; False: it fails the episode'
        ),
        'timeout_s': 'seconds of a request, at most',
        'most_chars': 'characters of an observation, at most; the rest is cut',
        'episodes': 'sessions at a time',
    },
    task_options=('server', 'tasks', 'success'),
    machine_options=('episodes', 'timeout_s'),
    slots_option='episodes',
    unsafe_options=dict.fromkeys(('server', 'tasks'), is_set),
    open_factory=env.open_factory,
    list_tasks=_list_tasks,
    success='The server says that it is over, and the return is high enough.',
)
