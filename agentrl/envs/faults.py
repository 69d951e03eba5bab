"""The check of what an environment's methods return, as `base.Env` has them.

The server makes it before a reply becomes JSON, so that the message names the
method and the type.
"""

import math
from typing import Any

from agentrl.envs import replies
from agentrl.errors import EnvFault
from agentrl.types import StepResult


def check(method: str, value: Any, where: str) -> None:
  """Refuses a reply of another type than `base.Env` has.

  Args:
    method: of the environment; one that is not known here may return anything.
    value: that it returned.
    where: in the message, such as 'environment calc, step 3'.

  Raises:
    EnvFault: names the method or the field, the type, and what was wanted.
  """
  wrong = None
  if method == 'reset':
    wrong = _text('reset must return str, its first observation', value)
    if wrong and isinstance(value, tuple):
      wrong += '; return the observation alone'
  elif method == 'step':
    wrong = _of_step(value)
  elif method == 'expert_action':
    wrong = _text('expert_action must return str', value)
  elif method == 'available_actions':
    if not isinstance(value, (list, tuple)):
      wrong = f'available_actions must return a list of str, got {_kind(value)}'
    else:
      errors = (_text('available_actions must be str', item) for item in value)
      wrong = next(filter(None, errors), None)
  elif method == 'details' and not isinstance(value, dict):
    wrong = f'details must return dict, got {_kind(value)}'
  elif method == 'picture' and not isinstance(value, bytes):
    wrong = f'picture must return bytes of a PNG file, got {_kind(value)}'
  if wrong:
    raise EnvFault(f'{wrong} ({where})')


def _of_step(result: Any) -> str | None:
  """The fault of a result of `step`; None: it has none."""
  if not isinstance(result, StepResult):
    size = f' of {len(result)}' * isinstance(result, tuple)
    return (
        f'step must return agentrl.types.StepResult, got {_kind(result)}{size};'
        ' return StepResult(observation, reward, terminated, truncated)'
    )
  if wrong := _text('observation must be str', result.observation):
    return wrong
  for name in ('terminated', 'truncated', 'success'):
    value = getattr(result, name)
    if not isinstance(value, bool) and (name, value) != ('success', None):
      rest = ' or None' * (name == 'success')
      return f'{name} must be bool{rest}, got {_kind(value)}'
  for name, low, high in (
      ('reward', -replies.MAX_REWARD, replies.MAX_REWARD),
      ('progress', 0.0, 1.0),
  ):
    value = getattr(result, name)
    if (name, value) == ('progress', None):
      continue
    if not isinstance(value, (int, float)) or isinstance(value, bool):
      return f'{name} must be float, got {_kind(value)}'
    if math.isnan(value) or not low <= value <= high:
      return f'{name} must be a number from {low:g} to {high:g}, got {value}'
  return None


def _text(wanted: str, value: Any) -> str | None:
  if not isinstance(value, str):
    return f'{wanted}, got {_kind(value)}'
  if len(value) > replies.MAX_CHARS:
    return (
        f'{wanted}, of {replies.MAX_CHARS} characters at most, got {len(value)}'
    )
  return None


def _kind(value: Any) -> str:
  kind = type(value)
  own = kind.__module__ in ('builtins', '__main__')
  return kind.__qualname__ if own else f'{kind.__module__}.{kind.__qualname__}'
