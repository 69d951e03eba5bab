"""What a reply of the engine must be, but for its log-probabilities."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentrl.engine.request import ABORT, LENGTH, STOP
from agentrl.text.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Ask:
  """One /generate as it was sent.

  Attributes:
    body: its JSON.
    version: of the last swap that had ended by then.
    bad: whether it must be refused.
  """

  body: dict[str, Any]
  version: int
  bad: bool = False

  @property
  def rid(self) -> str:
    return self.body['rid']

  @property
  def prompt(self) -> list[int]:
    return self.body['input_ids']

  @property
  def params(self) -> dict[str, Any]:
    return self.body['sampling_params']


def problems_of_reply(
    ask: Ask, reply: dict[str, Any], tokenizer: Tokenizer
) -> Iterator[str]:
  """What is wrong with one reply, its log-probabilities' values aside."""
  meta, ids, params = reply['meta_info'], reply['output_ids'], ask.params
  # Copies have ids that the server draws.
  if params['n'] == 1 and meta['id'] != ask.rid:
    yield f'the reply is of {meta["id"]}'
  if meta['completion_tokens'] != len(ids):
    yield f'{meta["completion_tokens"]} completion_tokens, {len(ids)} ids'
  limit, start = len(ask.prompt) - 1, ask.body['logprob_start_len']
  if ask.body['return_logprob'] and start >= 0:
    limit = min(limit, start)
  if meta['prompt_tokens'] != len(ask.prompt) or meta['cached_tokens'] > limit:
    yield f'{meta["prompt_tokens"]} prompt, {meta["cached_tokens"]} cached'
  if ask.body['return_logprob']:
    triples = meta['output_token_logprobs']
    if [token for _, token, _ in triples] != ids:
      yield 'the log-probabilities are of other ids'
  versions, end = [ask.version], 0
  for span in meta['weight_versions']:
    # Where nothing was sampled there is one span, of nothing.
    empty = ids and span['end'] == end
    if span['start'] != end or span['end'] < end or empty:
      yield f'spans {meta["weight_versions"]}'
    versions, end = [*versions, int(span['version'])], span['end']
  versions.append(int(meta['weight_version']))
  if end != len(ids) or versions != sorted(versions):
    yield f'versions {versions}, spans to {end} of {len(ids)} tokens'
  ends, expected = expected_finish(ids, params, tokenizer)
  reason = meta['finish_reason']
  # Whoever wants no token, too, may be aborted before the prompt is scored.
  early = not ids and reason is not None and reason['type'] == ABORT
  if expected is None:
    if reason is not None and reason['type'] != ABORT:
      yield f'ends with {reason} and has no reason to'
  elif not early and (ends != len(ids) or reason != expected):
    yield f'{expected} at {ends} of {len(ids)} tokens, but {reason}'
  if reason is not None:
    text = expected_text(ids, reason.get('matched'), params, tokenizer)
    if reply['text'] != text:
      yield f'text {reply["text"]!r} for {text!r}'


def expected_finish(
    ids: Sequence[int], params: dict[str, Any], tokenizer: Tokenizer
) -> tuple[int, dict[str, Any] | None]:
  """Tokens after which a completion ends, and why; None if it goes on."""
  stops = {*tokenizer.eos_ids, *params['stop_token_ids']}
  limit = params['max_new_tokens']
  if not limit:
    return 0, {'type': LENGTH, 'length': 0}
  for size, token in enumerate(ids, 1):
    if token in stops and not params['ignore_eos']:
      return size, {'type': STOP, 'matched': token}
    text = ''
    if params['stop'] or params['stop_regex']:
      text = tokenizer.decode(
          ids[:size], skip_special=params['skip_special_tokens']
      )
    for stop in params['stop']:
      if stop in text:
        return size, {'type': STOP, 'matched': stop}
    for pattern in params['stop_regex']:
      if re.search(pattern, text.rstrip('\ufffd')):
        return size, {'type': STOP, 'matched': pattern}
    if size == limit:
      return size, {'type': LENGTH, 'length': limit}
  return len(ids), None


def expected_text(
    ids: Sequence[int],
    matched: int | str | None,
    params: dict[str, Any],
    tokenizer: Tokenizer,
) -> str:
  """The text of a completion, less what stopped it unless that is kept."""
  keep = params['no_stop_trim']
  if isinstance(matched, int) and not keep:
    ids = ids[:-1]
  text = tokenizer.decode(ids, skip_special=params['skip_special_tokens'])
  if matched in params['stop']:
    head, found, _ = text.partition(matched)
    text = head + found * keep
  return text
