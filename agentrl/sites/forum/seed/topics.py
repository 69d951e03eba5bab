"""The forums' topics: what people there write about."""

import dataclasses

from agentrl.sites import seed_data


@dataclasses.dataclass(frozen=True)
class Topic:
  """A forum and the words of its submissions.

  Attributes:
    forum: its name.
    title: of the forum.
    about: its description.
    things: singular nouns, which take an article.
    tasks: infinitives without `to`.
    kinds: adjectives that fit the things.
    size: weight among the forums.
    photos: whether most submissions are links to a picture.
  """

  forum: str
  title: str
  about: str
  things: tuple[str, ...]
  tasks: tuple[str, ...]
  kinds: tuple[str, ...]
  size: int = 3
  photos: bool = False


TOPICS = tuple(Topic(**x) for x in seed_data.read(__file__)['topics'])
