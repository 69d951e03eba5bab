"""Tests for agentrl.http.metrics."""

import asyncio

from aiohttp.test_utils import make_mocked_request
from prometheus_client.parser import text_string_to_metric_families

from agentrl.http import metrics


class Fruit(metrics.Metrics):

  def __init__(self):
    super().__init__('tree', 'apple')
    self.load = 1.0

  def samples(self):
    yield metrics.GAUGE, 'load', 'Fruit on the tree.', self.load
    yield metrics.COUNTER, 'grown', 'Fruit so far.', 7.0


def read(fruit):
  response = asyncio.run(fruit.handle(make_mocked_request('GET', '/metrics')))
  assert response.headers['Content-Type'].startswith('text/plain')
  return {
      (sample.name, *sorted(sample.labels.items())): sample.value
      for family in text_string_to_metric_families(response.body.decode())
      for sample in family.samples
  }


def test_every_line_has_the_label_and_gauges_are_read_when_asked_for():
  fruit = Fruit()
  fruit.counter('falls', 'Fallen.').inc()
  fruit.counter('eaten', 'Eaten.', 'by').labels('apple', 'worm').inc(2)
  fruit.histogram('seconds', 'Time.', (0.1, 1.0)).observe(0.5)
  tree = ('tree', 'apple')
  found = read(fruit)
  assert found['load', tree] == 1 and found['grown_total', tree] == 7
  assert found['falls_total', tree] == 1
  assert found['eaten_total', ('by', 'worm'), tree] == 2
  assert found['seconds_bucket', ('le', '0.1'), tree] == 0
  assert found['seconds_bucket', ('le', '1.0'), tree] == 1
  fruit.load = 2.0
  assert read(fruit)['load', tree] == 2
