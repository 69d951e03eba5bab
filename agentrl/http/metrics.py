"""Metrics of a server, by the Prometheus client library."""

from collections.abc import Iterable

import prometheus_client
from aiohttp import web
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

GAUGE, COUNTER = GaugeMetricFamily, CounterMetricFamily
# Family, name, help text and value.
Sample = tuple[type[GaugeMetricFamily | CounterMetricFamily], str, str, float]


class Metrics(Collector):
  """Metrics that share one label, and the handler of /metrics. Thread-safe.

  Attributes:
    value: of the label.
  """

  def __init__(self, label: str, value: str):
    """Makes the registry.

    Args:
      label: name of the label of every line.
      value: of the label.
    """
    self._label, self.value = label, value
    self._registry = CollectorRegistry()
    self._registry.register(self)

  def samples(self) -> Iterable[Sample]:
    """Numbers that are read whenever somebody reads the metrics."""
    return ()

  def counter(self, name: str, text: str, *labels: str):
    """A counter; with more `labels`, `labels(value, ...)` of it is one."""
    return self._add(prometheus_client.Counter, name, text, *labels)

  def histogram(self, name: str, text: str, bounds: Iterable[float]):
    """A histogram with these upper bounds."""
    return self._add(prometheus_client.Histogram, name, text, buckets=bounds)

  def _add(self, kind, name: str, text: str, *labels: str, **options):
    metric = kind(
        name, text, (self._label, *labels), registry=self._registry, **options
    )
    return metric if labels else metric.labels(self.value)

  def collect(self) -> Iterable[Metric]:
    for family, name, text, value in self.samples():
      metric = family(name, text, labels=[self._label])
      metric.add_metric([self.value], value)
      yield metric

  async def handle(self, request: web.Request) -> web.Response:
    """GET /metrics."""
    del request
    return web.Response(
        body=prometheus_client.generate_latest(self._registry),
        headers={'Content-Type': prometheus_client.CONTENT_TYPE_LATEST},
    )
