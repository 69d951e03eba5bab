"""Episodes as one HTML file that needs nothing else.

The viewer's own modules draw it. They are put one after the other into one
script, data stands as JSON beside it, and every text of an episode is set as text.
A policy in the file allows this script and this style, and nothing else.
"""

import base64
import hashlib
import html
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

_STATIC = pathlib.Path(__file__).with_name('static')
# Each after those that it imports.
_MODULES = (
    'lib/dom.js',
    'lib/turn.js',
    'lib/views.js',
    'lib/tokens.js',
    'lib/group.js',
    'lib/export.js',
)
_STYLES = (
    'style.css',
    'lib/turn.css',
    'lib/views.css',
    'lib/tokens.css',
    'lib/group.css',
    'lib/export.css',
)
_IMPORT = re.compile(r"^import \{([^}]*)\} from '([^']+)';\n", re.MULTILINE)
_EXPORT = re.compile(
    r'^export (?=(?:async )?(?:function|class|const) (\w+))', re.MULTILINE
)


def page(title: str, data: Any) -> str:
  """The file; to be written as UTF-8.

  Args:
    title: of the page.
    data: JSON that lib/export.js draws, see `export.collect`.
  """
  script, style = _script(), _style()
  readable = title.encode(errors='replace').decode()  # no half characters
  policy = '; '.join((
      "default-src 'none'",
      'img-src data:',
      f"script-src '{_digest(script)}'",
      f"style-src '{_digest(style)}'",
      "base-uri 'none'",
      "form-action 'none'",
  ))
  # The only way out of such an element is its end tag.
  content = json.dumps(data, separators=(',', ':')).replace('<', '\\u003c')
  return '\n'.join((
      '<!doctype html>',
      '<html lang="en">',
      '<head>',
      '<meta charset="utf-8">',
      f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
      '<meta name="viewport" content="width=device-width, initial-scale=1">',
      '<meta name="color-scheme" content="light dark">',
      f'<title>{html.escape(readable)}</title>',
      f'<style>{style}</style>',
      '</head>',
      '<body>',
      '<main id="main" class="page export"></main>',
      f'<script type="application/json" id="data">{content}</script>',
      f'<script type="module">{script}</script>',
      '</body>',
      '</html>',
      '',
  ))


def _digest(text: str) -> str:
  digest = hashlib.sha256(text.encode()).digest()
  return f'sha256-{base64.b64encode(digest).decode()}'


def _style() -> str:
  return '\n'.join((_STATIC / name).read_text('utf-8') for name in _STYLES)


def _script() -> str:
  return 'const modules = {};\n' + ''.join(map(_module, _MODULES))


def _module(name: str) -> str:
  """A module as a block that leaves its exports in `modules`."""
  source = (_STATIC / name).read_text('utf-8')
  exports: Sequence[str] = _EXPORT.findall(source)
  folder = pathlib.PurePosixPath(name).parent

  def imported(match: re.Match[str]) -> str:
    path = (folder / match[2]).as_posix()
    return f"const {{{match[1]}}} = modules['{path}'];\n"

  source = _EXPORT.sub('', _IMPORT.sub(imported, source))
  return f"{{\n{source}\nmodules['{name}'] = {{{', '.join(exports)}}};\n}}\n"
