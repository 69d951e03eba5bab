"""A server of the official SDK with three tools, and on request with troubles.

python -m tests.envs.adapters.mcp_server [stdio | PORT] [TROUBLE]
"""

import os
import pathlib
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

AGES = {'Ada': 36, 'Alan': 41, 'Grace': 85}


def make(trouble: str = '') -> MCPServer:
  server = MCPServer('people')

  @server.tool()
  def find(who: str) -> str:
    """The age of a person."""
    if trouble == 'hangs':
      time.sleep(600)
    if trouble == 'dies':
      os._exit(3)
    if trouble == 'shouts':
      return 'x' * 5_000_000
    if who not in AGES:
      raise ToolError(f'I know nobody called {who}.')
    return f'{who} was {AGES[who]} years old.'

  @server.tool()
  def people() -> list[str]:
    """All names."""
    return list(AGES)

  if trouble.startswith('changes '):  # from its second start on
    started = pathlib.Path(trouble.removeprefix('changes '))
    if started.exists():
      server.tool(name='other')(lambda: 'x')
    started.touch()
  if trouble == 'answers':
    server.tool(name='final_answer')(lambda: 'x')

  @server.tool()
  def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b

  return server


if __name__ == '__main__':
  place, trouble = [*sys.argv[1:], '', ''][:2]
  made = make(trouble)
  if place == 'stdio':
    made.run()
  else:
    made.run('streamable-http', host='127.0.0.1', port=int(place))
