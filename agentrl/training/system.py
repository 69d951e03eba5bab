"""Figures of the machine beside a step's metrics.

They are clocks in that no two runs agree in them, and so are named `time/...`.
"""

from collections.abc import Mapping

import jax
import psutil

_GIB = 2**30


def shares(seconds: Mapping[str, float], tokens: float) -> dict[str, float]:
  """Metrics of a step's time.

  Args:
    seconds: of each part by name; together the step.
    tokens: that were trained on.

  Returns:
    `time/PART_s` and `time/PART_share` of each part, `time/step_s`, and
    `time/tokens_per_s`, the tokens trained on per second of the step.
  """
  total = sum(seconds.values())
  return {
      **{f'time/{name}_s': value for name, value in seconds.items()},
      'time/step_s': total,
      **{f'time/{name}_share': s / total for name, s in seconds.items()},
      'time/tokens_per_s': tokens / total,
  }


def memory() -> dict[str, float]:
  """GiB that this process holds now, and its devices held at most.

  Devices that do not say, as CPUs, are left out.
  """
  metrics = {'time/memory_gib': psutil.Process().memory_info().rss / _GIB}
  devices = jax.local_devices()
  stats = [device.memory_stats() or {} for device in devices]
  peaks = [x['peak_bytes_in_use'] for x in stats if 'peak_bytes_in_use' in x]
  if peaks and len(peaks) == len(devices):
    metrics['time/device_memory_gib'] = max(peaks) / _GIB
  return metrics
