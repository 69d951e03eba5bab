"""Batches of which only the ids and masks of tokens matter."""

import numpy as np

from agentrl.batch import TokenBatch


def of(
    episodes, *, turns=None, segments=None, sampled=None, valid=None
) -> TokenBatch:
  """A batch in which token `[b, t]` is of `episodes[b, t]`.

  Args:
    episodes: `[B, T]` int, from 1; 0 on padding.
    turns: `[B, T]` int.
    segments: `[B, T]` int; None: every episode is one segment.
    sampled: `[B, T]` bool.
    valid: `[E]` bool; None: of as many episodes as there are, all valid.
  """
  episodes = np.asarray(episodes)
  if valid is None:
    valid = np.ones(episodes.max(initial=1), bool)
  ids = dict(segment_ids=episodes)
  if segments is not None:
    ids = dict(segment_ids=np.asarray(segments), episode_ids=episodes)
  others = dict.fromkeys((
      'tokens',
      'positions',
      'rewards',
      'group_ids',
      'episode_return',
      'truncated',
  ))
  return TokenBatch(
      **ids,
      **others,
      turn_ids=None if turns is None else np.asarray(turns),
      completion_mask=None if sampled is None else np.asarray(sampled),
      valid=np.asarray(valid),
  )
