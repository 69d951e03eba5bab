"""The parts that a view is made of: plain JSON, which pages draw.

Pages set every string as text, so a view need not escape anything.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agentrl.types import ACT, Message, Turn

Block = dict[str, Any]

# Of an item: it is new at this moment, it is done, it is what the last action
# was about.
NEW, DONE, NOW = 'new', 'done', 'now'
_MOST_CHARS = 20_000  # of a text block
_MOST_ITEMS = 200


@dataclasses.dataclass(frozen=True)
class Moment:
  """An episode between two turns.

  Attributes:
    prompt: messages before the first completion.
    turns: all of the episode.
    done: how many of them have been played; 0: the reset.
    picture: whether there is a picture of this moment.
    box: left, top, width and height of the element that the last action named,
      in pixels of the picture before it; None: not known.
    probed: the answer to an action that changes nothing (`EnvSpec.probe`), where the
      episode was played again; '' where it was not.
    task: the id of the task.
  """

  prompt: Sequence[Message]
  turns: Sequence[Turn]
  done: int
  picture: bool = False
  box: tuple[float, float, float, float] | None = None
  probed: str = ''
  task: int = 0

  @property
  def opening(self) -> str:
    """The first observation, perhaps behind instructions."""
    return self.prompt[-1].content if self.prompt else ''

  @property
  def past(self) -> Sequence[Turn]:
    """The turns so far that were for the environment."""
    return [turn for turn in self.turns[: self.done] if turn.kind == ACT]

  @property
  def observation(self) -> str:
    """The last observation."""
    return self.observations[-1]

  @property
  def observations(self) -> list[str]:
    """All observations up to here, the first one at the reset."""
    return [self.opening, *(turn.observation for turn in self.past)]

  @property
  def action(self) -> str:
    """The last action; '' at the reset, and where none was understood."""
    past = self.past
    return (
        '' if not past or past[-1].parse_error is not None else past[-1].action
    )


View = Callable[[Moment], list[Block]]


def facts(title: str, **items: Any) -> Block:
  """Names and values; what is None or '' is left out."""
  kept = [
      [name.replace('_', ' '), str(value)]
      for name, value in items.items()
      if value not in (None, '')
  ]
  return {'kind': 'facts', 'title': title, 'items': kept}


def item(text: str, mark: str | None = None, note: str = '') -> Block:
  """An entry of a list or a node of a tree without children."""
  return {'text': text, 'mark': mark, 'note': note}


def items(title: str, entries: Iterable[Block], empty: str = 'none') -> Block:
  """A list of `item`s; `empty` is said where there is none."""
  entries = list(entries)
  return {
      'kind': 'items',
      'title': title,
      'items': entries[:_MOST_ITEMS],
      'more': max(len(entries) - _MOST_ITEMS, 0),
      'empty': empty,
  }


def tree(title: str, root: Block) -> Block:
  """A tree of `item`s that may have `children`."""
  return {'kind': 'tree', 'title': title, 'root': root}


def bar(title: str, share: float, words: str) -> Block:
  """A share within [0, 1], and how it is said."""
  return {
      'kind': 'bar',
      'title': title,
      'share': min(max(share, 0.0), 1.0),
      'words': words,
  }


def passages(title: str, query: str, results: Iterable[Block]) -> Block:
  """Results of a search, each from `passage`."""
  return {
      'kind': 'passages',
      'title': title,
      'query': query,
      'items': [*results],
  }


def passage(title: str, text: str, hits: Iterable[tuple[int, int]]) -> Block:
  """A text and the parts of it that are marked, as `(start, stop)`."""
  return {'title': title, 'text': text, 'hits': [list(hit) for hit in hits]}


def picture(moment: Moment, caption: str = '') -> Block:
  """The environment's picture at a moment."""
  return {
      'kind': 'picture',
      'done': moment.done,
      'box': None,
      'caption': caption,
  }


def picture_of_action(moment: Moment, caption: str) -> Block:
  """The picture before the last action, its element outlined."""
  return {
      'kind': 'picture',
      'done': moment.done - 1,
      'box': list(moment.box) if moment.box else None,
      'caption': caption,
  }


def text(title: str, content: str) -> Block:
  """A preformatted text, cut where it is very long."""
  return {
      'kind': 'text',
      'title': title,
      'text': content[:_MOST_CHARS],
      'chars': len(content),
  }
