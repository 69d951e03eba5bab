"""Writing the JSON of SGLang's /generate."""

from collections.abc import Sequence
from typing import Any

from agentrl.engine.protocol import Call
from agentrl.engine.request import ABORT, Request, Result


def write(call: Call, results: Sequence[Result]) -> Any:
  """The JSON of the results of `call`, in its order."""
  replies = [
      _reply(request, result, logprob, call.return_prompt_token_ids)
      for request, result, logprob in zip(
          call.requests, results, call.return_logprob, strict=True
      )
  ]
  return replies[0] if call.single else replies


def failure(results: Sequence[Result]) -> tuple[int, str] | None:
  """Status and message of the first result that failed, if one did."""
  for result in results:
    reason = result.finish_reason
    if reason['type'] == ABORT and reason['status_code'] is not None:
      return reason['status_code'], reason['message']
  return None


def _reply(
    request: Request, result: Result, return_logprob: bool, return_prompt: bool
) -> dict[str, Any]:
  meta = {
      'id': result.rid,
      'finish_reason': result.finish_reason,
      'prompt_tokens': result.prompt_tokens,
      'completion_tokens': len(result.output_ids),
      'cached_tokens': result.cached_tokens,
      'reasoning_tokens': 0,
      'num_retractions': result.num_retractions,
      'weight_version': result.weight_version,
      'weight_versions': [
          {'version': version, 'start': start, 'end': end}
          for version, start, end in result.spans
      ],
      'e2e_latency': result.latency_s,
  }
  if return_logprob:
    meta['output_token_logprobs'] = [
        [logprob, token, None]
        for logprob, token in zip(
            result.output_logprobs, result.output_ids, strict=True
        )
    ]
    meta['output_token_logprobs_length'] = len(result.output_ids)
    meta['input_token_logprobs'] = [
        [logprob, token, None]
        for logprob, token in zip(
            result.input_logprobs or (),
            request.tokens[request.logprob_start :],
            strict=False,  # an aborted request may have scored a part
        )
    ]
  out = {'output_ids': list(result.output_ids), 'meta_info': meta}
  if result.text is not None:
    out['text'] = result.text
  if return_prompt:
    out['prompt_token_ids'] = list(request.tokens)
  return out
