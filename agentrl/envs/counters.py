"""Metrics of an environment server, by the Prometheus client library."""

import contextlib
from collections.abc import Iterator

import prometheus_client
import psutil
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from agentrl.envs.base import EnvFactory
from agentrl.envs.live_episodes import LiveEpisodes

# Upper bounds in seconds of the step histogram; AgentGym's servers need 0.001
# (TextCraft) to 0.3 (SciWorld) for a step.
_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_PREFIX = 'agentrl_env'


class Counters:
  """What /metrics tells.

  Args:
    env_name: the label of every line.
    episodes: asked for its episodes whenever somebody reads the metrics.
    factory: asked for its own gauges likewise.
  """

  def __init__(
      self, env_name: str, episodes: LiveEpisodes, factory: EnvFactory
  ):
    self._registry = CollectorRegistry()
    self._registry.register(_Gauges(env_name, episodes, factory))
    shared = dict(
        namespace=_PREFIX, labelnames=('env',), registry=self._registry
    )
    counter = lambda name, text: prometheus_client.Counter(
        name, text, **shared
    ).labels(env_name)
    self.resets = counter('resets', 'Tasks that were started.')
    self.errors = counter('errors', 'Replies with a 4xx or 5xx status.')
    self.lease_expiries = counter(
        'lease_expiries', 'Episodes closed because nobody used them.'
    )
    self.deadlines = counter(
        'deadlines_exceeded', 'Calls that were given up, and their episodes.'
    )
    self.step_seconds = prometheus_client.Histogram(
        'step_seconds', 'Time in the environment.', buckets=_BOUNDS, **shared
    ).labels(env_name)

  def render(self) -> bytes:
    """The text of /metrics."""
    return prometheus_client.generate_latest(self._registry)


class _Gauges(Collector):
  """Numbers that are read when they are asked for."""

  def __init__(
      self, env_name: str, episodes: LiveEpisodes, factory: EnvFactory
  ):
    self._env_name, self._episodes, self._factory = env_name, episodes, factory

  def collect(self) -> Iterator[Metric]:
    episodes = self._episodes
    for name, text, value in (
        ('live_episodes', 'Created and not yet closed.', len(episodes)),
        ('running_episodes', 'Reset and not yet ended.', episodes.running),
        (
            'queued_episodes',
            'Resets that wait for a simulator.',
            episodes.queued,
        ),
        (
            'resident_bytes',
            'Memory of the server and its children.',
            _resident_bytes(),
        ),
        *((name, name, x) for name, x in self._factory.gauges().items()),
    ):
      family = GaugeMetricFamily(f'{_PREFIX}_{name}', text, labels=['env'])
      family.add_metric([self._env_name], value)
      yield family
    family = CounterMetricFamily(
        f'{_PREFIX}_created_episodes', 'Episodes ever created.', labels=['env']
    )
    family.add_metric([self._env_name], episodes.created)
    yield family


def _resident_bytes() -> float:
  """Of this process and all below it."""
  own = psutil.Process()
  total = 0
  for process in [own, *own.children(recursive=True)]:
    with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
      total += process.memory_info().rss
  return total
