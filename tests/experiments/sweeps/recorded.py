"""Runs of a sweep as `launch.py` leaves them, without training."""

import json

from agentrl.data import episodes
from tests.evaluation import recording


def write_run(
    workdir, record, *, solved, before=0.25, tasks=8, steps=None, sampled=0
):
  """Writes a finished run that solved the first `solved` of its tasks.

  Of a mixture, `solved` has those of each member, in the environment of its name.
  """
  steps = record['num_steps'] if steps is None else steps
  members = solved if isinstance(solved, dict) else {'': solved}
  evals, lines = {}, [dict(step=step) for step in range(steps)]
  names = ('rollout/success', 'rollout/episodes', 'rollout/invalid')
  for member, count in members.items():
    for name, mean in (('before', before), ('after', count / tasks)):
      evals[f'{name}/{member}' if member else name] = dict(
          mean=mean, low=max(mean - 0.1, 0), high=min(mean + 0.1, 1)
      )
    for line in lines:
      for name, value in zip(names, (0.5, 8.0, 0.0), strict=True):
        line[f'{member}/{name}' if member else name] = value
    for step, won in ((0, round(before * tasks)), (steps, count)):
      stem = f'{step:06d}-{member}' if member else f'{step:06d}'
      episodes.write(
          workdir / 'episodes' / 'eval' / f'{stem}.jsonl',
          [
              recording.episode(
                  workdir.name, member or 'babyai', task, 0, task < won
              )
              for task in range(tasks)
          ],
      )
  summary = dict(
      steps=steps,
      updates=2 * steps,
      sampled_tokens=sampled,
      wall_s=605.2,
      eval=evals,
  )
  if 'agent' in record:  # as a run notes it that had it open
    record = {**record, 'agent': record['agent'] | {'date': '2026-01-31'}}
  (workdir / 'config.json').write_text(json.dumps(record))
  (workdir / 'summary.json').write_text(json.dumps(summary))
  (workdir / 'metrics.jsonl').write_text(
      ''.join(json.dumps(line) + '\n' for line in lines)
  )
