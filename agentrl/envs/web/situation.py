"""The situation that an expert decides in, and the commands that it gives."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from agentrl.envs.web.nodes import Node


class Stuck(Exception):
  """The page does not show what the expert looks for."""


@dataclasses.dataclass(frozen=True)
class Situation:
  """An objective, the page that is shown, and the commands so far.

  Attributes:
    objective: of the page.
    nodes: of its accessibility tree, in order.
    past: commands that were done since the reset, in order.
  """

  objective: str
  nodes: Sequence[Node]
  past: tuple[str, ...] = ()

  def find(self, pattern: str) -> tuple[str, ...]:
    """The groups of a regular expression that the objective matches.

    Raises:
      Stuck: it does not match.
    """
    match = re.search(pattern, self.objective)
    if match is None:
      raise Stuck(f'the objective {self.objective!r} is not {pattern!r}.')
    return match.groups()

  def all(self, role: str, name: str | None = None) -> list[Node]:
    """The nodes of a role, in order; those of one name where it is given."""
    return [
        node
        for node in self.nodes
        if node.role == role and name in (None, node.name)
    ]

  def one(self, role: str, name: str | None = None) -> Node:
    """The first of `all`.

    Raises:
      Stuck: there is none.
    """
    for node in self.all(role, name):
      return node
    raise Stuck(f'there is no {role} {name or ""}.')

  def has(self, role: str, name: str | None = None) -> bool:
    """True if `all` finds a node."""
    return bool(self.all(role, name))

  def nth(self, role: str, place: int) -> Node:
    """The node of a role at a place, from 1; -1 is the last.

    Raises:
      Stuck: there are not so many.
    """
    nodes = self.all(role)
    if not 1 <= abs(place) <= len(nodes):
      raise Stuck(f'there is no {role} number {place}.')
    return nodes[place - 1 if place > 0 else place]

  def text(self, name: str, after: Node | None = None) -> Node:
    """The first node of this name, of whatever role.

    Args:
      name: exactly.
      after: the node after which it is looked for.

    Raises:
      Stuck: there is none.
    """
    for node in self.nodes if after is None else self.after(after):
      if node.name == name:
        return node
    raise Stuck(f'there is no {name!r}.')

  def after(self, node: Node) -> Iterator[Node]:
    """The nodes that follow one, in order."""
    return iter(self.nodes[node.number :])

  def following(self, node: Node, role: str) -> Node:
    """The first node of a role that follows one.

    Raises:
      Stuck: there is none.
    """
    for each in self.after(node):
      if each.role == role:
        return each
    raise Stuck(f'no {role} follows {node.name!r}.')

  def since(self, command: str) -> tuple[str, ...] | None:
    """The commands after the last that was this one; None: none was."""
    for place in reversed(range(len(self.past))):
      if self.past[place] == command:
        return self.past[place + 1 :]
    return None


def click(node: Node) -> str:
  """The command that clicks on a node."""
  return f'click [{node.number}]'


def hover(node: Node) -> str:
  """The command that moves the mouse over a node."""
  return f'hover [{node.number}]'


def type_into(node: Node, text: str, *, enter: bool = False) -> str:
  """The command that types a text in place of what a field holds."""
  return f'type [{node.number}] [{text}] [{int(enter)}]'


def press(keys: str) -> str:
  """The command that presses keys, such as `ctrl+a`."""
  return f'press [{keys}]'


def fill(texts: Iterable[tuple[Node, str]], then: Node) -> str:
  """The command that types the first missing text, else a click.

  Args:
    texts: pairs of a field and what it is to hold.
    then: what to click on when all fields are filled.
  """
  for field, text in texts:
    # A password shows as bullets.
    if field.value not in (text, '•' * len(text)):
      return type_into(field, text)
  return click(then)
