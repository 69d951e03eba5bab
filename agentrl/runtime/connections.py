"""Connections to other machines that notice when those are gone.

The kernel closes a connection with its process, but not with the other machine:
without power or network that is silent, and whoever waits for its reply waits for
ever. So idle connections ask the other kernel for a sign of life, which it gives
however busy or stopped the process is.
"""

import socket
from typing import Any

import aiohttp

SILENCE_S = 30  # until the other machine counts as gone
_PROBES = 4
_INTERVAL_S = 5
# Option of a TCP socket -> value. Not all systems have all of them.
_OPTIONS = {
    'TCP_KEEPIDLE': SILENCE_S - _PROBES * _INTERVAL_S,  # seconds
    'TCP_KEEPINTVL': _INTERVAL_S,
    'TCP_KEEPCNT': _PROBES,
    # Of data that is not acknowledged, in milliseconds: no sign of life is asked
    # for while some is under way.
    'TCP_USER_TIMEOUT': 1000 * SILENCE_S,
}


def watch(connection: socket.socket) -> None:
  """Makes reads of a TCP connection fail `SILENCE_S` after the last sign of life."""
  connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
  for name, value in _OPTIONS.items():
    if hasattr(socket, name):
      connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def connector(**options: Any) -> aiohttp.TCPConnector:
  """A connector of an HTTP session whose connections are watched.

  Args:
    **options: of `aiohttp.TCPConnector`.
  """

  def make(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    watch(connection)
    return connection

  return aiohttp.TCPConnector(socket_factory=make, **options)
