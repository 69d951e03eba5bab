"""Success of random actions and the expert beside a metric of evaluations."""

import re
from collections.abc import Mapping

from agentrl.evaluation.chance import level as level_lib
from agentrl.evaluation.chance.level import KINDS, Level

# 'eval/success', 'eval_small/MEMBER/success', 'eval_before/KIND OF TASK/success'
_SUCCESS = re.compile(
    r'eval(?P<small>_small)?(?:_before|_untrained)?/(?:(?P<part>.+)/)?success'
)


def beside(levels: Mapping[str, Level], metric: str) -> dict[str, float]:
  """Success by kind on exactly the tasks of a metric; of other metrics, none.

  Args:
    levels: of a run, by `level.entry_of`.
    metric: its name.
  """
  match = _SUCCESS.fullmatch(metric)
  if match is None:
    return {}
  found = {}
  for kind in KINDS:
    for entry, level in levels.items():
      name, _, member = entry.partition('/')
      if name != kind:
        continue
      tasks = _tasks(level, member, match['part'] or '')
      if match['small']:
        tasks &= set(level.small)
      mean = level_lib.mean_success(level, tasks)
      if mean is not None:
        found[kind] = mean
  return found


def _tasks(level: Level, member: str, part: str) -> set[int]:
  """The tasks of a member, or of one kind of them; none of another one."""
  panel = level.panel
  if part == member:
    return set(panel.task_ids)
  if member and not part.startswith(f'{member}/'):
    return set()
  name = part[len(member) + 1 :] if member else part
  kinds = zip(panel.task_ids, panel.subtasks, strict=True)
  return {task for task, kind in kinds if kind == name}
