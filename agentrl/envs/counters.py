"""Counters of an environment server in Prometheus' text format."""

import bisect
import itertools

# Upper bounds in seconds of the step histogram; AgentGym's servers need 0.001
# (TextCraft) to 0.3 (SciWorld) for a step.
_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class Counters:
  """What /metrics tells beside the live table."""

  def __init__(self):
    self.resets = 0
    self.steps = 0
    self.errors = 0  # replies with a 4xx or 5xx status
    self.lease_expiries = 0
    self._step_seconds = 0.0
    self._step_counts = [0] * (len(_BOUNDS) + 1)

  def observe_step(self, seconds: float) -> None:
    self.steps += 1
    self._step_seconds += seconds
    self._step_counts[bisect.bisect_left(_BOUNDS, seconds)] += 1

  def render(self, *, env_name: str, live: int, created: int) -> str:
    """The text of /metrics."""
    label = f'{{env="{env_name}"}}'
    lines = []
    for name, kind, value in (
        ('live_episodes', 'gauge', live),
        ('created_episodes_total', 'counter', created),
        ('resets_total', 'counter', self.resets),
        ('steps_total', 'counter', self.steps),
        ('errors_total', 'counter', self.errors),
        ('lease_expiries_total', 'counter', self.lease_expiries),
    ):
      lines += [
          f'# TYPE agentrl_env_{name} {kind}',
          f'agentrl_env_{name}{label} {value}',
      ]
    name = 'agentrl_env_step_seconds'
    lines.append(f'# TYPE {name} histogram')
    bounds = [*map(str, _BOUNDS), '+Inf']
    counts = itertools.accumulate(self._step_counts)
    for bound, count in zip(bounds, counts, strict=True):
      lines.append(f'{name}_bucket{{env="{env_name}",le="{bound}"}} {count}')
    lines += [
        f'{name}_sum{label} {self._step_seconds:.6f}',
        f'{name}_count{label} {self.steps}',
    ]
    return '\n'.join(lines) + '\n'
