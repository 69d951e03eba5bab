"""Servers in processes of their own, and one client for their two protocols."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, NamedTuple

import aiohttp

_ROOT = pathlib.Path(__file__).parents[2]
_START_S = 600.0
_POLL_S = 0.05


class Completion(NamedTuple):
  """What a server answered."""

  tokens: list[int]
  prompt_tokens: int
  cached_tokens: int


class Server:
  """A server of SGLang's /generate: a real one, or the embedded engine."""

  _ready = '/ping'

  def __init__(
      self, name: str, command: Sequence[str], port: int, log: pathlib.Path
  ):
    """Keeps what `start` needs.

    Args:
      name: in the results.
      command: without host and port.
      port: for it.
      log: file for what it says.
    """
    self.name = name
    self.url = f'http://127.0.0.1:{port}'
    self._command = [*command, '--host', '127.0.0.1', '--port', str(port)]
    self._log = log
    self._process: subprocess.Popen | None = None

  def start(self) -> float:
    """Seconds from the command until it takes requests.

    Raises:
      RuntimeError: it has ended, or does not get ready.
    """
    begin = time.perf_counter()
    with self._log.open('ab') as log:
      self._process = subprocess.Popen(
          self._command,
          cwd=_ROOT,
          stdout=log,
          stderr=log,
          start_new_session=True,
          # torch's threads that spin while they wait would take our cores.
          env=os.environ | {'OMP_WAIT_POLICY': 'PASSIVE'},
      )
    while time.perf_counter() - begin < _START_S:
      if self._process.poll() is not None:
        raise RuntimeError(
            f'{self.name} ended with {self._process.returncode}:'
            f' {self._log.read_text(errors="replace")[-2000:]}'
        )
      with contextlib.suppress(urllib.error.URLError, ConnectionError):
        with urllib.request.urlopen(f'{self.url}{self._ready}') as response:
          if response.status == 200:
            return time.perf_counter() - begin
      time.sleep(_POLL_S)
    raise RuntimeError(f'{self.name} is not ready after {_START_S:.0f} s.')

  def stop(self) -> None:
    """Ends the process and its children."""
    process, self._process = self._process, None
    if process is None:
      return
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
      process.wait(20)
    with contextlib.suppress(ProcessLookupError):
      os.killpg(process.pid, signal.SIGKILL)
    process.wait()

  async def complete(
      self,
      session: aiohttp.ClientSession,
      ids: list[int],
      new: int,
      *,
      row: int = 0,
      temperature: float = 1.0,
  ) -> Completion:
    """Samples `new` tokens, whatever they are.

    Args:
      session: for the request.
      ids: the prompt.
      new: tokens to sample.
      row: of the batch; who asks again with the same one has a longer prompt.
      temperature: 0 is greedy.
    """
    del row  # finds prefixes by itself
    params = {
        'max_new_tokens': new,
        'temperature': temperature,
        'ignore_eos': True,
    }
    reply = await self._post(
        session, '/generate', {'input_ids': ids, 'sampling_params': params}
    )
    meta = reply['meta_info']
    return Completion(
        reply['output_ids'], meta['prompt_tokens'], meta['cached_tokens']
    )

  async def num_compiled(self, session: aiohttp.ClientSession) -> int:
    """Programs compiled so far; 0 of servers that compile none."""
    async with session.get(f'{self.url}/server_info') as response:
      response.raise_for_status()
      [state] = (await response.json())['internal_states']
    return state.get('num_compiled_programs', 0)

  async def _post(
      self, session: aiohttp.ClientSession, route: str, body: dict[str, Any]
  ) -> dict[str, Any]:
    async with session.post(f'{self.url}{route}', json=body) as response:
      if response.status != 200:
        raise RuntimeError(
            f'{self.name} answered {response.status}: {await response.text()}'
        )
      return await response.json()


class LlamaServer(Server):
  """llama.cpp's server."""

  _ready = '/health'

  async def complete(
      self,
      session: aiohttp.ClientSession,
      ids: list[int],
      new: int,
      *,
      row: int = 0,
      temperature: float = 1.0,
  ) -> Completion:
    """See `Server.complete`; a row has a slot of its own, with its prefix."""
    reply = await self._post(
        session,
        '/completion',
        {
            'prompt': ids,
            'n_predict': new,
            'temperature': temperature,
            'samplers': ['temperature'],
            'ignore_eos': True,
            'return_tokens': True,
            'cache_prompt': True,
            'id_slot': row,
        },
    )
    # It goes on until the last character is whole.
    tokens = reply['tokens'][:new]
    cached = reply['timings']['cache_n']
    return Completion(tokens, cached + reply['timings']['prompt_n'], cached)

  async def num_compiled(self, session: aiohttp.ClientSession) -> int:
    """It compiles none."""
    del session
    return 0


def engine(
    model: pathlib.Path, log: pathlib.Path, port: int, **sizes: int
) -> Server:
  """The embedded engine under the command line of SGLang."""
  command = [sys.executable, '-m', 'agentrl.serving.launch_server']
  return Server('engine', command + _flags(model, **sizes), port, log)


def real(
    model: pathlib.Path, log: pathlib.Path, port: int, python: str, **sizes: int
) -> Server:
  """A real SGLang server; `python` is that of third_party/sglang_cpu."""
  command = [python, '-m', 'sglang_on_cpu']
  return Server('sglang', command + _flags(model, **sizes), port, log)


def _flags(model: pathlib.Path, *, context: int, batch: int) -> list[str]:
  return [
      *('--model-path', str(model), '--context-length', str(context)),
      *('--max-running-requests', str(batch)),
  ]


def llama(
    file: pathlib.Path,
    log: pathlib.Path,
    port: int,
    binary: str,
    *,
    context: int,
    batch: int,
) -> Server:
  """llama.cpp's server of a GGUF file, its cache in float32 for a float32 one.

  Its threads are as many as there are cores: it takes half of them otherwise.
  """
  command = [
      *(binary, '--model', str(file), '--parallel', str(batch)),
      *('--ctx-size', str(batch * context), '--threads', str(os.cpu_count())),
      '--no-webui',
  ]
  if file.stem == 'f32':
    cache = ('--cache-type-k', 'f32', '--cache-type-v', 'f32')
    command += [*cache, '--flash-attn', 'off']
  return LlamaServer(f'llama.cpp {file.stem}', command, port, log)
