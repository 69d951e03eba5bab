"""The processes of a run meet before JAX joins them, and compare who they are.

JAX waits for all of them, and aborts each with pages of frames where one does not
come, where two have one number, or where one was started again while the others have
not yet noticed that it was gone. So they first meet here, on the same port: what is
wrong is said by name, and one that comes too early for a new start waits.
"""

import contextlib
import json
import socket
import time
from collections.abc import Iterator

from agentrl.errors import ConfigError

WAIT_S = 300.0  # as JAX
_ANSWER_S = 10.0  # of who connected, to say who it is
_PAUSE_S = 0.5
# The word of process 0.
_COME = 'come'
_FAULT = 'fault: '
_LONGEST = 4096


def meet(
    coordinator: str, count: int, index: int, wait_s: float = WAIT_S
) -> None:
  """Returns once all processes are here; the port is free then.

  Args:
    coordinator: `host:port` of process 0.
    count: of processes.
    index: of this one.
    wait_s: how long to wait for the others.

  Raises:
    ConfigError: one did not come, or they disagree; in all that are here.
  """
  host, _, port = coordinator.rpartition(':')
  deadline = time.monotonic() + wait_s
  try:
    if index:
      _go(host.strip('[]'), int(port), count, index, deadline)
    else:
      _receive(int(port), count, deadline)
  except (OSError, _Absent) as error:
    raise ConfigError(
        f'The {count} processes of this run did not find each other within'
        f' {wait_s:g} s (coordinator {coordinator}): {error}'
    ) from error


class _Absent(Exception):
  """Somebody has not come."""


def _receive(port: int, count: int, deadline: float) -> None:
  """Process 0: waits for the others, and tells them how it ended."""
  with contextlib.ExitStack() as stack:
    server = stack.enter_context(_listening(port))
    links: dict[int, socket.socket] = {}
    told = []  # how it ended
    fault = None
    while len(links) < count - 1 and fault is None:
      server.settimeout(max(deadline - time.monotonic(), 0.001))
      try:
        link, _ = server.accept()
      except TimeoutError:
        missing = [i for i in range(1, count) if i not in links]
        fault = f'process {", ".join(map(str, missing))} did not come.'
        break
      stack.enter_context(link)
      theirs = _introduction(link)
      if theirs is None:  # networks have scanners
        link.close()
        continue
      told.append(link)
      number, total = theirs
      if total != count:
        fault = (
            f'process {number} is one of {total}, process 0 one of {count};'
            ' give all of them one number of processes.'
        )
      elif number in links and not _closed(links[number]):
        fault = f'two of them are process {number}; number them apart.'
      elif not 0 < number < count:
        fault = f'another of them is process {number}; number them apart.'
      links[number] = link
    for link in told:
      with contextlib.suppress(OSError):  # it has gone meanwhile
        word = _COME if fault is None else f'{_FAULT}{fault}'
        link.sendall(f'{word}\n'.encode())
  if fault is not None:
    raise _Absent(fault)


def _go(host: str, port: int, count: int, index: int, deadline: float) -> None:
  """Any other process: says who it is, and waits for the word of process 0."""
  reason = 'process 0 did not answer.'
  while (left := deadline - time.monotonic()) > 0:
    try:
      with socket.create_connection((host, port), min(left, _ANSWER_S)) as link:
        # Process 0 waits as long, from its own start.
        link.settimeout(left + _ANSWER_S)
        link.sendall((json.dumps([index, count]) + '\n').encode())
        word = _line(link)
    except OSError as error:
      reason = f'process 0 did not answer ({error}).'
    else:
      if word == _COME:
        return
      if word.startswith(_FAULT):
        raise _Absent(word.removeprefix(_FAULT))
      # JAX's server of a start that has not yet ended, or another program.
      reason = 'what listens there is not waiting for this process.'
    time.sleep(_PAUSE_S)
  raise _Absent(reason)


def _listening(port: int) -> socket.socket:
  """A server on all addresses."""
  if socket.has_dualstack_ipv6():
    return socket.create_server(
        ('', port),
        family=socket.AF_INET6,
        dualstack_ipv6=True,
        reuse_port=True,
    )
  return socket.create_server(('', port), reuse_port=True)


def _introduction(link: socket.socket) -> tuple[int, int] | None:
  """The number of who connected, and its count; None: it is none of the run."""
  link.settimeout(_ANSWER_S)
  try:
    number, total = json.loads(_line(link))
  except (OSError, ValueError, TypeError):
    return None
  return (number, total) if {type(number), type(total)} == {int} else None


def _line(link: socket.socket) -> str:
  """The text up to the end of a line, or of the connection."""
  return b''.join(_bytes(link)).decode(errors='replace')


def _bytes(link: socket.socket) -> Iterator[bytes]:
  for _ in range(_LONGEST):
    byte = link.recv(1)
    if byte in (b'', b'\n'):
      return
    yield byte


def _closed(link: socket.socket) -> bool:
  """True if who connected has gone, as one that was started again."""
  link.settimeout(0)
  try:
    return link.recv(1) == b''
  except BlockingIOError:
    return False
  except OSError:
    return True
