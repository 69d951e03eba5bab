"""Turns and facts of an episode as the JSON that pages draw (lib/turn.js)."""

from collections.abc import Sequence
from typing import Any

from agentrl.types import Turn
from agentrl.viewer.record import Record, long_text

LIMIT = 6_000  # characters of a text that come with a page
# Texts of a turn that may be longer than that.
TEXTS = ('completion', 'action', 'observation')


def facts(record: Record) -> dict[str, Any]:
  """An episode in a few numbers and words."""
  return {
      'episode_id': record.episode_id,
      'env': record.env,
      'task_id': record.task_id,
      'split': record.split,
      'sample': record.sample,
      'seed': record.seed,
      'policy_version': record.policy_version,
      'horizon': record.horizon,
      'stop_reason': record.stop_reason,
      'success': record.success,
      'return': record.episode_return,
      'num_turns': len(record.turns),
      'error': record.error and record.error[:LIMIT],
  }


def prompt(record: Record, limit: int = LIMIT) -> list[dict[str, Any]]:
  """The messages before the first turn."""
  return [
      {'role': m.role, 'content': long_text(m.content, limit)}
      for m in record.prompt
  ]


def window(
    turns: Sequence[Turn], first: int, count: int, limit: int = LIMIT
) -> list[dict[str, Any]]:
  """`count` turns from `first` on."""
  part = turns[first : first + count]
  return [turn(x, first + i, limit) for i, x in enumerate(part)]


def turn(played: Turn, index: int, limit: int = LIMIT) -> dict[str, Any]:
  """A turn; `index` counts from 0.

  `action_at` is where the action stands in the completion, as `[start, stop]`,
  or None where it does not stand there, or behind `limit`.
  """
  start = played.completion.rfind(played.action) if played.action else -1
  stop = start + len(played.action)
  return {
      'index': index,
      **{name: long_text(getattr(played, name), limit) for name in TEXTS},
      'action_at': [start, stop] if 0 <= start and stop <= limit else None,
      'parse_error': played.parse_error,
      'reward': played.reward,
      'progress': played.progress,
      'finish_reason': played.finish_reason,
      'prompt_tokens': played.prompt_tokens,
      'cached_tokens': played.cached_tokens,
      'completion_tokens': played.completion_tokens,
      'weight_version': played.weight_version,
      'sampler_s': played.sampler_s,
      'env_s': played.env_s,
  }


def lanes(turns: Sequence[Turn]) -> dict[str, list[Any]]:
  """Numbers of all turns, to be drawn as lanes over the whole episode."""
  return {
      'sampler_s': [x.sampler_s for x in turns],
      'env_s': [x.env_s for x in turns],
      'reward': [x.reward for x in turns],
      'progress': [x.progress for x in turns],
      'parse_error': [x.parse_error is not None for x in turns],
      'weight_version': [x.weight_version for x in turns],
  }
