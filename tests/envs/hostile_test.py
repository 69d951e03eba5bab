"""Servers that lie to our client, and clients that are hostile to our servers.

All is drawn from a seed. The full counts are slow; a share of them runs always.
"""

import asyncio
import gzip
import json
import math
import pathlib
import random
import subprocess
import sys
import threading
import time
import urllib.request

import aiohttp
import pytest

from agentrl.envs import replies
from agentrl.envs.pool import EnvPool
from agentrl.errors import ConfigError, EnvError
from agentrl.types import StepResult

ROOT = pathlib.Path(__file__).parents[2]

DEEP = b'[' * 3000 + b']' * 3000
# JSON, most of it.
VALUES = (
    *(b'null', b'true', b'false', b'"false"', b'"true"', b'"no"', b'""'),
    *(b'0', b'-1', b'5', b'50.7', b'"5"', b'1e308', b'-1e308', b'1e999'),
    *(b'NaN', b'Infinity', b'9' * 400, b'9' * 5000, b'0.' + b'1' * 400),
    *(b'[]', b'{}', b'[1]', b'{"a": 1}', DEEP, b'{"a": ' * 3000, b'"' * 3),
    *(
        rb'"\ud800"',
        b'"\xff"',
        b'"\x00"',
        b'"%s"' % (b'x' * (replies.MAX_CHARS + 1)),
    ),
    *('"٣"'.encode(), b'"This is environment BabyAI."', b'01', b'1_0', b''),
)
REPLIES = {
    '/': b'"This is environment TextCraft."',
    '/create': b'{"id": 5, "observation": "Goal", "done": false, "reward": 0}',
    '/reset': b'{"id": 5, "observation": "Goal", "done": false, "reward": 0}',
    '/step': (
        b'{"observation": "Got it", "reward": 0, "done": false,'
        b' "success": false, "terminated": false, "truncated": false,'
        b' "progress": 0.5}'
    ),
    '/observation': b'"Got it"',
    '/expert': b'{"action": "get 1 stick"}',
    '/close': b'true',
}


def spoil(rng, body):
  """Another body, often of valid JSON."""
  kind = rng.randrange(7)
  if kind < 4 and b':' in body:  # a field's value, name or all of it
    fields = body.strip(b'{}').split(b', ')
    index = rng.randrange(len(fields))
    name, _, _ = fields[index].partition(b': ')
    fields[index] = rng.choice(
        [name + b': ' + rng.choice(VALUES)] * 3
        + [b'"error": ' + rng.choice(VALUES), b'"x": ' + rng.choice(VALUES)]
    )
    return b'{' + b', '.join(fields) + b'}'
  if kind == 4:
    return rng.choice(VALUES)
  if kind == 5:
    return body[: rng.randrange(len(body))]
  spoilt = bytearray(body)
  for _ in range(rng.randint(1, 4)):
    spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
  return bytes(spoilt)


def answer(rng, body):
  """A whole HTTP response."""
  status, headers, length = b'200 OK', [], None
  kind = rng.randrange(8)
  if kind == 0:
    status = rng.choice(
        [b'404 No', b'422 No', b'429 No', b'500 No', b'502 No', b'503 No']
        + [b'204 No', b'301 No', b'999 No', b'0 No', b'x', b'']
    )
  elif kind == 1:
    headers = [
        rng.choice([
            b'Content-Type: application/json; charset=klingon',
            b'Content-Type: application/json; charset=utf-7',
            b'Content-Type: ' + b'x' * 9000,
            b'Content-Encoding: gzip',
            b'Content-Encoding: br',
            b'Content-Encoding: klingon',
            b'Transfer-Encoding: chunked',
            b'Location: /create',
            b'Location: http://[::1/',
            b'Set-Cookie: ' + b';' * 500,
            b'X: \xff\x01',
            b': : :',
        ])
    ]
    if b'Location' in headers[0]:
      status = b'302 Found'
    if rng.random() < 0.3:
      body = gzip.compress(body * rng.choice([1, 10**5]))
  elif kind == 2:
    length = rng.choice([-1, 0, len(body) - 1, len(body) + 9, 10**30, 'x'])
  elif kind == 3:
    raw = bytearray(b'HTTP/1.1 200 OK\r\n\r\n' + body)
    raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw[: rng.randrange(len(raw) + 1)])
  headers += [b'Content-Length: %s' % str(length or len(body)).encode()]
  head = b'\r\n'.join([b'HTTP/1.1 ' + status, *headers])
  return head + b'\r\n\r\n' + body


async def lie(rng, counts):
  """One episode with a server that lies about one of its routes."""
  lies_at = rng.choice([*REPLIES, '/step', '/step', '/reset'])

  async def serve(reader, writer):
    try:
      head = await reader.readuntil(b'\r\n\r\n')
      path = head.split()[1].decode().partition('?')[0]
      for line in head.lower().split(b'\r\n'):
        if line.startswith(b'content-length:'):
          await reader.readexactly(int(line.partition(b':')[2]))
      body = REPLIES.get(path, b'null')
      if path == lies_at:
        content = answer(rng, spoil(rng, body) if rng.random() < 0.8 else body)
      else:
        content = (
            b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(body) + body
        )
      writer.write(content)
      await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
      pass  # the client has had enough
    finally:
      writer.close()

  server = await asyncio.start_server(serve, '127.0.0.1', 0)
  url = f'http://127.0.0.1:{server.sockets[0].getsockname()[1]}'
  # The server ends every connection without a word.
  connector = aiohttp.TCPConnector(force_close=True)
  async with aiohttp.ClientSession(connector=connector) as session:
    pool = EnvPool(session, [url], env_name='textcraft', timeout_s=5.0)
    try:
      await pool.probe(3, expert=True)
      async with pool.client() as env:
        assert isinstance(await env.reset(3), str)
        assert isinstance(await env.expert_action(), str)
        result = await env.step('look')
        assert isinstance(await env.observation(), str)
      assert isinstance(result, StepResult)
      assert isinstance(result.observation, str)
      assert math.isfinite(result.reward) and abs(result.reward) <= 1e9
      assert result.success in (True, False, None)
      assert result.progress is None or 0.0 <= result.progress <= 1.0
      for verdict in (result.terminated, result.truncated):
        assert isinstance(verdict, bool)
      result.observation.encode()
      counts['answers'] += 1
    except ConfigError:  # another environment, or no expert
      counts['refusals'] += 1
    except EnvError as error:
      assert url in str(error) and len(str(error)) < 2000
      assert '\n' not in str(error)
      counts['errors'] += 1
  server.close()


def lie_often(seed, count):
  rng = random.Random(seed)
  counts = dict.fromkeys(('answers', 'refusals', 'errors'), 0)

  async def main():
    for _ in range(count):
      await lie(rng, counts)

  asyncio.run(main())
  return counts


def test_a_server_that_lies_gets_a_typed_error(caplog):
  counts = lie_often(0, 80)
  assert counts['errors'] > 30 and counts['answers'] > 5
  assert 'Traceback' not in caplog.text


@pytest.mark.slow
def test_500_lies_get_a_typed_error(caplog):
  counts = lie_often(4, 500)
  assert counts['errors'] > 200 and counts['answers'] > 50, counts
  assert 'Traceback' not in caplog.text


# From here on: hostile clients.

ROUTES = (
    *('create', 'reset', 'step', 'close', 'observation', 'detail', 'expert'),
    *('available_actions', 'health', 'metrics', 'render', 'goal', 'x', '%ff'),
)
ACTIONS = (
    'look',
    '',
    'get 1 ' * 9000,
    'craft ' + 'using ' * 9000,
    '\x00' * 999,
)
KEYS = ('id', 'data_idx', 'action', 'seed', 'env_idx')


def demand(rng):
  """An HTTP request, and whether it has an end that a server can find."""
  method = rng.choice(['GET', 'POST', 'POST', 'POST', 'PUT', 'FOO'])
  route = rng.choice(ROUTES)
  fields = []
  for key in KEYS:
    if rng.random() < 0.7:
      value = rng.choice([b'0', b'1', rng.choice(VALUES)])
      if key == 'action' and rng.random() < 0.5:
        value = json.dumps(rng.choice(ACTIONS)).encode()
      fields.append(b'"%s": %s' % (key.encode(), value))
  body = b'{' + b', '.join(fields) + b'}'
  if rng.random() < 0.2:
    body = spoil(rng, body)
  path = f'/{route}'.encode()
  if method == 'GET':
    key = rng.choice(['id', 'env_idx'])
    number = rng.choice(['0', '1', '٣', '9' * 5000, '-1', '%00', '', 'x' * 9])
    path += f'?{key}={number}'.encode()
  headers = [b'Host: x', b'Connection: close']
  length = len(body)
  kind = rng.randrange(10)
  if kind == 0:
    headers += [
        rng.choice([
            b'Content-Encoding: gzip',
            b'Content-Encoding: br',
            b'Authorization: \xff',
            b'Content-Type: application/json; charset=klingon',
            b'Expect: klingon',
            b'X: ' + b'x' * 10**5,
            b': : :',
        ])
    ]
  elif kind == 1:
    length = rng.choice([-1, 0, length + 50, 10**30])
  elif kind == 2:
    headers += [b'Transfer-Encoding: chunked']
  headers += [b'Content-Length: %d' % length]
  head = b'%s %s HTTP/1.1\r\n' % (method.encode(), path)
  request = head + b'\r\n'.join(headers) + b'\r\n\r\n' + body
  if kind == 3:
    request = request[: rng.randrange(len(request))]
  return request, kind not in (1, 2, 3)


class Watch(threading.Thread):
  """Asks for /health all the time; `slowest` answer in seconds.

  Less what a machine with much to do lets this thread oversleep.
  """

  def __init__(self, url):
    super().__init__()
    self._url = url
    self._done = False
    self.slowest = 0.0
    self.start()

  def run(self):
    stalled = 0.0
    while not self._done:
      began = time.perf_counter()
      with urllib.request.urlopen(f'{self._url}/health', timeout=30) as reply:
        assert json.load(reply)['status'] == 'ok'
      answered = time.perf_counter()
      self.slowest = max(self.slowest, answered - began)
      time.sleep(0.005)
      stalled = max(stalled, time.perf_counter() - answered - 0.005)
    self.slowest -= stalled

  def end(self):
    self._done = True
    self.join()
    return self.slowest


async def ask_all(url, seed, count):
  """The statuses of the answers to so many requests."""
  rng = random.Random(seed)
  host, port = url.removeprefix('http://').split(':')

  async def ask(request, whole):
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
      writer.write(request)
      await writer.drain()
      reply = await asyncio.wait_for(reader.read(), 30 if whole else 0.05)
    except TimeoutError:
      assert not whole, request[:200]
      return None  # and we hang up
    except ConnectionError:  # refused before all was sent
      return None
    finally:
      writer.close()
    head, _, body = reply.partition(b'\r\n\r\n')
    status = int(head.split()[1]) if head else None
    if b'application/json' in head and status >= 400:
      assert json.loads(body).keys() == {'error'}
    return status

  return [await ask(*demand(rng)) for _ in range(count)]


def bother(env_name, seed, count, tmp_path):
  """`ask_all` of a new server, its slowest /health meanwhile, and its log."""
  log = tmp_path / 'log'
  with log.open('w') as stderr:
    child = subprocess.Popen(
        [
            *(sys.executable, '-m', 'agentrl.envs.server', '--port=0'),
            *(f'--env={env_name}', '--expert'),
        ],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=ROOT,
    )
    try:
      url = json.loads(child.stdout.readline())['url']
      watch = Watch(url)
      try:
        statuses = asyncio.run(ask_all(url, seed, count))
      finally:
        slowest = watch.end()
      assert child.poll() is None
    finally:
      child.kill()
      child.wait()
      child.stdout.close()
  return statuses, slowest, log.read_text()


def test_a_server_answers_what_is_hostile(tmp_path):
  statuses, _, log = bother('textcraft', 0, 60, tmp_path)
  assert {200, 400, 404, 422} <= set(statuses)
  assert not any(status and status >= 500 for status in statuses)
  assert 'Traceback' not in log


@pytest.mark.slow
@pytest.mark.parametrize(
    'env_name', ['textcraft', 'babyai', 'sciworld', 'searchqa']
)
def test_300_hostile_requests_get_an_answer_and_hold_up_nobody(
    env_name, tmp_path
):
  slowest = []
  for _ in range(3):
    statuses, waited, log = bother(env_name, 1, 300, tmp_path)
    assert {200, 400, 404, 422} <= set(statuses)
    assert not any(status and status >= 500 for status in statuses)
    assert 'Traceback' not in log
    slowest.append(waited)
    if waited < 0.1:
      break
  # A request that holds others up does so every time; a busy machine does not.
  assert min(slowest) < 0.1
