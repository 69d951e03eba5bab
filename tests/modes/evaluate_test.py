"""Tests for agentrl.modes.evaluate."""

import dataclasses
import json
import shutil
import time
import weakref

import jax
import msgspec
import pytest

from agentrl import envs
from agentrl.config import record
from agentrl.data import episodes as episodes_lib
from agentrl.errors import (
    ConfigError,
    DataError,
    EngineError,
    EnvError,
    PanelError,
)
from agentrl.evaluation import results
from agentrl.evaluation.chance import level as level_lib, store
from agentrl.evaluation.chance.level import Outcome
from agentrl.evaluation.compare import record as compared, recorded
from agentrl.evaluation.curves import curves
from agentrl.evaluation.curves.curves import Curves
from agentrl.modes import evaluate, reading
from agentrl.modes.evaluation import policies
from agentrl.runtime import lock, starts, summary as summary_lib
from agentrl.runtime.event_loop import Interrupted
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.weights import fingerprint, hf, model_card
from configs import evaluate as config_lib, textcraft_grpo
from tests import tiny
from tests.fakes import page_server


def test_training_tasks_are_refused_where_nothing_is_trained():
  config = config_lib.get_config('env=babyai')
  with pytest.raises(AttributeError, match='env.task_file .* mode=.evaluate'):
    config.env.task_file = 'items.json'


@pytest.mark.parametrize('listed', [True, False])
def test_a_run_is_evaluated_at_a_url_that_it_did_not_have(tmp_path, listed):
  trained = textcraft_grpo.get_config('tiny')
  trained.env.task_file = 'trained.json'
  recorded = record(reading.read(trained))
  assert recorded['env']['url'] is None
  if not listed:
    del recorded['env']['url'], recorded['env']['retry_s']
  (tmp_path / 'checkpoints').mkdir()
  (tmp_path / 'config.json').write_text(json.dumps(recorded))
  config = config_lib.get_config(f'model={tmp_path}')
  env = reading.read(config).env
  assert env.name == 'textcraft' and env.options['max_depth'] == 1
  assert env.urls == ()
  # Flags set what has a type.
  assert config.env.get_type('url') is object  # a text or several
  assert config.eval.get_type('task_file') is str
  config.env.url, config.env.retry_s = 'http://h:1', 2.0
  config.eval.task_file = 'items.json'
  env = reading.read(config).env
  assert env.urls == ('http://h:1',) and env.retry_s == 2.0


def test_an_evaluation_takes_an_item_file_as_argument():
  config = config_lib.get_config('task_file=textcraft_test.json,n=90')
  read = reading.read(config)
  assert read.eval.task_file == 'textcraft_test.json'
  assert read.eval.num_tasks == 90


CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=300, max_positions=2048)
# What a clock says.
CLOCKS = ('sampler_s', 'env_s', 'began')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """A tiny model in a Hugging Face folder."""
  path = tmp_path_factory.mktemp('model') / 'small'
  tokenizer = tokenizer_lib.train_bpe(['go to the red ball'], 300)
  params = tiny.random_params(CONFIG)
  hf.save(path, CONFIG, params, companions=[tokenizer.save])
  return path


def small(source, env='babyai', **eval):
  """An evaluation of seconds."""
  config = config_lib.get_config(f'model={source},env={env}')
  config.eval.update({'num_tasks': 3, 'horizon': 3} | eval)
  if 'babyai' in env:
    config.env.options.update(levels=('GoToRedBall',), style='compact')
  config.agent = dict(format='plain', instructions='compact')
  config.rollout = dict(max_completion_tokens=8, max_context=1024)
  config.sampler.max_running = 4
  return config


def left(directory):
  """All that an evaluation leaves, but for its times and its starts."""
  found = {}
  for path in sorted(directory.rglob('*')):
    name = path.relative_to(directory).as_posix()
    if path.is_dir() or name in ('lock', starts.FILE):
      continue
    found[name] = path.read_text()
    if path.suffix == '.jsonl':
      lines = [json.loads(line) for line in found[name].splitlines()]
      for turn in (turn for line in lines for turn in line['turns']):
        for clock in CLOCKS:
          turn.pop(clock)
      found[name] = lines
    if name == 'summary.json':
      found[name] = json.loads(found[name]) | {'wall_s': 0}
  return found


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
  """An evaluation of the expert in two environments that nothing disturbed."""
  path = tmp_path_factory.mktemp('whole') / 'run'
  evaluate.run(small('expert', 'textcraft;babyai', samples=2), str(path))
  return path


def test_an_evaluation_leaves_its_results(whole):
  assert set(left(whole)) == {
      'config.json',
      'episodes/eval/expert/babyai.jsonl',
      'episodes/eval/expert/policy.json',
      'episodes/eval/expert/textcraft.jsonl',
      'evaluation.csv',
      'evaluation.json',
      'evaluation.md',
      'summary.json',
  }
  found = results.read(whole)
  [policy] = found.policies
  assert (policy.name, policy.kind, policy.fingerprint) == (
      'expert',
      'expert',
      None,
  )
  assert found.config == json.loads((whole / 'config.json').read_text())
  for panel in found.panels:
    path = results.episodes_path(whole, 'expert', panel.env)
    played = list(episodes_lib.read(path))
    assert [(e.task_id, e.sample) for e in played] == [
        (task, k) for task in panel.task_ids for k in range(2)
    ]
    spec = envs.get(panel.env)
    tasks = spec.tasks('test', **panel.options)
    kinds = set(map(spec.subtasks(**panel.options), tasks))
    assert len(set(panel.task_ids)) == 3 and set(panel.task_ids) <= set(tasks)
    assert len(set(panel.subtasks)) == min(3, len(kinds))
    rows = [row for row in found.rows if row.env == panel.env]
    assert [row.subtask for row in rows] == [
        *sorted(set(panel.subtasks)),
        results.ALL,
    ]
    share = sum(e.success for e in played) / len(played)
    assert rows[-1].success.mean == pytest.approx(share)
    assert rows[-1].n == 6 and rows[-1].errors == 0
    summary = json.loads((whole / 'summary.json').read_text())
    [of_env] = summary['eval']['expert'][panel.env].values()
    assert of_env['mean'] == pytest.approx(share) and of_env['n'] == 6
  assert found.rows[-1].success.mean == 1.0  # GoToRedBall


@pytest.mark.parametrize(
    'error, status',
    [(Interrupted('SIGTERM'), 'stopped'), (EnvError('x'), 'failed')],
)
def test_an_interrupted_evaluation_says_how_far_it_came(
    whole, tmp_path, monkeypatch, error, status
):
  path = tmp_path / 'run'
  play = evaluate.Player.play

  def fail_on_the_second(self, panel, *args, **how):
    if panel.env == 'babyai':
      raise error
    return play(self, panel, *args, **how)

  monkeypatch.setattr(evaluate.Player, 'play', fail_on_the_second)
  wanted = small('expert', 'textcraft;babyai', samples=2)
  with pytest.raises((SystemExit, EnvError)):
    evaluate.run(wanted, str(path))
  found = summary_lib.read(path)
  assert (found['status'], found['episodes']) == (status, 6)
  assert found['mode'] == 'evaluate' and 'episodes that are' in found['go_on']
  monkeypatch.undo()
  evaluate.run(wanted, str(path))
  assert summary_lib.finished(summary_lib.read(path))
  assert summary_lib.read(path)['eval'] == summary_lib.read(whole)['eval']


@pytest.mark.parametrize('keep', [0.0, 0.6])
def test_a_killed_evaluation_ends_as_one_that_was_not(
    whole, tmp_path, keep, capsys
):
  path = tmp_path / 'run'
  shutil.copytree(whole, path)
  # As a SIGKILL in the second environment leaves it: half a line at the end.
  for name in ('evaluation.json', 'evaluation.md', 'evaluation.csv'):
    (path / name).unlink()
  journal = results.episodes_path(path, 'expert', 'babyai')
  data = journal.read_bytes()
  journal.write_bytes(data[: int(keep * len(data))])
  kept = data[: int(keep * len(data))].count(b'\n')
  evaluate.run(small('expert', 'textcraft;babyai', samples=2), str(path))
  assert left(path) == left(whole)
  # The times are those of the episodes that were played anew.
  again = journal.read_bytes().splitlines(keepends=True)
  assert again[:kept] == data.splitlines(keepends=True)[:kept]
  assert 'babyai, all: success 1.000' in capsys.readouterr().out


def test_the_same_command_on_a_finished_evaluation_plays_nothing(
    whole, tmp_path, monkeypatch
):
  path = tmp_path / 'run'
  shutil.copytree(whole, path)
  monkeypatch.setattr(policies, 'open_policy', None)
  evaluate.run(small('expert', 'textcraft;babyai', samples=2), str(path))
  assert left(path) == left(whole)


def test_curves_are_the_evaluations_at_each_horizon(tmp_path, monkeypatch):
  path = tmp_path / 'whole'
  options = dict(num_tasks=16, samples=2)
  evaluate.run(small('random', horizon=6, **options), str(path))
  assert not list(path.glob('curves.*'))
  # Of a finished evaluation they cost nothing.
  with monkeypatch.context() as patch:
    patch.setattr(policies, 'open_policy', None)
    config = small('random', horizon=6, curves=True, **options)
    evaluate.run(config, str(path))
  assert {x.name for x in path.glob('curves.*')} == {
      'curves.json',
      'curves.md',
      'curves.png',
  }
  found = msgspec.json.decode((path / curves.FILE).read_bytes(), type=Curves)
  assert found.policies == results.read(path).policies
  shorter = tmp_path / 'shorter'
  evaluate.run(small('random', horizon=2, **options), str(shorter))
  rows = {2: results.read(shorter).rows[-1], 6: results.read(path).rows[-1]}
  assert rows[2].success.mean < rows[6].success.mean
  for horizon, row in rows.items():
    points = [x for x in found.points if x.limit == horizon]
    assert [x.success for x in points] == list(row.pass_at_k.values())


def test_another_evaluation_in_the_folder_is_refused(whole, tmp_path):
  path = tmp_path / 'run'
  shutil.copytree(whole, path)
  for changed, words in [
      ({'seed': 1}, r'eval.seed=0 \(now 1\)'),
      ({'samples': 3}, r'eval.samples=2 \(now 3\)'),
      ({'horizon': 4}, r'eval.horizon=3 \(now 4\)'),
  ]:
    config = small('expert', 'textcraft;babyai', **({'samples': 2} | changed))
    with pytest.raises(ConfigError, match=words):
      evaluate.run(config, str(path))
  assert left(path) == left(whole)
  # How many play at a time is no part of it.
  config = small('expert', 'textcraft;babyai', samples=2)
  config.rollout.concurrency = 1
  evaluate.run(config, str(path))


def test_evaluations_of_two_data_versions_do_not_mix(
    whole, tmp_path, monkeypatch
):
  newer = dataclasses.replace(envs.get('babyai'), data_version=2)
  monkeypatch.setitem(envs.ENVS, 'babyai', newer)
  began = tmp_path / 'began'
  shutil.copytree(whole, began)
  with pytest.raises(DataError, match='data_version 1 of babyai.* has 2:'):
    evaluate.run(small('expert', 'textcraft;babyai', samples=2), str(began))
  evaluate.run(small('expert', 'babyai', samples=2), str(tmp_path / 'new'))
  [panel] = results.read(tmp_path / 'new').panels
  [old] = [x for x in results.read(whole).panels if x.env == 'babyai']
  assert (panel.data_version, old.data_version) == (2, 1)
  assert panel.task_ids == old.task_ids and panel.hash != old.hash
  played = list(
      episodes_lib.read(
          results.episodes_path(tmp_path / 'new', 'expert', 'babyai')
      )
  )
  assert [x.data_version for x in played] == [2] * 6
  assert 'data version 2' in (tmp_path / 'new' / 'evaluation.md').read_text()
  (old,), (new,) = recorded.read([str(whole), str(tmp_path / 'new')])
  with pytest.raises(PanelError, match='data_version 1 and 2.*Evaluate expert'):
    compared.compare_policies([old, new], seed=0)


def test_a_training_runs_folder_is_refused(tmp_path):
  (tmp_path / 'metrics.jsonl').write_text('{"step": 0}\n')
  kept = record(reading.read(textcraft_grpo.get_config('tiny')))
  (tmp_path / 'config.json').write_text(json.dumps(kept))
  with pytest.raises(ConfigError) as refused:
    evaluate.run(small('expert'), str(tmp_path))
  assert "holds a run with mode='train' (now 'evaluate');" in str(refused.value)


def test_two_processes_in_one_folder_are_refused(tmp_path):
  with lock.hold(tmp_path), pytest.raises(ConfigError, match='is in use'):
    evaluate.run(small('expert'), str(tmp_path))


def test_too_large_a_panel_is_refused_before_weights_are_loaded(
    folder, tmp_path, monkeypatch
):
  monkeypatch.setattr(policies, 'open_policy', None)
  config = small(folder, 'babyai;textcraft', num_tasks=101)
  with pytest.raises(ConfigError, match='split of textcraft has 100 tasks'):
    evaluate.run(config, str(tmp_path))


def test_a_missing_wheel_is_refused_before_weights_are_loaded(
    folder, tmp_path, monkeypatch
):
  # The server's process finds this one in its place.
  stub = tmp_path / 'stub' / 'scienceworld'
  stub.mkdir(parents=True)
  (stub / '__init__.py').write_text("raise ImportError('not installed')\n")
  monkeypatch.setenv('PYTHONPATH', str(stub.parent))
  monkeypatch.setattr(policies, 'open_policy', None)
  config = config_lib.get_config(f'model={folder},suite=text')
  with pytest.raises(EnvError, match='third_party/requirements/envs.txt'):
    evaluate.run(config, str(tmp_path / 'run'))
  assert not (tmp_path / 'run' / 'config.json').exists()


@pytest.mark.slow
def test_a_model_and_the_server_of_it_do_the_same(folder, tmp_path, capsys):
  params = tiny.random_params(CONFIG)
  limits = dict(max_len=1100, max_running=4)
  with tiny.serving(params, CONFIG, **limits) as url:
    config = small(f'{folder};{url}', temperature=0.0, samples=2)
    config.model.tokenizer = str(folder)
    evaluate.run(config, str(tmp_path))
  found = results.read(tmp_path)
  loaded, served = found.policies
  assert (loaded.name, loaded.kind) == ('small', 'model')
  expected = fingerprint.of_params(params)
  assert loaded.fingerprint == expected and served.fingerprint is None
  assert served.kind == 'server' and served.source == url
  assert loaded.template == served.template == 'chatml'
  assert loaded.sampler['temperature'] == served.sampler['temperature'] == 0.0
  lines = [
      list(episodes_lib.read(results.episodes_path(tmp_path, x.name, 'babyai')))
      for x in found.policies
  ]
  said = [[[t.completion for t in e.turns] for e in part] for part in lines]
  assert said[0] == said[1] and len(said[0]) == 6
  assert [e.seed for e in lines[0]] == [e.seed for e in lines[1]]
  first, second = (row for row in found.rows if row.subtask == results.ALL)
  assert first.success == second.success and first.prompt_tokens > 100
  name = served.name
  assert f'{name}, babyai, all: success' in capsys.readouterr().out
  summary = json.loads((tmp_path / 'summary.json').read_text())
  assert summary['weight_version'] == {'small': 'default', name: 'default'}
  assert summary['tokens'] > 0


@pytest.mark.slow
@pytest.mark.parametrize('is_api', [False, True])
def test_a_server_that_says_how_it_was_trained_needs_no_flags(
    folder, tmp_path, is_api
):
  params, tokenizer = tiny.random_params(CONFIG), tokenizer_lib.load(folder)
  wanted = small(folder, temperature=0.0)
  evaluate.run(wanted, str(tmp_path / 'loaded'))
  made = reading.read(wanted)
  settings = dict(
      trained_with=model_card.trained_with(record(made)),
      tokenizer=tokenizer,
      served_name='small',
      max_len=1030,
      max_running=4,
  )
  with tiny.serving(params, CONFIG, **settings) as url:
    arg = f'api={url}/v1,api_model=small' if is_api else f'model={url}'
    config = config_lib.get_config(f'{arg},temperature=0')
    if not is_api:
      config.model.tokenizer = str(folder)
    evaluate.run(config, str(tmp_path / 'served'))
  kept = json.loads((tmp_path / 'served' / 'config.json').read_text())
  expected = json.loads((tmp_path / 'loaded' / 'config.json').read_text())
  for section in ('env', 'agent', 'rollout'):
    assert kept[section] == expected[section]
  found = []
  for part in ('loaded', 'served'):
    (policy,) = results.read(tmp_path / part).policies
    path = results.episodes_path(tmp_path / part, policy.name, 'babyai')
    found.append(list(episodes_lib.read(path)))
  assert [e.seed for e in found[0]] == [e.seed for e in found[1]]
  assert len(found[0]) == made.eval.num_tasks == 3
  if not is_api:  # whose texts lack special tokens
    said = [[[t.completion for t in e.turns] for e in part] for part in found]
    assert said[0] == said[1]
  # Nothing is missing, so nobody is asked again.
  evaluate.run(config, str(tmp_path / 'served'))


@pytest.mark.slow
def test_an_api_stands_beside_an_expert_and_a_random_policy(folder, tmp_path):
  params, tokenizer = tiny.random_params(CONFIG), tokenizer_lib.load(folder)
  limits = dict(max_len=1100, max_running=4)
  with tiny.serving(params, CONFIG, tokenizer=tokenizer, **limits) as url:
    config = small('api;expert;random', samples=2)
    config.api = dict(url=f'{url}/v1', model='small', temperature=0.0)
    config.api.update(price_input=1.0, price_output=10.0)
    evaluate.run(config, str(tmp_path))
  found = results.read(tmp_path)
  assert [x.kind for x in found.policies] == ['api', 'expert', 'random']
  api = found.policies[0]
  assert api.name == 'small' and api.sampler['temperature'] == 0.0
  rows = {row.policy: row for row in found.rows if row.subtask == results.ALL}
  assert rows['expert'].success.mean == 1.0 > rows['random'].success.mean
  assert rows['expert'].cost is rows['random'].prompt_tokens is None
  row = rows['small']
  per_episode = (row.prompt_tokens + 10 * row.completion_tokens) / 1e6
  assert row.cost == pytest.approx(6 * per_episode)
  for name in rows:
    played = episodes_lib.read(results.episodes_path(tmp_path, name, 'babyai'))
    assert not any(episode.tokens for episode in played)


@pytest.mark.slow
def test_other_weights_of_the_same_name_are_not_gone_on_with(folder, tmp_path):
  model, path = tmp_path / 'model', tmp_path / 'run'
  shutil.copytree(folder, model)
  evaluate.run(small(model), str(path))
  journal = results.episodes_path(path, 'model', 'babyai')
  journal.write_text(journal.read_text().splitlines(keepends=True)[0])
  tokenizer = tokenizer_lib.load(model)
  shutil.rmtree(model)
  params = tiny.random_params(CONFIG, seed=1)
  hf.save(model, CONFIG, params, companions=[tokenizer.save])
  with pytest.raises(ConfigError, match='episodes of model with fingerprint='):
    evaluate.run(small(model), str(path))
  assert len(journal.read_text().splitlines()) == 1


@pytest.mark.slow
def test_weights_are_freed_before_the_next_are_loaded(
    folder, tmp_path, monkeypatch
):
  again, live, load = (
      tmp_path / 'again',
      [],
      policies.language_model.load_policy,
  )
  shutil.copytree(folder, again)

  def load_policy(*args, **kwargs):
    live.append(sum(x.nbytes for x in jax.live_arrays()))
    model, version = load(*args, **kwargs)
    models.append(weakref.ref(model))
    return model, version

  models = []
  monkeypatch.setattr(policies.language_model, 'load_policy', load_policy)
  evaluate.run(small(f'{folder};{again}', num_tasks=1), str(tmp_path / 'run'))
  assert [ref() for ref in models] == [None, None]
  weights = sum(x.nbytes for x in jax.tree.leaves(tiny.random_params(CONFIG)))
  assert live[1] < live[0] + weights


@pytest.mark.slow
def test_a_server_without_a_tokenizer_here_is_refused(tmp_path):
  params = tiny.random_params(CONFIG)
  with tiny.serving(params, CONFIG, max_len=1100) as url:
    with pytest.raises(ConfigError, match='--config.model.tokenizer=FOLDER'):
      evaluate.run(small(url), str(tmp_path))
    config = small(url)
    config.rollout.max_context = 1200
    with pytest.raises(
        EngineError, match='fewer than rollout.max_context=1200'
    ):
      evaluate.run(config, str(tmp_path / 'long'))


def test_a_url_of_something_else_is_refused_at_once(tmp_path):
  with page_server(b'<html>Welcome</html>') as url:
    began = time.monotonic()
    with pytest.raises(EngineError, match='is an SGLang server there'):
      evaluate.run(small(url), str(tmp_path))
    assert time.monotonic() - began < 60


def test_what_a_run_has_played_of_the_panel_stands_beside(
    folder, tmp_path, monkeypatch, capsys
):
  monkeypatch.setattr(store, 'folder', lambda: tmp_path / 'cache')
  config = small(folder)
  evaluate.run(config, str(tmp_path / 'without'))
  assert 'On the same tasks' not in capsys.readouterr().out
  assert not (tmp_path / 'without' / store.FILE).exists()
  [panel] = results.read(tmp_path / 'without').panels
  for kind, solved in (('random', 1), ('expert', 3)):
    key = level_lib.key_of(kind, panel, format='plain', machine_options=())
    outcomes = [
        Outcome(task, 0, 0, i < solved, 1.0, None, 2, 'terminated')
        for i, task in enumerate(panel.task_ids)
    ]
    store.write(store.path_of(store.folder(), panel.hash, key), key, outcomes)
  evaluate.run(config, str(tmp_path / 'with'))
  said = capsys.readouterr().out
  assert 'On the same tasks: random actions 0.333, expert 1.000' in said
  summary = json.loads((tmp_path / 'with' / 'summary.json').read_text())
  assert summary['chance']['random']['mean'] == pytest.approx(1 / 3)
  assert store.read_levels(tmp_path / 'with').keys() == {'random', 'expert'}
  # A policy of the evaluation has its own episodes.
  evaluate.run(small(f'{folder};random'), str(tmp_path / 'both'))
  assert store.read_levels(tmp_path / 'both').keys() == {'expert'}
