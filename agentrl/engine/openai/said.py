"""The words of a completion of a chat, and its call of a tool."""

from collections.abc import Collection
from typing import Any

from agentrl.engine import stops
from agentrl.engine.request import Result
from agentrl.http import tools as tools_lib
from agentrl.text import calls
from agentrl.text.calls import Call
from agentrl.text.chat import ChatFormat


class Said:
  """Reads the completions of one request."""

  def __init__(
      self, chat: ChatFormat, tools: Collection[str], *, keep_stop: bool
  ):
    """Keeps what they are read by.

    Args:
      chat: their rendering.
      tools: names of the request's tools.
      keep_stop: whether the stop string that ended one stays.
    """
    self._chat, self._tools = chat, tools
    self._keep_stop = keep_stop

  def read(self, result: Result) -> tuple[str, Call | None]:
    """The words of a completion that has ended, and its call."""
    text = result.text or ''
    if self._chat.has_channels:
      text = stops.trim(
          self._chat.read(result.output_ids),
          result.finish_reason or {},
          keep=self._keep_stop,
      )
    if self._chat.call is None:
      return text, None
    return calls.split(text, self._chat.call, self._tools)

  def message(self, result: Result) -> dict[str, Any]:
    """The message that a completion is."""
    words, call = self.read(result)
    message: dict[str, Any] = {'role': 'assistant', 'content': words}
    if call is not None:
      message |= {
          'content': words or None,
          'tool_calls': [tools_lib.call(*call)],
      }
    return message

  def delta(self, result: Result, sent: str) -> dict[str, Any]:
    """The part of a message that `sent`, the text so far, did not have."""
    call = None
    if result.finish_reason is None:
      words = self._settled(result.text or '')
    else:
      words, call = self.read(result)
    words = words[len(self._settled(sent)) :]
    delta: dict[str, Any] = {'content': words} if words else {}
    if call is not None:
      delta['tool_calls'] = [{'index': 0} | tools_lib.call(*call)]
    return delta

  def _settled(self, text: str) -> str:
    """The part of an unfinished text that stays, and is no call."""
    if self._chat.has_channels:  # its messages are put in order at the end
      return ''
    if self._chat.call is None:
      return text
    return calls.settled(text, self._chat.call)
