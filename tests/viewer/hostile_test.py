"""Tests of files that no run writes, and of requests that no page sends."""

import asyncio
import io
import json
import pickle
import tracemalloc
import urllib.parse
import zipfile

import aiohttp
import numpy as np
import pytest
from yarl import URL

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.evaluation.workdirs.metric_lines import MetricLines
from agentrl.viewer import learned, server
from agentrl.viewer.scan import Job, read
from tests.viewer import runs

FILE = 'episodes/train/000000'
DEEP = '[' * 10**5
HUGE = '9' * 400


def header(shape, descr='<f4'):
  """The beginning of an .npy file."""
  out = io.BytesIO()
  np.lib.format.write_array_header_1_0(
      out, {'descr': descr, 'fortran_order': False, 'shape': shape}
  )
  return out.getvalue()


def npy(values):
  out = io.BytesIO()
  np.lib.format.write_array(out, np.asarray(values))
  return out.getvalue()


def zipped(name, data):
  out = io.BytesIO()
  with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as file:
    file.writestr(f'{name}.npy', data)
  return out.getvalue()


def encrypted():
  data = bytearray(zipped('advantages', npy(np.zeros((4, 12), 'f4'))))
  data[6] |= 1  # of the member, then of the directory
  data[data.index(b'PK\x01\x02') + 8] |= 1
  return bytes(data)


NPZ = {
    '2^60 floats': zipped('advantages', header((2**60, 1)) + b'x' * 99),
    'a product beyond 64 bits': zipped('values', header((2**40, 2**40))),
    'a negative shape': zipped('values', header((-4, 12)) + b'x' * 192),
    'more rows than episodes': zipped('values', npy(np.zeros((5, 12), 'f4'))),
    'fewer bytes than it says': zipped('values', header((4, 12)) + b'x' * 9),
    'pickled': zipped('values', header((4, 12), '|O')),
    'a pickle': pickle.dumps({'advantages': [1.0]}),
    'an array that is no zip': npy(np.zeros((4, 12), 'f4')),
    'complex': zipped('values', npy(np.zeros((4, 12), 'c8'))),
    'text': zipped('values', npy(np.full((4, 12), 'x'))),
    'of one axis': zipped('values', npy(np.zeros(4, 'f4'))),
    'of another name': zipped('secrets', npy(np.zeros((4, 12), 'f4'))),
    'places that are no integers': zipped(
        'placements', npy(np.full((4, 5), np.nan, 'f4'))
    ),
    'places of three numbers': zipped(
        'placements', npy(np.zeros((4, 3), 'i4'))
    ),
    'a broken header': zipped('values', b'\x93NUMPY\x01\x00\xff\xff'),
    'a header that is code': zipped(
        'values', b'\x93NUMPY\x01\x00\x10\x00' + b'exit(1)'.ljust(16)
    ),
    'encrypted': encrypted(),
    'empty': b'',
}


def bomb(tmp_path, member=b'', *, size=2**30):
  """An .npz of some MB that unpacks to a gigabyte; its episode file."""
  path = runs.write(tmp_path)
  rows = member or header((4, size // 16))
  with zipfile.ZipFile(
      path.with_suffix('.npz'), 'w', zipfile.ZIP_DEFLATED, compresslevel=1
  ) as file:
    with file.open('advantages.npy', 'w', force_zip64=True) as out:
      out.write(rows)
      for _ in range(size // 2**24):
        out.write(bytes(2**24))
  return path


def test_a_bomb_beside_episodes_is_refused_before_it_is_unpacked(tmp_path):
  path = bomb(tmp_path)
  tracemalloc.start()
  with pytest.raises(DataError, match='does not fit the 4 episodes'):
    learned.load(path)
  assert tracemalloc.get_traced_memory()[1] < 2**24
  tracemalloc.stop()


@pytest.mark.parametrize('data', NPZ.values(), ids=NPZ)
def test_arrays_that_no_run_writes_are_refused_by_name(tmp_path, data):
  path = runs.write(tmp_path)
  path.with_suffix('.npz').write_bytes(data)
  with pytest.raises(DataError, match='000000.npz') as error:
    learned.load(path)
  assert '\n' not in str(error.value) and len(str(error.value)) < 400


def test_arrays_of_a_padded_batch_are_read(tmp_path):
  path = runs.write(tmp_path)
  values = np.ones((4, 2**12), np.float32)
  episodes_lib.write_learned(path, advantages=values)
  assert np.array_equal(learned.load(path).array('advantages'), values)


def test_lines_of_gigabytes_count_as_broken(tmp_path, monkeypatch):
  monkeypatch.setattr('agentrl.viewer.scan._MOST_LINE', 5000)
  monkeypatch.setattr(
      'agentrl.evaluation.workdirs.metric_lines._MOST_LINE', 100
  )
  line = episodes_lib.to_line(runs.episode('e'))
  path = tmp_path / 'a.jsonl'
  path.write_text(f'{line}\n{line[:-1]}{" " * 9000}}}\n{line}\n{line[:-1]}')
  found = read(Job(str(path)))
  assert [row[0] for row in found.rows] == [0, 2]
  assert (found.broken, found.job.lines) == (1, 3)
  # It goes on where the file does.
  with path.open('a') as file:
    file.write('}\n')
  assert [row[0] for row in read(found.job).rows] == [3]

  path = tmp_path / 'metrics.jsonl'
  long = '{"step": 1, "loss": 1.0' + ' ' * 9000 + '}'
  path.write_text(f'{{"step": 0, "loss": 2.0}}\n{long}\n{long[:-1]}')
  lines = MetricLines(path)
  lines.refresh()
  assert (len(lines), lines.broken) == (1, 1)
  with path.open('a') as file:
    file.write('}\n{"step": 2, "loss": 3.0}\n')
  lines.refresh()
  assert lines.column('loss').values.tolist() == [2.0, 3.0]
  assert lines.broken == 2


CONFIGS = [
    DEEP, '[]', '\xff', '', '{"env": 7}', '{"env": {"name": ["x"]}}',
    '{"env": {"name": "babyai", "options": [1]}}',
    '{"env": {"name": "babyai", "options": {"level": [1]}}}',
    '{"mixture": [1]}', '{"mixture": {"a": 3}}', '{"mode": {}}',
    '{"model": {"name": {}}}', '{"model": 3}', '{"agent": 2, "eval": 3}',
    '{"num_steps": "x", "mode": "train"}', f'{{"seed": {HUGE}{HUGE}}}',
    '{"algo": []}', f'{{"a": {"[" * 900}{"]" * 900}}}',
]  # fmt: skip
SUMMARIES = [
    DEEP, '[1]', '{"steps": "x", "wall_s": "y"}', '{"steps": 1e400}',
    '{"eval": [1]}', '{"eval": {"after": {"mean": "x", "n": {}}}}',
    '{"eval": {"after": {"mean": 1, "low": [], "high": 2, "n": 1}}}',
    '{"mode": []}', f'{{"eval": {"[" * 900}{"]" * 900}}}',
]  # fmt: skip
METRICS = [
    DEEP, f'{{"step": 0, "a": {HUGE}}}', '{"step": 1e400, "a": 1}',
    '{"step": "x", "a": 1}', '{"step": null, "eval/success": "x"}', '[]',
    f'{{"step": {HUGE}, "eval/success": {HUGE}}}',
    '{"time": {}, "step": NaN, "a": NaN}',
    '{"step": 1, "eval/success": "x", "eval/episodes": {}}',
]  # fmt: skip


def make(root):
  """A run for each file that is damaged, all with episodes."""
  for i, text in enumerate(CONFIGS):
    runs.write(root, f'config{i}')
    path = root / f'config{i}/config.json'
    path.write_bytes(text.encode('latin-1'))
  for i, text in enumerate(SUMMARIES):
    runs.write(root, f'summary{i}')
    (root / f'summary{i}/summary.json').write_text(text)
  for i, text in enumerate(METRICS):
    runs.write(root, f'metrics{i}')
    (root / f'metrics{i}/metrics.jsonl').write_text(f'{text}\n')
  for name in ('evaluation', 'comparison'):
    runs.write(root, name)
    (root / name / f'{name}.json').write_text(DEEP)
  for name, data in NPZ.items():
    path = runs.write(root, f'npz {name}')
    path.with_suffix('.npz').write_bytes(data)
    path.with_suffix('.zip').write_bytes(data)
  return sorted(x.name for x in root.iterdir())


async def settled(url, session, count):
  """Waits until the index has all episodes."""
  while True:
    async with session.get(f'{url}api/episodes/summary') as response:
      found = await response.json()
    if found['total'] == count and found['indexed'] == 1:
      return found
    await asyncio.sleep(0.05)


def test_no_file_of_a_run_makes_a_page_fail(tmp_path, caplog):
  names = make(tmp_path)

  async def main():
    async with (
        server.running(tmp_path) as url,
        aiohttp.ClientSession() as session,
    ):

      async def get(route, **query):
        async with session.get(f'{url}api/{route}', params=query) as response:
          text = await response.text()
          assert response.status < 500, (route, query, text)
          if response.status >= 400:
            assert json.loads(text)['error'], (route, query)
          return response.status, text

      found = await asyncio.wait_for(settled(url, session, 4 * len(names)), 60)
      assert not found['problem']
      for route in ('runs', 'evaluations', 'play'):
        assert (await get(route))[0] == 200
      for run in names:
        for route in ('metrics', 'config', 'stages', 'failures'):
          await get(route, run=run)
        await get('curves', run=run, metric=['a', 'eval/success'])
        for x in ('time', 'tokens'):
          await get('curves.csv', run=run, metric='eval/success', x=x)
        key = dict(run=run, file=f'{FILE}.jsonl', line=0)
        for route in ('tokens', 'group', 'replay', 'replay/view', 'export'):
          await get(route, **key)
        await get('replay/picture', **key, done=1)
        await get('compare', a=f'{run}:x', b=f'{run}:y')

  asyncio.run(main())
  assert 'Traceback' not in caplog.text


WEIRD = [
    'x', '-1', '1e999', 'nan', '9' * 30, '9' * 5000, '٣', '²', '1.5', '',
    'none', '..', '2..<x', '\0', "'", 'a;b', 'inf', 'nan..', '..1e999',
    '99999999999999999999..', 'x' * 5000, '%FF%FE', '%ED%A0%80',
]  # fmt: skip
PARAMETERS = {
    'episodes': (
        'from count sort step turns return task success q run file'
        ' first_reward line version seed'
    ),
    'episodes/summary': 'return run step q task',
    'episodes/values': 'run',
    'curves': 'run x smooth points metric',
    'curves.csv': 'run x metric',
    'metrics': 'run',
    'config': 'run',
    'compare': 'a b',
    'stages': 'run',
    'failures': 'run by origin env failed',
    'failures/words': 'run origin',
    'episode': 'run file line limit',
    'turns': 'from count limit line',
    'text': 'path from count line',
    'tokens': 'from count line',
    'group': 'from line',
    'replay': 'line',
    'replay/view': 'done line',
    'replay/picture': 'done line',
    'export': 'as what episode title line',
    'play/session': 'session',
    'play/picture': 'session done',
}
BODIES = [
    b'', b'{', DEEP.encode(), b'{"session":' * 50_000, b'\xff\xfe',
    b'{"session":"\xff","actor":"hand"}', b'{"session":"\\ud800"}',
    b'{"session":1}', b'[]', b'null', b'{"env":"\\ud800"}', b'{"env":"nope"}',
    b'{"env":"babyai","task":1.5}', b'{"run":"../x"}', b'{"run":"\\u0000"}',
    b'{"episode":{"run":"r","file":"x","line":"%s"}}' % (b'9' * 40),
    b'{"branch":{"session":"x","turns":1}}', b'"' + b'x' * 2**21 + b'"',
    b'{"session":"x","actor":"hand","checkpoint":1%s}' % (b'0' * 99),
]  # fmt: skip
# Of sessions that are not open: to end one of those is no error.
UNKNOWN = [b'{"session":"\\ud800"}', BODIES[-1]]
HEADERS = [
    {'Host': '['}, {'Host': '[::1'}, {'Host': 'a:b:c'}, {'Host': 'localhost:x'},
    {'Origin': 'http://['}, {'Cookie': '\xff'}, {'Content-Encoding': 'gzip'},
]  # fmt: skip


def test_no_request_makes_the_viewer_fail(tmp_path, caplog):
  runs.write(tmp_path)
  (tmp_path / 'run/metrics.jsonl').write_text('{"step": 0, "a": 1.0}\n')

  async def main():
    async with (
        server.running(tmp_path) as url,
        aiohttp.ClientSession() as session,
    ):
      await asyncio.wait_for(settled(url, session, 4), 60)

      async def ask(method, path, **options):
        where = URL(url + path, encoded=True)
        async with session.request(method, where, **options) as response:
          text = await response.text()
          asked = (method, path[:200], str(options)[:200])
          assert response.status < 500, (asked, text)
          if response.status >= 400 and path.startswith('api/'):
            assert json.loads(text)['error'], asked
          return response.status

      usual = dict(run='run', file=f'{FILE}.jsonl', line='0', metric='a')
      for route, names in PARAMETERS.items():
        for name in names.split():
          rest = {k: v for k, v in usual.items() if k != name}
          for value in WEIRD:
            if not value.startswith('%'):
              value = urllib.parse.quote(value)
            query = f'{urllib.parse.urlencode(rest)}&{name}={value}'
            await ask('GET', f'api/{route}?{query}')
      for route in ('start', 'step', 'end'):
        for body in BODIES:
          status = await ask('POST', f'api/play/{route}', data=body)
          assert status >= 400 or (route == 'end' and body in UNKNOWN), body
      for headers in HEADERS:
        await ask('GET', 'api/runs', headers=headers)
        await ask('POST', 'api/play/end', headers=headers, data=b'{')

  asyncio.run(main())
  assert 'Traceback' not in caplog.text
