"""Task folders of Harbor: an instruction, a machine to work on, tests that grade it.

`env.options.folder` holds task folders, each with `task.toml`, `instruction.md`,
`environment/` and `tests/test.sh`, as Harbor and Terminal-Bench 2 have them. A policy runs
commands of a shell in a sandbox of its own and submits; then the tests run there and leave
a reward in /logs/verifier/reward.json or reward.txt. After `commands` commands what is there
is graded. A single `solution/solve.sh` is the expert. `split` of [metadata] may be train, dev
or test; else one task of ten is for test, one for dev.

The sandbox is a container where an engine runs, docker or podman, else a namespace by
bubblewrap: this machine's /usr, no network, and a Dockerfile as far as that goes. Nothing
runs without either. What a sandbox cannot give (several steps or services, GPUs, lists of
hosts, another machine for the tests) is refused by the task's name.
"""

from collections.abc import Mapping
from typing import Any

from agentrl.envs.adapters import task_files
from agentrl.envs.adapters.harbor import env, task_folders
from agentrl.envs.dialect import Dialect
from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec, Program, is_set
from agentrl.errors import ConfigError, EnvError


def _find(options: Mapping[str, Any]) -> str:
  try:
    return env.find(options['sandbox'])
  except ConfigError as error:
    raise EnvError(str(error)) from error


SPEC = EnvSpec(
    name='harbor',
    dialect=Dialect(),
    words=Words(
        full=(
            'You work on a Linux machine: bash COMMAND runs a command of a'
            ' shell, submit says that the task is done. Do the task, look at'
            ' what you have done, and submit.'
        ),
        compact='Use the shell.',
    ),
    functions=env.FUNCTIONS,
    options={
        'folder': None,
        'sandbox': None,
        'commands': 20,
        'reward': 'reward',
        'timeout_s': 60.0,
        'most_chars': 8000,
        'episodes': 4,
    },
    meanings={
        'folder': 'folder of task folders',
        'sandbox': (
            'docker, podman or bubblewrap; None: the first that runs here'
        ),
        'commands': 'commands of an episode, after which it is graded',
        'reward': 'which of several rewards of the tests is learnt from',
        'timeout_s': 'seconds of a command, at most',
        'most_chars': 'characters of an output, at most; the middle is cut',
        'episodes': 'sandboxes at a time',
    },
    task_options=('folder', 'reward'),
    machine_options=('episodes', 'sandbox'),
    unsafe_options={'folder': is_set},
    slots_option='episodes',
    programs=(
        Program(
            name='sandbox',
            find=_find,
            remedy='apt-get install bubblewrap',
        ),
    ),
    open_factory=env.Machines,
    list_tasks=lambda split, folder, reward: task_files.of_split(
        split,
        tuple({'split': task.split} for task in task_folders.load(folder)),
    ),
    success='The tests leave a reward of 1.',
)
