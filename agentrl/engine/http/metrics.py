"""Prometheus metrics of the engine.

Metrics that SGLang has too carry its names, so one dashboard serves both; our
own begin with `agentrl_engine`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import psutil

from agentrl.engine.request import ABORT, Result
from agentrl.http import metrics
from agentrl.http.metrics import COUNTER, GAUGE, Sample

# Upper bounds in seconds, from a token on a GPU to a long completion on a CPU.
_BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
# Key of `stats` -> name and help text.
_GAUGES = {
    'num_running_reqs': ('num_running_reqs', 'Requests that decode.'),
    'num_waiting_reqs': ('num_queue_reqs', 'Requests that wait.'),
    'num_used_tokens': ('num_used_tokens', 'Entries of the cache in use.'),
    'token_usage': ('token_usage', 'Their share of the cache.'),
    'gen_throughput': ('gen_throughput', 'Sampled tokens a second.'),
    'cache_hit_rate': ('cache_hit_rate', 'Share of prompt tokens reused.'),
}
_COUNTERS = {
    'num_prompt_tokens': ('sglang:prompt_tokens', 'Tokens of prompts.'),
    'num_cached_tokens': (
        'sglang:cached_tokens',
        'Of those, found in the cache.',
    ),
    'num_sampled_tokens': ('sglang:generation_tokens', 'Sampled tokens.'),
    'num_weight_swaps': (
        'agentrl_engine_weight_swaps',
        'Updates of the weights.',
    ),
}


class EngineMetrics(metrics.Metrics):
  """Metrics of one engine."""

  def __init__(self, model_name: str, stats: Callable[[], dict[str, Any]]):
    """Makes the metrics.

    Args:
      model_name: the label of every line; that of the start, so that a series
        goes on over updates of the weights.
      stats: gives the load whenever somebody reads the metrics.
    """
    super().__init__('model_name', model_name)
    self._stats = stats
    self._requests = self.counter(
        'sglang:num_requests', 'Requests that ended, whatever the outcome.'
    )
    self._aborts = self.counter(
        'sglang:num_aborted_requests', 'Requests that were aborted.'
    )
    self._errors = self.counter(
        'agentrl_engine_refusals', 'Replies with a 4xx or 5xx status.', 'status'
    )
    self._latency = self.histogram(
        'sglang:e2e_request_latency_seconds',
        'From arrival to the end.',
        _BOUNDS,
    )
    self._first = self.histogram(
        'sglang:time_to_first_token_seconds',
        'From arrival to the end of the first dispatch that sampled.',
        _BOUNDS,
    )

  def observe(self, result: Result) -> None:
    """Counts a request that ended."""
    assert result.finish_reason is not None  # it has ended
    self._requests.inc()
    if result.finish_reason['type'] == ABORT:
      self._aborts.inc()
      return
    self._latency.observe(result.latency_s)
    if result.first_token_s is not None:
      self._first.observe(result.first_token_s)

  def refused(self, status: int) -> None:
    """Counts a reply with an error."""
    self._errors.labels(self.value, str(status)).inc()

  def samples(self) -> Iterator[Sample]:
    stats = self._stats()
    for key, (name, text) in _GAUGES.items():
      yield GAUGE, f'sglang:{name}', text, stats[key]
    for key, (name, text) in _COUNTERS.items():
      yield COUNTER, name, text, stats[key]
    name, text = 'agentrl_engine_resident_bytes', 'Memory of the process.'
    yield GAUGE, name, text, psutil.Process().memory_info().rss
    sizes = [
        (d.memory_stats() or {}).get('bytes_in_use') for d in jax.devices()
    ]
    used = [size for size in sizes if size is not None]
    if len(used) == len(sizes):  # a CPU has no such figure
      text = "Memory in use on the process's devices."
      yield GAUGE, 'agentrl_engine_device_bytes', text, sum(used)
