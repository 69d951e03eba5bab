"""Texts of reviews: what visitors praise and what they complain about.

Each topic has a phrase that stands in all of its sentences and in no other, so
that a question about a topic has one answer.
"""

import dataclasses
import random
from collections.abc import Mapping, Sequence


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


_ANY = (
    Topic(
        'parcel',
        'the parcel arrived late',
        ('The parcel came two weeks late.',
         'I waited far too long: the parcel was late by ten days.'),
        ('The parcel was here after two days.',
         'Quick delivery, and the parcel was well padded.'),
    ),
    Topic(
        'manual',
        'the manual is useless',
        ('The manual is of no use at all.',
         'Somebody should write a manual that can be understood.'),
        ('The manual is short and clear.', 'A helpful manual lies in the box.'),
    ),
    Topic(
        'the photos',
        'it looks different from the photos',
        ('It looks nothing like the photos.',
         'The shade is far from that in the photos.'),
        ('It looks just like in the photos.',
         'Even nicer than in the photos.'),
    ),
    Topic(
        'smell',
        'it has a bad smell',
        ('There is a chemical smell that does not go away.',
         'The smell when I opened the box was awful.'),
        ('No strange smell, which I had feared.',
         'It has a faint smell of wood that I like.'),
    ),
)  # fmt: skip
_BY_DEPARTMENT: Mapping[str, Sequence[Topic]] = {
    'Beauty & Personal Care': (
        Topic(
            'the lid',
            'the lid leaks',
            ('The lid leaks in my bag.', 'After a week the lid began to leak.'),
            ('The lid closes tightly.', 'I like how the lid clicks shut.'),
        ),
        Topic(
            'my skin',
            'it irritated the skin',
            ('It made my skin red and sore.',
             'After two days my skin was itching.'),
            ('It feels gentle on my skin.', 'It is kind to my skin.'),
        ),
    ),
    'Clothing & Bags': (
        Topic(
            'the seams',
            'the seams came apart',
            ('One wash and the seams came apart.',
             'Look at the seams: mine are open already.'),
            ('Neat work, above all the seams.',
             'You can see care in the seams.'),
        ),
        Topic(
            'the fabric',
            'the fabric is thin',
            ('The fabric is so thin that one can see through it.',
             'I had not thought that the fabric would be so thin.'),
            ('The fabric feels rich and warm.', 'I keep touching the fabric.'),
        ),
    ),
    'Electronics': (
        Topic(
            'the edges',
            'the edges are sharp',
            ('The edges are so sharp that I cut my finger.',
             'Careful: the edges are sharp as a knife.'),
            ('The edges are rounded.', 'I like how the edges are finished.'),
        ),
        Topic(
            'the print',
            'the print rubbed off',
            ('The print rubbed off within a week.',
             'Already the print on it has rubbed off.'),
            ('The print is crisp.', 'After months the print is as new.'),
        ),
    ),
    'Video Games': (
        Topic(
            'the plastic',
            'the plastic cracked',
            ('The plastic cracked after a month.',
             'One fall and the plastic cracked.'),
            ('Even the plastic feels like a gem.',
             'Nothing rattles, and the plastic is thick.'),
        ),
        Topic(
            'grip',
            'the grip is slippery',
            ('The grip gets slippery in warm hands.',
             'With such a slippery grip I keep dropping it.'),
            ('The grip is just right.', 'A firm grip, even after hours.'),
        ),
    ),
    'Home & Kitchen': (
        Topic(
            'wobbl',
            'it wobbles',
            ('It wobbles on an even floor.', 'Mine wobbled from day one.'),
            ('It stands firm and never wobbles.',
             'Not the slightest wobbling.'),
        ),
        Topic(
            'screws',
            'screws were missing',
            ('Two screws were missing.', 'There were no screws in my box.'),
            ('All screws were there, with some to spare.',
             'The screws are marked well, so it took minutes.'),
        ),
    ),
    'Grocery & Gourmet Food': (
        Topic(
            'sweet',
            'it is too sweet',
            ('It is much too sweet for me.', 'So sweet that I gave it away.'),
            ('Just sweet enough.', 'Pleasantly sweet, never too much.'),
        ),
        Topic(
            'stale',
            'it was stale',
            ('Mine was stale when it came.', 'Half of it tasted stale.'),
            ('Fresh, and not stale even after weeks.',
             'It does not go stale once opened.'),
        ),
    ),
    'Sports & Outdoors': (
        Topic(
            'the finish',
            'the finish flaked off',
            ('The finish flaked off within days.',
             'On mine the finish has flaked in three places.'),
            ('After a year the finish still looks new.',
             'The finish is smooth all over.'),
        ),
        Topic(
            'heavy',
            'it is too heavy to carry',
            ('Too heavy to carry up my stairs.',
             'It is so heavy that I left it at home.'),
            ('Not as heavy as I had thought.',
             'It is heavy where it has to be.'),
        ),
    ),
    'Office Products': (
        Topic(
            'corners',
            'the corners were dented',
            ('All corners were dented.',
             'Two dented corners, so it goes back.'),
            ('The corners are cleanly cut.',
             'Nicely rounded corners, as drawn.'),
        ),
        Topic(
            'scratch',
            'it was scratched',
            ('There was a deep scratch across the front.',
             'Mine came scratched.'),
            ('Not a scratch after half a year.',
             'The surface does not scratch.'),
        ),
    ),
}  # fmt: skip
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
_OPENERS = [
    'I bought this for my sister.', 'We have had it for three months now.',
    'My second one of this brand.', 'It was a present to myself.',
    'I compared five others first.', 'I use it nearly every day.',
    'A friend had told me about it.', 'I ordered it in the spring.',
    'My old one had given up.', 'I needed one in a hurry.',
]  # fmt: skip
_CLOSERS: Mapping[int, Sequence[str]] = {
    5: ('I can only recommend it.', 'My whole family agrees.'),
    4: ('All in all a good buy.', 'One star off for the price.'),
    3: ('There may be better ones.', 'It will do for now.'),
    2: ('I would not choose it again.', 'At half the price I would keep it.'),
    1: ('I want my money back.', 'Stay away from it.'),
}
# Stars that buyers of a liked, a middling and a poor product give.
MOODS = (
    [5, 5, 5, 5, 5, 4, 4, 4, 3, 2],
    [5, 5, 4, 4, 4, 3, 3, 3, 2, 1],
    [5, 4, 3, 3, 2, 2, 2, 1, 1, 1],
)
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
    sentences.insert(0, chance.choice(_OPENERS))
  if chance.random() < 0.6:
    sentences.append(chance.choice(list(_CLOSERS[stars])))
  return title, ' '.join(sentences)
