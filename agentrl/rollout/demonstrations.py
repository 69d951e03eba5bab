"""Records of files as episodes, for the offline modes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import rich.console

from agentrl import types
from agentrl.errors import DataError
from agentrl.rollout import replay
from agentrl.rollout.agent import Agent
from agentrl.types import Conversation, Episode

T = TypeVar('T')
# (the episodes of each record, names) -> by index: a kind of reason, the reason
Judge = Callable[
    [Sequence[Sequence[Episode]], Sequence[str]],
    Mapping[int, tuple[str, str]],
]

# Number of broken records that are shown one by one.
_SHOWN = 10


class Complaints:
  """Prints what is wrong with the first records, and counts all."""

  def __init__(self, console: rich.console.Console):
    self._console = console
    self.count = 0
    self.first: DataError | None = None

  def __call__(self, error: DataError) -> None:
    self.first = self.first or error
    self.count += 1
    if self.count <= _SHOWN:
      self._console.print(f'Skipped: {error}', highlight=False, markup=False)


def read_files(
    files: Sequence[str],
    read: Callable[..., Iterable[T]],
    console: rich.console.Console,
) -> list[T]:
  """The usable records of files; the rest is reported and counted.

  Args:
    files: paths.
    read: `conversations.read` or `preference.read`, of one environment.
    console: where that is said.

  Raises:
    DataError: a file cannot be read, or nothing in it can be used.
  """
  records = []
  for path in files:
    complaints = Complaints(console)
    usable = list(read(path, on_broken=complaints))
    if not usable:
      raise DataError(
          f'{path} holds no record that can be used'
          + (f'; the first: {complaints.first}' if complaints.count else '.')
      )
    console.print(
        f'{path}: {len(usable)} records'
        + (f', {complaints.count} broken' if complaints.count else ''),
        highlight=False,
        markup=False,
    )
    records += usable
  return records


def worth_imitating(
    records: Sequence[Conversation | Episode],
    min_return: float | None,
    console: rich.console.Console,
) -> list[Conversation | Episode]:
  """All conversations, and the episodes of such a return, or with success.

  Raises:
    DataError: no record is left.
  """

  def is_good(item: Conversation | Episode) -> bool:
    if isinstance(item, Conversation):
      return True
    if min_return is None:
      return item.valid and item.success
    return item.valid and types.is_at_least(item.episode_return, min_return)

  good = [item for item in records if is_good(item)]
  if not good:
    least = (
        'none with success; set data.min_return to take others'
        if min_return is None
        else f'none with a return of at least {min_return}'
    )
    raise DataError(f'{len(records)} episodes in data.files, {least}.')
  if len(good) < len(records):
    console.print(
        f'{len(records) - len(good)} episodes are not worth imitating',
        highlight=False,
    )
  return good


def to_episodes(
    agent: Agent,
    records: Sequence[Sequence[Conversation | Episode]],
    *,
    max_context: int,
    own_opening: bool,
    console: rich.console.Console,
    judge: Judge = lambda kept, names: {},
) -> list[Episode]:
  """Episodes in the ids of `agent`, none longer than `max_context` tokens.

  Args:
    agent: how the policy talks.
    records: records that belong together: one alone, or the two of a pair, the
      better one first. Where one cannot be used, all of them are left out.
    max_context: tokens; longer ones are cut after a completion that fits.
    own_opening: of conversations, see `replay.replay`.
    console: where is said what was left out, cut and tokenized.
    judge: gives reasons to leave records out, once they are all made; see
      `preference.unusable`.

  Returns:
    The episodes one after the other.

  Raises:
    DataError: none can be made.
  """
  complaints = Complaints(console)
  kept, names, cut, renewals = [], [], 0, 0
  for items in records:
    try:
      whole = [_to_episode(agent, item, own_opening) for item in items]
      _check_format(agent, whole[0])  # the worse of a pair may be unreadable
      short = [_cut(episode, max_context) for episode in whole]
    except DataError as error:
      complaints(error)
      continue
    kept.append(short)
    names.append(_name(items[0]))
    cut += sum(
        len(a.turns) < len(b.turns) for a, b in zip(short, whole, strict=True)
    )
    renewals += sum(
        isinstance(item, Episode) and episode is not item
        for item, episode in zip(items, whole, strict=True)
    )
  unusable = judge(kept, names)
  for index, (_, reason) in sorted(unusable.items()):
    complaints(DataError(f'{names[index]}: {reason}'))
  episodes = [
      episode
      for index, items in enumerate(kept)
      if index not in unusable
      for episode in items
  ]
  if not episodes:
    raise DataError(
        f'None of {len(records)} records can be learnt from; the first:'
        f' {complaints.first}'
    )
  notes = {
      f'cut to {max_context} tokens': cut,
      'tokenized anew': renewals,
      'left out': complaints.count - len(unusable),
  }
  for kind, count in Counter(kind for kind, _ in unusable.values()).items():
    notes[f'left out for {kind}'] = count
  console.print(
      f'{len(episodes)} episodes with'
      f' {sum(sum(episode.completion_mask) for episode in episodes)} tokens of'
      ' the policy'
      + ''.join(f', {n} {what}' for what, n in notes.items() if n),
      highlight=False,
  )
  return episodes


def _to_episode(
    agent: Agent, item: Conversation | Episode, own_opening: bool
) -> Episode:
  try:
    if isinstance(item, Conversation):
      return replay.replay(agent, item, own_opening=own_opening)
    return replay.renew(agent, item)
  except DataError as error:
    raise DataError(f'{_name(item)}: {error}') from error


def _name(item: Conversation | Episode) -> str:
  """The source of a record, for messages."""
  if isinstance(item, Conversation):
    return item.where or item.name
  return item.episode_id


def _check_format(agent: Agent, episode: Episode) -> None:
  """Refuses completions whose actions cannot be parsed."""
  try:
    agent.check_format([turn.completion for turn in episode.acts])
  except DataError as error:
    raise DataError(f'{episode.episode_id}: {error}') from error


def _cut(episode: Episode, max_context: int) -> Episode:
  short = replay.cut_to(episode, max_context)
  if short is None:
    raise DataError(
        f'{episode.episode_id}: its first completion ends beyond'
        f' rollout.max_context={max_context}'
    )
  return short
