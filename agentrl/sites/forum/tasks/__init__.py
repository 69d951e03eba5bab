"""Tasks on the forum.

`subscribe`, `upvote`, `newest` and `open` take one click each and have many
values: small policies can learn them.
"""

from collections.abc import Mapping

from agentrl.sites.forum.tasks import change, go, people, post, seek

TEMPLATES = (
    *seek.TEMPLATES,
    *people.TEMPLATES,
    *post.TEMPLATES,
    *change.TEMPLATES,
    *go.TEMPLATES,
)
# Public intent templates without a counterpart here, and why.
NO_COUNTERPART: Mapping[int, str] = {}
