"""Compares the answers of an engine and a server, request by request.

    python -m tests.sglang.differential URL_OF_ENGINE URL_OF_SERVER [PATTERN]

Both must serve the same model and nobody else meanwhile. Compared are status,
content type, shape (keys and types) and meaning (finish reasons, counts, codes,
versions), not texts and numbers. `differences.json` lists the differences that
stay, each with its reason.
"""

import argparse
import asyncio
import collections
import dataclasses
import fnmatch
import itertools
import json
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import aiohttp

from tests.sglang import cases, shapes
from tests.sglang.shapes import Difference
from tests.sglang.steps import APART, RACES, Step

LISTED = pathlib.Path(__file__).with_name('differences.json')
# Instead of a status.
_LOST = 'no answer'
# Cases at once, where they cannot disturb each other: a batch costs as much
# time as one request.
_AT_ONCE = 16
# A case that a server may have answered before the next step has reached it is
# played again where it differs, up to so many times in all: on a busy machine a
# difference may be one of speed, and one that stays is not.
_RACES = 5
_TIMEOUT = aiohttp.ClientTimeout(total=60)


@dataclasses.dataclass(frozen=True)
class Numbers:
  """What fills the placeholders of a case."""

  weights: str
  context: int
  vocab: int
  eos: int


def read_listed() -> list[dict[str, Any]]:
  """The listed differences.

  Each entry has `cases`, patterns of names, and a `reason`; patterns `at` of
  places and patterns `engine` and `server` of what is there narrow it.
  """
  return [{'at': ['*']} | entry for entry in json.loads(LISTED.read_text())]


class Side:
  """One of the two servers."""

  def __init__(self, session: aiohttp.ClientSession, url: str):
    self._session = session
    self._url = url.rstrip('/')

  async def numbers(self, vocab: int, eos: int) -> Numbers:
    """Its own values for the placeholders."""
    _, info = await self._get('/model_info')
    _, models = await self._get('/v1/models')
    return Numbers(
        info['model_path'], models['data'][0]['max_model_len'], vocab, eos
    )

  async def _get(self, path: str) -> tuple[int, Any]:
    async with self._session.get(self._url + path) as response:
      return response.status, await response.json()

  async def healthy(self) -> bool:
    try:
      async with self._session.get(f'{self._url}/health') as response:
        return response.status == 200
    except aiohttp.ClientError:
      return False

  async def play(self, steps: Sequence[Step], numbers: Numbers) -> list:
    """The compared part of each reply, in the order of the steps."""
    running, first, replies = {}, {}, []
    try:
      for step in steps:
        if 'first' in step:
          await asyncio.wait_for(first[step['first']].wait(), 60)
        elif 'waits' in step:
          await asyncio.sleep(0.1)
          replies.append(f'waits: {not running[step["waits"]].done()}')
        elif 'join' in step:
          replies.append(await running.pop(step['join']))
        elif 'idle' in step:
          await self._until_idle()
        elif 'start' in step:
          name = step['start']
          first[name] = asyncio.Event()
          running[name] = asyncio.create_task(
              self._send(step, numbers, first[name])
          )
        else:
          reply = await self._send(step, numbers)
          replies.append('<any>' if step.get('free') else reply)
    finally:
      for task in running.values():
        task.cancel()
      await asyncio.gather(*running.values(), return_exceptions=True)
    return replies

  async def _until_idle(self) -> None:
    while True:
      _, reply = await self._get('/v1/loads?include=core')
      loads = reply['loads']
      if not any(x['num_running_reqs'] + x['num_waiting_reqs'] for x in loads):
        return
      await asyncio.sleep(0.05)

  async def _send(
      self,
      step: Step,
      numbers: Numbers,
      first: asyncio.Event | None = None,
  ) -> dict[str, Any]:
    method, _, path = step['send'].partition(' ')
    sent: dict[str, Any] = {}
    if 'raw' in step:
      sent = {'data': step['raw'], 'headers': step.get('headers')}
      sent['skip_auto_headers'] = ('Content-Type',)
    elif 'body' in step:
      sent = {'json': _fill(step['body'], numbers)}
    try:
      async with self._session.request(
          method, self._url + path, timeout=_TIMEOUT, **sent
      ) as response:
        out: dict[str, Any] = {'status': response.status}
        kind = response.headers.get('Content-Type', '').partition(';')[0]
        if kind == 'text/event-stream':
          return out | await _events(response, first, step)
        text = await response.text(errors='replace')
        if text and kind == 'application/json':
          out['reply'] = shapes.shape(json.loads(text), loose=step.get('loose'))
        elif text:
          out['reply'] = '<text>'
        return out
    except (aiohttp.ClientError, TimeoutError) as error:
      return {'status': f'{_LOST}: {type(error).__name__}'}


async def _events(
    response: aiohttp.ClientResponse,
    first: asyncio.Event | None,
    step: Step,
) -> dict[str, Any]:
  """The end of a stream: its last chunk of each request, and `[DONE]`."""
  last: dict[str, Any] = {}
  done = {}
  async for line in response.content:
    data = line.decode().removeprefix('data: ').strip()
    if not data:
      continue
    if data == '[DONE]':
      done = {'done': True}
      break
    event = json.loads(data)
    # In the first chunk alone, which may or may not be the last.
    event.get('meta_info', {}).pop('response_sent_to_client_ts', None)
    choices = event.get('choices') or [event]
    last[f'chunk {choices[0].get("index", 0)}'] = event
    if first is not None and not first.is_set():
      first.set()
      # Chunks that are here already would be read before anyone learns of it.
      await asyncio.sleep(0)
  return done | {
      chunk: shapes.shape(event, loose=step.get('loose'))
      for chunk, event in last.items()
  }


def _fill(value: Any, numbers: Numbers, kind: type = int) -> Any:
  if isinstance(value, dict):
    if set(value) == {'repeat', 'times'}:
      return [value['repeat']] * _fill(value['times'], numbers)
    return {
        _fill(key, numbers, str): _fill(item, numbers)
        for key, item in value.items()
    }
  if isinstance(value, list):
    return [_fill(item, numbers) for item in value]
  if isinstance(value, str):
    found = re.fullmatch(r'<(context|vocab|eos)(?: ([+-]\d+))?>', value)
    if found is not None:
      number = dataclasses.asdict(numbers)[found[1]]
      return kind(number + int(found[2] or 0))
    return numbers.weights if value == '<weights>' else value
  return value


@dataclasses.dataclass(frozen=True)
class Report:
  """What came of a comparison."""

  cases: int
  requests: int
  seconds: float
  unlisted: list[Difference]
  listed: dict[str, list[Difference]]  # by reason
  stale: list[str]  # patterns of the list that no difference fits
  healthy: bool  # whether both were, at the end

  def table(self) -> str:
    """The figures, as text."""
    names = lambda found: {difference.case for difference in found}
    listed = names(d for found in self.listed.values() for d in found)
    unlisted = names(self.unlisted)
    lines = [
        f'{self.cases} cases of {self.requests} requests in'
        f' {self.seconds:.0f} s: {self.cases - len(listed | unlisted)} equal,'
        f' {len(listed - unlisted)} with listed differences alone,'
        f' {len(unlisted)} with others.'
    ]
    for reason, found in self.listed.items():
      lines.append(f'{len(names(found)):5}  {reason}')
    lines += [f'UNLISTED {difference}' for difference in self.unlisted]
    lines += [f'LISTED BUT EQUAL {pattern}' for pattern in self.stale]
    if not self.healthy:
      lines.append('ONE OF THE TWO DOES NOT ANSWER ANY MORE')
    return '\n'.join(lines)


def _together(names: Iterable[str]) -> Iterator[list[str]]:
  """Names in their order, in groups of cases that may be played at once."""
  for apart, group in itertools.groupby(
      names, lambda name: name.startswith(APART)
  ):
    size = 1 if apart else _AT_ONCE
    group = list(group)
    for start in range(0, len(group), size):
      yield group[start : start + size]


async def compare(
    engine_url: str,
    server_url: str,
    *,
    vocab: int,
    eos: int,
    pattern: str = '*',
    headers: dict[str, str] | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
  """Sends all cases that fit `pattern` to both, one case after the other."""
  start = time.monotonic()
  found: list[Difference] = []
  entries = read_listed()
  # A server that answers 500 closes the connection, at times after the next
  # request is on it.
  connector = aiohttp.TCPConnector(force_close=True)
  async with aiohttp.ClientSession(
      headers=headers, connector=connector
  ) as session:
    sides = Side(session, engine_url), Side(session, server_url)
    numbers = [await side.numbers(vocab, eos) for side in sides]
    chosen = {
        name: case
        for name, case in cases.all_cases().items()
        if fnmatch.fnmatchcase(name, pattern)
    }
    steps = sum('send' in s for case in chosen.values() for s in case)

    async def both(name: str) -> list[Difference]:
      for _ in range(_RACES if name.startswith(RACES) else 1):
        progress(name)
        differ = shapes.differences(
            name,
            *await asyncio.gather(*(
                side.play(chosen[name], n)
                for side, n in zip(sides, numbers, strict=True)
            )),
        )
        if all(any(d.listed(entry) for entry in entries) for d in differ):
          break
      return differ

    for names in _together(chosen):
      found += sum(await asyncio.gather(*map(both, names)), [])
      if any(_LOST in d.engine + d.server for d in found):
        break  # whoever has gone will not answer the rest either
    healthy = all([await side.healthy() for side in sides])
  listed, stale, known = collections.defaultdict(list), [], set()
  for entry in entries:
    for wanted in entry['cases']:
      fits = {d for d in found if d.fits(wanted, entry)}
      if not fits and any(fnmatch.fnmatchcase(n, wanted) for n in chosen):
        stale.append(f'{wanted}: {entry["reason"]}')
      listed[entry['reason']] += sorted(fits - known)
      known |= fits
  return Report(
      cases=len(chosen),
      requests=steps,
      seconds=time.monotonic() - start,
      unlisted=[d for d in found if d not in known],
      listed=dict(listed),
      stale=stale,
      healthy=healthy,
  )


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('engine')
  parser.add_argument('server')
  parser.add_argument('pattern', nargs='?', default='*')
  parser.add_argument('--vocab', type=int, required=True, help='its size')
  parser.add_argument('--eos', type=int, required=True, help='an end id')
  given = parser.parse_args()
  report = asyncio.run(
      compare(
          given.engine,
          given.server,
          vocab=given.vocab,
          eos=given.eos,
          pattern=given.pattern,
          progress=lambda name: print(name, file=sys.stderr),
      )
  )
  print(report.table())


if __name__ == '__main__':
  main()
