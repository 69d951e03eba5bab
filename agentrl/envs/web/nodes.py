"""A page as numbered nodes, from what Chromium says of it.

Numbers are ours, in the order of the page: Chromium's own ids differ between
equal pages. Pure functions of the replies of the DevTools protocol.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

# Boxes without a meaning of their own; their content is shown.
_PLAIN = frozenset({
    'generic', 'none', 'presentation', 'paragraph', 'InlineTextBox',
    'LineBreak', 'LabelText', 'Section', 'div', 'Iframe', 'ListMarker',
})  # fmt: skip
# Structure that says nothing where it has no name.
_NAMELESS = frozenset({
    'list', 'listitem', 'img', 'image', 'strong', 'emphasis', 'banner',
    'navigation', 'Legend', 'group', 'region', 'main', 'form', 'contentinfo',
    'complementary', 'article', 'rowgroup', 'row', 'figure', 'Canvas', 'mark',
    'superscript', 'subscript', 'code', 'term', 'definition', 'separator',
    'DescriptionList', 'SvgRoot', 'graphics-document',
})  # fmt: skip
# Roles that ARIA names by their content: a text in them says nothing new.
_NAMED_BY_CONTENT = frozenset({
    'button', 'link', 'heading', 'tab', 'menuitem', 'menuitemcheckbox',
    'menuitemradio', 'option', 'checkbox', 'radio', 'switch', 'treeitem',
    'row', 'cell', 'gridcell', 'rowheader', 'columnheader', 'tooltip',
    'DisclosureTriangle',
})  # fmt: skip
_FLAGS = (
    'focused', 'disabled', 'required', 'selected', 'multiselectable',
    'multiline',
)  # fmt: skip
_STATES = ('checked', 'pressed', 'expanded')
# Parts of a page: within the main one, a menu is its own, such as its pages'.
_PARTS = frozenset({'main', 'banner', 'navigation', 'contentinfo'})
# What is read and not acted on, unless it takes the focus or listens to clicks.
_TEXT = frozenset({
    'RootWebArea', 'StaticText', 'heading', 'list', 'listitem', 'table',
    'rowgroup', 'row', 'cell', 'gridcell', 'rowheader', 'columnheader', 'img',
    'image', 'status', 'alert', 'group', 'form', 'search', 'region', 'main',
    'article', 'figure', 'caption', 'Figcaption', 'term', 'definition', 'time',
    'strong', 'emphasis', 'blockquote', 'code', 'banner', 'navigation',
    'contentinfo', 'complementary', 'dialog', 'separator', 'tooltip', 'menu',
    'menubar', 'tablist', 'tabpanel', 'tree', 'radiogroup', 'toolbar',
    'SvgRoot', 'graphics-document', 'mark', 'Legend', 'DescriptionList',
    'superscript', 'subscript', 'deletion', 'insertion', 'MenuListPopup',
})  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Node:
  """One element or text of a page.

  Attributes:
    number: by which commands name it, from 1 in the page's order.
    backend: Chromium's id of it.
    depth: number of shown nodes that hold it.
    role: of the accessibility tree; the tag's name in HTML.
    name: its accessible name; in HTML, its text.
    value: content of a field, or of a slider.
    states: such as ('checked', 'true'), in a fixed order; attributes in HTML.
    control: whether it can be acted on; in HTML, True.
    navigation: whether it is part of what all pages of a site share: a banner,
      a footer, a menu outside of the main part; in HTML, False.
  """

  number: int
  backend: int
  depth: int
  role: str
  name: str = ''
  value: str = ''
  states: tuple[tuple[str, str], ...] = ()
  control: bool = True
  navigation: bool = False

  def state(self, name: str) -> str | None:
    """The value of a state, or None."""
    return dict(self.states).get(name)


_NO_FRAMES = {'index': (), 'value': ()}
Visible = Callable[[int], bool]  # of Chromium's id of a node


def from_tree(
    trees: Sequence[Sequence[Mapping[str, Any]]],
    labels: Mapping[int, str] | None = None,
    visible: Visible | None = None,
) -> tuple[Node, ...]:
  """The nodes of accessibility trees.

  Args:
    trees: `nodes` of Accessibility.getFullAXTree, of a page and then of each of
      its frames.
    labels: see `clickables`; these are shown though they have neither role nor
      name, unless something inside them is shown.
    visible: whether a node is in view; None: all are.
  """
  labels = labels or {}
  nodes: list[Node] = []
  for tree in trees:
    by_id = {node['nodeId']: node for node in tree}
    if not tree:
      continue
    for raw, depth, listens, shared in _shown(tree[0], by_id, labels):
      backend = raw.get('backendDOMNodeId')
      if backend is None or (visible is not None and not visible(backend)):
        continue
      node = _node(raw, len(nodes) + 1, depth, labels.get(backend, ''))
      control = node.control or listens
      nodes.append(
          dataclasses.replace(node, control=control, navigation=shared)
      )
  return tuple(nodes)


def clickables(snapshot: Mapping[str, Any]) -> dict[int, str]:
  """Elements that listen to clicks, with a label: their title, id or classes.

  Pages draw icons as empty elements, which the accessibility tree has not.

  Args:
    snapshot: reply of DOMSnapshot.captureSnapshot.
  """
  strings = snapshot['strings']
  labels = {}
  for document in snapshot['documents']:
    nodes, layout = document['nodes'], document['layout']
    seen = {
        index
        for index, (_, _, w, h) in zip(
            layout['nodeIndex'], layout['bounds'], strict=True
        )
        if w > 0 and h > 0
    }
    for index in nodes['isClickable']['index']:
      tag = strings[nodes['nodeName'][index]].lower()
      if index not in seen or tag in ('html', 'body', '#document'):
        continue
      texts = [strings[x] for x in nodes['attributes'][index]]
      attributes = dict(zip(texts[::2], texts[1::2], strict=True))
      label = next(
          (
              attributes[x]
              for x in ('title', 'id', 'class')
              if attributes.get(x)
          ),
          tag,
      )
      labels[nodes['backendNodeId'][index]] = label[:80]
  return labels


def boxes(
    snapshot: Mapping[str, Any], nodes: Sequence[Node]
) -> dict[int, list[float]]:
  """Left, top, width and height of nodes in the viewport, by number, in pixels.

  Nodes that take no room, or are in a frame, have none.

  Args:
    snapshot: reply of DOMSnapshot.captureSnapshot.
    nodes: of the page that it shows.
  """
  document = snapshot['documents'][0]
  layout = document['layout']
  left, top = document.get('scrollOffsetX', 0), document.get('scrollOffsetY', 0)
  backends = document['nodes']['backendNodeId']
  places = {
      backends[index]: [x - left, y - top, width, height]
      for index, (x, y, width, height) in zip(
          layout['nodeIndex'], layout['bounds'], strict=True
      )
      if width > 0 and height > 0
  }
  return {
      node.number: places[node.backend]
      for node in nodes
      if node.backend in places
  }


def from_snapshot(snapshot: Mapping[str, Any]) -> tuple[Node, ...]:
  """The elements that can be seen, from DOMSnapshot.captureSnapshot.

  Args:
    snapshot: the reply, with `visibility` as the only computed style.
  """
  strings = snapshot['strings']
  text_of = lambda index: strings[index] if index >= 0 else ''
  elements: list[Node] = []
  for document in snapshot['documents']:
    nodes = document['nodes']
    layout = document['layout']
    seen = {
        index
        for index, styles in zip(
            layout['nodeIndex'], layout['styles'], strict=True
        )
        if not styles or text_of(styles[0]) == 'visible'
    }
    values = _sparse(nodes['inputValue'], text_of)
    values |= _sparse(nodes['textValue'], text_of)
    checked = set(nodes['inputChecked']['index'])
    selected = set(nodes['optionSelected']['index'])
    depth: dict[int, int] = {}  # of shown elements
    at: dict[int, int] = {}  # their places in `elements`
    for index, parent in enumerate(nodes['parentIndex']):
      tag = text_of(nodes['nodeName'][index]).lower()
      kind = nodes['nodeType'][index]
      holder = parent
      while holder >= 0 and holder not in depth:
        holder = nodes['parentIndex'][holder]
      if kind == 3 and index in seen and holder >= 0:
        text = ' '.join(text_of(nodes['nodeValue'][index]).split())
        old = elements[at[holder]]
        name = f'{old.name} {text}'.strip()
        elements[at[holder]] = dataclasses.replace(old, name=name)
      if (
          kind != 1
          or tag in ('html', 'head', 'body', 'script', 'style')
          or tag.startswith('::')  # drawn by a style
          or (index not in seen and tag != 'option')
      ):
        continue
      states = _attributes(text_of(x) for x in nodes['attributes'][index])
      states += [('checked', 'true')] * (index in checked)
      states += [('selected', 'true')] * (index in selected)
      depth[index] = depth[holder] + 1 if holder >= 0 else 0
      at[index] = len(elements)
      elements.append(
          Node(
              number=len(elements) + 1,
              backend=nodes['backendNodeId'][index],
              depth=depth[index],
              role=tag,
              value=values.get(index, ''),
              states=tuple(states),
          )
      )
  return tuple(elements)


def _attributes(words: Iterable[str]) -> list[tuple[str, str]]:
  """Names and values of an element's attributes, from both in turn."""
  words = list(words)
  return [
      (name, value[:80])
      for name, value in zip(words[::2], words[1::2], strict=True)
      if not name.startswith('on') and name not in ('value', 'checked')
  ]


def in_view(snapshot: Mapping[str, Any], width: int, height: int) -> Visible:
  """A test for nodes in the viewport, from DOMSnapshot.captureSnapshot."""
  seen: set[int] = set()
  documents = snapshot['documents']
  # With the rectangle that each has of the viewport, and where its own begins.
  pending = [(0, (0, 0, width, height), (0, 0))] if documents else []
  while pending:
    place, (left, top, right, bottom), (x0, y0) = pending.pop()
    document = documents[place]
    x0 -= document.get('scrollOffsetX', 0)
    y0 -= document.get('scrollOffsetY', 0)
    backends, layout = document['nodes']['backendNodeId'], document['layout']
    frames = document['nodes'].get('contentDocumentIndex', _NO_FRAMES)
    inner = dict(zip(frames['index'], frames['value'], strict=True))
    for index, (x, y, w, h) in zip(
        layout['nodeIndex'], layout['bounds'], strict=True
    ):
      x, y = x + x0, y + y0
      if x < right and y < bottom and x + w > left and y + h > top:
        seen.add(backends[index])
        if index in inner:
          rectangle = (
              max(x, left),
              max(y, top),
              min(x + w, right),
              min(y + h, bottom),
          )
          pending.append((inner.pop(index), rectangle, (x, y)))
  return seen.__contains__


def _sparse(
    rare: Mapping[str, Sequence[int]], text_of: Callable[[int], str]
) -> dict[int, str]:
  return {
      index: text_of(value)
      for index, value in zip(rare['index'], rare['value'], strict=True)
  }


def _shown(
    root: Mapping[str, Any],
    by_id: Mapping[str, Mapping[str, Any]],
    labels: Mapping[int, str],
) -> Iterator[tuple[Mapping[str, Any], int, bool, bool]]:
  """Nodes worth a line, in the order of the page.

  Each with its depth, whether it or a box around it listens to clicks, and
  whether it is in a part that pages share.
  """
  filled = _with_content(by_id, labels)
  # Pages may be nested deeper than Python's stack.
  pending = [(root, 0, '', False, '')]
  while pending:
    raw, depth, above, listens, part = pending.pop()
    role, name = _value(raw, 'role'), _value(raw, 'name').strip()
    shown = not raw.get('ignored') and role not in _PLAIN
    if shown and role == 'StaticText':
      shown = bool(name) and name not in above
    elif shown and not name and role in _NAMELESS:
      shown = False
    if not shown and raw.get('backendDOMNodeId') in labels:
      shown = raw['nodeId'] not in filled
    if not part and role in _PARTS:
      part = role
    listens = listens or raw.get('backendDOMNodeId') in labels
    if shown:
      yield raw, depth, listens, part not in ('', 'main')
      depth, listens = depth + 1, False
      if role in _NAMED_BY_CONTENT:
        above = name
    pending += [
        (by_id[child], depth, above, listens, part)
        for child in reversed(raw.get('childIds', ()))
        if child in by_id
    ]


def _with_content(
    by_id: Mapping[str, Mapping[str, Any]], labels: Mapping[int, str]
) -> set[str]:
  """Nodes that hold something to be shown: a text, a role, a label."""
  filled: set[str] = set()
  for raw in by_id.values():
    role = _value(raw, 'role')
    plain = raw.get('ignored') or role in _PLAIN
    nameless = role in (*_NAMELESS, 'StaticText')
    if raw.get('backendDOMNodeId') not in labels and (
        plain or (nameless and not _value(raw, 'name').strip())
    ):
      continue
    parent = raw.get('parentId')
    while parent is not None and parent in by_id and parent not in filled:
      filled.add(parent)
      parent = by_id[parent].get('parentId')
  return filled


def _node(raw: Mapping[str, Any], number: int, depth: int, label: str) -> Node:
  properties = {
      x['name']: str(x['value'].get('value', '')).lower()
      for x in raw.get('properties', ())
  }
  states = [(name, 'true') for name in _FLAGS if properties.get(name) == 'true']
  states += [(name, properties[name]) for name in _STATES if name in properties]
  role, name = _value(raw, 'role'), ' '.join(_value(raw, 'name').split())
  value = _value(raw, 'value')
  if value == name:
    value = ''
  if label and not name:
    name = label
    # A field or a checkbox without a name stays one.
    if raw.get('ignored') or role in _PLAIN | _NAMELESS:
      role = 'clickable'
  return Node(
      number=number,
      backend=raw['backendDOMNodeId'],
      depth=depth,
      role=role,
      name=name,
      value=value,
      states=tuple(states),
      control=role not in _TEXT
      or (properties.get('focusable') == 'true' and role != 'RootWebArea'),
  )


def _value(raw: Mapping[str, Any], key: str) -> str:
  return str(raw.get(key, {}).get('value', ''))
