"""Files of what an episode's browser asked for, in the HTTP Archive format."""

import pathlib
import tempfile
from typing import Any


def folder(path: str | None) -> pathlib.Path | None:
  """A folder for them, made if need be; None: none are kept."""
  if not path:
    return None
  directory = pathlib.Path(path)
  directory.mkdir(parents=True, exist_ok=True)
  return directory


def path(folder: pathlib.Path | None, task_id: int) -> pathlib.Path:
  """A new file for an episode; servers may share the folder.

  Args:
    folder: where; None: the system's for what will not be kept.
    task_id: its name begins with it.
  """
  with tempfile.NamedTemporaryFile(
      prefix=f'{task_id:03d}-', suffix='.har', dir=folder, delete=False
  ) as file:
    return pathlib.Path(file.name)


def recording(path: pathlib.Path, *, bodies: bool = False) -> dict[str, Any]:
  """Arguments of Playwright's `new_context` that record into a file.

  It is written when the context is closed.

  Args:
    path: of the file.
    bodies: whether it has what was posted and answered, which may be much.
  """
  content = 'embed' if bodies else 'omit'
  return {'record_har_path': path, 'record_har_content': content}
