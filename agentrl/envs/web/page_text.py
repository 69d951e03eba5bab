"""The nodes of a page as text for a policy."""

from collections.abc import Sequence

from agentrl.envs.web.nodes import Node


def tree(nodes: Sequence[Node]) -> str:
  """Nodes as WebArena writes them: `[4] button 'Submit' focused: true`."""
  return '\n'.join(
      '\t' * node.depth
      + f'[{node.number}] {node.role} {node.name!r}'
      + (f' value: {node.value!r}' if node.value else '')
      + ''.join(f' {name}: {value}' for name, value in node.states)
      for node in nodes
  )


def lean(nodes: Sequence[Node], *, texts: bool = True) -> str:
  """Nodes in few tokens: numbers on controls alone, a text as it is.

      Order 12
      [4] button Submit
      [5] textbox Name: Ann (required)

  Not shown are depths, states that are false, a box whose words the nodes
  inside it say, and the text inside a field.

  Args:
    nodes: of a page.
    texts: whether what is no control is shown, but for the title. Without it, a
      label is not either where its field has the same name.
  """
  lines = []
  field: Node | None = None  # the last one with a value
  for place, node in enumerate(nodes):
    if field is not None and node.depth <= field.depth:
      field = None
    if not node.control and (
        _is_said(nodes, place) or (field and node.name in field.value)
    ):
      continue
    if not texts and not _acts(nodes, place):
      continue
    field = node if node.value else field
    states = [
        name if value == 'true' else f'{name}={value}'
        for name, value in node.states
        if value != 'false'
    ]
    head = f'[{node.number}] {node.role} ' if node.control else ''
    # A line end would begin another line.
    value = node.value.replace('\n', '\\n')
    line = (head + node.name).strip() + f': {value}' * bool(value)
    if line and (node.control or node.role != 'RootWebArea'):
      line += f' ({", ".join(states)})' * bool(states)
    lines.append(line)
  return '\n'.join(filter(None, lines))


def _acts(nodes: Sequence[Node], place: int) -> bool:
  """True of the title, and of a control that is no label of the one behind it."""
  node, *rest = nodes[place : place + 2]
  if not node.control:
    return node.role == 'RootWebArea'
  is_label = node.role == 'StaticText' and rest and rest[0].control
  return not (is_label and rest[0].name == node.name)


def html(nodes: Sequence[Node]) -> str:
  """Elements as HTML: `[4] <button id="go">Submit</button>`."""
  return '\n'.join(
      '\t' * node.depth
      + f'[{node.number}] <{node.role}'
      + ''.join(
          f' {name}="{value}"' if value else f' {name}'
          for name, value in node.states
      )
      + (f' value="{node.value}"' if node.value else '')
      + (f'>{node.name}</{node.role}>' if node.name else '>')
      for node in nodes
  )


def _is_said(nodes: Sequence[Node], place: int) -> bool:
  """True if the nodes inside of one say all words of its name."""
  words = set(nodes[place].name.split())
  for inner in nodes[place + 1 :]:
    if not words or inner.depth <= nodes[place].depth:
      break
    words.difference_update(inner.name.split(), inner.value.split())
  return not words
