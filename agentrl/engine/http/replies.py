"""The JSON of SGLang's /generate replies."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from agentrl.engine.http.bodies import Call
from agentrl.engine.request import ABORT, Result, Top

# Gives one id its text, control tokens too; None without a tokenizer.
DecodeOne = Callable[[int], str] | None


def write(call: Call, results: Sequence[Result], decode: DecodeOne) -> Any:
  """The JSON of the results of `call`, in its order."""
  replies = [
      reply(call, index, result, decode) for index, result in enumerate(results)
  ]
  return replies[0] if call.single else replies


def failure(results: Sequence[Result]) -> tuple[int, str] | None:
  """Status and message of the first result that failed, if one did.

  Args:
    results: of requests that have ended.
  """
  for result in results:
    reason = result.finish_reason
    assert reason is not None  # it has ended
    if reason['type'] == ABORT and reason['status_code'] is not None:
      return reason['status_code'], reason['message']
  return None


@dataclasses.dataclass(frozen=True)
class Sent:
  """The part of a result that earlier chunks hold."""

  tokens: int = 0
  text: str = ''


def chunk(
    call: Call,
    index: int,
    result: Result,
    sent: Sent | None,
    decode: DecodeOne,
    *,
    first: bool,
) -> dict[str, Any]:
  """The JSON of one chunk of a stream.

  Args:
    call: what was asked.
    index: of the request in it.
    result: all there is so far; its text begins with that of `sent`.
    sent: what to leave out, or None for a cumulative chunk.
    decode: as in `write`.
    first: whether no chunk of this request has been sent.
  """
  out = reply(call, index, result, decode)
  if not first:
    del out['meta_info']['response_sent_to_client_ts']
  if not call.single:
    out['index'] = index
  if sent is not None:
    out['output_ids'] = out['output_ids'][sent.tokens :]
    if 'text' in out:
      out['text'] = out['text'][len(sent.text) :]
    meta = out['meta_info']
    for name in ('output_token_logprobs', 'output_top_logprobs'):
      if name in meta:
        meta[name] = meta[name][sent.tokens :]
    if 'output_token_logprobs' in meta:
      size = len(meta['output_token_logprobs'])
      meta['output_token_logprobs_length'] = size
  return out


def reply(
    call: Call, index: int, result: Result, decode: DecodeOne
) -> dict[str, Any]:
  """The JSON of the result of request `index`, finished or not."""
  request = call.requests[index]
  meta: dict[str, Any] = {
      'id': result.rid,
      'finish_reason': result.finish_reason,
      'prompt_tokens': result.prompt_tokens,
      'completion_tokens': len(result.output_ids),
      'cached_tokens': result.cached_tokens,
      'cached_tokens_details': (
          {'device': result.cached_tokens, 'host': 0}
          if result.cached_tokens
          else None
      ),
      'reasoning_tokens': 0,
      'num_retractions': result.num_retractions,
      'weight_version': result.weight_version,
      'weight_versions': [
          {'version': version, 'start': start, 'end': end}
          for version, start, end in (
              # Nothing sampled is one span too.
              result.spans
              or ((result.weight_version, 0, 0),)
          )
      ],
      'dp_rank': None,
      'response_sent_to_client_ts': time.time(),
  }
  if result.finish_reason is not None:
    meta['e2e_latency'] = result.latency_s
  if call.return_logprob[index]:
    text = decode if call.text_in_logprobs else None
    meta['output_token_logprobs'] = _triples(
        result.output_logprobs, result.output_ids, text
    )
    meta['output_token_logprobs_length'] = len(result.output_ids)
    scored = result.input_logprobs or ()
    # An aborted request may have scored a part of its prompt.
    prompt = request.tokens[request.logprob_start :][: len(scored)]
    meta['input_token_logprobs'] = _triples(scored, prompt, text)
    if request.top_logprobs:
      meta['output_top_logprobs'] = _tops(result.output_tops, text)
      meta['input_top_logprobs'] = _tops(result.input_tops, text)
  out: dict[str, Any] = {
      'output_ids': list(result.output_ids),
      'meta_info': meta,
  }
  if result.text is not None:
    out['text'] = result.text
  if call.return_prompt_token_ids:
    out['prompt_token_ids'] = list(request.tokens)
  return out


def _tops(
    tops: Sequence[Top | None], text: DecodeOne
) -> list[list[list[Any]] | None]:
  """The likeliest tokens of each position; nothing predicts the first."""
  return [
      None
      if top is None
      else _triples([lp for lp, _ in top], [id_ for _, id_ in top], text)
      for top in tops
  ]


def _triples(
    logprobs: Sequence[float | None], ids: Sequence[int], text: DecodeOne
) -> list[list[Any]]:
  return [
      [logprob, token, None if text is None else text(token)]
      for logprob, token in zip(logprobs, ids, strict=True)
  ]
