"""The other processes of a run: one that is gone is noticed, whatever else waits.

A collective whose process is gone mostly fails at once, and that error is told. Some
wait on: Gloo's waiting threads may miss that a connection was closed, and NCCL does
not look. JAX's heartbeats abort the process after 100 s, with pages of frames for a
message; and at once where the clock of a machine is set back, or forward by more
than that. So each process holds a connection to process 0, which the kernel closes
with either of them. A machine that is gone or cut off closes nothing: its silence
counts as the loss, see `connections`, and with `_GRACE_S` that is a minute.
"""

import contextlib
import secrets
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

from absl import logging

from agentrl.runtime import aborts, connections
from agentrl.runtime.event_loop import Interrupted

# For what fails by itself to be told and closed.
_GRACE_S = 30.0
_CONNECT_S = 10.0
_TOLD_S = 1.0  # from a library's word to the kernel's
# Who connects says which run it is of: networks have scanners.
_TOKEN_BYTES = 16
_GOODBYE = b'.'

Share = Callable[[bytes], list[bytes]]


@contextlib.contextmanager
def watched(
    host: str | None,
    lost: Callable[[], object],
    *,
    aborted: Callable[[], object],
    index: int,
    count: int,
    share: Share,
) -> Iterator[None]:
  """Calls `lost` if a process is gone and this one does not leave the block.

  Process 0 notices any other, the others process 0. All have to enter. One that
  leaves the block without an error is not missed.

  Args:
    host: of process 0; None: by the name that it has for itself.
    lost: ends the process; called in a thread, `_GRACE_S` after the loss.
    aborted: as `lost`, before a library aborts this process and none is gone.
    index: of this process.
    count: of all processes.
    share: gives the messages of all in their order, see `parallel.distributed`.
  """
  if count == 1:
    yield
    return
  with contextlib.ExitStack() as stack:
    links = _meet(host, index, count, share)
    for link in links:
      stack.enter_context(link)
      connections.watch(link)
    left, gone = threading.Event(), threading.Event()
    # JAX aborts the others at once where process 0 is gone: say why before.
    answer = lambda: lost() if gone.wait(_TOLD_S) else aborted()
    stack.enter_context(aborts.answered(answer))
    waking, wake = map(stack.enter_context, socket.socketpair())
    thread = threading.Thread(
        target=_watch,
        args=([waking, *links], left, gone, lost),
        daemon=True,
    )
    thread.start()
    try:
      yield
      _say_goodbye(links)
    except Interrupted:
      _say_goodbye(links)
      raise
    finally:
      left.set()
      wake.send(_GOODBYE)
      thread.join()


def _meet(
    host: str | None, index: int, count: int, share: Share
) -> list[socket.socket]:
  """The connections of this process: to all others, or to process 0."""
  with socket.create_server(('', 0), backlog=count) as server:
    token = secrets.token_bytes(_TOKEN_BYTES)
    port, name = server.getsockname()[1], socket.gethostname()
    [offer, *_] = share(token + f'{port} {name}'.encode())
    token, (port, name) = (
        offer[:_TOKEN_BYTES],
        offer[_TOKEN_BYTES:].decode().split(),
    )
    links = []
    if index:
      links = _connect(index, (host or name, name), int(port), token)
    connected = share(b'1' * len(links)).count(b'1')
    while not index and len(links) < connected:
      link, _ = server.accept()
      link.settimeout(_CONNECT_S)
      if _says(link, token):
        links.append(link)
      else:
        link.close()
    return links


def _connect(
    index: int, hosts: Sequence[str], port: int, token: bytes
) -> list[socket.socket]:
  reasons = []
  for host in dict.fromkeys(hosts):
    try:
      link = socket.create_connection((host, port), _CONNECT_S)
    except OSError as error:
      reasons.append(f'{host}:{port}: {error}')
    else:
      link.sendall(token)
      return [link]
  logging.warning(
      'Process %d does not reach process 0 (%s): if one of them is gone, JAX'
      ' may take minutes to notice, and says so at length.',
      index,
      '; '.join(reasons),
  )
  return []


def _says(link: socket.socket, token: bytes) -> bool:
  try:
    return secrets.compare_digest(link.recv(len(token)), token)
  except OSError:
    return False


def _say_goodbye(links: Sequence[socket.socket]) -> None:
  for link in links:
    with contextlib.suppress(OSError):  # gone before this one
      link.send(_GOODBYE)


def _watch(
    links: Sequence[socket.socket],
    left: threading.Event,
    gone: threading.Event,
    lost: Callable[[], object],
) -> None:
  with selectors.DefaultSelector() as selector:
    for link in links:
      selector.register(link, selectors.EVENT_READ, link)
    while not left.is_set():
      for key, _ in selector.select():
        try:
          word = key.data.recv(1)
        except OSError:
          word = b''
        if word == _GOODBYE:
          selector.unregister(key.data)
          continue
        gone.set()
        if left.wait(_GRACE_S):
          return
        else:
          lost()
          return
