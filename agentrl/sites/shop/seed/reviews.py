"""Texts of reviews: what visitors praise and what they complain about.

Each topic has a phrase that stands in all of its sentences and in no other, so
that a question about a topic has one answer.
"""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentrl.sites import seed_data


@dataclasses.dataclass(frozen=True)
class Topic:
  """Something that reviews are about.

  Attributes:
    phrase: that stands in each sentence.
    complaint: in brief, as the end of 'who complains that'.
    bad: sentences of complaint.
    good: sentences of praise.
  """

  phrase: str
  complaint: str
  bad: Sequence[str]
  good: Sequence[str]


def _topics(rows: Sequence[Mapping[str, Any]]) -> Sequence[Topic]:
  return tuple(Topic(**values) for values in rows)


_DATA = seed_data.read(__file__)
_ANY = _topics(_DATA['any'])
_BY_DEPARTMENT = {
    name: _topics(rows) for name, rows in _DATA['by_department'].items()
}
_TITLES: Mapping[int, Sequence[str]] = {
    5: ('Could not be happier', 'Exactly right', 'Best {kind} so far',
        'Would buy again', 'Lovely {kind}', 'Full marks'),
    4: ('Very good {kind}', 'Nearly perfect', 'Good value',
        'Pleased with it', 'Solid {kind}'),
    3: ('It is all right', 'Mixed feelings', 'Average {kind}',
        'Neither good nor bad'),
    2: ('Expected more', 'Rather let down', 'Weak {kind}',
        'Would think twice'),
    1: ('Not the {kind} I wanted', 'Sent it back', 'Money wasted',
        'A complete letdown'),
}  # fmt: skip
_CLOSERS: Mapping[int, Sequence[str]] = {
    5: ('I can only recommend it.', 'My whole family agrees.'),
    4: ('All in all a good buy.', 'One star off for the price.'),
    3: ('There may be better ones.', 'It will do for now.'),
    2: ('I would not choose it again.', 'At half the price I would keep it.'),
    1: ('I want my money back.', 'Stay away from it.'),
}
# Stars that buyers of a liked, a middling and a poor product give.
MOODS = _DATA['moods']
_BAD = {5: 0, 4: 0, 3: 1, 2: 1, 1: 2}  # sentences, by stars
_GOOD = {5: 2, 4: 1, 3: 1, 2: 0, 1: 0}


def topics(department: str) -> Sequence[Topic]:
  """The topics of reviews in a department, by its name."""
  return (*_ANY, *_BY_DEPARTMENT[department])


def compose(
    department: str, kind: str, stars: int, chance: random.Random
) -> tuple[str, str]:
  """The title and the text of a review."""
  title = chance.choice(list(_TITLES[stars])).format(kind=kind.lower())
  chosen = chance.sample(list(topics(department)), _BAD[stars] + _GOOD[stars])
  sentences = [
      chance.choice(list(topic.bad if place < _BAD[stars] else topic.good))
      for place, topic in enumerate(chosen)
  ]
  chance.shuffle(sentences)
  if chance.random() < 0.6:
    sentences.insert(0, chance.choice(_DATA['openers']))
  if chance.random() < 0.6:
    sentences.append(chance.choice(list(_CLOSERS[stars])))
  return title, ' '.join(sentences)
