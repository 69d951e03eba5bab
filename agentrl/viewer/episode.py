"""Routes of one episode: its head, windows of its turns, pieces of its texts.

An episode is named by `run`, `file` and `line`. No answer has a whole long
episode: a text is `{"text": beginning, "chars": characters}`, and the rest comes
in pieces from /api/text.
"""

from typing import Any

from aiohttp import web

from agentrl.evaluation.workdirs import files
from agentrl.types import Turn
from agentrl.viewer import numbers
from agentrl.viewer.record import Record, long_text
from agentrl.viewer.state import STATE, reply

_TURNS = 100  # of a window, at most
_CHARS = 4000  # of a text, unless a request says otherwise
_MOST_CHARS = 200_000  # of a text in one answer
_TEXTS = ('completion', 'action', 'observation', 'parse_error', 'request')


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [
      web.get('/api/episode', _episode),
      web.get('/api/turns', _turns),
      web.get('/api/text', _text),
  ]


async def _episode(request: web.Request) -> web.Response:
  """GET /api/episode: the index's row, the prompt and the neighbours."""
  state = request.app[STATE]
  row = await state.entry(request)
  record = await state.record(request)
  neighbours = await state.query(
      'SELECT (SELECT max(line) FROM episodes WHERE file_id = :f AND line < :l)'
      ' AS before, (SELECT min(line) FROM episodes WHERE file_id = :f AND'
      ' line > :l) AS after, (SELECT count(*) FROM episodes WHERE file_id = :f)'
      ' AS episodes',
      {'f': row['file_id'], 'l': row['line']},
  )
  limit = numbers.query(request, 'limit', _CHARS, 0, _MOST_CHARS)
  head = {
      **{name: row[name] for name in row.keys() if name not in _INNER},
      **dict(neighbours[0]),
      'terminated': record.terminated,
      'segments': record.num_segments,
      'prompt': [
          {'role': x.role, 'content': long_text(x.content, limit)}
          for x in record.prompt
      ],
      'has_tokens': len(record.tokens) > 2,  # more than "[]"
  }
  return reply(head)


# Of a row, about the file and not about the episode.
_INNER = {
    'file_id', 'offset', 'changed', 'bytes', 'read', 'lines', 'broken',
    'checksum',
}  # fmt: skip


async def _turns(request: web.Request) -> web.Response:
  """GET /api/turns: `count` turns beginning with `from`, counted from 0."""
  record = await request.app[STATE].record(request)
  total = len(record.turns)
  start = numbers.query(request, 'from', 0, 0, total)
  count = numbers.query(request, 'count', 20, 0, _TURNS)
  limit = numbers.query(request, 'limit', _CHARS, 0, _MOST_CHARS)
  window = record.turns[start : start + count]
  turns = [turn_json(start + i, turn, limit) for i, turn in enumerate(window)]
  return reply({'from': start, 'total': total, 'turns': turns})


def turn_json(number: int, turn: Turn, limit: int) -> dict[str, Any]:
  """A turn as the pages have it."""
  fields = {name: getattr(turn, name) for name in turn.__dataclass_fields__}
  for name in _TEXTS:
    if fields[name] is not None:
      fields[name] = long_text(fields[name], limit)
  return {'turn': number, **fields}


async def _text(request: web.Request) -> web.Response:
  """GET /api/text: `count` characters of a text beginning with `from`.

  `path` is `turns.3.observation`, `prompt.0.content` or `error`.
  """
  record = await request.app[STATE].record(request)
  path = request.query.get('path', '')
  text = _at(record, path)
  if text is None:
    raise files.Missing(f'This episode has no text {path!r}.')
  start = numbers.query(request, 'from', 0, 0, len(text))
  count = numbers.query(request, 'count', _MOST_CHARS, 0, _MOST_CHARS)
  piece = text[start : start + count]
  return reply({'from': start, 'text': piece, 'chars': len(text)})


def _at(record: Record, path: str) -> str | None:
  """The text at a path; None where there is none."""
  match path.split('.'):
    case ['error']:
      return record.error
    case ['turns', number, name] if name in _TEXTS and number.isdecimal():
      if int(number) < len(record.turns):
        return getattr(record.turns[int(number)], name)
    case ['prompt', number, 'content'] if number.isdecimal():
      if int(number) < len(record.prompt):
        return record.prompt[int(number)].content
  return None
