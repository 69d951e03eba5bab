"""A harness of verifiers that holds its conversation in this process.

Its own `null` harness starts a program for each episode, in a virtual environment that it
downloads; the loop here asks as that one does. Found by verifiers by the module's name.
"""

import contextlib
import json
from typing import Any

import verifiers.v1 as vf
from openai import AsyncOpenAI
from verifiers.v1.dialects.chat import message_to_wire
from verifiers.v1.harnesses.utils import mcp

__all__ = ['ChatHarness']


class ChatHarness(vf.Harness[vf.HarnessConfig]):
  """Asks and calls tools until a reply is words alone."""

  APPENDS_SYSTEM_PROMPT = True
  SUPPORTS_MCP = True
  SUPPORTS_RESUME = True
  EXECUTES_CODE = False
  NEEDS_CONTAINER = False

  async def launch(
      self, ctx, trace, runtime, endpoint, secret, mcp_urls, data
  ) -> vf.ProgramResult:
    system, prompt = self.resolve_prompt(data)
    messages = [{'role': 'system', 'content': system}] if system else []
    if isinstance(prompt, str):
      messages.append({'role': 'user', 'content': prompt})
    else:
      messages += map(message_to_wire, prompt or ())
    servers = {
        name: {'url': url, 'timeout': self.config.tool_timeout}
        for name, url in mcp_urls.items()
    }
    async with contextlib.AsyncExitStack() as stack:
      client: Any = await stack.enter_async_context(
          AsyncOpenAI(
              base_url=endpoint, api_key=secret, timeout=None, max_retries=0
          )
      )
      tools, places, connections = await mcp.connect_mcp(
          {'mcpServers': servers}, stack
      )
      more = {'tools': tools} if tools else {}
      while True:
        reply = await client.chat.completions.create(
            model=ctx.model, messages=messages, **more
        )
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
          return vf.ProgramResult(exit_code=0, stdout='', stderr='')
        for call in message.tool_calls:
          content = await _call(connections, places, call.function)
          messages.append({
              'role': 'tool',
              'tool_call_id': call.id,
              'name': call.function.name,
              'content': content,
          })


async def _call(connections, places, function) -> str:
  """The result of a call of a tool, or what is wrong with it."""
  if function.name not in places:
    return f'error: unknown tool {function.name!r}'
  try:
    arguments = json.loads(function.arguments or '{}')
  except json.JSONDecodeError as error:
    return f'error: the arguments are no JSON: {error}'
  if not isinstance(arguments, dict):
    return 'error: the arguments are no JSON object'
  return await mcp.call_mcp(connections, places, function.name, arguments)
