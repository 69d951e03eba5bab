"""The point at which the mouse acts on an element."""

from collections.abc import Sequence
from typing import Any

from playwright.async_api import CDPSession, Error

from agentrl.envs.web.commands import Refused

# `this` is the element or text that a command names. An <option> is chosen
# here: its list is drawn by the system, outside of the page.
_PREPARE = """function(clicks) {
  const e = this.nodeType === 3 ? this.parentElement : this;
  if (!this.isConnected || !e) return 'gone';
  const field = e.closest('button,input,option,select,textarea');
  if (field && field.matches(':disabled')) return 'disabled';
  if (clicks && e.tagName === 'OPTION') {
    const s = e.closest('select');
    if (!s || s.matches(':disabled')) return 'disabled';
    s.focus();
    if (s.multiple) e.selected = !e.selected; else e.selected = true;
    s.dispatchEvent(new Event('input', {bubbles: true}));
    s.dispatchEvent(new Event('change', {bubbles: true}));
    return 'done';
  }
  if (clicks && e.tagName === 'SELECT') { e.focus(); return 'done'; }
  e.scrollIntoView({block: 'nearest', inline: 'nearest', behavior: 'instant'});
  return '';
}"""
# The first of the points where the mouse would hit `this`; else the first of all.
_AIM = """function(points) {
  if (window !== window.top) return 0;  // points are those of the whole page
  const e = this.nodeType === 3 ? this.parentElement : this;
  const found = points.findIndex(([x, y]) => {
    const hit = e.getRootNode().elementFromPoint(x, y);
    return hit && (e.contains(hit) || hit.contains(e));
  });
  return Math.max(found, 0);
}"""
# The nearest element of a text that takes room.
_HOLDER = """function() {
  if (this.nodeType !== 3) return null;
  let e = this.parentElement;
  while (e && !(e.offsetWidth && e.offsetHeight))
    e = e.parentElement;
  return e === this.ownerDocument.body ? null : e;
}"""
# Parts of a box's width and height, from its middle outwards.
_SPOTS = sorted(
    ((x / 10, y / 10) for x in range(1, 10, 2) for y in range(1, 10, 2)),
    key=lambda spot: (spot[0] - 0.5) ** 2 + (spot[1] - 0.5) ** 2,
)


async def point_of(
    session: CDPSession, backend: int, size: tuple[int, int], *, clicks: bool
) -> tuple[float, float] | None:
  """The point to put the mouse on, once the element is scrolled into view.

  Args:
    session: of its page.
    backend: Chromium's id of it.
    size: of the viewport, in pixels.
    clicks: whether it is to be clicked.

  Returns:
    A point that hits it; None: it was an option and has been chosen, or a
    list, which has the focus now.

  Raises:
    Refused: it is gone, disabled, or not to be seen.
  """
  try:
    reply = await session.send('DOM.resolveNode', {'backendNodeId': backend})
    node = reply['object']['objectId']
    prepared = await _call(session, node, _PREPARE, clicks)
    state, points = prepared.get('value', 'gone'), []
    if not state:
      points = await _points(session, node, size)
    if not state and not points:
      # A text that is drawn without a size: take the box that holds it.
      holder = await _call(session, node, _HOLDER, by_value=False)
      if 'objectId' in holder:
        points = await _points(session, holder['objectId'], size)
  except Error as error:
    if 'crash' in error.message or 'closed' in error.message:
      raise
    state, points = 'gone', []
  if state == 'gone':
    raise Refused('is gone from this page')
  if state == 'disabled':
    raise Refused('is disabled')
  if state == 'done':
    return None
  if not points:
    raise Refused('cannot be seen')
  return points[0]


async def _points(
    session: CDPSession, node: str, size: tuple[int, int]
) -> list[tuple[float, float]]:
  """Points of an object's boxes, first one where the mouse would hit it.

  Raises:
    Refused: the object lies beyond the edge of the page.
  """
  reply = await session.send('DOM.getContentQuads', {'objectId': node})
  quads = [quad for quad in reply['quads'] if _area(quad) > 0]
  points = [point for quad in quads for point in _inside(quad, size)]
  if quads and not points:
    raise Refused('is beyond the edge of the page')
  if points:
    aimed = await _call(session, node, _AIM, points)
    points = points[aimed.get('value', 0) :]  # no value: the page threw
  return points


def _inside(
    quad: Sequence[float], size: tuple[int, int]
) -> list[tuple[float, float]]:
  """Points of what is seen of a quadrilateral, from its middle outwards."""
  spans = []
  for places, most in zip((quad[::2], quad[1::2]), size, strict=True):
    low, high = max(0, min(places)), min(most, max(places))
    if low >= high:
      return []
    place = sum(places) / 4
    middle = place if low <= place < high else (low + high) / 2
    spans.append((low, high - low, middle))
  (left, width, x), (top, height, y) = spans
  return [(x, y), *((left + u * width, top + v * height) for u, v in _SPOTS)]


async def _call(
    session: CDPSession,
    node: str,
    function: str,
    *arguments: Any,
    by_value: bool = True,
) -> dict[str, Any]:
  """The value of a function that is called with an object as `this`."""
  reply = await session.send(
      'Runtime.callFunctionOn',
      {
          'functionDeclaration': function,
          'objectId': node,
          'arguments': [{'value': x} for x in arguments],
          'returnByValue': by_value,
      },
  )
  return reply['result']


def _area(quad: Sequence[float]) -> float:
  """The area of a quadrilateral x1, y1, ..., x4, y4."""
  xs, ys = quad[::2], quad[1::2]
  return (
      abs(
          sum(
              xs[i] * ys[(i + 1) % 4] - xs[(i + 1) % 4] * ys[i]
              for i in range(4)
          )
      )
      / 2
  )
