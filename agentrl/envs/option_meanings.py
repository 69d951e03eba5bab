"""Meanings of the environments' options, as `--fields=env` lists them."""

MEANINGS = {
    'accounts': 'JSON file of site and name:password, for images that sign in',
    'chromium': "executable; None: the system's, else Playwright's download",
    'distractors': 'commands that are shown without need, at most',
    'episodes': 'at a time, each an isolated context of one browser',
    'errors': 'share of pages that fail once with status 500',
    'expert_macros': 'the expert says "go to X" and the like where it can',
    'har': 'folder for an HTTP archive of each episode',
    'judge': 'module:function that compares answers by meaning',
    'levels': 'names of the levels that are played; None: all',
    'look': 'an action that leads to another room shows the room',
    'max_depth': 'depth of a goal in the tree of recipes, at most; None: any',
    'max_hops': 'hops of a generated question, at most; None: any number',
    'max_ingredients': 'kinds of things in a goal, at most; None: any number',
    'max_moves': 'ticks after which an episode is truncated; None: no limit',
    'min_depth': 'depth of a goal in the tree of recipes, at least',
    'min_family': "training goals of a goal's family, at least",
    'observe': "'page' or 'viewport' as accessibility tree, or 'html'",
    'questions': (
        'file of questions, or one for each split; None: generated ones'
    ),
    'relations': 'relations that generated questions follow; None: all',
    'retriever_timeout_s': 'seconds of one search at retriever_url, at most',
    'retriever_url': 'service to search with; None: the embedded index',
    'retry': 'a wrong answer may be followed by another',
    'scoring': (
        "reward: 'score' or 'success' (sciworld), 'em' or 'f1' (searchqa)"
    ),
    'session': 'pages after which a visitor signs in again; 0: never',
    'simplifications': 'of the world, by the names of ScienceWorld',
    'simulator_bytes': 'memory after which a simulator is replaced',
    'simulator_episodes': 'tasks after which a simulator is replaced',
    'simulators': 'processes at a time; None: two for a processor, at most 8',
    'slow': 'share of pages that come late',
    'split_by': (
        "what splits differ in: 'seed' or 'page', 'template' or 'value'"
    ),
    'storage_state': "Playwright's file with cookies of signed-in visitors",
    'style': "observations, 'full' or 'compact'",
    'task_file': 'tasks from a file of the form of the public ones',
    'tasks': (
        'which are played: names, or a set that agentrl/envs/README.md lists'
    ),
    'topk': 'passages that a search shows',
    'worlds': 'number of worlds to train in',
}
