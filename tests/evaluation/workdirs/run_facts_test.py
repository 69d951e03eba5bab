"""Tests for agentrl.evaluation.workdirs.run_facts."""

import json

from agentrl.evaluation.chance import store
from agentrl.evaluation.workdirs import run_facts
from agentrl.evaluation.workdirs.run_facts import Rate
from agentrl.runtime import lock
from tests.evaluation import recording
from tests.evaluation.chance import level_test

CONFIG = {
    'mode': 'train',
    'seed': 3,
    'num_steps': 9,
    'env': {'name': 'babyai', 'options': {}},
    'model': {'name': 'tiny-1m'},
    'algo': {'name': 'grpo'},
}


def write(folder, lines=(), summary=None, config=CONFIG):
  folder.mkdir(exist_ok=True)
  (folder / 'config.json').write_text(json.dumps(config))
  if lines:
    text = ''.join(json.dumps(line) + '\n' for line in lines)
    (folder / 'metrics.jsonl').write_text(text)
  if summary:
    (folder / 'summary.json').write_text(json.dumps(summary))


def evaluated(prefix, mean):
  return {
      f'{prefix}/success': mean,
      f'{prefix}/success_low': mean - 0.1,
      f'{prefix}/success_high': mean + 0.1,
      f'{prefix}/episodes': 8.0,
  }


def test_a_live_run_shows_what_it_has_so_far(tmp_path):
  lines = [{'step': i, 'time': 5.0} for i in range(4)]
  lines[0] |= evaluated('eval_untrained', 0.0) | evaluated('eval_before', 0.25)
  lines[1] |= evaluated('eval', 0.5)
  write(tmp_path / 'run', lines)
  with (tmp_path / 'run' / 'metrics.jsonl').open('a') as file:
    file.write('{"step": 4, "ti')  # is being written
  with lock.hold(tmp_path / 'run'):
    found = run_facts.read(tmp_path, 'run')
  assert found.status == 'live'
  assert (found.steps, found.planned, found.seed) == (4, 9, 3)
  assert (found.mode, found.env, found.model, found.algorithm) == (
      'train',
      'babyai',
      'tiny-1m',
      'grpo',
  )
  assert list(found.success) == ['untrained', 'before', 'step_2']
  assert found.success['step_2'] == Rate(0.5, 0.4, 0.6, 8)
  write(tmp_path / 'spent', lines, config=CONFIG | {'num_tokens': 9000})
  assert run_facts.read(tmp_path, 'spent').planned is None
  # It has ended, without a summary.
  assert run_facts.read(tmp_path, 'run').status == 'stopped'


def test_a_finished_run_has_its_summary(tmp_path):
  rate = {'mean': 0.75, 'low': 0.5, 'high': 0.9, 'n': 16, 'tasks': 16}
  summary = {
      'mode': 'train',
      'steps': 9,
      'wall_s': 12.5,
      'eval': {'after': rate},
  }
  write(tmp_path / 'run', [{'step': 8}], summary)
  found = run_facts.read(tmp_path, 'run')
  assert (found.status, found.steps, found.wall_s) == ('finished', 9, 12.5)
  assert found.success == {'after': Rate(0.75, 0.5, 0.9, 16)}
  # Continued with more steps: what the summary says is past.
  write(tmp_path / 'run', [{'step': 8}, {'step': 9}], summary)
  with lock.hold(tmp_path / 'run'):
    found = run_facts.read(tmp_path, 'run')
  assert (found.status, found.steps, found.success) == ('live', 10, {})


def test_a_run_that_ended_early_says_why_and_how_far_it_came(tmp_path):
  rate = {'mean': 0.75, 'low': 0.5, 'high': 0.9, 'n': 16, 'tasks': 16}
  summary = {
      'status': 'failed',
      'reason': 'EnvError: down',
      'mode': 'train',
      'steps': 4,
      'wall_s': 12.5,
      'eval': {'before': rate},
  }
  write(tmp_path / 'run', [{'step': 3}], summary)
  found = run_facts.read(tmp_path, 'run')
  assert (found.status, found.reason) == ('failed', 'EnvError: down')
  assert (found.steps, found.planned, found.wall_s) == (4, 9, 12.5)
  assert found.success == {'before': Rate(0.75, 0.5, 0.9, 16)}
  # It goes on; then a signal ends it. A word that no run writes is no state.
  with lock.hold(tmp_path / 'run'):
    found = run_facts.read(tmp_path, 'run')
  assert (found.status, found.reason) == ('live', None)
  for status in ('stopped', 'odd'):
    write(tmp_path / 'run', summary=summary | {'status': status})
    assert run_facts.read(tmp_path, 'run').status == 'stopped'
  write(tmp_path / 'run', summary=summary | {'status': 'finished'})
  found = run_facts.read(tmp_path, 'run')
  assert (found.status, found.reason) == ('finished', None)


def test_a_mixture_shows_its_members(tmp_path):
  mixture = {
      'a': {'env': {'name': 'babyai'}},
      'b': {'env': {'name': 'sciworld'}},
  }
  lines = [evaluated('eval_before/a', 0.1) | {'step': 0}]
  lines += [evaluated('eval/a', 0.2) | evaluated('eval/b', 0.3) | {'step': 1}]
  lines[1] |= evaluated('eval/a/GoTo', 0.9)  # a kind of task
  write(tmp_path / 'run', lines, config=CONFIG | {'mixture': mixture})
  found = run_facts.read(tmp_path, 'run')
  assert found.env == 'babyai, sciworld'
  assert {name: rate.mean for name, rate in found.success.items()} == {
      'before/a': 0.1,
      'step_2/a': 0.2,
      'step_2/b': 0.3,
  }


def test_an_evaluation_shows_its_policies(tmp_path):
  recording.simple(tmp_path / 'e', [[1], [0]], name='new')
  found = run_facts.read(tmp_path, 'e')
  assert (found.model, found.env, found.steps) == ('new', 'textcraft', None)


def test_files_that_are_missing_or_torn_leave_facts_unknown(tmp_path):
  (tmp_path / 'run').mkdir()
  for name in ('config.json', 'summary.json', 'evaluation.json'):
    (tmp_path / 'run' / name).write_text('{"mode": ')
  (tmp_path / 'run' / 'metrics.jsonl').write_text('{"step"')
  found = run_facts.read(tmp_path, 'run')
  assert (found.status, found.mode, found.steps, found.success) == (
      'stopped',
      None,
      None,
      {},
  )


def test_differences_of_configs():
  a = {'optim': {'lr': 1, 'name': 'adamw'}, 'seed': 0}
  b = {'optim': {'lr': 2, 'name': 'adamw', 'momentum': 0.9}, 'seed': 0}
  assert run_facts.differences({'a': a, 'b': b}) == [
      {'name': 'optim.lr', 'values': [1, 2], 'missing': []},
      {'name': 'optim.momentum', 'values': [None, 0.9], 'missing': [0]},
  ]
  assert run_facts.differences({'a': a}) == []


def test_facts_that_are_kept_follow_the_files(tmp_path):
  folder = tmp_path / 'run'
  write(folder, [{'step': 0}])
  assert run_facts.read(tmp_path, 'run') is run_facts.read(tmp_path, 'run')
  assert run_facts.read(tmp_path, 'run').steps == 1
  with (folder / 'metrics.jsonl').open('a') as file:
    file.write('{"step": 1}\n')
  assert run_facts.read(tmp_path, 'run').steps == 2
  write(folder, config=CONFIG | {'seed': 4_000})
  assert run_facts.read(tmp_path, 'run').seed == 4_000
  # The lock alone changes, as where a run is killed.
  (folder / 'lock').write_text('process 1')
  assert run_facts.read(tmp_path, 'run').status == 'stopped'
  with lock.hold(folder):
    assert run_facts.read(tmp_path, 'run').status == 'live'
  assert run_facts.read(tmp_path, 'run').status == 'stopped'
  (folder / 'config.json').unlink()
  assert run_facts.read(tmp_path, 'run').mode is None


def test_chance_is_that_of_the_summary_or_of_the_run_so_far(tmp_path):
  levels = {
      'random': level_test.make('random', [[1], [0], [0], [0]]),
      'expert': level_test.make('expert', [[1], [1], [None], [1]]),
  }
  write(tmp_path / 'run', [{'step': 0}])
  store.write_levels(tmp_path / 'run', levels)
  found = run_facts.read(tmp_path, 'run').chance
  assert list(found) == ['random', 'expert']
  assert (found['random'].mean, found['random'].n) == (0.25, 4)
  assert (found['expert'].mean, found['expert'].n) == (1.0, 3)
  rate = {'mean': 0.5, 'low': 0.25, 'high': 0.75, 'n': 8}
  summary = {'mode': 'train', 'steps': 1, 'eval': {}}
  chance = {'random/a': rate, 'expert/a': None}
  write(tmp_path / 'run', summary=summary | {'chance': chance})
  assert run_facts.read(tmp_path, 'run').chance == {
      'random/a': Rate(0.5, 0.25, 0.75, 8)
  }
  write(tmp_path / 'old', summary=summary)
  assert run_facts.read(tmp_path, 'old').chance == {}
  write(tmp_path / 'odd', summary=summary | {'chance': 3})
  assert run_facts.read(tmp_path, 'odd').chance == {}
