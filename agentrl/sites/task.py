"""Tasks, their templates, and the steps that reach their goals."""

import dataclasses
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence

from agentrl.sites.answers import Answer
from agentrl.sites.goals import Goal, Row
from agentrl.sites.picking import Db

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


def link(name: str, *, after: str = '', nth: int = 1) -> Step:
  """A click on a link."""
  return click_on('link', name, after=after, nth=nth)


def button(name: str, *, after: str = '', nth: int = 1) -> Step:
  """A click on a button."""
  return click_on('button', name, after=after, nth=nth)


def fill(
    name: str,
    text: str,
    *,
    role: str = 'textbox',
    enter: bool = False,
    after: str = '',
    nth: int = 1
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
class Maker:
  """Makes the tasks of a site: `stop` ends their steps.

  Addresses are relative to its home, as those of links are: '' is the home.

  Attributes:
    home: address, such as 'http://shop/'.
  """

  home: str

  def seek(
      self,
      intent: str,
      answer: Answer,
      *steps: Step,
      start: str = '',
      at: str | None = None
  ) -> Task:
    """A task whose goal is an answer, maybe given on a certain page."""
    goal = Goal(answer, url=self._url(at))
    return self._task(intent, goal, steps, start, answer.example())

  def change(
      self,
      intent: str,
      rows: Row | Iterable[Row],
      *steps: Step,
      start: str | Sequence[str] = '',
      at: str | None = None
  ) -> Task:
    """A task whose goal is a row or several, maybe seen on a certain page."""
    rows = (rows,) if isinstance(rows, Row) else tuple(rows)
    goal = Goal(rows=rows, url=self._url(at))
    return self._task(intent, goal, steps, start)

  def go(self, intent: str, at: str, *steps: Step, start: str = '') -> Task:
    """A task whose goal is a page."""
    return self._task(intent, Goal(url=self._url(at)), steps, start)

  def _url(self, path: str | None) -> str | None:
    return None if path is None else urllib.parse.urljoin(self.home, path)

  def _task(
      self,
      intent: str,
      goal: Goal,
      steps: Sequence[Step],
      start: str | Sequence[str],
      answer: str = '',
  ) -> Task:
    tabs = (start,) if isinstance(start, str) else start
    return Task(
        intent=intent,
        goal=goal,
        steps=(*steps, stop(answer)),
        start=tuple(urllib.parse.urljoin(self.home, tab) for tab in tabs),
    )


@dataclasses.dataclass(frozen=True)
class Template:
  """Tasks that differ in their values alone.

  Attributes:
    name: with its site, such as 'shop/cheapest'.
    kind: SEEK for an answer, CHANGE of records, or GO to a page.
    maker: makes a task from the site's records and its number.
    count: number of tasks.
    public: ids of the intent templates of the public set that it stands for.
  """

  name: str
  kind: str
  maker: Callable[[Db, int], Task]
  count: int = 3
  public: Sequence[int] = ()

  def make(self, stores: Stores, k: int) -> Task:
    """The task with number k, from 0 to `count` - 1."""
    site = self.name.partition('/')[0]
    # The administration works on the shop's records.
    return self.maker(Db(stores['shop' if site == 'admin' else site]), k)
