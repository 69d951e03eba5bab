"""Environments' own views of an episode: a file each, see README.md here."""

from collections.abc import Mapping

from agentrl.viewer.views import (
    babyai,
    blocks,
    browser,
    sciworld,
    searchqa,
    textcraft,
)
from agentrl.viewer.views.blocks import Block, Moment, View

VIEWS: Mapping[str, View] = {
    'textcraft': textcraft.view,
    'babyai': babyai.view,
    'sciworld': sciworld.view,
    'searchqa': searchqa.view,
    'miniwob': browser.view,
    'webarena': browser.view,
}
# Actions that show something and change nothing: what they answer at each turn is
# found by playing an episode again. One that does change something is noticed.
PROBES: Mapping[str, str] = {'sciworld': 'look around'}


def at(env: str, moment: Moment, own: View | None = None) -> list[Block]:
  """The blocks that show an environment at a moment of an episode.

  Args:
    env: name of the environment.
    moment: the episode, and how far it is.
    own: the view of an environment of somebody's own.
  """
  view = own or VIEWS.get(env)
  found = view(moment) if view else []
  if moment.picture and not any(b['kind'] == 'picture' for b in found):
    found = [blocks.picture(moment), *found]
  return found or [blocks.text('Observation', moment.observation)]
