"""Text of a completion while it grows."""

from collections.abc import Sequence

from agentrl.engine.request import Request
from agentrl.text.tokenizer import Tokenizer

# Tokens that are decoded again with each new one, at least and at most.
_CONTEXT, _WINDOW = 32, 128


class GrowingText:
  """The part of a completion's text that no later token can change.

  It never ends in an incomplete character, nor in what may become a stop string
  and be trimmed. Text that was given out is never taken back.
  """

  def __init__(self, tokenizer: Tokenizer, request: Request):
    params = request.params
    self.text = ''
    self._decode = lambda ids: tokenizer.decode(
        ids, skip_special=params.skip_special_tokens
    )
    self._settled = lambda ids: tokenizer.settled(
        ids, skip_special=params.skip_special_tokens
    )
    self._stops = () if params.no_stop_trim else params.stop
    # `_head` is the text of ids [0, _num_decoded); decoding starts at `_start`,
    # since the text of an id may depend on those before it.
    self._head, self._start, self._num_decoded = '', 0, 0

  def update(self, ids: Sequence[int]) -> str:
    """Takes all ids so far; gives their text."""
    ids = ids[: self._settled(ids)]
    prefix = self._decode(ids[self._start : self._num_decoded])
    whole = self._decode(ids[self._start :])
    if not whole.startswith(prefix):
      return self.text  # a character before is being completed
    text = self._head + whole[len(prefix) :]
    if len(ids) - self._start > _WINDOW:
      self._move(ids, text, whole)
    stable = self._stable(text)
    if stable.startswith(self.text):
      self.text = stable
    return self.text

  def _move(self, ids: Sequence[int], text: str, whole: str) -> None:
    """Moves the window on, where its ends tear no character."""
    start = len(ids) - _CONTEXT
    context = self._decode(ids[start:])
    torn = whole.endswith('\ufffd') or context.startswith('\ufffd')
    if context and not torn:
      self._head, self._start, self._num_decoded = text, start, len(ids)

  def _stable(self, text: str) -> str:
    text = text.rstrip('\ufffd')
    for stop in self._stops:
      for size in range(min(len(stop), len(text)), 0, -1):
        if text.endswith(stop[:size]):
          text = text[:-size]
          break
    return text
