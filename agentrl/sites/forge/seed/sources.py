"""The files that a project of the forge begins with."""

import random
from collections.abc import Mapping

from agentrl.sites import seed_data
from agentrl.sites.forge.seed import words
from agentrl.sites.forge.seed.topics import Topic

_DATA = seed_data.read(__file__)
_INSTALL = _DATA['install']
_MARKS = {'python': '"""{}"""', 'html': '<!-- {} -->', 'css': '/* {} */'}


def title_of(path: str) -> str:
  """A project's name, of its path."""
  return path.replace('-', ' ').capitalize()


def page(title: str, description: str) -> str:
  """The start page of a project that is a web site."""
  return (
      f'<!doctype html>\n<title>{title}</title>\n<h1>{title}</h1>\n'
      f'<p>{description}.</p>'
  )


def files(topic: Topic, chance: random.Random) -> Mapping[str, str]:
  """Path -> content."""
  name = topic.path.replace('-', '_')
  version = (
      f'{chance.randrange(4)}.{chance.randrange(12)}.{chance.randrange(9)}'
  )
  license_name = chance.choice(list(words.LICENSES))
  steps = '\n'.join(f'- {part}' for part in topic.parts)
  contents = {
      'README.md': (
          f'# {title_of(topic.path)}\n\n{topic.description}.\n\n## Install\n\n'
          f'{_INSTALL[topic.language]}\n\n## Parts\n\n{steps}\n\n## License\n\n'
          'See LICENSE.'
      ),
      'LICENSE': words.license_text(license_name),
      'CHANGELOG.md': (
          f'# Changelog\n\n## {version}\n\n-'
          f' {words.commit(chance, topic.parts)}\n-'
          f' {words.commit(chance, topic.parts)}'
      ),
      '.gitlab-ci.yml': (
          f'test:\n  script: make test\n  timeout: {chance.randrange(4, 60)} '
          f'minutes\n  retry: {chance.randrange(1, 3)}'
      ),
      'config/defaults.toml': (
          f'version = "{version}"\nport = {chance.randrange(3000, 9999)}\n'
          f'timeout_seconds = {chance.randrange(11, 99)}\n'
          f'max_items = {chance.randrange(120, 990)}\n'
          f'workers = {chance.randrange(6, 40)}'
      ),
      'docs/contributing.md': (
          '# Contributing\n\nOpen an issue first. Merge requests need'
          f' one approval and an answer within {chance.randrange(4, 30)} days.'
      ),
  }
  if topic.language == 'html':
    contents['index.html'] = page(title_of(topic.path), topic.description)
  first, other, begins = _DATA['sources'][topic.language]
  mark = _MARKS.get(topic.language, '# {}')
  contents[first] = f'{mark.format(topic.description)}\n'
  for part in topic.parts[:3]:
    path = other.format(name=name, part=part.replace(' ', '_'))
    contents[path] = f'{mark.format(f"The {part}.")}\n{begins}'
  return contents
