"""Passages and questions: the records that SearchQA's modules exchange."""

import dataclasses

SPLITS = ('train', 'dev', 'test')
MAX_HOPS = 3


@dataclasses.dataclass(frozen=True)
class Passage:
  """One search result."""

  title: str
  text: str


@dataclasses.dataclass(frozen=True)
class Hop:
  """One step of a question, as its expert finds it.

  Attributes:
    titles: passages that state the fact.
    needle: words of those passages that say the answer.
    queries: searches that should find one of them, the best first.
  """

  titles: tuple[str, ...]
  needle: str
  queries: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Question:
  """A question and its right answers.

  Attributes:
    name: the meaning of its id, for people and for the split.
    split: 'train', 'dev' or 'test'.
    text: as the policy reads it.
    answers: the right ones; any will do.
    hops: how to find the answer; empty where that is not known.
    kind: for tables by kind.
    family: what its start belongs to, such as a country; '' where not known.
  """

  name: str
  split: str
  text: str
  answers: tuple[str, ...]
  hops: tuple[Hop, ...] = ()
  kind: str = ''
  family: str = ''
