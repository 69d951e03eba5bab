"""WebArena's kind of tasks, as they are served, explained and split."""

from agentrl.envs.prompts import Words
from agentrl.envs.spec import EnvSpec
from agentrl.envs.web import interface, random_rule, replay_view
from agentrl.envs.webarena import options

WORDS = Words(
    compact='Do it, then stop.',
    full=f"""\
{interface.INSTRUCTIONS}
You are signed in everywhere. Do what the objective says and nothing else, then \
end the task yourself with stop. Where it asks for something, the answer is that \
alone: a name, a number, a date, or a list with semicolons between its items.""",
)

SPEC = EnvSpec(
    name='webarena',
    data_version=2,
    dialect=interface.DIALECT,
    words=WORDS,
    functions=interface.FUNCTIONS,
    options=options.DEFAULTS,
    meanings={
        **interface.MEANINGS,
        'tasks': (
            'which are played: names, or a set that agentrl/envs/README.md'
            ' lists'
        ),
        'split_by': "what splits differ in: 'template' or 'value'",
        'accounts': (
            'JSON file of site and name:password, for images that sign in'
        ),
        'errors': 'share of pages that fail once with status 500',
        'har': 'folder for an HTTP archive of each episode',
        'judge': 'module:function that compares answers by meaning',
        'session': 'pages after which a visitor signs in again; 0: never',
        'slow': 'share of pages that come late',
        'storage_state': "Playwright's file with cookies of signed-in visitors",
        'task_file': 'tasks from a file of the form of the public ones',
    },
    machine_options=('chromium', 'episodes', 'har'),
    # Public tasks act on sites of somebody's own.
    unsafe_options={
        'tasks': lambda tasks: isinstance(tasks, str) and tasks != 'own',
        'task_file': bool,
        'judge': bool,
        'storage_state': bool,
        'accounts': bool,
    },
    open_factory=options.open_factory,
    list_tasks=options.list_tasks,
    task_options=options.OF_TASKS,
    subtasks_of=options.subtasks_of,
    clusters_of=options.clusters_of,
    success=(
        "The policy stopped, and all of the task's checks passed: of its"
        ' answer, of what it changed, of the page it was on.'
    ),
    random_rule=random_rule.draw,
    view=replay_view.view,
    refuses=replay_view.refuses,
    element_of=replay_view.acted_on,
    packages=('playwright',),
    requirements=('envs',),
    programs=(interface.BROWSER,),
)
