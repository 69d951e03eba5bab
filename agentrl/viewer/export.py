"""Episodes, groups and comparisons as one HTML file, or as Markdown.

`/api/export?run=&file=&line=` is an episode; `what=group` its group; further
episodes, as of a comparison, come as `episode=RUN|FILE|LINE`, any number of them.
`as` is html or markdown.
"""

import asyncio
import base64
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from agentrl.envs.blocks import Moment
from agentrl.errors import AgentrlError, DataError
from agentrl.evaluation.workdirs import files
from agentrl.text.tokenizer import Tokenizer
from agentrl.viewer import (
    episode as episode_lib,
    export_page,
    groups,
    markdown,
    replay,
    tokens,
    views,
)
from agentrl.viewer.learned import Learned
from agentrl.viewer.record import Record, long_text
from agentrl.viewer.state import STATE

_MOST = 64  # episodes of a file
_CHARS = 20_000  # of a text
_TURNS = 500  # of an episode
_PICTURES = 250_000  # bytes of an episode's pictures, all together
_FORMATS = {
    'html': ('text/html', 'html'),
    'markdown': ('text/markdown', 'md'),
}


@dataclasses.dataclass(frozen=True)
class Source:
  """An episode, and what is known beside its line.

  Attributes:
    record: the episode.
    line: in its file, from 0.
    run: its folder, for the reader; '' for none.
    learned: arrays beside the file.
    tokenizer: None: ids stay ids.
    pictures: PNG files at the reset and after each turn; empty: none.
    problems: contradictions in it, in sentences.
  """

  record: Record
  line: int = 0
  run: str = ''
  learned: Learned | None = None
  tokenizer: Tokenizer | None = None
  pictures: Sequence[bytes] = ()
  problems: Sequence[str] = ()


def routes() -> list[web.RouteDef]:
  """The routes of this module."""
  return [web.get('/api/export', _export)]


async def _export(request: web.Request) -> web.Response:
  """GET /api/export: a file to keep."""
  how, what = (
      request.query.get('as', 'html'),
      request.query.get('what', 'episode'),
  )
  if how not in _FORMATS or what not in ('episode', 'group'):
    raise DataError(
        'A file is as=html or as=markdown, of what=episode or group.'
    )
  state = request.app[STATE]
  row = await state.entry(request)
  rows = [row] if what == 'episode' else await groups.members(request, row)
  for named in request.query.getall('episode', []):
    run, file, line = [*named.split('|'), '', '', ''][:3]
    rows.append(await state.find(run, file, line))
  if len(rows) > _MOST:
    raise DataError(f'A file has at most {_MOST} episodes, not {len(rows)}.')
  sources = request.app[tokens.SOURCES]

  def make() -> str:
    episodes = [_source(state, sources, x) for x in rows]
    title = request.query.get('title') or _title(what, episodes)
    if how == 'markdown':
      return markdown.document(title, [x.record for x in episodes])
    return export_page.page(
        title[:200], collect(title, episodes, what == 'group')
    )

  text = await asyncio.to_thread(make)
  kind, suffix = _FORMATS[how]
  name = file_name(list(dict.fromkeys(x['run'] for x in rows)), row, what)
  return web.Response(
      text=text,
      content_type=kind,
      charset='utf-8',
      headers={
          'Content-Disposition': f'attachment; filename="{name}.{suffix}"'
      },
  )


def file_name(runs: Sequence[str], row: Any, what: str) -> str:
  """A file's name: its runs, its first episode and what it shows."""
  plain = lambda text: re.sub(r'[^\w.-]+', '-', text)
  end = plain(f'{row["episode_id"]}-{what}')[:80]
  begin = plain('-'.join(runs)).strip('.-')[:60]
  return f'{begin}-{end}' if begin else end


def _title(what: str, sources: Sequence[Source]) -> str:
  first = sources[0].record
  if what == 'group':
    return f'Group of {len(sources)}: {first.env} task {first.task_id}'
  if len(sources) > 1:
    return f'{len(sources)} episodes of {first.env} task {first.task_id}'
  return f'Episode {first.episode_id}'


def _source(state: Any, sources: tokens.Sources, row: Any) -> Source:
  path = files.file_of(state.root, row['run'], row['file'])
  record = state.reader.read(path, row['offset'], row['length'])
  folder = files.run_folder(state.root, row['run'])
  try:
    tokenizer = sources.tokenizers.get(folder)
  except AgentrlError:  # the page then has ids, and says so
    tokenizer = None
  return Source(
      record,
      row['line'],
      row['run'],
      sources.learned(path),
      tokenizer,
      replay.saved_pictures(path, record, _PICTURES),
  )


def collect(
    title: str, sources: Sequence[Source], grouped: bool
) -> dict[str, Any]:
  """The values that lib/export.js draws.

  Args:
    title: of the page.
    sources: its episodes.
    grouped: whether they are one group, to be aligned.
  """
  # Runs may have different tokenizers: one table of texts each.
  tokenizers = list({id(x.tokenizer): x.tokenizer for x in sources}.values())
  tables: list[set[int]] = [set() for _ in tokenizers]
  episodes = []
  for source in sources:
    table = tokenizers.index(source.tokenizer)
    episodes.append(_episode(source, tables[table]) | {'texts': table})
  texts = [
      tokenizer
      and {i: tokenizer.decode([i], skip_special=False) for i in sorted(ids)}
      for tokenizer, ids in zip(tokenizers, tables, strict=True)
  ]
  group = None
  if grouped:
    group = groups.beside(
        [x.record for x in sources],
        [x.line for x in sources],
        sources[0].learned,
    )
  return {'title': title, 'episodes': episodes, 'texts': texts, 'group': group}


def _episode(source: Source, ids: set[int]) -> dict[str, Any]:
  record = source.record
  shown = record.turns[:_TURNS]
  return {
      'run': source.run,
      'line': source.line,
      'episode_id': record.episode_id,
      'env': record.env,
      'task': record.task_id,
      'split': record.split,
      'seed': record.seed,
      'horizon': record.horizon,
      'stop_reason': record.stop_reason,
      'success': record.success,
      'return': record.episode_return,
      'version': record.policy_version,
      'num_turns': len(record.turns),
      'num_acts': len(record.acts),
      'attempt': record.attempt,
      'segments': record.num_segments,
      'error': record.error,
      'problems': list(source.problems),
      'prompt': [
          {'role': x.role, 'content': long_text(x.content, _CHARS)}
          for x in record.prompt
      ],
      'turns': [
          episode_lib.turn_json(i, turn, _CHARS) for i, turn in enumerate(shown)
      ],
      'views': [
          views.at(
              Moment(
                  record.prompt,
                  record.turns,
                  done,
                  picture=done < len(source.pictures),
                  task=record.task_id,
              ),
              views.of(record.env),
          )
          for done in range(len(shown) + 1)
      ],
      'pictures': [
          f'data:image/png;base64,{base64.b64encode(png).decode()}'
          for png in source.pictures
      ],
      'tokens': _tokens(source, ids),
  }


def _tokens(source: Source, ids: set[int]) -> dict[str, Any] | None:
  """The token table, of which columns have the sampled tokens alone."""
  try:
    table = tokens.table(source.record, source.learned, source.line)
  except DataError as error:
    return {'problem': str(error)}
  ids.update(table['ids'])
  mask = table.pop('mask')
  table['columns'] = {
      name: [x for x, on in zip(values, mask, strict=True) if on]
      for name, values in table['columns'].items()
  }
  return table
