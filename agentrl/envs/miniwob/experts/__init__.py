"""Scripted experts: the next command, from what a policy sees and no more."""

from collections.abc import Callable

from agentrl.envs.miniwob.experts import (
    clicks,
    dates,
    flights,
    forms,
    mail,
    menus,
    social,
    texts,
)
from agentrl.envs.web.situation import Situation, Stuck
from agentrl.errors import EnvError

# Page -> its expert, a pure function.
EXPERTS: dict[str, Callable[[Situation], str]] = {
    **clicks.EXPERTS,
    **dates.EXPERTS,
    **flights.EXPERTS,
    **forms.EXPERTS,
    **mail.EXPERTS,
    **menus.EXPERTS,
    **social.EXPERTS,
    **texts.EXPERTS,
}

_AIM = 'it wants a point of a drawing, and commands name elements'
_DRAG = 'it wants a drag'
_DRAWN = 'what it asks about is only drawn'
# Page without an expert -> the reason.
NONE = {
    **dict.fromkeys(
        (
            'bisect-angle', 'circle-center', 'find-midpoint', 'hot-cold',
            'right-angle', 'use-colorwheel',
        ),
        _AIM,
    ),
    **dict.fromkeys(
        (
            'drag-box', 'drag-circle', 'drag-cube', 'drag-items',
            'drag-items-grid', 'drag-shapes', 'drag-shapes-2',
            'drag-single-shape', 'drag-sort-numbers', 'draw-circle',
            'draw-line', 'highlight-text', 'highlight-text-2',
            'resize-textarea',
        ),
        _DRAG,
    ),
    **dict.fromkeys(
        (
            'click-color', 'click-shades', 'click-shape', 'count-shape',
            'count-sides', 'identify-shape', 'simon-says', 'tic-tac-toe',
            'visual-addition',
        ),
        _DRAWN,
    ),
    'click-menu-2': 'half of its objectives leave out the icon that they mean',
    'click-pie-nodelay': 'one of its slices cannot be clicked in Chromium',
    'hover-shape': 'it never ends',
    'sign-agreement': 'it wants an element inside the page scrolled',
    'flight.AA': 'some of its answers are not the airports of its objective',
    'flight.Alaska': 'some of its answers are not the airports of its objective',
}  # fmt: skip


def action(page: str, at: Situation) -> str:
  """The expert's next command.

  Raises:
    EnvError: the page has no expert, or the expert no way on.
  """
  if page not in EXPERTS:
    raise EnvError(f'MiniWoB page {page} has no expert: {NONE[page]}.')
  try:
    return EXPERTS[page](at)
  except Stuck as error:
    raise EnvError(
        f'The expert of MiniWoB page {page} has no way on: {error}'
    ) from error
