"""OpenAI's objects, from results."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentrl.engine.http.bodies import Call
from agentrl.engine.http.info import TRAINED_WITH
from agentrl.engine.http.replies import Sent
from agentrl.engine.openai.said import Said
from agentrl.engine.request import Result, Top


class ReplyWriter:
  """The objects of one call. SGLang's extras are under SGLang's names."""

  def __init__(
      self,
      call: Call,
      *,
      model: str,
      said: Said | None,
      copies: int,
      token_ids: bool,
      decode: Callable[[Sequence[int]], str],
      echo: Sequence[str] | None = None,
  ):
    """Keeps what the objects have in common.

    Args:
      call: what was asked.
      model: the name in the replies: that of the request, whatever it was.
      said: reads chat completions; None: these are completions.
      copies: completions of each prompt.
      token_ids: choices hold the ids of prompt and completion.
      decode: ids -> text, control tokens too.
      echo: texts of the prompts, to precede their completions; their
        log-probabilities do too, where they were computed. None: no echo.
    """
    self._call = call
    self._said = said
    self._copies = copies
    self._token_ids = token_ids
    self._decode = decode
    self._echo = echo
    prefix, kind = ('cmpl', 'text_completion') if said is None else (
        'chatcmpl', 'chat.completion'
    )  # fmt: skip
    self._common = {
        'id': f'{prefix}-{uuid.uuid4().hex}',
        'object': kind,
        'created': int(time.time()),
        'model': model,
    }

  def whole(self, results: Sequence[Result]) -> dict[str, Any]:
    """The object of a call that has ended."""
    choices = []
    for index, result in enumerate(results):
      assert result.text is not None  # it has ended, and there is a tokenizer
      text: dict[str, Any] = {'text': self._echoed(index) + result.text}
      if self._said is not None:
        text = {'message': self._said.message(result)}
      choices.append(self._choice(index, result, Sent(), text))
    return self._common | {
        'choices': choices,
        'usage': self._usage(results),
        # Strings alone, as in OpenAI's schema, which some clients check.
        'metadata': {'weight_version': results[-1].weight_version},
    }

  def chunks(
      self, index: int, result: Result, sent: Sent
  ) -> Iterator[dict[str, Any]]:
    """The chunks with what `sent` did not hold."""
    if self._said is None:
      text = (result.text or '')[len(sent.text) :]
      if not sent.tokens:
        text = self._echoed(index) + text
      yield self._chunk(self._choice(index, result, sent, {'text': text}))
      return
    if not sent.tokens:
      # Clients want the role before the first word, and without one.
      yield self._chunk({
          'index': index,
          'delta': {'role': 'assistant', 'content': ''},
          'logprobs': None,
          'finish_reason': None,
      })
    delta = self._said.delta(result, sent.text)
    yield self._chunk(self._choice(index, result, sent, {'delta': delta}))

  def usage_chunk(self, results: Sequence[Result]) -> dict[str, Any]:
    """The last chunk, where the client asked for it."""
    return self._chunk(None) | {'usage': self._usage(results)}

  def _chunk(self, choice: dict[str, Any] | None) -> dict[str, Any]:
    kind = 'text_completion' if self._said is None else 'chat.completion.chunk'
    choices = [] if choice is None else [choice]
    return self._common | {'object': kind, 'choices': choices}

  def _echoed(self, index: int) -> str:
    return '' if self._echo is None else self._echo[index // self._copies]

  def _choice(
      self, index: int, result: Result, sent: Sent, text: dict[str, Any]
  ) -> dict[str, Any]:
    reason = result.finish_reason
    out = {'index': index} | text
    out['logprobs'] = self._logprobs(index, result, sent.tokens)
    out['finish_reason'] = None if reason is None else reason['type']
    if 'tool_calls' in (text.get('message') or text.get('delta') or {}):
      out['finish_reason'] = 'tool_calls'
    if reason is not None and 'matched' in reason:
      out['matched_stop'] = reason['matched']
    if self._token_ids:
      out['token_ids'] = list(result.output_ids[sent.tokens :])
      if not sent.tokens:
        out['prompt_token_ids'] = list(self._call.requests[index].tokens)
    return out

  def _logprobs(
      self, index: int, result: Result, start: int
  ) -> dict[str, Any] | None:
    if not self._call.return_logprob[index]:
      return None
    ids = result.output_ids
    logprobs: tuple[float | None, ...] = result.output_logprobs
    tops: tuple[Top | None, ...] = result.output_tops
    if self._echo is not None:
      # An aborted request may have scored a part of its prompt.
      scored = result.input_logprobs or ()
      ids = (*self._call.requests[index].tokens[: len(scored)], *ids)
      logprobs = (*scored, *logprobs)
      if self._call.requests[index].top_logprobs:
        tops = (*result.input_tops, *tops)
      start = start and len(scored) + start
    texts = [self._decode([token]) for token in ids]
    pairs = list(zip(texts, logprobs, strict=True))[start:]
    named = [
        # Nothing predicts the first token of a prompt.
        None if top is None else [(self._decode([id_]), lp) for lp, id_ in top]
        for top in tops[start:]
    ]
    if self._said is not None:
      content = [
          _entry(*pair)
          | {'top_logprobs': [_entry(*other) for other in top or ()]}
          for pair, top in zip(pairs, named or [[]] * len(pairs), strict=True)
      ]
      return {'content': content}
    return {
        'tokens': [text for text, _ in pairs],
        'token_logprobs': [logprob for _, logprob in pairs],
        # By text: of several ids that read alike, as halves of characters do,
        # the likeliest, which comes first.
        'top_logprobs': [top and dict(reversed(top)) for top in named] or None,
        'text_offset': _offsets(ids, self._decode)[start:],
    }

  def _usage(self, results: Sequence[Result]) -> dict[str, Any]:
    firsts = results[:: self._copies]  # a prompt counts once
    prompt = sum(result.prompt_tokens for result in firsts)
    completion = sum(len(result.output_ids) for result in results)
    cached = [result.cached_tokens for result in firsts]
    return {
        'prompt_tokens': prompt,
        'completion_tokens': completion,
        'total_tokens': prompt + completion,
        'prompt_tokens_details': (
            None if None in cached else {'cached_tokens': sum(cached)}
        ),
    }


def _entry(text: str, logprob: float | None) -> dict[str, Any]:
  # A part of a character has no text of its own, so its bytes are unknown.
  whole = '\ufffd' not in text
  return {
      'token': text,
      'logprob': logprob,
      'bytes': list(text.encode()) if whole else None,
  }


def _offsets(
    ids: Sequence[int], decode: Callable[[Sequence[int]], str]
) -> list[int]:
  """Characters before each id, where several ids may be one character."""
  offsets = []
  # `last` is the text of ids[start : end - 1], `size` its length in its place:
  # some decoders leave out a space where they begin.
  start, before, last, size = 0, 0, '', 0
  for end in range(1, len(ids) + 1):
    text = decode(ids[start:end])
    grown = len(text) - len(last)
    # A character of which bytes are missing is one replacement character, and
    # stays the same or becomes another with the next byte.
    if last.endswith('\ufffd') and not (grown and text.startswith(last)):
      offsets.append(before + size - 1)
      last, size = text, size + grown
    else:
      before += size
      offsets.append(before)
      start, last, size = end - 1, decode(ids[end - 1 : end]), grown
  return offsets


def model_card(
    name: str,
    *,
    created: int,
    max_len: int,
    trained_with: Mapping[str, Any] | None,
) -> dict[str, Any]:
  """One entry of /v1/models; `trained_with` as in `EngineOptions`."""
  return {
      'id': name,
      'object': 'model',
      'created': created,
      'owned_by': 'agentrl',
      'root': name,
      'parent': None,
      'max_model_len': max_len,
      **({} if trained_with is None else {TRAINED_WITH: trained_with}),
  }
