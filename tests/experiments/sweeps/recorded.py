"""Runs of a sweep as `launch.py` leaves them, without training."""

import json

from agentrl.data import episodes
from tests.evaluation import recording


def write_run(workdir, record, *, solved, before=0.25, tasks=8, steps=None):
  """Writes a finished run that solved the first `solved` of its tasks."""
  workdir.mkdir(parents=True)
  steps = record['num_steps'] if steps is None else steps
  after = solved / tasks
  evals = {
      name: dict(mean=mean, low=max(mean - 0.1, 0), high=min(mean + 0.1, 1))
      for name, mean in (('before', before), ('after', after))
  }
  (workdir / 'config.json').write_text(json.dumps(record))
  summary = dict(steps=steps, updates=2 * steps, wall_s=605.2, eval=evals)
  (workdir / 'summary.json').write_text(json.dumps(summary))
  names = ('rollout/success', 'rollout/episodes', 'rollout/invalid')
  lines = [
      dict(step=step) | dict(zip(names, (0.5, 8.0, 0.0), strict=True))
      for step in range(steps)
  ]
  (workdir / 'metrics.jsonl').write_text(
      ''.join(json.dumps(line) + '\n' for line in lines)
  )
  for step, count in ((0, round(before * tasks)), (steps, solved)):
    episodes.write(
        workdir / 'episodes' / 'eval' / f'{step:06d}.jsonl',
        [
            recording.episode(workdir.name, 'babyai', task, 0, task < count)
            for task in range(tasks)
        ],
    )
