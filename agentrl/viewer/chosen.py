"""The columns of a table that a request chooses."""

import asyncio

from aiohttp import web

from agentrl.errors import DataError
from agentrl.evaluation.studies import columns as columns_lib
from agentrl.evaluation.studies.columns import Column
from agentrl.viewer import arms
from agentrl.viewer.state import STATE


async def columns(request: web.Request, most: int) -> list[Column]:
  """The columns of a table that a request asks for.

  `of`, any number of times, names evaluations as RUN:NAME, and runs, whose steps
  are columns; so does `run`, once. Without both, they are the arms by `group`,
  and the policies of evaluations, see `columns.of_folder`.

  Args:
    request: with this query.
    most: columns.

  Raises:
    DataError: there are more.
    Missing: there is no such run or evaluation.
  """
  state, query = request.app[STATE], request.query
  specs = list(dict.fromkeys(query.getall('of', query.getall('run', []))))
  names = await state.runs()
  if specs:
    find = lambda: columns_lib.named(state.root, specs, set(names))
  else:
    found = await arms.grouped(state, arms.fields_of(request))
    find = lambda: columns_lib.of_folder(state.root, found, names)
  chosen = await asyncio.to_thread(find)
  if len(chosen) > most:
    raise DataError(
        f'{len(chosen)} policies are too many for one table, {most} are the'
        ' most: choose some, or group the runs by fewer fields.'
    )
  return chosen
