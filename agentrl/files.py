"""Files that are written whole, or not at all."""

import contextlib
import pathlib


def write_whole(path: pathlib.Path, data: str | bytes, own: str = '') -> None:
  """Writes a file; who reads it meanwhile sees the old one or the new one.

  A writer that is killed leaves at most `NAME.part`, which the next one replaces.

  Args:
    path: the file; an old one is replaced. Its folder exists.
    data: a text, written in UTF-8, or bytes.
    own: a word of the writer's own, where several write this file at a time.

  Raises:
    OSError: it cannot be written; what was there stays.
  """
  part = path.with_name(f'{path.name}{own and "."}{own}.part')
  try:
    part.write_bytes(data if isinstance(data, bytes) else data.encode())
    part.replace(path)
  except OSError:
    with contextlib.suppress(OSError):
      part.unlink(missing_ok=True)
    raise
