"""Which versions of the weights a real server computed a reply with.

After a push in mode `in_place` the cache holds entries of several versions, and
replies say so in no way. Which version computed which entry follows from the
replies before, as far as it does: an episode's prefix is nobody else's, entries
past the cached ones are computed by the version of the first token, and a
sampled token's entry by the version of the next. So those replies are scored
over mixed caches, to the same bound, and are counted apart.

One token more is in doubt: SGLang overlaps a forward with the work on the one
before, a pause in place leaves that result where it is, and the span of the
token ends up with the new version, though the old one sampled it. A span that
only fits so is counted as `late`; an episode ends with such a push. And some fit
nothing that replies tell: tries that end without a reply compute entries too, and
so does a retraction. These are counted as `unexplained`, with their differences.
In the other modes a push empties the cache, and every span has to fit.
"""

import dataclasses
from collections.abc import Iterator

from experiments.benchmarks.soak_scores import Span


def spans_of(payload, reply, runs, carried) -> Iterator[Span]:
  """What to score of a reply.

  Args:
    payload: of its request.
    reply: has one id at least.
    runs: (version, first entry) of what is known of the prompt's entries.
    carried: version -> whether its push left the entries of requests alone.
  """
  meta, prompt = reply['meta_info'], payload['input_ids']
  cached, size = meta['cached_tokens'], len(payload['input_ids'])
  before = None
  for span in meta['weight_versions']:
    version = int(span['version'])
    if before is None:
      known = tuple((v, start) for v, start in runs if start < cached)
      runs = (*known, (version, cached))
    elif all(carried[v] for v in range(before + 1, version + 1)):
      # The last token before the swap had no entry yet.
      runs = (*runs, (version, size + span['start'] - 1))
    else:  # all was computed again
      runs = ((version, 0),)
    runs = tuple(_merged(runs))
    reported = meta['output_token_logprobs'][span['start'] : span['end']]
    yield Span(
        tokens=prompt
        + [token for _, token, _ in meta['output_token_logprobs']],
        start=size + span['start'],
        end=size + span['end'],
        reported=[logprob for logprob, _, _ in reported],
        params=payload['sampling_params'] | {'min_p': 0.0},
        runs=runs,
        suspects=(),
        cached=cached,
    )
    before = version


def late(span: Span, carried: dict[int, bool]) -> Span | None:
  """The span if its first token was under way in a pause in place."""
  *before, (version, first) = span.runs
  if not carried[version]:
    return None
  if first == span.cached:  # the prompt, of which nothing was known, too
    before = [*before, (version - 1, first)]
  elif first != span.start - 1:
    return None
  runs = tuple(_merged((*before, (version, span.start))))
  return dataclasses.replace(span, runs=runs)


def _merged(runs) -> Iterator[tuple[int, int]]:
  last = None
  for version, start in runs:
    if version != last:
      yield version, start
    last = version
