"""A real SGLang server on this machine, for the tests that ask one.

Its environment is made once: `python third_party/sglang_cpu/install.py`.
"""

import asyncio
import contextlib
import pathlib
from collections.abc import Iterator

import aiohttp
import pytest

from agentrl.inference.control import ControlClient
from agentrl.serving import sglang
from agentrl.serving.options import Launch
from third_party.sglang_cpu import install

MODULE = 'sglang_on_cpu'
# Imports take most of it; two servers that start at once take twice as long.
START_S = 400.0


def python() -> str:
  """The environment's Python; fails the test where there is none."""
  folder = install.environment()
  if not folder.is_dir():
    pytest.fail(
        'There is no SGLang on this machine; once:'
        ' python third_party/sglang_cpu/install.py'
    )
  return str(folder / 'bin' / 'python')


@contextlib.contextmanager
def running(
    model: pathlib.Path, log: pathlib.Path, *flags: str
) -> Iterator[sglang.Server]:
  """A server of an exported model, which ends with the block.

  Args:
    model: a Hugging Face directory.
    log: file for what the server says.
    *flags: of SGLang, beside those that a CPU needs.
  """
  launch = Launch(python=python(), module=MODULE)
  [port] = sglang.ports(launch)
  # Not by `launch`, which refuses those that a run sets, keys among them.
  server = sglang.Server(launch, port, log, flags=flags)
  server.start(model)
  try:
    asyncio.run(_ready(server))
    yield server
  finally:
    server.stop()


async def _ready(server: sglang.Server) -> None:
  async with aiohttp.ClientSession() as session:
    waiting = asyncio.create_task(
        ControlClient(session, [server.url]).wait_ready(START_S)
    )
    while not waiting.done():
      ending = server.ending()
      assert ending is None, f'The server {ending}: {server.last_words()}'
      await asyncio.wait([waiting], timeout=0.5)
    waiting.result()
