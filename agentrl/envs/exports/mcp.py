r"""Any environment as an MCP server over stdio: an episode a connection.

    python -m agentrl.envs.exports.mcp --env=textcraft --options='{"max_depth": 2}'

Tools: `reset` starts a task, and the environment's functions act in it; one that has
none gets `act`, with the action as a text. A tool's result is the observation as text,
and `reward`, `done` and `success` as structured content. Needs `pip install mcp`.
"""

import asyncio
import json
import random
from typing import Any

from absl import app, flags
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from agentrl.envs import functions as functions_lib
from agentrl.envs.exports.local import LocalEnv
from agentrl.envs.functions import Function
from agentrl.errors import AgentrlError, EnvError

_ENV = flags.DEFINE_string('env', None, 'Environment.', required=True)
_SPLIT = flags.DEFINE_string('split', 'train', 'Tasks that reset draws from.')
_OPTIONS = flags.DEFINE_string('options', '{}', 'Its options, as JSON.')

RESET = Function(
    'reset',
    description='Starts a task and shows it. Without task_id, one is drawn.',
    schema={
        'type': 'object',
        'properties': {'task_id': {'type': 'integer'}},
        'additionalProperties': False,
    },
)
ACT = functions_lib.of_texts(
    'act', 'Does one action, as the task says them.', 'action'
)


class Tools:
  """The tools of one connection, which plays one episode after the other.

  Attributes:
    functions: `reset` and the environment's, or `act`.
  """

  def __init__(self, env: LocalEnv):
    self._env = env
    self._rng = random.Random(0)
    self.functions = (RESET, *(env.spec.functions or (ACT,)))

  def call(
      self, name: str, arguments: dict[str, Any]
  ) -> tuple[str, dict[str, Any]]:
    """The text and the structured content that a call gives.

    Raises:
      EnvError: the call is wrong, no episode is under way, or there is no such task.
    """
    action, reason = functions_lib.action_of(self.functions, name, arguments)
    if reason is not None:
      raise EnvError(reason)
    if name == RESET.name:
      task_id = arguments.get('task_id', self._rng.choice(self._env.tasks))
      text = self._env.reset(task_id, 0)
      return text, {'task_id': task_id, 'reward': 0.0, 'done': False}
    result = self._env.step(arguments['action'] if name == ACT.name else action)
    return result.observation, {
        'reward': result.reward,
        'done': result.terminated or result.truncated,
        'success': result.success,
    }


def serve(tools: Tools) -> Server:
  """The server of one connection."""
  described = [function.tool['function'] for function in tools.functions]
  lock = asyncio.Lock()  # calls of one connection come at once

  async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    del context, params
    return types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool['name'],
                description=tool['description'],
                input_schema=tool['parameters'],
            )
            for tool in described
        ]
    )

  async def call_tool(
      context: Any, params: types.CallToolRequestParams
  ) -> types.CallToolResult:
    del context
    async with lock:
      try:
        text, content = await asyncio.to_thread(
            tools.call, params.name, dict(params.arguments or {})
        )
      except EnvError as error:  # the policy's, who may go on
        return types.CallToolResult(
            content=[_content(str(error))], is_error=True
        )
    return types.CallToolResult(
        content=[_content(text)], structured_content=content
    )

  return Server('agentrl', on_list_tools=list_tools, on_call_tool=call_tool)


def _content(text: str) -> types.TextContent:
  return types.TextContent(type='text', text=text)


async def _run(env: LocalEnv) -> None:
  server = serve(Tools(env))
  async with stdio_server() as (read, write):
    await server.run(read, write, server.create_initialization_options())


def main(argv):
  """Serves until the client hangs up."""
  if len(argv) > 1:
    raise app.UsageError(f'Unexpected arguments {argv[1:]}.')
  try:
    env = LocalEnv(_ENV.value, _SPLIT.value, json.loads(_OPTIONS.value))
  except (AgentrlError, ValueError) as error:
    raise SystemExit(f'{type(error).__name__}: {error}') from error
  try:
    asyncio.run(_run(env))
  finally:
    env.close()


if __name__ == '__main__':
  app.run(main)
