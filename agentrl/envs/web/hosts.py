"""The hosts that pages may reach, as flags of Chromium and as a check.

A proxy that refuses all connections stands before every address that is not
allowed. Aborting requests in the driver is not enough: redirects, speculation
rules, TURN over TCP and WebTransport pass beside it.
"""

import dataclasses
import re
import urllib.parse
from collections.abc import Mapping

from agentrl.envs.web.commands import Refused
from agentrl.errors import ConfigError

_PORTS = {'http': 80, 'https': 443}
_SCHEME = re.compile('[a-z][a-z0-9+.-]*://', re.IGNORECASE)
# Of a name, IPv4 or IPv6: nothing with which flags of Chromium could be written.
_HOST = re.compile(r'[a-z0-9_.-]+|[0-9a-f:]+')


@dataclasses.dataclass(frozen=True)
class Hosts:
  """Pairs of host and port that pages may reach, and nothing else.

  Attributes:
    allowed: `(host, port)`, hosts in lower case.
    names: public origin -> the real one, such as 'http://shop' ->
      'http://127.0.0.1:7770'. Policies see and write the former: ports differ
      from run to run.
  """

  allowed: frozenset[tuple[str, int]]
  names: Mapping[str, str]

  @classmethod
  def of(cls, names: Mapping[str, str]) -> 'Hosts':
    """The hosts of these sites and no others.

    Args:
      names: public origin -> real one, both without a slash at the end.

    Raises:
      ConfigError: one is no http(s) address.
    """
    for url in (*names, *names.values()):
      if _place(url) is None:
        raise ConfigError(f'{url!r} is no http:// or https:// address.')
    places = map(_place, names.values())
    return cls(frozenset(x for x in places if x is not None), dict(names))

  def shown(self, text: str) -> str:
    """`text` with public origins in place of the real ones."""
    for public, real in self.names.items():
      text = re.sub(re.escape(real) + r'(?![\w.])', lambda _: public, text)  # noqa: B023
    return text

  def check(self, url: str) -> str:
    """The real address of one that a policy wrote, maybe without a scheme.

    Raises:
      Refused: it leads elsewhere, or is no address of a page.
    """
    if not _SCHEME.match(url):
      url = f'http://{url}'
    place = _place(url)
    if place is None:
      raise Refused(f'{url[:80]!r} is no http:// or https:// address.')
    parts = urllib.parse.urlsplit(url)
    for public, real in self.names.items():
      if (parts.scheme, place) == (public.partition(':')[0], _place(public)):
        scheme, _, netloc = real.partition('://')
        return parts._replace(scheme=scheme, netloc=netloc).geturl()
    if place not in self.allowed:
      raise Refused(
          f'{place[0]:.80}:{place[1]} cannot be reached from here; the pages'
          f' are on {", ".join(self.names)}.'
      )
    return url

  def flags(self, refusing_port: int) -> list[str]:
    """Flags of Chromium that keep all of its traffic to these hosts.

    Args:
      refusing_port: a port of 127.0.0.1 where nobody listens.
    """
    places = sorted(
        (f'[{host}]' if ':' in host else host, port)
        for host, port in self.allowed
    )
    bypass = ';'.join(f'{host}:{port}' for host, port in places)
    exclude = ''.join(
        f', EXCLUDE {host}' for host in dict.fromkeys(dict(places))
    )
    return [
        f'--proxy-server=http://127.0.0.1:{refusing_port}',
        # Without <-loopback>, loopback would pass the proxy by.
        f'--proxy-bypass-list=<-loopback>;{bypass}',
        f'--host-resolver-rules=MAP * ~NOTFOUND{exclude}, EXCLUDE 127.0.0.1',
        # Else STUN's datagrams would leave.
        '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
    ]


def _place(url: str) -> tuple[str, int] | None:
  """Host and port of a page's address; None: it is none."""
  try:
    parts = urllib.parse.urlsplit(url)
    port = parts.port
  except ValueError:
    return None
  host = (parts.hostname or '').lower()
  if (
      parts.scheme not in _PORTS
      or not _HOST.fullmatch(host)
      or parts.username is not None
      or '\\' in url
      or any(c.isspace() or ord(c) < 32 for c in url)
  ):
    return None
  return host, _PORTS[parts.scheme] if port is None else port
