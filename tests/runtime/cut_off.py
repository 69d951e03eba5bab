"""Seconds until connections to a host that is cut off fail.

    python -m tests.runtime.cut_off IDLE INTERVAL PROBES

Prints those of an idle connection and of a request that waits for its reply, and
the error of each. The arguments are seconds, seconds and a number.
"""

import asyncio
import json
import pathlib
import socket
import sys
import threading
import time

import aiohttp

from agentrl.runtime import connections
from experiments.clusters import hosts

ROOT = pathlib.Path(__file__).parents[2]
PORT = 5000
# Takes connections, reads, and never says a word.
SILENT = f"""
import socket, threading
server = socket.create_server(('', {PORT}))
print('ready', flush=True)
links = []
while True:
  links.append(server.accept()[0])
  threading.Thread(target=links[-1].recv, args=(1 << 16,)).start()
"""


def wait_idle(address, seen):
  with socket.create_connection((address, PORT)) as link:
    connections.watch(link)
    try:
      link.recv(1)
    except OSError as error:
      seen['idle'] = (time.monotonic(), type(error).__name__)


async def wait_request(address, seen):
  connector = connections.connector(limit=0)
  async with aiohttp.ClientSession(connector=connector) as session:
    try:
      await session.post(f'http://{address}:{PORT}/', data=b'word')
    except aiohttp.ClientConnectionError as error:
      seen['request'] = (time.monotonic(), type(error).__name__)


def main(idle, interval, probes):
  shared = hosts.enter()
  connections._OPTIONS |= {
      'TCP_KEEPIDLE': idle,
      'TCP_KEEPINTVL': interval,
      'TCP_KEEPCNT': probes,
      'TCP_USER_TIMEOUT': 1000 * (idle + interval * probes),
  }
  seen = {}
  with (
      hosts.network(['other'], [ROOT], shared) as [other],
      (shared / 'log').open('w') as log,
  ):
    other.start([sys.executable, '-c', SILENT], log)
    while 'ready' not in (shared / 'log').read_text():
      time.sleep(0.05)
    threads = [
        threading.Thread(target=wait_idle, args=(other.address, seen)),
        threading.Thread(
            target=lambda: asyncio.run(wait_request(other.address, seen))
        ),
    ]
    for thread in threads:
      thread.start()
    time.sleep(idle + 2 * interval)  # and they are not given up meanwhile
    assert not seen, seen
    other.cut()
    began = time.monotonic()
    for thread in threads:
      thread.join()
  print(json.dumps({k: (at - began, word) for k, (at, word) in seen.items()}))


if __name__ == '__main__':
  main(*map(int, sys.argv[1:]))
