"""Preference pairs: of two episodes of a task, which one is better.

Pairs are made of episodes by their returns, or read from files, as AgentGym and
common data sets write them:

    {"id": "textcraft_12", "prompt": [MESSAGE, ...],
     "chosen": [MESSAGE, ...], "rejected": [MESSAGE, ...]}
    {"prompt": "...", "chosen": "...", "rejected": "..."}

Each of the three is a list of messages of `data.messages`, which also says what
of `chosen` and `rejected` counts, or a text: of the user in `prompt`, of the
assistant in the others. Where both sides hold the prompt themselves, it is what
they begin with alike, up to an assistant's message. Nothing of a prompt counts.
"""

import hashlib
import pathlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl import types
from agentrl.data import conversations
from agentrl.data.conversations import OnBroken
from agentrl.data.messages import Read
from agentrl.errors import DataError
from agentrl.types import Conversation, Episode

_SIDES = ('chosen', 'rejected')
# Who wrote the sides, and how they were judged: that one is better is all that
# is learnt.
_NOTES = frozenset(
    name
    for side in _SIDES
    for what in ('score', 'rating', 'model', 'avg_rating')
    for name in (f'{side}_{what}', f'{side}-{what}', f'{what}_{side}')
)


class Pair(NamedTuple):
  """Two records of one task."""

  better: Conversation | Episode
  worse: Conversation | Episode


def read(
    path: str | pathlib.Path, *, on_broken: OnBroken, env: str | None = None
) -> Iterator[Pair | Episode]:
  """Reads the pairs of a file, and the episodes that pairs can be made of.

  Args:
    path: a JSON list or JSON lines, as in `data.conversations`.
    env: the environment that records must be of, as far as they say.
    on_broken: called for each record that cannot be used, with an error that
      names the file, the line or record and the reason.

  Raises:
    DataError: the file cannot be read.
  """
  for where, record in conversations.records(path, on_broken=on_broken):
    try:
      is_pair = isinstance(record, dict) and 'chosen' in record
      example: Pair | Conversation | Episode = (
          parse if is_pair else conversations.parse
      )(record, name=where)
      if isinstance(example, Conversation):
        raise DataError('a conversation alone is no pair and has no return')
      one = example.better if isinstance(example, Pair) else example
      conversations.check_env(one, env)
    except DataError as error:
      on_broken(DataError(f'{where}: {error}'))
    else:
      yield example


def parse(record: dict[str, Any], *, name: str) -> Pair:
  """A pair from the JSON object that says it.

  Args:
    record: as at the top of this file.
    name: where it stands; of the pair, when the record has no id.

  Raises:
    DataError: it is not such an object; says why.
  """
  if record.get('messages') not in (None, *map(record.get, _SIDES)):
    raise DataError("it has 'messages' that are neither of its sides")
  conversations.check_fields(
      record,
      ('id', 'item_id', 'prompt', *_SIDES, 'messages'),
      harmless=_NOTES,
  )
  prompt = Read((), ())
  if record.get('prompt'):
    prompt = conversations.of_side(record, 'prompt', 'user')
  elif any(isinstance(record.get(side), str) for side in _SIDES):
    raise DataError("its sides are texts, and it has no 'prompt'")
  sides = [conversations.of_side(record, x, 'assistant') for x in _SIDES]
  if any(_may_hold(prompt, side) for side in sides):
    prompt, sides = _split(prompt, sides)
  item = record.get('id', record.get('item_id'))
  pair = []
  for key, side in zip(_SIDES, sides, strict=True):
    try:
      pair.append(conversations.make(prompt, side, item=item, name=name))
    except DataError as error:
      raise DataError(f"'prompt' with {key!r}: {error}") from error
  return Pair(*pair)


def _may_hold(prompt: Read, side: Read) -> bool:
  """True if a side cannot follow a prompt, but may begin with it."""
  if not prompt.messages:
    return True
  return side.messages[0].role in (prompt.messages[-1].role, 'system')


def _split(prompt: Read, sides: Sequence[Read]) -> tuple[Read, list[Read]]:
  """The prompt and what follows, of sides that begin with it.

  Args:
    prompt: as the record has it beside them, or empty.
    sides: both.

  Raises:
    DataError: they do not begin with that prompt.
  """
  size, pairs = 0, zip(*(side.messages for side in sides), strict=False)
  for one, other in pairs:
    if one != other:
      break
    size += 1
  missing = [m for m in prompt.messages if m not in sides[0].messages[:size]]
  if missing:
    raise DataError(
        "its 'prompt' is followed by a message of the same role in 'chosen' or"
        " 'rejected', and the two do not both begin with it"
    )
  # As far as the policy is asked the same: what answers differently is told
  # apart by the choice before it.
  ends = [side.messages[size : size + 1] for side in sides]
  while size and not all(x and x[0].role == 'assistant' for x in ends):
    size -= 1
    ends = [side.messages[size : size + 1] for side in sides]
  cut = lambda side, where: Read(side.messages[where], side.learn[where])
  head, tail = slice(None, size), slice(size, None)
  return cut(sides[0], head), [cut(side, tail) for side in sides]


class Unusable(NamedTuple):
  """Why a pair teaches nothing, or nothing certain."""

  kind: str  # for counts
  reason: str


def unusable(
    pairs: Sequence[Sequence[Episode]], names: Sequence[str]
) -> dict[int, Unusable]:
  """Pairs that cannot be learnt from, by index.

  Tokens decide, so that it does not matter how a template, a shorter context or
  other instructions made two sides alike. Of pairs that say the same the first
  is kept; of those that contradict each other none.

  Args:
    pairs: the better and the worse episode of each.
    names: where each of them is from.
  """
  verdicts: dict[int, Unusable] = {}
  seen: dict[tuple[bytes, ...], list[int]] = {}
  for index, (better, worse) in enumerate(pairs):
    taught = [_taught(episode) for episode in (better, worse)]
    if not all(taught):
      side = _SIDES[taught.index(b'')]
      verdicts[index] = Unusable(
          'nothing to learn', f'its {side!r} has no token to learn'
      )
    elif _prompt_ids(better) != _prompt_ids(worse):
      verdicts[index] = Unusable(
          'other prompts', 'its two sides answer different prompts'
      )
    elif taught[0] == taught[1]:
      verdicts[index] = Unusable('equal sides', 'its two sides are the same')
    else:
      seen.setdefault(tuple(taught), []).append(index)
  for (chosen, rejected), members in seen.items():
    if (others := seen.get((rejected, chosen))) is not None:
      kind = 'a contradiction'
      reason = f'it prefers the opposite of {names[others[0]]}'
    else:
      kind, reason = 'a repetition', f'it is the same as {names[members[0]]}'
      members = members[1:]
    verdicts |= dict.fromkeys(members, Unusable(kind, reason))
  return verdicts


def _taught(episode: Episode) -> bytes:
  """A digest of its tokens up to the last to learn; empty without any."""
  runs = [
      run
      for run, turn in zip(episode.sampled_runs, episode.turns, strict=True)
      if turn.learn
  ]
  if not runs:
    return b''
  stop = runs[-1][1]
  parts = (episode.tokens[:stop], np.ravel(runs), episode.segment_starts)
  digest = hashlib.sha256()
  for part in parts:
    array = np.asarray(part, np.int64)
    digest.update(np.int64(array.size).tobytes() + array.tobytes())
  return digest.digest()


def _prompt_ids(episode: Episode) -> tuple[int, ...]:
  """The tokens before the first sampled one."""
  return episode.tokens[: episode.sampled_runs[0][0]]


def build(
    episodes: Sequence[Episode],
    *,
    gap: float,
    threshold: float,
    per_task: int = 1,
) -> tuple[list[Pair], Counter[str]]:
  """Pairs the best episode of a task with its worst, and so on inwards.

  No episode is in two pairs. Episodes are of one task when they began with the
  same messages: after others they could not be compared. So two attempts that
  learn from earlier ones are no pair.

  Args:
    episodes: of any tasks and policies; invalid ones are left out.
    gap: least difference of the two returns, above 0.
    threshold: least return of the better one.
    per_task: most pairs of one task.

  Returns:
    The pairs, in order of the tasks' first episodes, and how many tasks gave
    none, by reason.
  """
  tasks: dict[Any, list[Episode]] = {}
  for episode in episodes:
    if episode.valid:
      # What was asked first differs between attempts, which read another one.
      request = episode.turns[0].request
      key = (episode.env, episode.task_id, episode.prompt, request)
      tasks.setdefault(key, []).append(episode)
  pairs: list[Pair] = []
  without: Counter[str] = Counter()
  for played in tasks.values():
    ranked = sorted(played, key=lambda e: e.episode_return, reverse=True)
    inwards = zip(ranked, reversed(ranked), strict=True)
    candidates = [
        Pair(better, worse)
        for better, worse in inwards
        if types.is_at_least(better.episode_return - worse.episode_return, gap)
        and types.is_at_least(better.episode_return, threshold)
    ]
    pairs += candidates[:per_task]
    if not candidates:
      without[_reason(ranked, gap, threshold)] += 1
  return pairs, without


def _reason(ranked: Sequence[Episode], gap: float, threshold: float) -> str:
  if len(ranked) < 2:
    return 'with fewer than two valid episodes'
  if not types.is_at_least(ranked[0].episode_return, threshold):
    return f'whose best return is below {threshold}'
  return f'whose returns differ by less than {gap}'
