"""Addresses of servers."""


def base_url(host: str, port: int) -> str:
  """`http://HOST:PORT`, with brackets about an IPv6 address."""
  return f'http://{listening(host, port)}'


def listening(host: str, port: int) -> str:
  """`HOST:PORT`, with brackets about an IPv6 address."""
  return f'{f"[{host}]" if ":" in host else host}:{port}'
