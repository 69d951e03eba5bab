"""The parts that specifications of environments in a browser share."""

from collections.abc import Mapping
from typing import Any

from agentrl.envs import dialect
from agentrl.envs.functions import Function
from agentrl.envs.spec import Program
from agentrl.envs.web import chromium

# As WebArena's servers, which AgentGym has.
DIALECT = dialect.Dialect(
    episode_key='env_idx',
    created_key='env_idx',
    task_key='idx',
    reset_extra={'seed': 0},
    reward_kind=dialect.TERMINAL,
    ended_key='terminated',
    closed_key='closed',
    failed_reset='TimeoutError',
    queries=('boxes',),
    renders=True,
    step_extra={'info': {}},
)

INSTRUCTIONS = """\
You are in a web browser and have an objective to reach. A page is shown as its \
accessibility tree: every element has a number in brackets, its role and its \
name. Numbers change with the page: use those of the last observation. Your \
actions are:
- click [id]
- type [id] [text] [1]: types in place of what the field holds, and presses Enter \
after it; with [0] it does not
- hover [id]
- press [keys], for example: press [ctrl+a]
- scroll [down] or scroll [up]
- new_tab, tab_focus [index], close_tab
- goto [url], go_back, go_forward
- stop [answer]: ends the task; the answer is empty unless you are asked for one"""

FUNCTIONS = (
    Function('click', ('click [{id}]',), numbers=('id',)),
    Function(
        'type',
        ('type [{id}] [{text}] [{enter}]', 'type [{id}] [{text}]'),
        numbers=('id', 'enter'),
    ),
    Function('hover', ('hover [{id}]',), numbers=('id',)),
    Function('press', ('press [{keys}]',)),
    Function('scroll', ('scroll [{direction}]',)),
    Function('new_tab', ('new_tab',)),
    Function('tab_focus', ('tab_focus [{index}]',), numbers=('index',)),
    Function('close_tab', ('close_tab',)),
    Function('goto', ('goto [{url}]',)),
    Function('go_back', ('go_back',)),
    Function('go_forward', ('go_forward',)),
    Function('stop', ('stop [{answer}]', 'stop []')),
)


def _find_browser(options: Mapping[str, Any]) -> str:
  return chromium.find(options.get('chromium')) or "Playwright's own Chromium"


# What it says of this machine.
BROWSER = Program(name='browser', find=_find_browser, remedy=chromium.INSTALL)
MEANINGS = {
    'observe': "'page' or 'viewport' as accessibility tree, or 'html'",
    'style': "observations, 'full', 'compact', 'lean' or 'controls'",
    'navigation': (
        "what all pages share: 'always', in the 'first' observation, 'never'"
    ),
    'most_chars': 'of a page as text; the rest is left out',
    'episodes': 'at a time, each an isolated context of one browser',
    'chromium': "executable; None: the system's, else Playwright's download",
}
