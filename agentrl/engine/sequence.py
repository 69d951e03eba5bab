"""The state of one request: tokens, slot, and why it finished."""

import concurrent.futures
import time
from collections.abc import Callable, Sequence as Seq
from typing import Any

import numpy as np

from agentrl.engine import logit_processors, request as request_lib, stops
from agentrl.engine.request import Request, Result, Top
from agentrl.engine.stops import StopPatterns, StopStrings
from agentrl.text.tokenizer import Tokenizer


class Sequence:
  """The mutable record of one request; the scheduler's thread owns it.

  `tokens` is prompt and output. While the sequence has a slot, the entries of
  tokens [0, filled) are in it.
  """

  def __init__(
      self,
      request: Request,
      *,
      seed: int,
      eos_ids: Seq[int],
      tokenizer: Tokenizer | None,
      listener: Callable[[Result], None] | None = None,
  ):
    params = request.params
    assert params.max_new_tokens is not None  # see `request.fit`
    self.request = request
    self.future: concurrent.futures.Future[Result] = concurrent.futures.Future()
    self.tokens = list(request.tokens)
    self.slot: int | None = None
    self.filled = 0
    self.finish_reason: dict[str, Any] | None = None
    self.num_retractions = 0
    self._begun = False
    self._cached: int | None = 0
    self._input_logprobs: list[float | None] = []
    self._output_logprobs: list[float] = []
    self._input_tops: list[Top | None] = []
    self._output_tops: list[Top] = []
    self._spans: list[tuple[str, int, int]] = []
    self._max_new_tokens = params.max_new_tokens
    self._start = time.perf_counter()
    self._first_token_s: float | None = None
    self._tokenizer = tokenizer
    self._listener = listener
    ends = tuple(dict.fromkeys((*eos_ids, *params.stop_token_ids)))
    self.stop_ids = () if params.ignore_eos else ends
    # SGLang's min_new_tokens disregards ignore_eos, too.
    self._end_ids = ends if logit_processors.are_used(params) else None
    self._finders: list[StopStrings | StopPatterns] = []
    for finder, wanted in (
        (StopStrings, params.stop),
        (StopPatterns, params.stop_regex),
    ):
      if wanted:
        assert tokenizer is not None  # see `request.check`
        self._finders.append(
            finder(wanted, tokenizer, params.skip_special_tokens)
        )
    # The constant fields of `decode.Rows`.
    self._row = {
        'seed': seed % 2**32,
        'stop_ids': self.stop_ids,
        'temperature': params.temperature,
        'top_p': params.top_p,
        'top_k': params.top_k if params.top_k > 0 else 2**30,
        'min_p': params.min_p,
        'logit_params': None,
        'top_logprobs': request.top_logprobs,
    }

  @property
  def num_output(self) -> int:
    return len(self.tokens) - len(self.request.tokens)

  @property
  def budget(self) -> int:
    """Tokens that may still be sampled."""
    return self._max_new_tokens - self.num_output

  @property
  def to_prefill(self) -> int:
    """Tokens to put into the cache before the last one can be continued."""
    return len(self.tokens) - 1 - self.filled

  @property
  def to_score(self) -> bool:
    """True while requested log-probabilities of the prompt are missing."""
    start = self.request.logprob_start
    wanted = len(self.request.tokens) - start
    return start >= 0 and len(self._input_logprobs) < wanted

  @property
  def prefill_end(self) -> int:
    """The position at which the next unscored piece of prefill has to end."""
    start = self.request.logprob_start
    if self.to_score and self.filled < start:
      return start
    return len(self.tokens) - 1

  @property
  def share_limit(self) -> int:
    """Most entries to take from the cache."""
    if self.to_score:
      return min(self.request.logprob_start, len(self.tokens) - 1)
    return len(self.tokens) - 1

  def row(self) -> dict[str, Any]:
    """This sequence's fields of `decode.Rows`, by name."""
    row = self._row | {
        'slot': self.slot,
        'token': self.tokens[-1],
        'position': len(self.tokens) - 1,
        'budget': self.budget,
    }
    if self._end_ids is not None:
      row['logit_params'] = logit_processors.LogitParams(
          self.request.params,
          self._end_ids,
          self.tokens[len(self.request.tokens) :],
      )
    return row

  def start(self, slot: int, shared: int, *, report: bool = True) -> None:
    """Takes a slot whose first `shared` entries are there already.

    Args:
      slot: of the cache.
      shared: entries.
      report: whether the result says how many they were.
    """
    self.slot, self.filled = slot, shared
    if not self._begun:  # a retracted request reports its first start
      self._begun = True
      self._cached = min(shared, len(self.request.tokens)) if report else None
    if self.to_score:
      # Nothing predicts the first; entries after a retraction start again.
      self._input_logprobs, self._input_tops = [None], [None]

  def add_input_logprobs(
      self,
      logprobs: Seq[float],
      likeliest: Seq[np.ndarray] | None = None,
  ) -> None:
    """Scores of the prompt tokens after those that are already scored.

    Args:
      logprobs: of T tokens.
      likeliest: what else could stand there, `[T, K]` log-probabilities and
        ids; None if the request does not want to know.
    """
    self._input_logprobs.extend(logprobs)
    if likeliest is not None:
      self._input_tops.extend(self._tops(likeliest, len(logprobs)))

  def _tops(self, likeliest: Seq[np.ndarray], size: int) -> list[Top]:
    wanted = np.s_[:size, : self.request.top_logprobs]
    values, ids = (x[wanted].tolist() for x in likeliest)
    return [
        tuple(zip(*pair, strict=True)) for pair in zip(values, ids, strict=True)
    ]

  def extend(
      self,
      ids: Seq[int],
      logprobs: Seq[float],
      version: str,
      likeliest: Seq[np.ndarray] | None = None,
  ) -> list[int]:
    """Appends sampled tokens up to where the sequence ends; gives those.

    Args:
      ids: what was sampled.
      logprobs: of these.
      version: of the weights that gave them.
      likeliest: `[T, K]` log-probabilities and ids, T tokens or more; None if
        no row of the dispatch asked.
    """
    params = self.request.params
    start = self.num_output
    taken = []
    for token, logprob in zip(ids, logprobs, strict=True):
      taken.append(token)
      self.tokens.append(token)
      self._output_logprobs.append(logprob)
      if token in self.stop_ids:
        self.finish_reason = {'type': request_lib.STOP, 'matched': token}
      else:
        # All are fed, so that each has seen every token.
        matches = [finder.feed(token) for finder in self._finders]
        matched = next((m for m in matches if m is not None), None)
        if matched is not None:
          self.finish_reason = {'type': request_lib.STOP, 'matched': matched}
      if self.finish_reason is None and self.budget <= 0:
        self.finish_reason = {
            'type': request_lib.LENGTH,
            'length': params.max_new_tokens,
        }
      if self.finish_reason is not None:
        break
    if likeliest is not None and self.request.top_logprobs:
      self._output_tops.extend(self._tops(likeliest, len(taken)))
    if taken:
      if self._first_token_s is None:
        self._first_token_s = time.perf_counter() - self._start
      end = start + len(taken)
      if self._spans and self._spans[-1][0] == version:
        self._spans[-1] = (version, self._spans[-1][1], end)
      else:
        self._spans.append((version, start, end))
      if self._listener is not None and self.finish_reason is None:
        self._listener(self._result(version, None))
    return taken

  def result(self, version: str) -> Result:
    """The answer; `finish_reason` is set."""
    return self._result(version, self._text())

  def _result(self, version: str, text: str | None) -> Result:
    prompt = len(self.request.tokens)
    scored = self.request.logprob_start >= 0
    return Result(
        rid=self.request.rid,
        output_ids=tuple(self.tokens[prompt:]),
        output_logprobs=tuple(self._output_logprobs),
        text=text,
        finish_reason=self.finish_reason,
        prompt_tokens=prompt,
        cached_tokens=self._cached,
        input_logprobs=tuple(self._input_logprobs) if scored else None,
        weight_version=version,
        spans=tuple(self._spans),
        num_retractions=self.num_retractions,
        latency_s=time.perf_counter() - self._start,
        first_token_s=self._first_token_s,
        output_tops=tuple(self._output_tops),
        input_tops=tuple(self._input_tops),
    )

  def _text(self) -> str | None:
    """The output as text, without what stopped it unless that is wanted."""
    if self._tokenizer is None:
      return None
    assert self.finish_reason is not None  # it has ended
    params = self.request.params
    ids = self.tokens[len(self.request.tokens) :]
    matched, keep = self.finish_reason.get('matched'), params.no_stop_trim
    if isinstance(matched, int) and not keep:
      ids = ids[:-1]
    text = self._tokenizer.decode(ids, skip_special=params.skip_special_tokens)
    return stops.trim(text, self.finish_reason, keep=keep)
