"""Seeds that name what they are for, the same in every process."""

import hashlib
import json

from agentrl.types import Turns


def of_attempt(*parts: int | str, attempt: int) -> int:
  """The seed of an episode; that of a first attempt has no number in it."""
  return derive_seed(*parts, *([attempt] if attempt else []))


def derive_seed(*parts: int | str) -> int:
  """Hashes `parts` to a seed in `[0, 2**31)`.

  The hash is of the values, not of Python objects, so a seed depends neither on
  PYTHONHASHSEED nor on the order in which episodes run. Every seed of a run is
  derived from (run seed, step, task, replica, attempt, turn): change one of
  them and nothing is shared, repeat them and a retry samples the same tokens.

  Args:
    *parts: integers and strings; `1` and `'1'` are different parts.

  Returns:
    A non-negative integer of 31 bits, which every sampling backend accepts.
  """
  text = json.dumps(parts, ensure_ascii=True)
  digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
  return int.from_bytes(digest, 'big') & 0x7FFFFFFF


def draw_turns(turns: int | Turns, seed: int) -> int:
  """The horizon of the episode with this seed.

  Args:
    turns: a horizon for all, or the range that each is drawn from, uniformly.
    seed: of the episode: a retry and a resume draw the same.
  """
  if isinstance(turns, int):
    return turns
  # Of 2**31 values: no number of turns is likelier by more than range / 2**31.
  return turns.low + derive_seed(seed, 'horizon') % (turns.high - turns.low + 1)
