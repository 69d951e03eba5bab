"""Actions of an OpenEnv server as functions: calls of its tools, or of `act`."""

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

from agentrl.envs import functions as functions_lib
from agentrl.envs.adapters.openenv.client import Client, Session
from agentrl.envs.functions import Function
from agentrl.errors import EnvFault

ACT = 'act'
# What servers call the fields of every action; no policy fills them.
_COMMON = ('metadata',)


@dataclasses.dataclass(frozen=True)
class Actions:
  """The actions of a server.

  Attributes:
    functions: one for each tool, or `act`.
    tools: whether they are tools.
    text: the field that plain text fills; None: there is no such field.
  """

  functions: tuple[Function, ...]
  tools: bool = False
  text: str | None = None

  def payload(self, action: str) -> dict[str, Any] | None:
    """The data of a `step` message; None where `action` is no action."""
    call = functions_lib.called(self.functions, action)
    if call is None:
      return None if self.text is None else {self.text: action}
    name, arguments = call
    if self.tools:
      return {'type': 'call_tool', 'tool_name': name, 'arguments': arguments}
    return arguments


def of_server(client: Client) -> Actions:
  """The actions of a server.

  Raises:
    EnvError: it does not answer.
    EnvFault: it answers outside of the protocol.
  """
  return _of_schema(client.action_schema()) or _of_tools(client)


def _of_schema(schema: Mapping[str, Any]) -> Actions | None:
  """Actions by their JSON Schema; None: they are calls of tools, not yet known."""
  fields = {
      name: field
      for name, field in schema.get('properties', {}).items()
      if name not in _COMMON
  }
  if not fields or fields.keys() == {'type', 'tool_name', 'arguments'}:
    return None
  required = [x for x in schema.get('required', ()) if x in fields]
  texts = [
      name
      for name, field in fields.items()
      if isinstance(field, dict) and field.get('type') == 'string'
  ]
  text = None
  if (
      len(texts) == 1
      and texts[0].isidentifier()
      and set(required) <= set(texts)
  ):
    text = texts[0]
  act = functions_lib.of_tool(
      ACT,
      schema.get('description') or 'Acts.',
      {**schema, 'properties': fields, 'required': required},
      forms=() if text is None else (f'{{{text}}}',),
  )
  return Actions((act,), text=text)


def _of_tools(client: Client) -> Actions:
  with contextlib.closing(Session(client)) as session:
    tools = session.tools()
  if not tools:
    raise EnvFault(
        f'The OpenEnv server {client.url} has neither action fields nor tools.'
    )
  return Actions(
      tuple(
          functions_lib.of_tool(
              tool.name,
              tool.description,
              {'type': 'object', **tool.input_schema},
          )
          for tool in tools
      ),
      tools=True,
  )
