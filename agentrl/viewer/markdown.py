"""Episodes as Markdown, for reports and issues."""

import re
from collections.abc import Iterable, Sequence

from agentrl.types import ACT, Turn
from agentrl.viewer.record import Record

_CHARS = 20_000  # of a text
_TICKS = re.compile('`+')


def document(title: str, records: Sequence[Record]) -> str:
  """A document of episodes; more than one begin with a table."""
  parts = [f'# {_line(title)}\n']
  if len(records) > 1:
    parts.append(_table(records))
  for record in records:
    parts += _episode(record)
  return '\n'.join(parts)


def _table(records: Iterable[Record]) -> str:
  rows = [
      '| episode | return | success | stop | turns |',
      '|---|---|---|---|---|',
  ]
  rows += [
      f'| {_line(x.episode_id)} | {x.episode_return:g} |'
      f' {"yes" if x.success else "no"} | {_line(x.stop_reason)} |'
      f' {len(x.acts)} |'
      for x in records
  ]
  return '\n'.join(rows) + '\n'


def _episode(record: Record) -> Iterable[str]:
  yield f'## {_line(record.episode_id)}\n'
  yield (
      f'{_line(record.env)} task {record.task_id} ({_line(record.split)}), seed'
      f' {record.seed}. Stopped by {_line(record.stop_reason)} after'
      f' {len(record.acts)} of {record.horizon} turns;'
      f' {"success" if record.success else "no success"}, return'
      f' {record.episode_return:g}, policy version {record.policy_version}.\n'
  )
  if record.error:
    yield f'Error:\n\n{_block(record.error)}'
  for message in record.prompt:
    yield f'### {_line(message.role)}\n\n{_block(message.content)}'
  for index, turn in enumerate(record.turns):
    yield from _turn(index, turn)


def _turn(index: int, turn: Turn) -> Iterable[str]:
  if turn.request:
    yield f'The policy was asked:\n\n{_block(turn.request)}'
  kind = '' if turn.kind == ACT else f' ({turn.kind})'
  yield (
      f'### Turn {index + 1}{kind}: reward'
      f' {turn.reward:g}\n\n{_block(turn.completion)}'
  )
  if turn.parse_error is not None:
    yield f'No action was found:\n\n{_block(turn.parse_error)}'
  elif turn.action not in turn.completion:
    yield f'Action:\n\n{_block(turn.action)}'
  yield f'Observation:\n\n{_block(turn.observation)}'


def _block(text: str) -> str:
  """A fenced block, whose fence no text of an episode can close."""
  more = len(text) - _CHARS
  shown = text[:_CHARS] + (
      f'\n... ({more} more characters)' if more > 0 else ''
  )
  longest = max(map(len, _TICKS.findall(shown)), default=0)
  fence = '`' * max(3, longest + 1)
  return f'{fence}text\n{shown}\n{fence}\n'


def _line(text: str) -> str:
  """A text of one line that is no markup."""
  return re.sub(r'([\\`*_{}\[\]<>#|])', r'\\\1', ' '.join(text.split()))
