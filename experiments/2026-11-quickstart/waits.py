"""Prints how long runs waited for compilations: one JSON line a run.

    python -m experiments.2026-11-quickstart.waits --runs=runs/first,runs/second

Seconds of all rl steps and of the slowest after the third; those for which the
learner and the requests to the embedded engine waited, after the third step too,
as a share of all steps; and how many programs there were at the end.
"""

import json
import pathlib
import statistics
from typing import Any

from absl import app, flags

_RUNS = flags.DEFINE_list('runs', None, 'Workdirs.', required=True)

# Steps that may wait.
_FIRST = 3


def measure(workdir: pathlib.Path) -> dict[str, Any]:
  """Figures of a run."""
  text = (workdir / 'metrics.jsonl').read_text()
  steps = [json.loads(line) for line in text.splitlines()]
  seconds = [step['time/step_s'] for step in steps]
  waits = [
      step['train/compile_wait_s'] + step.get('sampler/compile_wait_s', 0.0)
      for step in steps
  ]
  return {
      'run': str(workdir),
      'steps': len(steps),
      'seconds': sum(seconds),
      'median_s': statistics.median(seconds),
      'slowest_after_third_s': max(seconds[_FIRST:], default=0.0),
      'wait_s': sum(waits),
      'wait_after_third_s': sum(waits[_FIRST:]),
      'wait_share': sum(waits) / sum(seconds),
      'programs': steps[-1]['train/programs'],
      'sampler_programs': steps[-1].get('sampler/programs', 0.0),
  }


def main(argv):
  del argv
  for run in _RUNS.value:
    print(json.dumps(measure(pathlib.Path(run))), flush=True)


if __name__ == '__main__':
  app.run(main)
