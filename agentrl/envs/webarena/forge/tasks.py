"""Tasks on the forge."""

from agentrl.envs.webarena.forge import (
    tasks_find,
    tasks_history,
    tasks_issues,
    tasks_merges,
    tasks_people,
    tasks_projects,
)

TEMPLATES = (
    *tasks_history.TEMPLATES,
    *tasks_find.TEMPLATES,
    *tasks_issues.TEMPLATES,
    *tasks_merges.TEMPLATES,
    *tasks_projects.TEMPLATES,
    *tasks_people.TEMPLATES,
)
