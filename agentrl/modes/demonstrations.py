"""Demonstrations of the offline modes: files and experts, as episodes."""

from collections.abc import Sequence

import rich.console

from agentrl.data import conversations
from agentrl.errors import DataError
from agentrl.modes import offline_settings
from agentrl.rollout import replay
from agentrl.rollout.agent import Agent
from agentrl.types import Conversation, Episode

# So many broken records are shown one by one.
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
    files: Sequence[str], console: rich.console.Console
) -> list[Conversation | Episode]:
  """What can be used in these files; the rest is reported and counted.

  Raises:
    DataError: a file cannot be read, or nothing in it can be used.
  """
  found = []
  for path in files:
    complaints = Complaints(console)
    usable = list(conversations.read(path, on_broken=complaints))
    if not usable:
      raise DataError(
          f'{path} holds no record that can be used'
          + (f'; the first: {complaints.first}' if complaints.count else '')
      )
    console.print(
        f'{path}: {len(usable)} records'
        + (f', {complaints.count} broken' if complaints.count else ''),
        highlight=False,
    )
    found += usable
  return found


def chosen(
    found: Sequence[Conversation | Episode],
    wanted: offline_settings.Data,
    console: rich.console.Console,
) -> list[Conversation | Episode]:
  """All conversations, and the episodes worth imitating.

  Raises:
    DataError: there are none.
  """
  good = [
      x for x in found if isinstance(x, Conversation) or _is_good(x, wanted)
  ]
  if not good:
    least = (
        'none with success; set data.min_return to take others'
        if wanted.min_return is None
        else f'none with a return of at least {wanted.min_return}'
    )
    raise DataError(f'{len(found)} episodes in data.files, {least}.')
  if len(good) < len(found):
    console.print(
        f'{len(found) - len(good)} episodes are not worth imitating',
        highlight=False,
    )
  return good


def _is_good(episode: Episode, wanted: offline_settings.Data) -> bool:
  if wanted.min_return is None:
    return episode.valid and episode.success
  return episode.valid and episode.episode_return >= wanted.min_return


def to_episodes(
    agent: Agent,
    found: Sequence[Conversation | Episode],
    *,
    max_context: int,
    own_opening: bool,
    console: rich.console.Console,
) -> list[Episode]:
  """Episodes in the ids of `agent`, none longer than `max_context`.

  Raises:
    DataError: none can be made.
  """
  complaints = Complaints(console)
  episodes, made, cut = [], 0, 0
  for item in found:
    try:
      episode, is_new = to_episode(agent, item, own_opening=own_opening)
    except DataError as error:
      name = item.name if isinstance(item, Conversation) else item.episode_id
      complaints(DataError(f'{name}: {error}'))
      continue
    short = replay.cut_to(episode, max_context)
    if short is None:
      complaints(
          DataError(
              f'{episode.episode_id}: its first completion ends beyond'
              f' rollout.max_context={max_context}'
          )
      )
      continue
    cut += len(short.turns) < len(episode.turns)
    made += is_new and isinstance(item, Episode)
    episodes.append(short)
  if not episodes:
    raise DataError(
        f'None of {len(found)} records can be learnt from; the first:'
        f' {complaints.first}'
    )
  notes = {
      f'cut to {max_context} tokens': cut,
      'tokenized anew': made,
      'left out': complaints.count,
  }
  console.print(
      f'{len(episodes)} demonstrations of'
      f' {sum(map(lambda e: sum(e.completion_mask), episodes))} tokens to learn'
      + ''.join(f', {n} {what}' for what, n in notes.items() if n),
      highlight=False,
  )
  return episodes


def to_episode(
    agent: Agent, item: Conversation | Episode, *, own_opening: bool = False
) -> tuple[Episode, bool]:
  """A record in the ids of `agent`, and whether they had to be made.

  Raises:
    DataError: it cannot be rendered.
  """
  if isinstance(item, Conversation):
    return replay.replay(agent, item, own_opening=own_opening), True
  return replay.renew(agent, item)
