"""Tasks on the forum.

`subscribe`, `upvote`, `newest` and `open` take one click each and have many
values: small policies can learn them.
"""

from collections.abc import Mapping

from agentrl.envs.webarena.forum import (
    tasks_change,
    tasks_go,
    tasks_people,
    tasks_post,
    tasks_seek,
)

TEMPLATES = (
    *tasks_seek.TEMPLATES,
    *tasks_people.TEMPLATES,
    *tasks_post.TEMPLATES,
    *tasks_change.TEMPLATES,
    *tasks_go.TEMPLATES,
)
# Public intent templates without a counterpart here, and why.
NO_COUNTERPART: Mapping[int, str] = {}
