"""Experts of the pages with posts."""

from agentrl.envs.web.nodes import Node
from agentrl.envs.web.situation import Situation, click, hover

_ICONS = ('reply', 'retweet', 'like')


def _post(at: Situation) -> str:
  user, action = at.find('user (.*), click on the "(.*)" button')
  if action.lower() in _ICONS:
    return _loaded(at, _icons(at, user, action.lower())[0])
  for node in at.nodes:
    if node.name in (action, f'{action} {user}'):  # of an open menu
      return click(node)
  return _loaded(at, _icons(at, user, 'more')[0])


def _all(at: Situation) -> str:
  action, user = at.find('the "(.*)" button on all posts by (.*) and then')
  return _each(at, _icons(at, user, action.lower()))


def _some(at: Situation) -> str:
  action, number, user = at.find('the "(.*)" button on (.*) posts? by (.*) and')
  return _each(at, _icons(at, user, action.lower())[: int(number)])


def _icons(at: Situation, user: str, action: str) -> list[Node]:
  """The icons of an action below each post of a user."""
  icons = [x for x in at.all('clickable') if x.name.split()[0] == action]
  return [
      next(icon for icon in icons if icon.number > post.number)
      for post in at.all('StaticText', user)
  ]


def _loaded(at: Situation, icon: Node) -> str:
  """Clicks an icon once its other picture is there.

  The icon changes below the mouse, and is nowhere until the picture is loaded.
  """
  return click(icon) if hover(icon) in at.past else hover(icon)


def _each(at: Situation, icons: list[Node]) -> str:
  """Clicks on icons one by one, then on the button."""
  for icon in icons:
    if not icon.name.endswith(' active'):
      return click(icon)
  return click(at.one('button', 'Submit'))


EXPERTS = {
    'social-media': _post,
    'social-media-all': _all,
    'social-media-some': _some,
}
