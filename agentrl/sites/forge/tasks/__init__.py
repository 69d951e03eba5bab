"""Tasks on the forge."""

from agentrl.sites.forge.tasks import (
    find,
    history,
    issues,
    merges,
    people,
    projects,
)

TEMPLATES = (
    *history.TEMPLATES,
    *find.TEMPLATES,
    *issues.TEMPLATES,
    *merges.TEMPLATES,
    *projects.TEMPLATES,
    *people.TEMPLATES,
)
