"""Metrics of the engine, by the Prometheus client library.

What SGLang counts too has its name, so one dashboard serves both; what is ours
begins with `agentrl_engine`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import prometheus_client
import psutil
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from agentrl.engine.request import ABORT, Result

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
    'num_prompt_tokens': ('prompt_tokens', 'Tokens of prompts.'),
    'num_cached_tokens': ('cached_tokens', 'Of those, found in the cache.'),
    'num_sampled_tokens': ('generation_tokens', 'Sampled tokens.'),
}


class Counters:
  """What /metrics tells. Thread-safe."""

  def __init__(self, model_name: str, stats: Callable[[], dict[str, Any]]):
    """Makes the metrics.

    Args:
      model_name: the label of every line; that of the start, so that a series
        goes on over updates of the weights.
      stats: asked for the load whenever somebody reads the metrics.
    """
    self._registry = CollectorRegistry()
    self._registry.register(_Load(model_name, stats))
    self._label = model_name
    self._requests = self._counter(
        'sglang:num_requests', 'Requests that ended, whatever the outcome.'
    ).labels(model_name)
    self._aborts = self._counter(
        'sglang:num_aborted_requests', 'Requests that were aborted.'
    ).labels(model_name)
    self._errors = self._counter(
        'agentrl_engine_refusals', 'Replies with a 4xx or 5xx status.', 'status'
    )
    self._latency = self._histogram(
        'sglang:e2e_request_latency_seconds', 'From arrival to the end.'
    )
    self._first = self._histogram(
        'sglang:time_to_first_token_seconds',
        'From arrival to the end of the first dispatch that sampled.',
    )

  def _counter(self, name: str, text: str, *labels: str):
    return prometheus_client.Counter(
        name, text, ('model_name', *labels), registry=self._registry
    )

  def _histogram(self, name: str, text: str):
    return prometheus_client.Histogram(
        name, text, ('model_name',), registry=self._registry, buckets=_BOUNDS
    ).labels(self._label)

  def observe(self, result: Result) -> None:
    """Counts a request that ended."""
    self._requests.inc()
    if result.finish_reason['type'] == ABORT:
      self._aborts.inc()
      return
    self._latency.observe(result.latency_s)
    if result.first_token_s is not None:
      self._first.observe(result.first_token_s)

  def refused(self, status: int) -> None:
    """Counts a reply with an error."""
    self._errors.labels(self._label, str(status)).inc()

  def render(self) -> bytes:
    """The text of /metrics."""
    return prometheus_client.generate_latest(self._registry)


class _Load(Collector):
  """Numbers that are read when they are asked for."""

  def __init__(self, model_name: str, stats: Callable[[], dict[str, Any]]):
    self._model_name, self._stats = model_name, stats

  def collect(self) -> Iterator[Metric]:
    stats = self._stats()
    for key, (name, text) in _GAUGES.items():
      yield self._line(GaugeMetricFamily, f'sglang:{name}', text, stats[key])
    for key, (name, text) in _COUNTERS.items():
      yield self._line(CounterMetricFamily, f'sglang:{name}', text, stats[key])
    yield self._line(
        CounterMetricFamily,
        'agentrl_engine_weight_swaps',
        'Updates of the weights.',
        stats['num_weight_swaps'],
    )
    for name, text, value in _memory():
      yield self._line(GaugeMetricFamily, f'agentrl_engine_{name}', text, value)

  def _line(self, family, name: str, text: str, value: float) -> Metric:
    metric = family(name, text, labels=['model_name'])
    metric.add_metric([self._model_name], value)
    return metric


def _memory() -> Iterator[tuple[str, str, float]]:
  resident = psutil.Process().memory_info().rss
  yield 'resident_bytes', 'Memory of the process.', resident
  used = [(d.memory_stats() or {}).get('bytes_in_use') for d in jax.devices()]
  if None not in used:  # a CPU does not tell
    yield 'device_bytes', "Memory in use on the process's devices.", sum(used)
