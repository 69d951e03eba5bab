"""Log-probabilities of the engine against the trainer's.

Every sampled token is scored again by the trainer's forward under the weights
that the reply names. A swap leaves a request either `fresh` (all that it has
in the cache is computed again, or it had nothing there) or `carried` (what the
old weights computed stays, what comes is the new ones'); a carried token is
scored over entries of both.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.engine import model_runner
from agentrl.models import transformer
from agentrl.models.config import TransformerConfig
from agentrl.models.transformer import Transformer
from agentrl.ops import logprob
from experiments.benchmarks.soak_replies import Ask

# Float32 on both sides, in other orders of summation.
TOLERANCE = 1e-4
# What rounding may do to a token's rank, or to the mass before it.
_MARGIN = 1e-3
_ROWS = 16
# More amid one prefill are not searched for.
_MOST_SWAPS = 3
_UNTOUCHED = {'temperature': 1.0, 'top_k': -1, 'top_p': 1.0, 'min_p': 0.0}


@dataclasses.dataclass(frozen=True)
class Span:
  """Tokens of one reply that the same weights sampled, to be scored.

  Attributes:
    tokens: prompt and output.
    start: index in `tokens` of the first to score.
    end: index after the last.
    reported: log-probabilities of [start, end); None: not asked for.
    runs: (version, first entry) of the weights that computed the context.
    suspects: versions that may have computed a beginning of the first run: a
      swap came before its tokens, perhaps while the prompt was computed.
    cached: entries that were there when the request began.
    scored_from: first token of the prompt whose log-probability was asked for,
      or -1; the engine computes the prompt before it apart.
  """

  tokens: list[int]
  start: int
  end: int
  reported: list[float] | None
  params: dict[str, Any]
  runs: tuple[tuple[int, int], ...]
  suspects: tuple[int, ...]
  cached: int
  scored_from: int = -1

  @property
  def temperature(self) -> float:
    return self.params['temperature'] or 1.0  # greedy is scored at 1


def spans(
    ask: Ask, reply: dict[str, Any], carried: dict[int, bool]
) -> Iterator[Span]:
  """What to score of a reply; `carried` tells it of each swap by version."""
  meta, size = reply['meta_info'], len(ask.prompt)
  triples = meta.get('output_token_logprobs')
  tokens, cached = ask.prompt + reply['output_ids'], meta['cached_tokens']
  scored = meta.get('input_token_logprobs') or []
  if len(scored) > 1 and int(meta['weight_version']) == ask.version:
    # No swap came; a reply does not tell which weights scored the prompt.
    first = ask.body['logprob_start_len'] + 1
    yield Span(
        tokens=tokens,
        start=first,
        end=first + len(scored) - 1,
        reported=[x for x, _, _ in scored[1:]],
        params=_UNTOUCHED,
        runs=((ask.version, 0),),
        suspects=(),
        cached=cached,
    )
  before, runs, suspects = ask.version, (), ()
  for span in meta['weight_versions']:
    version, start = int(span['version']), size + span['start']
    kinds = [carried[v] for v in range(before + 1, version + 1)]
    if runs and all(kinds):
      # The last token before the swap was not in the cache yet.
      runs = (*runs, (version, start - 1))
    else:
      runs = ((version, 0),)
      suspects = tuple(range(before, version)) if any(kinds) else ()
    yield Span(
        tokens=tokens,
        start=start,
        end=size + span['end'],
        reported=triples
        and [x for x, _, _ in triples[span['start'] : span['end']]],
        params=ask.params,
        runs=runs,
        suspects=suspects,
        cached=cached,
        scored_from=ask.body['logprob_start_len'],
    )
    before = version


class Scorer:
  """Scores tokens under the weights of each version."""

  def __init__(
      self, config: TransformerConfig, trees: Sequence[Any], length: int
  ):
    """Keeps the weights.

    Args:
      config: of the policy.
      trees: parameters in the trainer's layout; version v has `trees[v % n]`.
      length: most tokens of a row.
    """
    self.worst = 0.0  # largest difference that was accepted
    self.searched = 0  # spans whose prefill a swap had cut
    self._length = length
    self._trees = trees
    self._engine_trees = [transformer.unstack_layers(tree) for tree in trees]
    trainer = Transformer(config, scan_layers=True)
    engine = Transformer(config)

    @jax.jit
    def whole(params, tokens, temperatures):
      positions = jnp.broadcast_to(jnp.arange(length), tokens.shape)
      hidden = trainer.apply({'params': params}, tokens, positions).hidden
      logits = trainer.apply({'params': params}, hidden, method='unembed')
      return _judge(logits, tokens, temperatures)

    @jax.jit
    def part(params, cache, tokens, starts, logits):
      """The entries from `starts` on, over those in the cache."""
      index = jnp.arange(length)
      # Past the cache nothing is written.
      positions = jnp.where(index >= starts[:, None], index, length)
      hidden, cache, _ = engine.apply(
          {'params': params}, tokens, positions, cache=cache
      )
      new = engine.apply({'params': params}, hidden, method='unembed')
      inside = (positions < length)[..., None]
      return cache, jnp.where(inside, new, logits)

    self._whole, self._part, self._end = whole, part, jax.jit(_judge)
    self._cache = functools.partial(
        transformer.init_cache, config, _ROWS, length
    )
    self._vocab = config.vocab_size

  def problems(self, found: Sequence[Span]) -> list[tuple[int, str]]:
    """(index, what is wrong) of the spans that are not as they should be."""
    wrong = []
    groups: dict[Any, list[int]] = {}
    for i, span in enumerate(found):
      versions = tuple(version for version, _ in span.runs)
      trees = tuple(v % len(self._trees) for v in versions)
      groups.setdefault(trees, []).append(i)
    for trees, members in groups.items():
      for at in range(0, len(members), _ROWS):
        rows = members[at : at + _ROWS]
        scores = self._score(
            trees,
            [found[i] for i in rows],
            [[start for _, start in found[i].runs] for i in rows],
        )
        for i, score in zip(rows, scores, strict=True):
          problem = _compare(found[i], score)
          if problem is None:
            self.worst = max(self.worst, _error(found[i], score))
          elif not self._search(found[i]):
            wrong.append((i, problem))
    return wrong

  def _score(self, trees, rows: Sequence[Span], starts) -> np.ndarray:
    """`[rows, 4, length]`; see `_judge`."""
    tokens = np.zeros((_ROWS, self._length), np.int32)
    temperatures = np.ones(_ROWS, np.float32)
    first = np.full((len(trees), _ROWS), self._length, np.int32)
    for r, (span, begin) in enumerate(zip(rows, starts, strict=True)):
      tokens[r, : len(span.tokens)] = span.tokens
      temperatures[r] = span.temperature
      first[:, r] = begin
    if len(trees) == 1:
      scores = self._whole(self._trees[trees[0]], tokens, temperatures)
    else:
      cache = self._cache()
      logits = jnp.zeros((_ROWS, self._length, self._vocab))
      # Later weights write over what earlier ones would have computed there.
      for tree, begin in zip(trees, first, strict=True):
        params = self._engine_trees[tree]
        cache, logits = self._part(params, cache, tokens, begin, logits)
      scores = self._end(logits, tokens, temperatures)
    return np.asarray(scores).swapaxes(0, 1)[: len(rows)]

  def _search(self, span: Span) -> bool:
    """Whether a swap while the first run was computed explains the span."""
    for cuts in _cuts(span):
      for at in range(0, len(cuts), _ROWS):
        rows = cuts[at : at + _ROWS]
        runs = [(*cut, *span.runs[1:]) for cut in rows]
        trees = [v % len(self._trees) for v, _ in runs[0]]
        begins = [[begin for _, begin in run] for run in runs]
        scores = self._score(trees, [span] * len(rows), begins)
        if any(_compare(span, score) is None for score in scores):
          self.searched += 1
          return True
    return False


def _error(span: Span, score: np.ndarray) -> float:
  """Most that the log-probabilities differ, given `[4, length]` of the row."""
  if span.reported is None:
    return 0.0
  logprobs = score[0, span.start : span.end]
  return float(np.abs(logprobs - span.reported).max(initial=0))


def _compare(span: Span, score: np.ndarray) -> str | None:
  """What is wrong with a span, given `[4, length]` of its row."""
  error = _error(span, score)
  if not error <= TOLERANCE:
    return (
        f'log-probabilities of {span.runs} differ by {error:.2g} from the'
        " trainer's"
    )
  params = span.params
  logprobs, rank, mass, best = score[:, span.start : span.end]
  greedy = not params['temperature']
  top_k = 1 if greedy else params['top_k']
  if top_k > 0 and (rank >= top_k).any():
    return f'a token of rank {rank.max():.0f} under top_k {top_k}'
  if greedy:
    return None
  if (mass > params['top_p'] + _MARGIN).any():
    return f'a token after mass {mass.max():.3f} under top_p'
  least = best + np.log(params['min_p'] or 1e-30) - _MARGIN
  if (logprobs < least).any():
    return 'a token below min_p'
  return None


def _cuts(span: Span) -> Iterator[list[tuple[tuple[int, int], ...]]]:
  """What the first run of a span may have been, by the versions involved.

  The likely ones come first: cut at its end, or after some chunks of prefill.
  """
  version = span.runs[0][0]
  last = span.runs[1][1] if len(span.runs) > 1 else span.start - 1
  chunk = model_runner.CHUNKS[0]
  likely = [last, *range(span.cached or chunk, last, chunk)]
  if 0 < span.scored_from < last:
    likely.append(span.scored_from)
  likely = sorted(set(likely), reverse=True)
  rest = sorted(set(range(1, last)) - set(likely))
  newest = span.suspects[::-1]
  for cuts in (likely, rest):
    for old in newest:
      yield [((old, 0), (version, cut)) for cut in cuts]
  for swaps in range(2, min(len(newest), _MOST_SWAPS) + 1):
    for olds in itertools.combinations(span.suspects, swaps):
      yield [
          tuple(zip((*olds, version), (0, *cuts), strict=True))
          for cuts in itertools.combinations(sorted(likely), swaps)
      ]


def _judge(logits, tokens, temperatures):
  """`[4, B, T]`: what to know of each token.

  Its log-probability, how many tokens are likelier, their mass, and the
  log-probability of the likeliest.
  """
  scale = temperatures[:, None, None]
  targets = jnp.pad(tokens[:, 1:], ((0, 0), (0, 1)))
  chosen, _ = logprob.from_logits(logits, targets, temperature=scale)
  every = jax.nn.log_softmax(logits / scale)
  above = every > chosen[..., None] + _MARGIN
  facts = (
      chosen,
      above.sum(axis=-1).astype(jnp.float32),
      jnp.where(above, jnp.exp(every), 0).sum(axis=-1),
      every.max(axis=-1),
  )
  positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
  return jnp.stack([logprob.shift_right(x, positions) for x in facts])
