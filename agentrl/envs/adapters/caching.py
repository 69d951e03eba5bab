"""Answers of what others wrote, which is asked once."""

import functools
import json
from collections.abc import Callable
from typing import TypeVar

T = TypeVar('T')


def by_options(ask: Callable[..., T]) -> Callable[..., T]:
  """`functools.cache` for keyword arguments that may be lists and dictionaries."""

  @functools.cache
  def answer(key: str) -> T:
    return ask(**json.loads(key))

  return lambda **options: answer(
      json.dumps(options, sort_keys=True, default=dict)
  )
