"""Routes of the token page: an episode's ids beside what was learnt from them.

`/api/tokens` has a window of them. Every number is of the episode's line or of
the arrays beside its file; nothing is computed but the ratio.
"""

import asyncio
import collections
import itertools
import pathlib
import threading
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from aiohttp import web

from agentrl.errors import AgentrlError, DataError
from agentrl.evaluation.workdirs import files
from agentrl.types import Turn
from agentrl.viewer import learned as learned_lib, numbers
from agentrl.viewer.learned import Learned, Place
from agentrl.viewer.record import Record
from agentrl.viewer.run_tokenizers import RunTokenizers
from agentrl.viewer.state import STATE, reply

_WINDOW = 4096  # tokens of an answer, at most
_KEPT = (
    2  # files whose arrays are kept: 512 episodes of 8,192 tokens are 100 MB
)

_Ids = msgspec.json.Decoder(list[int])
_Mask = msgspec.json.Decoder(list[int | bool])
_Floats = msgspec.json.Decoder(list[float])


class Sources:
  """Arrays and tokenizers that were read lately. Thread-safe."""

  def __init__(self) -> None:
    self.tokenizers = RunTokenizers()
    self._lock = threading.Lock()
    self._kept: collections.OrderedDict[tuple, Learned | None] = (
        collections.OrderedDict()
    )

  def learned(self, path: pathlib.Path) -> Learned | None:
    """What lies beside an episode file.

    Raises:
      DataError: it cannot be read.
    """
    beside = path.with_suffix('.npz')
    try:
      stat = beside.stat()
    except OSError:
      return None
    key = (beside, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    with self._lock:
      if key not in self._kept:
        self._kept[key] = learned_lib.load(path)
      self._kept.move_to_end(key)
      while len(self._kept) > _KEPT:
        self._kept.popitem(last=False)
      return self._kept[key]


SOURCES = web.AppKey('sources', Sources)


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [web.get('/api/tokens', _tokens)]


async def _tokens(request: web.Request) -> web.Response:
  """GET /api/tokens: `count` tokens beginning with `from`."""
  state, sources = request.app[STATE], request.app[SOURCES]
  row = await state.entry(request)
  record = await state.record(request)
  path = files.file_of(state.root, row['run'], row['file'])
  folder = files.run_folder(state.root, row['run'])

  def gather() -> dict[str, Any]:
    window = table(record, sources.learned(path), row['line'])
    ids = window['ids']
    start = numbers.query(request, 'from', 0, 0, len(ids) - 1)
    count = numbers.query(request, 'count', _WINDOW, 1, _WINDOW)
    part = slice(start, start + count)
    window['columns'] = {
        name: values[part] for name, values in window['columns'].items()
    }
    window['mask'] = window['mask'][part]
    window['from'], window['total'] = start, len(ids)
    window['ids'] = ids[part]
    window['texts'], window['no_texts'] = texts(
        sources.tokenizers, folder, ids[part]
    )
    return window

  window = await asyncio.to_thread(gather)
  if window['place']:
    window['neighbours'] = await _neighbours(request, row, path)
  return reply(window)


def table(record: Record, learned: Learned | None, line: int) -> dict[str, Any]:
  """Ids, mask, spans and columns of an episode.

  A column is `[T]` numbers, None where there is none; `absent` says why a column
  is not there.

  Raises:
    DataError: the parts do not fit each other.
  """
  ids, mask = _decode(_Ids, record.tokens), mask_of(record)
  sampler = _decode(_Floats, record.sampler_logprobs)
  if not len(ids) == len(mask) == len(sampler):
    raise DataError(
        f'The episode has {len(ids)} tokens, {len(mask)} values of the mask and'
        f' {len(sampler)} log-probabilities.'
    )
  if not ids:
    raise DataError(
        'This episode has no tokens: it was played over messages, or written'
        ' with rollout.save_tokens=False.'
    )
  runs = spans(mask)
  columns = {
      'reward': _rewards(record.turns, runs, len(ids)),
      'sampler_logprobs': sampler,
  }
  absent = {}
  for name in learned_lib.ARRAYS:
    if learned is not None and name in learned.names:
      columns[name] = learned_lib.plain(learned.row(name, line, len(ids)))
    else:
      absent[name] = _why_absent(name, learned)
  pair = ('last_logprobs', 'old_logprobs')
  if learned is not None and all(name in columns for name in pair):
    last, old = (learned.row(name, line, len(ids)) for name in pair)
    # Only sampled tokens have one in the loss.
    columns['ratio'] = _ratio(np.where(mask, last, np.nan), old)
  else:
    absent['ratio'] = 'It needs old and last log-probabilities.'
  place = learned and learned.place(line)
  return {
      'ids': ids,
      'mask': [int(x) for x in mask],
      'spans': runs,
      'columns': columns,
      'absent': absent,
      'place': place and _place(place),
      'weight_versions': [turn.weight_version for turn in record.turns],
  }


def mask_of(record: Record) -> list[bool]:
  """The mask of an episode's tokens.

  Raises:
    DataError: it is broken.
  """
  return [bool(x) for x in _decode(_Mask, record.completion_mask)]


def spans(mask: Sequence[bool]) -> list[dict[str, Any]]:
  """Maximal runs of one mask: `start`, `stop` and `turn`, None if inserted."""
  runs, start, turn = [], 0, 0
  for sampled, run in itertools.groupby(mask):
    stop = start + sum(1 for _ in run)
    runs.append(
        {'start': start, 'stop': stop, 'turn': turn if sampled else None}
    )
    start, turn = stop, turn + sampled
  return runs


def texts(
    tokenizers: RunTokenizers, run: pathlib.Path, ids: Sequence[int]
) -> tuple[list[str] | None, str | None]:
  """The text of each id by itself, or None and why there is none."""
  try:
    tokenizer = tokenizers.get(run)
  except AgentrlError as error:
    return None, str(error)
  by_id = {i: tokenizer.decode([i], skip_special=False) for i in set(ids)}
  return [by_id[i] for i in ids], None


def _decode(decoder: msgspec.json.Decoder, raw: msgspec.Raw) -> list[Any]:
  try:
    return decoder.decode(raw)
  except msgspec.MsgspecError as error:
    raise DataError(
        f'The tokens of this episode are broken: {error}'
    ) from error


def _rewards(
    turns: Sequence[Turn], runs: Sequence[dict[str, Any]], length: int
) -> list[float]:
  """A turn's reward lies on its last sampled token."""
  rewards = [0.0] * length
  for run in runs:
    if run['turn'] is not None and run['turn'] < len(turns):
      rewards[run['stop'] - 1] = turns[run['turn']].reward
  return rewards


def _ratio(last: np.ndarray, old: np.ndarray) -> list[float | None]:
  with np.errstate(over='ignore', invalid='ignore'):
    return learned_lib.plain(np.exp(last - old))


def _why_absent(name: str, learned: Learned | None) -> str:
  if learned is None:
    return 'Nothing was trained on this file, or its arrays were not kept.'
  return {
      'ref_logprobs': 'There was no reference: algo.kl_coef is 0.',
      'teacher_logprobs': 'The algorithm has no teacher.',
      'values': 'The algorithm has no critic.',
      'returns': 'The algorithm has no return of each token.',
      'shaped_rewards': 'The algorithm does not change rewards.',
  }.get(name, 'It was not kept.')


def _place(place: Place) -> dict[str, int]:
  return {name: getattr(place, name) for name in place.__dataclass_fields__}


async def _neighbours(
    request: web.Request, row: Any, path: pathlib.Path
) -> list[dict[str, Any]]:
  """Episodes in the same packed row, and those that share the prefix."""
  learned = await asyncio.to_thread(request.app[SOURCES].learned, path)
  assert learned is not None  # the episode's place was found in it
  places = learned.places()
  own = places[row['line']]
  others = await request.app[STATE].query(
      'SELECT line, episode_id, task, sample FROM episodes WHERE file_id = ?'
      ' ORDER BY line',
      (row['file_id'],),
  )
  group = row['episode_id'].rpartition('-')[0]
  neighbours = []
  for other in others:
    place = places.get(other['line'])
    if place is None or other['line'] == row['line']:
      continue
    same = (place.minibatch, place.microbatch) == (
        own.minibatch,
        own.microbatch,
    )
    in_row = same and place.row == own.row
    shares = (
        same
        and own.shared > 0
        and other['task'] == row['task']
        and other['episode_id'].rpartition('-')[0] == group
    )
    if in_row or shares:
      neighbours.append({
          'line': other['line'],
          'episode_id': other['episode_id'],
          'in_row': in_row,
          'shares': shares,
          'start': place.start,
      })
  return neighbours
