"""Reading SGLang's replies: completions, errors, and what is neither."""

import json
import math
from typing import Any

from agentrl.errors import EngineError
from agentrl.types import Completion

# The longest part of a server's body that an error message repeats.
_BODY_CHARS = 300


class Aborted(EngineError):
  """The server ended the request before its time; worth another try.

  Attributes:
    num_tokens: sampled until then.
  """

  def __init__(self, message: str, num_tokens: int):
    super().__init__(message)
    self.num_tokens = num_tokens


def reason(body: str) -> str:
  """The server's own words, from any of SGLang's three error bodies."""
  try:
    reply = json.loads(body)
  except ValueError:
    return body[:_BODY_CHARS]
  # {'error': text}, {'error': {'message': text}} or {'message': text}; of the
  # routes of adapters {'error_message': text}.
  if isinstance(reply, dict):
    reply = reply.get('error', reply)
  if isinstance(reply, dict):
    reply = reply.get('message', reply.get('error_message', reply))
  return str(reply)[:_BODY_CHARS]


def decode(text: str, url: str) -> Any:
  """Reads a JSON body; EngineError when it is something else."""
  try:
    return json.loads(text)
  except ValueError as error:
    raise EngineError(
        f'{url} did not answer with JSON; is an SGLang server there? It said:'
        f' {text[:_BODY_CHARS]}',
        retryable=False,
    ) from error


def read_completion(
    text: str, url: str, latency_s: float, *, partial: bool = False
) -> Completion:
  """Reads a /generate reply; ids and log-probabilities from the same triples.

  `output_ids` and the text may be trimmed at a stop; the triples never are.

  Args:
    text: the body.
    url: of the server.
    latency_s: for the record.
    partial: whether what was sampled before an abort is an answer; if that is
      nothing, it is none in any case.

  Raises:
    Aborted: the server ended it.
    EngineError: not as the contract says.
  """
  reply = decode(text, url)
  try:
    meta = reply['meta_info']
    finish = meta['finish_reason']
    finish_reason = finish['type']
    triples = meta['output_token_logprobs']
    tokens = tuple(int(token) for _, token, _ in triples)
    if finish_reason == 'abort' and not (partial and tokens):
      # One that was still queued has no counts.
      raise Aborted(
          f'{url}/generate was aborted: {finish.get("message")}', len(tokens)
      )
    logprobs = tuple(logprob for logprob, _, _ in triples)
    counted = meta['completion_tokens']
    weight_version = str(meta['weight_version'])
    prompt_tokens, cached_tokens = meta['prompt_tokens'], meta['cached_tokens']
  except (KeyError, TypeError, ValueError) as error:
    raise EngineError(
        f'{url}/generate answered outside its contract ({error!r}):'
        f' {text[:_BODY_CHARS]}',
        retryable=False,
    ) from error
  if finish_reason not in ('stop', 'length', 'abort'):
    raise EngineError(
        f'{url}/generate gave the unknown finish reason {finish_reason!r}.',
        retryable=False,
    )
  if not tokens or len(tokens) != counted:
    raise EngineError(
        f'{url}/generate gave {len(tokens)} scored ids and counted {counted};'
        ' both should be the same and at least 1.',
        retryable=False,
    )
  for index, logprob in enumerate(logprobs):
    if not isinstance(logprob, (int, float)) or not math.isfinite(logprob):
      raise EngineError(
          f'{url}/generate gave the log-probability {logprob!r} for id'
          f' {tokens[index]} at index {index}; the weights or the kernels'
          ' of the server are broken.'
      )
  return Completion(
      tokens=tokens,
      logprobs=tuple(float(logprob) for logprob in logprobs),
      finish_reason=finish_reason,
      weight_version=weight_version,
      prompt_tokens=prompt_tokens,
      cached_tokens=cached_tokens,
      latency_s=latency_s,
  )
