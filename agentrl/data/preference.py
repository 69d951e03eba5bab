"""Preference pairs: of two episodes of a task, which one is better.

Pairs are made of episodes by their returns, or read from files as in AgentGym:

    {"id": "textcraft_12", "prompt": [MESSAGE, ...],
     "chosen": [MESSAGE, ...], "rejected": [MESSAGE, ...]}

Messages are of either kind of `data.conversations`, which also says what of
`chosen` and `rejected` counts; nothing of the prompt does.
"""

import pathlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from agentrl.data import conversations
from agentrl.data.conversations import OnBroken
from agentrl.errors import DataError
from agentrl.types import Conversation, Episode


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
      found = (parse if is_pair else conversations.parse)(record, name=where)
      if isinstance(found, Conversation):
        raise DataError('a conversation alone is no pair and has no return')
      conversations.check_env(found.better if is_pair else found, env)
    except DataError as error:
      on_broken(DataError(f'{where}: {error}'))
    else:
      yield found


def parse(record: dict[str, Any], *, name: str) -> Pair:
  """A pair from the JSON object that says it.

  Args:
    record: as at the top of this file.
    name: of the pair, when the record has no id.

  Raises:
    DataError: it is not such an object; says why.
  """
  item = record.get('id', record.get('item_id', name))
  sides = []
  for key in ('chosen', 'rejected'):
    prompt, rest = record.get('prompt', []), record.get(key)
    if not isinstance(prompt, list) or not isinstance(rest, list):
      raise DataError(f"'prompt' and {key!r} are not lists of messages")
    try:
      sides.append(
          conversations.parse(
              {'item_id': item, 'messages': [*prompt, *rest]},
              name=name,
              prompt=len(prompt),
          )
      )
    except DataError as error:
      raise DataError(f"'prompt' with {key!r}: {error}") from error
  return Pair(*sides)


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
      asked = episode.turns[0].request
      key = (episode.env, episode.task_id, episode.prompt, asked)
      tasks.setdefault(key, []).append(episode)
  pairs, without = [], Counter()
  for played in tasks.values():
    ranked = sorted(played, key=lambda e: e.episode_return, reverse=True)
    inwards = zip(ranked, reversed(ranked), strict=True)
    found = [
        Pair(better, worse)
        for better, worse in inwards
        if better.episode_return - worse.episode_return >= gap
        and better.episode_return >= threshold
    ]
    pairs += found[:per_task]
    if not found:
      without[_reason(ranked, gap, threshold)] += 1
  return pairs, without


def _reason(ranked: Sequence[Episode], gap: float, threshold: float) -> str:
  if len(ranked) < 2:
    return 'with fewer than two valid episodes'
  if ranked[0].episode_return < threshold:
    return f'whose best return is below {threshold}'
  return f'whose returns differ by less than {gap}'
