"""The projects of the forge, and what issues in each of them are about."""

from collections.abc import Sequence
from typing import NamedTuple

from agentrl.sites import seed_data


class Topic(NamedTuple):
  """A project: its owner, path, language, description and parts."""

  space: str  # a group's path, 'emma', or '' for one of the others
  path: str
  language: str
  topics: str
  description: str
  parts: Sequence[str]


_DATA = seed_data.read(__file__)
# Group's path, name, description.
GROUPS = _DATA['groups']
TOPICS = tuple(Topic(**x) for x in _DATA['topics'])
