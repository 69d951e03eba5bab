"""Tests for agentrl.config.resume."""

import json

import pytest

from agentrl.config import defaults, read, record, resume
from agentrl.errors import ConfigError


def left(workdir, *, metrics='', checkpoint=False):
  """A workdir as a run has left it, and that run's config."""
  config = defaults('train')
  config.optim.lr = 1.0
  config = record(read(config))
  workdir.mkdir(exist_ok=True)
  resume.keep(config, workdir)
  (workdir / 'metrics.jsonl').write_text(metrics)
  (workdir / 'checkpoints').mkdir(exist_ok=True)
  if checkpoint:
    (workdir / 'checkpoints' / '0').mkdir()
  return config


@pytest.mark.parametrize(
    'kept', [dict(checkpoint=True), dict(metrics='{"step": 0}\n')]
)
def test_another_run_is_refused_with_all_differences(tmp_path, kept):
  config = left(tmp_path, **kept)
  assert resume.check(config, tmp_path)
  config |= {'seed': 1, 'num_steps': 9, 'extra': 'new'}
  config['optim']['lr'] = 2.0
  with pytest.raises(ConfigError) as refused:
    resume.check(config, tmp_path)
  said = str(refused.value)
  assert f'{tmp_path} holds a run with' in said and '\n' not in said
  assert (
      "extra=None (now 'new'), optim.lr=1.0 (now 2.0), seed=0 (now 1);" in said
  )
  assert 'num_steps' not in said  # more of them continue the run


def test_of_an_old_run_that_differs_everywhere_a_few_fields_are_named(tmp_path):
  config = left(tmp_path, checkpoint=True)
  config |= {f'new_{i:02}': i for i in range(30)}
  with pytest.raises(ConfigError) as refused:
    resume.check(config, tmp_path)
  said = str(refused.value)
  assert 'new_07=None (now 7) and 22 more that differ;' in said
  assert f'the old ones stand in {tmp_path / "config.json"}' in said


@pytest.mark.parametrize(
    'schedule, steps, said',
    [
        ('constant', 9, ''),
        ('linear', None, ''),
        ('linear', 9, 'was to reach 0 at step 4 and does at step 9 now'),
        ('cosine', 9, 'higher than it was'),
        ('linear', 3, 'lower than it was'),
    ],
)
def test_a_rate_that_jumps_at_an_extension_is_told(
    tmp_path, schedule, steps, said
):
  config = defaults('train')
  config.num_steps, config.optim.schedule = 4, schedule
  config = record(read(config))
  resume.keep(config, tmp_path)
  assert resume.lengthened(config | {'num_steps': 9}, tmp_path) == ''
  (tmp_path / 'checkpoints' / '2').mkdir(parents=True)
  found = resume.lengthened(config | {'num_steps': steps or 4}, tmp_path)
  assert said in found and bool(said) == bool(found)


def test_a_run_that_was_killed_for_memory_goes_on_with_less(tmp_path):
  config = left(tmp_path, checkpoint=True)
  config['optim']['max_tokens'] = 1024
  config['model']['remat'] = 'full'
  resume.check(config, tmp_path)


def test_a_run_that_failed_by_its_environments_goes_on_with_more_patience(
    tmp_path,
):
  config = left(tmp_path, checkpoint=True)
  config['env'].update(
      url='http://localhost:1', token_file='t', timeout_s=300.0, workers=2
  )
  config['rollout'].update(
      concurrency=2, deadline_s=9.0, attempts=9, max_failed_share=0.9
  )
  resume.check(config, tmp_path)


@pytest.mark.parametrize(
    'mode, done, steps', [('train', 6, 2), ('train', 6, 5), ('agentevol', 5, 3)]
)
def test_fewer_steps_than_are_done_are_refused(tmp_path, mode, done, steps):
  config = defaults(mode)
  if mode == 'agentevol':
    config.data.expert_episodes = 1
  config = record(read(config))
  resume.keep(config, tmp_path)
  (tmp_path / 'checkpoints' / f'{done}').mkdir(parents=True)
  rounds = done - (mode == 'agentevol')  # whose round 0 has no exploration
  with pytest.raises(ConfigError) as refused:
    resume.check(config | {'num_steps': steps}, tmp_path)
  said = str(refused.value)
  assert f'has done {rounds} steps' in said and f'num_steps={steps}:' in said
  for more in (0, 1):
    assert resume.check(config | {'num_steps': rounds + more}, tmp_path)


def started_from(workdir, model, monkeypatch, place):
  """A run that was started from a folder, in the folder `place`."""
  monkeypatch.chdir(place)
  config = record(read(defaults('train')))
  config['model'] = {**config['model'], 'name': model}
  resume.keep(config, workdir)
  (workdir / 'checkpoints' / '1').mkdir(parents=True)
  return config


def with_model(config, name):
  return {**config, 'model': {**config['model'], 'name': str(name)}}


def test_a_model_is_the_same_by_whatever_path(tmp_path, monkeypatch):
  start = tmp_path / 'start'
  start.mkdir()
  (tmp_path / 'link').symlink_to('start')
  run = tmp_path / 'run'
  run.mkdir()
  config = started_from(run, 'start', monkeypatch, tmp_path)
  kept = json.loads((run / 'config.json').read_text())
  assert kept['model']['name'] == str(start)
  for name in ('start', './start', start, 'run/../start', 'link', 'start/'):
    assert resume.check(with_model(config, name), run), name
  (tmp_path / 'other').mkdir()
  with pytest.raises(ConfigError, match="now 'other'"):
    resume.check(with_model(config, 'other'), run)
  monkeypatch.chdir(start)
  with pytest.raises(ConfigError) as refused:
    resume.check(with_model(config, 'start'), run)
  assert f"no model.name='start' in {start}" in str(refused.value)
  assert f'started from {tmp_path}/start: name that' in str(refused.value)


@pytest.mark.parametrize('name', ['tiny-1m', 'owner/name'])
def test_names_that_mean_the_same_everywhere_stay(tmp_path, monkeypatch, name):
  started_from(tmp_path, name, monkeypatch, tmp_path)
  kept = json.loads((tmp_path / 'config.json').read_text())
  assert kept['model']['name'] == name
  assert not resume.start_is_gone(name, tmp_path)


def test_a_run_whose_start_is_gone_has_what_that_brought(tmp_path, monkeypatch):
  start, run = tmp_path / 'start', tmp_path / 'run'
  start.mkdir()
  run.mkdir()
  config = started_from(run, 'start', monkeypatch, tmp_path)
  config['agent']['format'] = 'plain'  # as `start` had it
  resume.keep(config, run)
  now = defaults('sft')
  now.data.expert_episodes = 1
  now.model.name = 'start'
  assert resume.read(now, str(run)).agent.format != 'plain'
  assert not resume.start_is_gone('start', run)
  start.rmdir()
  assert resume.start_is_gone('start', run)
  assert resume.read(now, str(run)).agent.format == 'plain'
  assert resume.read(now, str(tmp_path)).agent.format != 'plain'


def test_what_an_older_config_does_not_list_was_the_default(tmp_path):
  config = left(tmp_path, checkpoint=True)
  old = {
      'mode': 'train',
      'optim': {'lr': 1.0},
      'algo': {'name': 'grpo', 'epochs': 1},
      'env': {'name': 'textcraft', 'url': None},
      # Which are no fields any more.
      'rollout': {'top_p': 1.0, 'top_k': -1},
      'model': {'attention': 'reference'},
      'sampler': {'api_key': None, 'kind': 'sglang'},  # which is free
  }
  (tmp_path / 'config.json').write_text(json.dumps(old))
  assert resume.check(config, tmp_path)
  config['algo']['clip_high'] = 0.5
  with pytest.raises(ConfigError, match=r'algo.clip_high=0.2 \(now 0.5\);'):
    resume.check(config, tmp_path)
  config['algo']['clip_high'] = 0.2
  # What it lists and is no field any more would have to be said.
  old['algo']['speed'] = 3
  (tmp_path / 'config.json').write_text(json.dumps(old))
  with pytest.raises(ConfigError, match=r'algo.speed=3 \(now None\);'):
    resume.check(config, tmp_path)


def test_none_in_place_of_a_default_is_remembered(tmp_path):
  left(tmp_path, checkpoint=True)
  config = defaults('train')
  config.optim.lr = 1.0
  config.algo = dict(name='ppo', minibatches=2, value_clip=None)
  config = record(read(config))
  resume.keep(config, tmp_path)
  assert resume.check(config, tmp_path)
  config['algo']['value_clip'] = 0.5
  with pytest.raises(ConfigError, match=r'value_clip=None \(now 0.5\)'):
    resume.check(config, tmp_path)


def test_another_algorithm_is_another_run(tmp_path):
  left(tmp_path, checkpoint=True)
  config = defaults('train')
  config.optim.lr = 1.0
  config.algo.name = 'rloo'
  with pytest.raises(ConfigError) as refused:
    resume.check(record(read(config)), tmp_path)
  assert "algo.name='grpo' (now 'rloo')" in str(refused.value)


def test_a_run_that_left_nothing_refuses_no_other(tmp_path):
  config = left(tmp_path)
  # One that was not complete when the run was killed.
  (tmp_path / 'checkpoints' / '0.orbax-checkpoint-tmp-1').mkdir()
  assert resume.check(config, tmp_path)
  config['seed'] = 1
  # What it left besides, a tokenizer say, is of the other config.
  assert not resume.check(config, tmp_path)
  assert not resume.check(config, tmp_path / 'new')


@pytest.mark.parametrize('damage', ['', '{"mode": "tr', '[]', '\0' * 64, 'ÿ'])
def test_a_torn_config_is_one_line_that_names_the_file(tmp_path, damage):
  config = left(tmp_path, checkpoint=True)
  path = tmp_path / 'config.json'
  path.write_bytes(damage.encode('latin-1'))
  with pytest.raises(ConfigError) as refused:
    resume.check(config, tmp_path)
  assert str(path) in str(refused.value) and '\n' not in str(refused.value)
  # Without a run that it could be about, it is none's.
  (tmp_path / 'checkpoints' / '0').rmdir()
  assert not resume.check(config, tmp_path)


def test_a_checkpoint_without_its_config_is_gone_on_from(tmp_path):
  config = left(tmp_path, checkpoint=True)
  (tmp_path / 'config.json').unlink()
  assert resume.check(config, tmp_path)


def test_a_config_that_is_kept_already_is_not_written_again(tmp_path):
  config = left(tmp_path)
  inode = (tmp_path / 'config.json').stat().st_ino
  resume.keep(config, tmp_path)
  assert (tmp_path / 'config.json').stat().st_ino == inode
  resume.keep(config | {'seed': 5}, tmp_path)
  assert json.loads((tmp_path / 'config.json').read_text())['seed'] == 5


@pytest.mark.parametrize('member', [False, True])
def test_a_panel_that_the_horizon_follows_is_of_the_run(tmp_path, member):
  config = left(tmp_path, checkpoint=True)

  def changed(metric):
    horizon = {'horizon': {'metric': metric}}
    found = json.loads(json.dumps(config))
    if member:
      found['mixture'] = {'a': horizon}
    else:
      found['horizon'] |= horizon['horizon']
    resume.keep(found, tmp_path)
    found['eval']['num_tasks'] += 1
    return found

  assert resume.check(changed('rollout'), tmp_path)
  with pytest.raises(ConfigError, match=r'holds a run with eval.num_tasks=100'):
    resume.check(changed('eval'), tmp_path)


@pytest.mark.parametrize(
    'name, value, decides',
    [
        ('rollout.max_completion_tokens', 7, True),
        ('agent.format', 'plain', True),
        ('sampler.deterministic', True, True),
        ('sampler.urls', ('http://localhost:1',), False),
        ('mesh.tensor', 2, False),
        ('num_steps', 9, False),
        ('rollout.concurrency', 2, False),
        ('env.timeout_s', 9.0, False),
        ('eval.every', 9, False),  # the panel speaks for itself
        ('mixture.a.agent.format', 'plain', True),
        ('mixture.a.eval.horizon', 9, False),
    ],
)
def test_fields_that_decide_how_a_policy_plays(name, value, decides):
  path = name.split('.')
  config = record(read(defaults('train')))
  found = dict(config, mixture={'a': {'agent': {}, 'eval': {}}})
  before = resume.playing(found)
  section = found = json.loads(json.dumps(found))
  for part in path[:-1]:
    section = section[part]
  section[path[-1]] = value
  assert (resume.playing(found) != before) == decides
