"""The check that a router forwards every field of a run's requests.

SGLang's router writes every request anew and leaves out what it does not know,
without an error. A run that lost a parameter would train on other samples than
it believes, so each one that changes a reply is tried once.
"""

import math
import uuid
from typing import Any, NoReturn

from agentrl.errors import EngineError, EngineRefusal
from agentrl.inference import replies
from agentrl.inference.control import ControlClient

_TOKENS = 8
_TRIES = 4
# At this temperature every token is as likely as any other, whatever the model.
_HOT, _UNIFORM = 1e6, 0.01


async def check(router: ControlClient, *, vocab_size: int, lora: bool) -> None:
  """Sends requests through a router; its servers must have the same weights.

  Args:
    router: its first URL is the router's.
    vocab_size: of the policy.
    lora: whether requests will name an adapter.

  Raises:
    EngineError: it drops a parameter, which is named, or cannot be reached.
  """
  rid = f'router-{uuid.uuid4().hex[:12]}'
  hot = dict(temperature=_HOT, max_new_tokens=_TOKENS)
  meta, tokens = await _ask(router, hot, rid=rid)
  if meta.id != rid:
    _refuse(router, 'rid', f'the reply to {rid!r} is of {meta.id!r:.80}')
  scored = meta.output_token_logprobs
  if not scored or len(scored) != len(tokens):
    _refuse(router, 'return_logprob', 'the reply has no log-probabilities')
  if len(tokens) > _TOKENS:
    _refuse(
        router,
        'max_new_tokens',
        f'{len(tokens)} tokens came for at most {_TOKENS}',
    )
  uniform, logprobs = -math.log(vocab_size), [p for p, *_ in scored]
  if any(p is None or abs(p - uniform) > _UNIFORM for p in logprobs):
    _refuse(
        router,
        'temperature',
        f'log-probabilities at {_HOT:g} are {logprobs}, not {uniform:.3f}',
    )
  await _check_stops(router)
  if lora:
    await _check_lora(router)


async def _check_stops(router: ControlClient) -> None:
  greedy = dict(temperature=0.0, max_new_tokens=_TOKENS)
  _, (first, *_) = await _ask(router, greedy)
  for _ in range(_TRIES):
    _, tokens = await _ask(router, greedy | {'stop_token_ids': [first]})
    if first in tokens[:-1]:
      _refuse(
          router, 'stop_token_ids', f'{tokens} go on after {first}, which stops'
      )
    if first == tokens[-1]:
      return
  raise EngineRefusal(
      f'{router.urls[0]} gives other tokens for the same greedy request each'
      f' time: no {first} in {tokens}. Do all servers behind it have the model'
      ' of this run?'
  )


async def _check_lora(router: ControlClient) -> None:
  name = f'no-such-{uuid.uuid4().hex[:8]}'
  try:
    await _ask(router, dict(max_new_tokens=1), lora_path=name)
  except EngineError as error:
    if error.retryable:
      raise
    return
  _refuse(router, 'lora_path', f'the unknown adapter {name!r} is not refused')


async def _ask(
    router: ControlClient, params: dict[str, Any], **fields: Any
) -> tuple[replies.LooseMeta, list[int]]:
  """`meta_info` and ids, one at least, of a reply to a prompt of one id."""
  reply = await router.ask({
      'input_ids': [0],
      'sampling_params': params | {'top_p': 1.0, 'top_k': -1},
      'return_logprob': True,
      **fields,
  })
  if not reply.output_ids:
    raise EngineRefusal(f'{router.urls[0]}/generate answered without a token.')
  return reply.meta_info, reply.output_ids


def _refuse(router: ControlClient, name: str, evidence: str) -> NoReturn:
  raise EngineRefusal(
      f'The router at {router.urls[0]} drops {name} of requests: {evidence}.'
      ' Name the servers themselves in sampler.urls instead of sampler.router.'
  )
