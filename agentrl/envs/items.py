"""Item files: AgentGym's lists of tasks."""

import pathlib
import re
from typing import Any

from agentrl import json_files
from agentrl.errors import DataError


def read(path: str | pathlib.Path, env_name: str) -> tuple[int, ...]:
  """Reads task ids from an AgentGym item file.

  Such a file is a JSON list of objects with an `item_id` of environment and
  number, as in `[{"item_id": "textcraft_12"}]`. Of its other keys only
  `conversations`, `conversation` (AgentGym's, empty) and those of
  `json_files.NOTES` pass, which choose no task. Names may have underscores:
  `lmrlgym_maze_3`.

  Args:
    path: the file.
    env_name: the environment that the items must belong to.

  Returns:
    The numbers in the file's order.

  Raises:
    DataError: not such a file, an item of another environment, or one twice.
  """
  try:
    items: Any = json_files.loads(json_files.read_text(path))
  except json_files.BROKEN as error:
    raise DataError(f'Cannot read task items from {path}: {error}') from error
  if not isinstance(items, list):
    raise DataError(f'{path} holds no JSON list but {type(items).__name__}.')
  seen: dict[int, int] = {}  # task -> where
  for index, item in enumerate(items):
    item_id = item.get('item_id') if isinstance(item, dict) else None
    name, _, number = str(item_id).rpartition('_')
    if name != env_name or not re.fullmatch('[0-9]{1,18}', number):
      raise DataError(
          f'Item {index} of {path} is {item!r:.200}; expected an item_id'
          f" such as '{env_name}_12'."
      )
    json_files.check_fields(
        item,
        ('item_id', 'conversations', 'conversation'),
        what=f'Item {index} of {path}',
    )
    task_id = int(number)
    if task_id in seen:
      raise DataError(
          f'Item {index} of {path} repeats item {seen[task_id]}, {item_id!r}.'
      )
    seen[task_id] = index
  return tuple(seen)
