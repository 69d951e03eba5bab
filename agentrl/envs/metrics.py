"""Prometheus metrics of an environment server."""

import contextlib
from collections.abc import Iterator

import psutil

from agentrl.envs.base import EnvFactory
from agentrl.envs.live_episodes import LiveEpisodes
from agentrl.http import metrics
from agentrl.http.metrics import COUNTER, GAUGE, Sample

# Upper bounds in seconds of the step histogram; AgentGym's servers need 0.001
# (TextCraft) to 0.3 (SciWorld) for a step.
_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
_PREFIX = 'agentrl_env'


class EnvMetrics(metrics.Metrics):
  """Metrics of one environment's server."""

  def __init__(
      self, env_name: str, episodes: LiveEpisodes, factory: EnvFactory
  ):
    """Makes the metrics.

    Args:
      env_name: the label of every line.
      episodes: they are counted at each scrape.
      factory: its own gauges are read likewise.
    """
    super().__init__('env', env_name)
    self._episodes, self._factory = episodes, factory
    counter = lambda name, text: self.counter(f'{_PREFIX}_{name}', text)
    self.resets = counter('resets', 'Tasks that were started.')
    self.errors = counter('errors', 'Replies with a 4xx or 5xx status.')
    self.lease_expiries = counter(
        'lease_expiries', 'Episodes closed because nobody used them.'
    )
    self.deadlines = counter(
        'deadlines_exceeded', 'Calls that were given up, and their episodes.'
    )
    self.step_seconds = self.histogram(
        f'{_PREFIX}_step_seconds', 'Time in the environment.', _BOUNDS
    )

  def samples(self) -> Iterator[Sample]:
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
      yield GAUGE, f'{_PREFIX}_{name}', text, value
    text = 'Episodes ever created.'
    yield COUNTER, f'{_PREFIX}_created_episodes', text, episodes.created


def _resident_bytes() -> float:
  """Memory of this process and all below it."""
  own = psutil.Process()
  total = 0
  for process in [own, *own.children(recursive=True)]:
    with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
      total += process.memory_info().rss
  return total
