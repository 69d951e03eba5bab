"""Tests for mode='train': its hooks of the loop; runs are in tests.e2e."""

import contextlib
import dataclasses
import json
import math
import pickle
import types
from collections import Counter

import numpy as np
import pytest
import rich.console

from agentrl import config as config_lib, schedules
from agentrl.data import episodes as episodes_lib
from agentrl.data.tasks import TaskIterator
from agentrl.errors import ConfigError, EngineError
from agentrl.modes import learning, supplies, train
from agentrl.parallel import distributed, ranks
from agentrl.rollout import collector as collector_lib
from agentrl.rollout.collector import Job
from agentrl.rollout.options import Limits
from agentrl.rollout.sources import Share, Source, Sources
from agentrl.runtime import workdir as workdir_lib
from agentrl.runtime.event_loop import Interrupted
from agentrl.training import rl, watch
from agentrl.training.rl import LoopState
from configs import quickstart
from tests import fakes, tiny

pytestmark = pytest.mark.usefixtures('quick_compilation')


def read(**fields):
  config = quickstart.get_config('tiny')
  config.num_steps = 6
  config.update_from_flattened_dict(fields)
  return config_lib.read(config)


def make_hooks(run, ref_params=None):
  """The hooks of a run that nobody samples for."""
  return train._Hooks(
      run,
      serving=types.SimpleNamespace(engine=None),
      sampler=types.SimpleNamespace(counts=Counter(retries=2)),
      ref_params=ref_params,
      dead=watch.DeadPolicyWatch(run.model.config.vocab_size),
      collapse=watch.CollapseWatch(run.session.config.gauges),
  )


def made(step, **metrics):
  """The results of an rl step."""
  metrics = {'policy/version': step + 2.0, 'policy/entropy': 1.0} | metrics
  groups = tiny.random_groups(step)
  batch = tiny.make_batch(groups)
  batch = batch.replace(old_logprobs=batch.sampler_logprobs)
  return rl.RlStep(step, metrics, groups, batch, [])


def test_a_random_policy_needs_an_experts_episodes():
  setup = types.SimpleNamespace(
      session=types.SimpleNamespace(config=read(**{'warmstart.episodes': 0}))
  )
  with pytest.raises(ConfigError, match='tiny policy needs warmstart.episodes'):
    train._texts(setup)


def test_without_a_warm_start_the_policy_is_as_it_came(make_run, monkeypatch):
  monkeypatch.setattr(
      learning, 'evaluate', lambda *_, **__: pytest.fail('evaluated')
  )
  run, params = make_run(read(**{'warmstart.episodes': 0})), object()
  phases = learning.Phases(rich.console.Console(quiet=True), (), 0.0)
  assert learning.warm_up(run, None, params, phases) == (params, 0)


class Collector:
  """Notes what it is asked for."""

  def __init__(self):
    self.asked = []

  def job(self, *inputs, **options):
    self.asked.append((inputs, options))


def test_a_collection_has_names_and_seeds_of_its_step(make_run, monkeypatch):
  played = []
  monkeypatch.setattr(
      collector_lib,
      'run_jobs',
      lambda jobs, title: played.append((jobs, title)),
  )
  run = make_run(read(**{'seed': 4}), collector=Collector())
  hooks = make_hooks(run)
  hooks.collect(3, [Share('', [(0, 17)], 5)], policy_version=4)
  ((inputs, options),) = run.collector.asked
  group_size = run.session.config.rollout.group_size
  assert inputs == ([(0, 17)], group_size, hooks.sampler)
  assert options == {
      'name': 'train-3',
      'horizon': 5,
      'policy_version': 4,
      'reward': 'environment',
      'seed': run.session.seed('train', 3),
  }
  assert played == [([None], 'step 4')]


def test_members_of_a_mixture_play_their_shares_under_seeds_of_their_own(
    make_run, monkeypatch
):
  monkeypatch.setattr(collector_lib, 'run_jobs', lambda jobs, title: jobs)
  a, b = Collector(), Collector()
  run = make_run(read(), collectors={'a': a, 'b': b})
  hooks = make_hooks(run)
  shares = [Share('b', [(0, 1), (1, 2)], 5), Share('a', [(0, 1)], 3)]
  hooks.collect(3, shares, policy_version=4)
  asked = [a.asked, b.asked]
  [((tasks, *_), first)], [((others, *_), second)] = asked
  assert tasks == [(0, 1)] and others == [(0, 1), (1, 2)]
  assert (first['horizon'], second['horizon']) == (3, 5)
  assert first['seed'] == run.session.seed('train', 3, 'a') != second['seed']


def test_each_process_has_its_part_scored_by_the_teacher(make_run, monkeypatch):
  step, hooks = made(0), make_hooks(make_run(read()))
  episodes = [episode for group in step.groups for episode in group.episodes]
  width = step.batch.tokens.shape[1]
  place = {id(episode): i for i, episode in enumerate(episodes)}
  asked = []

  async def score(own, width):
    asked.append(len(own))
    rows = [place[id(episode)] for episode in own]
    return np.repeat(np.float32(rows)[:, None], width, axis=1)

  hooks = dataclasses.replace(hooks, teacher=types.SimpleNamespace(score=score))
  monkeypatch.setattr(ranks, 'own', lambda items: items[::2])

  def share(message):
    [rows], _ = pickle.loads(message)
    return [message, pickle.dumps(([rows + 1], None))]  # of the next episodes

  monkeypatch.setattr(distributed, 'share', share)
  taught = hooks.teach(step.batch, step.groups).teacher_logprobs
  assert asked == [len(episodes) / 2] and taught.shape == (len(episodes), width)
  np.testing.assert_array_equal(taught[:, 0], range(len(episodes)))

  # Where one fails, all do: no collective of the next step meets this one.
  down = pickle.dumps(([], EngineError('the other teacher')))
  monkeypatch.setattr(distributed, 'share', lambda message: [message, down])
  with pytest.raises(EngineError, match='the other teacher'):
    hooks.teach(step.batch, step.groups)


def test_a_replay_has_no_deadline_and_no_failure_to_repeat(make_run, tmp_path):
  record = tmp_path / 'record'
  failed = dict(stop_reason='env_error', error='down')
  group = [
      fakes.make_episode(episode_id=f'train-0-0-{i}', **fields)
      for i, fields in enumerate(({}, failed))
  ]
  episodes_lib.write(episodes_lib.step_path(record, 'train', 0), group)
  played = []

  @dataclasses.dataclass(frozen=True)
  class Replaying:
    limits: Limits = Limits(deadline_s=5.0, concurrency=1)
    member: str = ''

    def job(self, tasks, group_size, policy, *, seed, **how):
      async def play(assignment):
        played.append((assignment.replica, self.limits.deadline_s))
        return group[assignment.replica]

      return Job(self, tasks, group_size, play, seed)

  config = read(**{
      'num_steps': 1,
      'rollout.recorded': str(record),
      'rollout.resample': True,
      'rollout.group_size': 2,
      'sampler.deterministic': True,
  })
  run = make_run(config, collector=Replaying())
  source = Source(TaskIterator([0], seed=0), schedules.fixed(3))
  supply = supplies.make(run, Sources([source], 1), None, 1)
  _, collection = supply.collect(0, None, {}, 1)
  assert [list(x.episodes) for x in collection.groups] == [group]
  assert played == [(0, math.inf)]


def test_a_step_leaves_its_line_its_episodes_and_what_was_learnt(make_run):
  run = make_run(read())
  run.record.open(run.session.stack, 6, 0, shown=())
  step, hooks = made(0), make_hooks(run)
  hooks.record(step)
  directory = run.session.directory
  (line,) = (directory / 'metrics.jsonl').read_text().splitlines()
  line = json.loads(line)
  assert line['step'] == 0 and line['policy/version'] == 2
  assert line['sampler/retries'] == 2  # of this step: the count begins anew
  assert not hooks.sampler.counts
  played = [episode for group in step.groups for episode in group.episodes]
  path = episodes_lib.step_path(directory, 'train', 0)
  assert list(episodes_lib.read(path)) == played
  with np.load(path.with_suffix('.npz')) as learnt:
    np.testing.assert_array_equal(learnt['advantages'], step.batch.advantages)
  tokens = sum(len(episode.tokens) for episode in played)
  assert run.record.state()['totals']['tokens'] == tokens


def test_a_policy_that_does_not_learn_is_told_of(make_run, said):
  hooks = make_hooks(make_run(read()))
  for step in range(watch.PATIENCE):
    assert 'has not learnt' not in said(hooks.run)
    hooks.record(made(step, **{'policy/entropy': 0.0}))
  assert 'has not learnt for 5 steps' in said(hooks.run)


def test_evaluations_come_between_steps_and_not_after_the_last(
    make_run, monkeypatch
):
  evaluated = []

  def evaluate(run, arena, serving, *inputs, checkpoint, panel):
    evaluated.append((*inputs, panel))
    assert checkpoint == inputs[1]

  monkeypatch.setattr(learning, 'evaluate', evaluate)
  every = {'num_tasks': 4, 'every': 2}
  fields = {'eval.every': 3, 'eval.small': every}
  hooks = make_hooks(make_run(read(**fields)))
  for step in range(6):
    assert not hooks.evaluate(step + 1, step + 2)
  # Name, step, policy version and panel.
  assert evaluated == [
      ('step_2', 2, 3, 'eval_small'),
      ('step_3', 3, 4, 'eval'),
      ('step_4', 4, 5, 'eval_small'),
  ]


def test_a_step_that_is_evaluated_best_is_worth_a_checkpoint(
    make_run, monkeypatch
):
  rates = {'step_1': 0.5, 'step_2': 0.25, 'step_3': 0.5, 'step_5': 0.75}

  def evaluate(run, arena, serving, name, step, version, *, checkpoint, panel):
    if name not in rates:
      raise Interrupted
    found = dict.fromkeys(
        ('low', 'high', 'n', 'invalid', 'return_mean', 'turns_mean'), 0
    )
    found |= {'mean': rates[name], 'checkpoint': checkpoint}
    found |= {'panel': 'a', 'horizon': 6, 'temperature': 1.0}
    run.record.add_evaluation(name, found, panel)

  monkeypatch.setattr(learning, 'evaluate', evaluate)
  fields = {'eval.every': 1, 'checkpoint.keep_best': True}
  run = make_run(read(**fields))
  hooks, state = make_hooks(run), tiny.new_state()
  saved = []
  for step in range(5):
    hooks.record(made(step))
    with contextlib.suppress(Interrupted):
      if not hooks.evaluate(step + 1, step + 2):
        continue
      loop = LoopState(step + 1, step + 2, {}, [], {})
      hooks.save(state, loop)
      saved.append(step + 1)
  run.checkpoints.wait()
  assert saved == [1, 5]
  path = run.session.directory / 'checkpoints' / 'best'
  assert workdir_lib.run_of(str(path))[1] == 5
  # What Ctrl-C stopped is played when the run goes on, and only that.
  rates['step_4'] = 1.0
  hooks.evaluate(4, 5)
  hooks.evaluate(5, 6)
  assert list(run.record.evaluations()) == [
      *('step_1', 'step_2', 'step_3', 'step_5', 'step_4')
  ]
  # Its checkpoint is gone: it cannot be the best.
  assert learning.best(run) == 'step_5'


def test_a_checkpoint_has_the_loop_and_the_reference(make_run):
  run = make_run(read())
  loop = LoopState(1, 2, {'cursor': 3}, [], {'a/b': 0.5}, 0.1)
  hooks = make_hooks(run, ref_params=tiny.init_params())
  hooks.save(tiny.new_state(), loop)
  run.checkpoints.wait()
  assert LoopState(**run.checkpoints.host()['books']) == loop
  assert run.checkpoints.latest == 1


def test_a_signal_stops_the_loop(make_run):
  hooks = make_hooks(make_run(read()))
  assert not hooks.stopped()
  hooks.run.session.loop.interrupted = True
  assert hooks.stopped()


def test_a_run_ends_with_the_step_that_has_sampled_enough(
    make_run, monkeypatch
):
  evaluated = []
  monkeypatch.setattr(
      learning, 'evaluate', lambda *args, **rest: evaluated.append(args[3])
  )
  hooks = make_hooks(make_run(read(num_tokens=25, **{'eval.every': 1})))
  for step in range(3):
    assert not hooks.stopped() and not hooks.done(step)
    hooks.record(made(step, **{'rollout/completion_tokens': 10.0}))
    hooks.evaluate(step + 1, step + 2)
  assert hooks.stopped() and hooks.done(3)
  assert evaluated == ['step_1', 'step_2']  # and the last as `after`
