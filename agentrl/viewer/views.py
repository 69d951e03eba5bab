"""Views of environments: the viewer's blocks at a moment of an episode."""

from agentrl import envs
from agentrl.envs import blocks
from agentrl.envs.blocks import Block, Moment, View


def of(env: str) -> View | None:
  """The view of an environment that comes along; None: it has none."""
  return envs.get(env).view if env in envs.ENVS else None


def at(moment: Moment, view: View | None) -> list[Block]:
  """The blocks that a view shows, or the text where there is none.

  Args:
    moment: the episode, and how far it is.
    view: of the environment.
  """
  view_blocks = view(moment) if view else []
  if moment.picture and not any(b['kind'] == 'picture' for b in view_blocks):
    view_blocks = [blocks.picture(moment), *view_blocks]
  return view_blocks or [blocks.text('Observation', moment.observation)]
