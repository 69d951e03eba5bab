"""The expert: steps of a task as commands on a page."""

from collections.abc import Sequence

from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import Stuck, click, press, type_into
from agentrl.sites.task import Step


def command(step: Step, nodes: Sequence[Node]) -> str:
  """A step as a command on a page.

  Raises:
    Stuck: the page does not have the element.
  """
  match step.kind:
    case 'goto':
      return f'goto [{step.text}]'
    case 'stop':
      return f'stop [{step.text}]'
    case 'tab_focus':
      return f'tab_focus [{step.text}]'
    case 'press':
      return press(step.text)
    case 'go_back':
      return 'go_back'
  places = list(nodes)
  if step.after:
    first = next((x for x in nodes if x.name == step.after), None)
    if first is None:
      raise Stuck(f'there is no {step.after!r}.')
    places = places[first.number :]
  fitting = [x for x in places if (x.role, x.name) == (step.role, step.name)]
  if len(fitting) < step.nth:
    behind = f' after {step.after!r}' if step.after else ''
    raise Stuck(f'there is no {step.role} {step.name!r}{behind}.')
  node = fitting[step.nth - 1]
  if step.kind == 'type':
    return type_into(node, step.text, enter=step.enter)
  return click(node)


def way_back(nodes: Sequence[Node]) -> str | None:
  """The command that leads on from an error page; None: this is none."""
  for role, name in (('link', 'Try again'), ('button', 'Sign in again')):
    for node in nodes:
      if (node.role, node.name) == (role, name):
        return click(node)
  return None
