"""Tasks, their templates, and the steps that reach their goals."""

import dataclasses
import sqlite3
from collections.abc import Callable, Mapping, Sequence

from agentrl.sites.goals import Goal

SEEK, CHANGE, GO = 'seek', 'change', 'go'
MOST = 100  # tasks of a template

Stores = Mapping[str, sqlite3.Connection]


@dataclasses.dataclass(frozen=True)
class Step:
  """One command of an expert, before the page is known.

  Attributes:
    kind: 'click', 'type', 'press', 'goto', 'tab_focus', 'go_back' or 'stop'.
    role: of the element that it is about.
    name: of that element, exactly.
    text: typed text, keys, address, number of a tab from 0, or answer.
    enter: whether Enter follows the typed text.
    after: name of a node that comes before the element, such as that of its
      row; the first one with this name is meant.
    nth: which of those that fit, from 1.
  """

  kind: str
  role: str = ''
  name: str = ''
  text: str = ''
  enter: bool = False
  after: str = ''
  nth: int = 1


def click_on(role: str, name: str, *, after: str = '', nth: int = 1) -> Step:
  """A click on an element."""
  return Step('click', role, name, after=after, nth=nth)


def fill(
    name: str,
    text: str,
    *,
    role: str = 'textbox',
    enter: bool = False,
    after: str = '',
    nth: int = 1,
) -> Step:
  """A text typed into a field."""
  return Step('type', role, name, text, enter, after, nth)


def choose(field: str, option: str, *, nth: int = 1) -> Step:
  """A click on the option of a list that has this label."""
  return Step('click', 'option', option, after=field, nth=nth)


def goto(url: str) -> Step:
  """An address such as 'http://shop/cart'."""
  return Step('goto', text=url)


def tab(number: int) -> Step:
  """A change to another tab, by its place from 0."""
  return Step('tab_focus', text=str(number))


def stop(answer: str = '') -> Step:
  """The end."""
  return Step('stop', text=answer)


@dataclasses.dataclass(frozen=True)
class Task:
  """A task.

  Attributes:
    intent: its objective.
    goal: when it is done.
    steps: the expert's, the last of them `stop`.
    start: addresses of the tabs at the start, such as 'http://shop/'.
  """

  intent: str
  goal: Goal
  steps: Sequence[Step]
  start: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Template:
  """Tasks that differ in their values alone.

  Attributes:
    name: with its site, such as 'shop/cheapest'.
    kind: SEEK for an answer, CHANGE of records, or GO to a page.
    make: makes the task with number 0 to `count` - 1 from the stores' records.
    count: number of tasks.
    public: ids of the intent templates of the public set that it stands for.
  """

  name: str
  kind: str
  make: Callable[[Stores, int], Task]
  count: int = 3
  public: Sequence[int] = ()
