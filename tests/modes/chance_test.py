"""Tests for agentrl.modes.chance: levels beside a run's evaluations."""

import contextlib
import dataclasses
import json
import time

import pytest

from agentrl import config as config_lib
from agentrl.evaluation.chance import level as level_lib, play, store
from agentrl.modes import chance, early, held_out
from agentrl.rollout.environment import Environment
from agentrl.training.run_record import SMALL, WHOLE
from configs import quickstart

EVERY = {'random', 'expert'}


def read(**fields):
  config = quickstart.get_config('tiny')
  config.update_from_flattened_dict({'eval.horizon': 4} | fields)
  return config_lib.read(config)


@pytest.fixture
def cached(tmp_path, monkeypatch):
  """A user's cache of its own."""
  monkeypatch.setattr(store, 'folder', lambda: tmp_path / 'cache')
  return tmp_path / 'cache'


@pytest.fixture
def played(monkeypatch):
  """Kinds that were played, with the outcomes that were there before."""
  calls, old = [], play.Reference.play

  def noted(self, kind, panel, kept, *rest):
    calls.append((kind, len(kept)))
    return old(self, kind, panel, kept, *rest)

  monkeypatch.setattr(play.Reference, 'play', noted)
  return calls


@pytest.fixture
def begin(make_run):
  """Begins a run whose environment serves; in the same workdir each time."""
  with contextlib.ExitStack() as stack:

    def begin(config, *, expert=True, name='', **parts):
      run = make_run(config, name=name, environment=None)
      environment = stack.enter_context(
          Environment(run.session.loop, config.env, expert=expert)
      )
      panel, small = held_out.make_panels(environment, config)
      [arena] = run.arenas
      arena = dataclasses.replace(
          arena, environment=environment, panel=panel, small_panel=small
      )
      return dataclasses.replace(run, arenas=[arena], **parts)

    yield begin


def beside(run, seconds=1000.0):
  chance.beside(run, run.arena, seconds)
  return run.record.chance


def summary_of(run):
  run.record.summarise('train', 1)
  return json.loads((run.session.directory / 'summary.json').read_text())


def test_a_panel_is_played_once(begin, said, cached, played, tmp_path):
  run = begin(read(**{'eval.small': {'num_tasks': 4, 'every': 1}}))
  levels = beside(run)
  assert played == [('random', 0), ('expert', 0)] and levels.keys() == EVERY
  text = said(run)
  assert 'random actions: success 0.' in text
  assert (
      'expert: success 1.000, 95% interval [0.631, 1.000], 8 held-out' in text
  )
  summary = summary_of(run)
  assert list(summary['chance']) == ['random', 'expert']
  assert summary['chance'] == json.loads(json.dumps(dict(levels)))
  assert summary['chance_small']['random']['n'] == 4
  mean = levels['random']['mean']
  assert f'On the same tasks: random actions {mean:.3f}, expert 1.000' in (
      said(run)
  )
  panel = run.arena.panel
  assert all(x['panel'] == panel.hash for x in levels.values())
  files = list((cached / panel.hash).iterdir())
  assert len(files) == 2
  # Later evaluations of the run, the run as it goes on, and other runs.
  beside(run)
  again = begin(read(**{'eval.small': {'num_tasks': 4, 'every': 1}}))
  assert beside(again) == levels
  (run.session.directory / store.FILE).unlink()
  other = begin(read(seed=5))
  assert beside(other) == levels and len(played) == 2
  assert 'chance_small' not in summary_of(other)
  # The workdir has each episode, as the pages of the viewer need it.
  kept = store.read_levels(run.session.directory)
  assert kept.keys() == EVERY
  assert [len(x.outcomes) for x in kept.values()] == [8, 8]
  assert {
      kind: level_lib.summarise(level) for kind, level in kept.items()
  } == levels


def test_a_damaged_entry_of_the_cache_is_played_again(begin, cached, played):
  run = begin(read())
  levels = dict(beside(run))
  path, *others = sorted((cached / run.arena.panel.hash).iterdir())
  whole = path.read_bytes()
  path.write_bytes(whole[:20])
  (run.session.directory / store.FILE).write_text('{')  # damaged as well
  again = begin(read())
  assert beside(again) == levels
  assert len(played) == 3 and played[-1][1] == 0
  assert path.read_bytes() == whole


def test_what_time_does_not_allow_is_left_to_the_next_evaluation(
    begin, said, cached, played, monkeypatch
):
  monkeypatch.setattr(chance, '_LEAST_S', 0.0)
  run = begin(read(**{'eval.num_tasks': 20}))
  assert beside(run, seconds=0.0) == {}
  text = said(run)
  assert 'random actions: 8 of 20 episodes within a tenth' in text
  assert 'expert: 0 of 20 episodes within a tenth' in text
  assert 'chance' not in summary_of(run)
  # Another run goes on where this one ended.
  run = begin(read(**{'eval.num_tasks': 20}))
  levels = dict(beside(run))
  assert played[2:] == [('random', 8), ('expert', 0)]
  assert levels['random']['n'] == levels['expert']['n'] == 20
  monkeypatch.setattr(store, 'folder', lambda: cached / 'another')
  (run.session.directory / store.FILE).unlink()
  assert beside(begin(read(**{'eval.num_tasks': 20}))) == levels


def test_the_time_is_a_share_of_the_evaluations(monkeypatch, begin, cached):
  seen = []
  monkeypatch.setattr(
      chance, 'Budget', lambda seconds: seen.append(seconds) or play.Budget(9.9)
  )
  run = begin(read())
  for seconds in (600.0, 0.5):
    chance.beside(run, run.arena, seconds)
  assert seen == [60.0, 3.0]


def test_a_budget_expects_the_next_part_to_take_as_long(monkeypatch):
  now = [0.0]
  monkeypatch.setattr(time, 'monotonic', lambda: now[0])
  budget = play.Budget(10.0)
  assert budget.allows(10**9)
  now[0] += 4.0
  budget.spend(4.0, 8)  # half a second each
  assert budget.allows(12) and not budget.allows(13)
  now[0] += 1.0
  budget.spend(1.0, 10)
  assert budget.allows(50) and not budget.allows(51)


def test_servers_without_an_expert_have_one_level(begin, said, cached, played):
  # As at URLs of servers that somebody else started.
  run = begin(read(), expert=False)
  levels = beside(run)
  assert levels['expert'] is None and levels['random']['n'] == 8
  assert 'expert: the environment offers none' in said(run)
  assert summary_of(run)['chance']['expert'] is None
  assert 'On the same tasks: random actions 0.' in said(run)
  assert 'expert 1' not in said(run)
  # Only this run takes it for granted.
  assert len(list((cached / run.arena.panel.hash).iterdir())) == 1
  assert beside(begin(read(), expert=False))['expert'] is None
  assert len(played) == 2
  (run.session.directory / store.FILE).unlink()
  assert beside(begin(read()))['expert']['mean'] == 1.0


def test_members_of_a_mixture_have_levels_of_their_own(begin, said, cached):
  run = begin(read(), name='north')
  assert list(beside(run)) == ['random/north', 'expert/north']
  summary_of(run)
  assert 'On the same tasks of north: random actions' in said(run)
  assert 'random actions/north: success' in said(run)


@pytest.mark.parametrize(
    'fields', [{'eval.chance': False}, {'eval.num_tasks': 0}]
)
def test_it_can_be_switched_off(begin, cached, played, fields):
  run = begin(read(**fields))
  assert beside(run) == {} and not played
  assert 'chance' not in summary_of(run)
  assert not (run.session.directory / store.FILE).exists()


def test_another_panel_replaces_the_levels_of_a_run(begin, cached, played):
  directory = None
  for count in (8, 6):
    run = begin(read(**{'eval.num_tasks': count}))
    directory = run.session.directory
    assert beside(run)['random']['n'] == count
  assert len(played) == 4
  levels = store.read_levels(directory)
  assert {len(x.outcomes) for x in levels.values()} == {6}


def test_own_parts_are_not_shared(begin, cached, played, monkeypatch):
  run = begin(read())
  arena = run.arena
  assert chance._is_shared(arena.config, arena.environment.spec)
  spec = dataclasses.replace(
      arena.environment.spec, unsafe_options={'levels': bool}
  )
  monkeypatch.setattr(arena.environment, 'spec', spec)
  assert not chance._is_shared(arena.config, spec)
  beside(run)
  assert not cached.exists()
  kept = run.session.directory / 'chance' / arena.panel.hash
  assert len(list(kept.iterdir())) == 2
  for section, value in (
      ('env', {'name': 'walk:SPEC'}),
      ('env', {'url': 'http://127.0.0.1:1'}),
      ('agent', {'format': 'own.py:FORMAT'}),
  ):
    own = dataclasses.replace(getattr(arena.config, section), **value)
    config = dataclasses.replace(arena.config, **{section: own})
    monkeypatch.undo()
    assert not chance._is_shared(config, arena.environment.spec)


def test_other_evaluations_of_the_panel_find_them(begin, cached, monkeypatch):
  run = begin(read())
  arena = run.arena
  find = lambda: chance.cached(
      arena.panel, arena.config, arena.environment.spec
  )
  assert find() == {}
  levels = beside(run)
  assert {k: level_lib.summarise(x) for k, x in find().items()} == levels
  # A level that is not whole is none.
  path, _ = sorted((cached / arena.panel.hash).iterdir())
  kind = next(k for k, x in levels.items() if x['key'] == path.stem)
  outcomes = find()[kind].outcomes
  store.write(path, path.stem, outcomes[:-1])
  assert find().keys() == EVERY - {kind}
  monkeypatch.setattr(store, 'folder', lambda: None)
  assert find() == {}


def test_what_cannot_be_played_ends_no_run(begin, said, cached, monkeypatch):

  def play_one(self, kind, panel, kept, budget, keep):
    raise ValueError(f'No function stands for what the {kind} policy does.')

  monkeypatch.setattr(play.Reference, 'play', play_one)
  run = begin(read())
  assert beside(run) == {'random': None, 'expert': None}
  assert 'expert: No function stands for what the expert' in said(run)
  assert not cached.exists()


@pytest.mark.parametrize('fields', [{}, {'eval.chance': False}])
def test_servers_offer_the_expert_where_it_is_played(monkeypatch, fields):
  begun = []
  monkeypatch.setattr(
      'agentrl.rollout.env_server.begin',
      lambda name, options, *, expert, timeout_s: begun.append(expert),
  )
  early.servers(read(**{'warmstart.episodes': 0, **fields}))
  assert begun == [not fields]


def test_panels_of_the_record_do_not_mix(begin, cached):
  run = begin(read())
  run.record.add_chance('random', {'mean': 0.5}, {'mean': 0.25})
  assert run.record.chance == {'random': {'mean': 0.5}}
  summary = summary_of(run)
  assert summary['chance'] == {'random': {'mean': 0.5}}
  assert summary['chance_small'] == {'random': {'mean': 0.25}}
  assert (WHOLE, SMALL) == ('eval', 'eval_small')


def test_a_second_process_gets_what_the_first_has_played(
    begin, cached, played, monkeypatch
):
  run = begin(read())
  levels = dict(beside(run))
  kept = list(store.read_levels(run.session.directory).values())
  (run.session.directory / store.FILE).unlink()
  monkeypatch.setattr('agentrl.parallel.distributed.is_first', lambda: False)
  monkeypatch.setattr(
      chance.ranks, 'gather', lambda work: [*work(), kept.pop(0)]
  )
  other = begin(read())
  assert beside(other) == levels and len(played) == 2
  assert not (run.session.directory / store.FILE).exists()
