"""Files that a guide has its reader save."""

import pathlib
import re

_SAVED = re.compile(
    r'save\s+it\s+as\s+`(\w+\.py)`:\n\n```python\n(.*?)```', re.DOTALL
)


def write(page, folder):
  """Saves them as they stand in a page; returns the folder."""
  found = _SAVED.findall(page.read_text())
  assert found, f'{page} has no file to save'
  for name, code in found:
    (pathlib.Path(folder) / name).write_text(code)
  return folder
