r"""Whether drafting tokens from the context would pay in the embedded engine.

    python -m experiments.benchmarks.bench_speculation \
        --episodes=runs/quickstart/episodes/train --model=tiny-1m

Agents copy from observations, so the likeliest source of a draft is what came
after the last tokens when they stood in the context before (prompt lookup,
arXiv:2304.04487). A draft's token is accepted if it is the one that the policy
samples, which changes no distribution, and each check gives one token more than
it accepts. Two figures decide, and their quotient is the gain:

- `tokens_per_check`, counted on recorded episodes: their completions are what
  the policy sampled, so the drafts that it would have accepted are known.
- `check_cost`: time of a forward pass over 1 + drafted tokens a row, in units
  of a pass over one, measured here at several batches.

Prints one JSON line for each batch and draft length.
"""

import functools
import json
import pathlib
import statistics
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags

from agentrl.data import episodes as episodes_lib
from agentrl.models import transformer, variants
from agentrl.models.transformer import Transformer
from experiments.benchmarks import reference_rates

_EPISODES = flags.DEFINE_string(
    'episodes', None, 'Folder of recorded episodes.', required=True
)
_STEPS = flags.DEFINE_integer('steps', 10, 'Newest files of it to read.')
_MODEL = flags.DEFINE_string('model', 'tiny-1m', 'Name of models.variants.')
_BATCHES = flags.DEFINE_list('batches', ['1', '16', '64'], 'Rows.')
_DRAFTS = flags.DEFINE_list('drafts', ['1', '3', '7'], 'Tokens drafted.')
_LENGTH = flags.DEFINE_integer('length', 256, 'Cache positions in use.')
_REPEATS = flags.DEFINE_integer('repeats', 9, 'Timed passes.')
# Tokens that have to agree before what followed them is a draft, longest first.
_NGRAMS = (3, 2)


def draft(tokens: Sequence[int], size: int) -> Sequence[int]:
  """What followed the last tokens when they stood in `tokens` last."""
  for ngram in _NGRAMS:
    tail = tokens[-ngram:]
    for start in range(len(tokens) - ngram - 1, -1, -1):
      if tokens[start : start + ngram] == tail:
        return tokens[start + ngram : start + ngram + size]
  return ()


def count_checks(
    tokens: Sequence[int], mask: Sequence[int], size: int
) -> tuple[int, int]:
  """(sampled tokens, checks) of an episode if each check may draft `size`."""
  sampled = checks = 0
  at = 0
  while at < len(tokens):
    if not mask[at]:
      at += 1
      continue
    checks += 1
    took = 1
    for guess in draft(tokens[:at], size):
      here = at + took - 1
      # The last token of a check is the policy's own, and so is a wrong guess's.
      if guess != tokens[here] or here + 1 >= len(tokens) or not mask[here + 1]:
        break
      took += 1
    sampled += took
    at += took
  return sampled, checks


def pass_s(config, params, batch: int, width: int) -> float:
  """Median time of a pass over `[batch, width]` new tokens and their logits."""
  module = Transformer(config)
  cache = transformer.init_cache(config, batch, _LENGTH.value)
  tokens = jnp.ones((batch, width), jnp.int32)
  start = _LENGTH.value - width
  positions = jnp.broadcast_to(jnp.arange(start, start + width), tokens.shape)

  @jax.jit
  def run(params, cache):
    hidden, cache, _ = module.apply(
        {'params': params}, tokens, positions, cache=cache
    )
    logits = module.apply({'params': params}, hidden, method='unembed')
    return jnp.argmax(logits, axis=-1), [k[:, :, -1] for k, _ in cache]

  return statistics.median(
      reference_rates.timings_s(
          functools.partial(run, params, cache), repeats=_REPEATS.value
      )
  )


def main(argv):
  del argv
  paths = sorted(pathlib.Path(_EPISODES.value).glob('*.jsonl'))
  if not paths:
    raise app.UsageError(f'There are no episodes in {_EPISODES.value}.')
  episodes = [
      (list(e.tokens), list(e.completion_mask))
      for path in paths[-_STEPS.value :]
      for e in episodes_lib.read(path)
  ]
  config = variants.get(_MODEL.value)
  params = transformer.init_params(Transformer(config), jax.random.key(0))
  per_check = {}
  for size in map(int, _DRAFTS.value):
    counts = np.array([count_checks(*e, size) for e in episodes]).sum(axis=0)
    per_check[size] = counts[0] / counts[1]
  for batch in map(int, _BATCHES.value):
    single = pass_s(config, params, batch, 1)
    for size, tokens in per_check.items():
      cost = pass_s(config, params, batch, 1 + size) / single
      case = dict(
          model=_MODEL.value,
          batch=batch,
          drafted=size,
          episodes=len(episodes),
          tokens_per_check=round(tokens, 3),
          check_cost=round(cost, 3),
          gain=round(tokens / cost, 3),
      )
      print(json.dumps(case), flush=True)


if __name__ == '__main__':
  app.run(main)
