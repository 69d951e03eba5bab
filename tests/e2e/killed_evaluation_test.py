"""A quickstart that is killed in its evaluations, and started again each time."""

import signal

import pytest

from tests.e2e.running import (
    QUICKSTART,
    finish,
    start,
    summary_of,
    wait_for,
)

pytestmark = pytest.mark.slow

TASKS = 12
FLAGS = (
    '--config.num_steps=1',
    '--config.warmstart.episodes=4',
    '--config.rollout.tasks_per_step=1',
    '--config.rollout.group_size=2',
    '--config.gauges.every=0',
    f'--config.eval.num_tasks={TASKS}',
    '--config.sampler.max_running=8',
    '--config.sampler.deterministic=True',
    # One after the other: there is time for a kill.
    '--config.rollout.concurrency=1',
)


def whole_lines(path):
  if not path.exists():
    return []
  return [x for x in path.read_bytes().splitlines(True) if x.endswith(b'\n')]


def kill_in(path, *, after):
  """Starts the run, and kills it once this evaluation has so many episodes.

  Returns:
    The lines of the episodes; these have times, which tell them from others.
  """
  process = start(path.parents[2], *FLAGS, config=QUICKSTART)
  wait_for(lambda: len(whole_lines(path)) > after, process)
  process.send_signal(signal.SIGKILL)
  process.wait()
  process.stdout.close()
  found = whole_lines(path)
  assert after < len(found) < TASKS, 'It was not killed in the evaluation.'
  return found


def test_what_was_played_before_a_kill_is_not_played_again(tmp_path):
  whole, run = tmp_path / 'whole', tmp_path / 'run'
  finish(whole, *FLAGS, config=QUICKSTART)
  folder = run / 'episodes' / 'eval'
  untrained, before, after = (
      folder / f'{stem}.jsonl' for stem in ('untrained', '000000', '000001')
  )
  of_before = kill_in(before, after=2)
  # The policy that is evaluated has its checkpoint: nothing is imitated again.
  imitated = (run / 'warmstart.jsonl').read_bytes()
  of_untrained = whole_lines(untrained)
  of_after = kill_in(after, after=2)
  said = finish(run, *FLAGS, config=QUICKSTART)
  assert (
      f'evaluation after: {len(of_after)} of {TASKS} episodes were played'
      in said
  )
  for path, played in (
      (untrained, of_untrained),
      (before, of_before),
      (after, of_after),
  ):
    lines = whole_lines(path)
    assert len(lines) == TASKS and set(played) <= set(lines)
  assert len(of_untrained) == TASKS
  assert (run / 'warmstart.jsonl').read_bytes() == imitated
  assert summary_of(run)['eval'] == summary_of(whole)['eval']
  names = lambda place: {x.name for x in place.glob('episodes/eval*/*')}
  assert names(run) == names(whole)
