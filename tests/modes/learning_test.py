"""Tests for agentrl.modes.learning."""

import copy
import dataclasses
import io
import json
import shutil
import time
import types

import aiohttp
import jax
import pytest
import rich.console

from agentrl import config as config_lib
from agentrl.algos import sft
from agentrl.data import episodes as episodes_lib
from agentrl.errors import CheckpointError
from agentrl.modes import checkpoints, learning, train
from agentrl.runtime import workdir as workdir_lib
from agentrl.runtime.event_loop import Interrupted
from agentrl.text import template as template_lib, tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.training import (
    language_model,
    state as state_lib,
    supervised,
)
from agentrl.training.optim import Rate
from agentrl.training.run_record import SMALL, WHOLE
from agentrl.types import Message
from configs import quickstart
from tests import fakes, qwen3, tiny
from tests.evaluation import recording

CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=300, max_positions=512)
HELPS = '<|im_start|>system\nYou help.<|im_end|>\n' + template_lib.CHATML


def read(**fields):
  config = quickstart.get_config('tiny')
  # There is no environment; without evaluations the field has no effect.
  config.eval.chance = fields.get('eval.num_tasks') == 0
  config.update_from_flattened_dict(fields)
  return config_lib.read(config)


@pytest.fixture(scope='module')
def model():
  tokenizer = tokenizer_lib.train_bpe(['go there'], vocab_size=300)
  return language_model.LanguageModel(CONFIG, None, tokenizer, 'random')


@pytest.mark.parametrize(
    'own, template', [(HELPS, None), (HELPS, 'chatml'), (qwen3.TEMPLATE, None)]
)
def test_a_policy_in_training_chats_as_its_agent_does(
    make_run, model, own, template
):
  tokenizer = copy.copy(model.tokenizer)
  tokenizer.chat_template = own
  config = read(**{'agent.template': template, 'rollout.max_context': 256})
  run = make_run(config, model=dataclasses.replace(model, tokenizer=tokenizer))
  serving = learning.start_sampling(run, tiny.random_params(CONFIG), 0)
  # All was checked that could refuse it: now the workdir is this run's.
  assert (run.session.directory / 'config.json').exists()
  thought = '<think>\nleft?\n</think>\n\ngo'
  messages = [
      Message('user', 'go'),
      Message('assistant', thought),
      Message('user', 'on'),
  ]
  ask = {
      'messages': [dataclasses.asdict(m) for m in messages],
      'max_tokens': 2,
      'return_token_ids': True,
  }

  async def chat():
    url = f'{serving.urls[0]}/v1/chat/completions'
    async with aiohttp.ClientSession() as session:
      async with session.post(url, json=ask) as reply:
        return await reply.json()

  (choice,) = run.session.loop.run(chat())['choices']
  chat_format = ChatFormat(tokenizer, template)
  assert choice['prompt_token_ids'] == [
      *chat_format.prompt(messages[:1]),
      *chat_format.completion(thought),
      *chat_format.observation('on', ended=True),
  ]
  said = tokenizer.decode(choice['prompt_token_ids'])
  assert ('You help.' in said) == (own == HELPS and template is None)
  assert 'left?' in said


def test_a_pushed_policy_samples_under_its_version(make_run, model):
  config = read(**{'rollout.max_context': 256})
  run = make_run(config, model=model)
  serving = learning.start_sampling(run, tiny.random_params(CONFIG), 3)

  def sample():
    sampler = serving.make_sampler(temperature=0.0)
    return run.session.loop.run(
        sampler.generate([20, 21, 22], max_new_tokens=8, seed=1)
    )

  first = sample()
  learning.push(run, serving, tiny.random_params(CONFIG, seed=1), 4)
  second = sample()
  assert [c.weight_version for c in (first, second)] == ['3', '4']
  assert first.tokens != second.tokens


def test_a_warm_start_keeps_its_episodes_and_counts_its_tokens(make_run):
  config = read(
      **{'warmstart.epochs': 2, 'warmstart.minibatch_size': 3},
  )
  run, params = make_run(config), tiny.init_params()
  episodes = [fakes.make_episode() for _ in range(5)]
  learnt = learning.warm_start(run, params, episodes)
  directory = run.session.directory
  path = directory / 'episodes' / 'warmstart.jsonl'
  assert list(episodes_lib.read(path)) == episodes
  lines = (directory / 'warmstart.jsonl').read_text().splitlines()
  assert len(lines) == 2 * 2
  lengths = sum(len(episode.tokens) for episode in episodes)
  assert run.record.state()['totals']['tokens'] == 2 * lengths
  assert (learnt['embed'] != params['embed']).any()


def test_ctrl_c_ends_a_phase_after_the_update_at_hand(make_run):
  run = make_run(read())
  run.session.loop.interrupted = True
  batch = supervised.as_batch([fakes.make_episode()] * 4)
  with pytest.raises(Interrupted):
    learning.imitate(
        run,
        tiny.init_params(),
        batch,
        passes=supervised.Passes(3, 2, tiny.ROW, 0),
        rate=lambda total: Rate(1e-3, 0, 'constant', total),
        loss=sft.loss,
        name='phase',
        directory=run.session.directory,
    )
  lines = (run.session.directory / 'phase.jsonl').read_text().splitlines()
  assert len(lines) == 1


def test_without_a_panel_nothing_is_evaluated(make_run, said):
  run = make_run(read(**{'eval.num_tasks': 0}))
  # There are no servers to ask.
  learning.evaluate(run, run.arena, None, 'before', 0, 0, checkpoint=0)
  assert run.record.state()['evals'] == {} and not said(run)


class EvenSolved:
  """Plays episodes of which every other task's succeeds."""

  def __init__(self, killed_after=None):
    self.asked, self.played = [], []
    self._killed_after = killed_after

  def play(self, sampler, *, name, **how):
    self.asked.append(name)
    del sampler, how

    async def play(assignment):
      if len(self.played) == self._killed_after:
        raise Killed
      self.played.append((assignment.task_id, assignment.replica))
      return dataclasses.replace(
          self.episode(assignment.task_id),
          episode_id=f'{name}-{assignment.ordinal}-{assignment.replica}',
          seed=assignment.seed,
          task_id=assignment.task_id,
          sample=assignment.replica,
      )

    return play

  def episode(self, task):
    return fakes.make_episode((float(task % 2 == 0),))


class Killed(Exception):
  """Stands for a SIGKILL."""


def serving_of(weights='a'):
  """Servers of weights with this fingerprint."""
  return types.SimpleNamespace(
      make_sampler=lambda temperature: None,
      push=types.SimpleNamespace(fingerprint=lambda: weights),
  )


def test_the_whole_panel_gives_the_figures_of_its_part(make_run, said):
  collector = EvenSolved()
  small = {'num_tasks': 2, 'every': 1}
  run = make_run(
      read(**{'eval.small': small}),
      collector=collector,
      panel=recording.panel(task_ids=range(8)),
      small_panel=recording.panel(task_ids=(0, 4)),
  )
  serving = serving_of()
  run.record.open(run.session.stack, 3, 0, shown=())
  for step in range(2):
    run.record.write(step, {})
    learning.evaluate(
        run,
        run.arena,
        serving,
        f'step_{step + 1}',
        step + 1,
        step + 2,
        checkpoint=step + 1,
        panel=WHOLE if step else SMALL,
    )
  assert collector.asked == ['eval_small-step_1', 'eval-step_2']
  whole, part = map(run.record.evaluations, (WHOLE, SMALL))
  assert list(whole) == ['step_2'] and list(part) == ['step_1', 'step_2']
  assert (whole['step_2']['mean'], whole['step_2']['n']) == (0.5, 8)
  for found in part.values():
    assert (found['mean'], found['n']) == (1.0, 2)
  panels = {found['panel'] for found in part.values()}
  assert (
      panels == {run.arena.small_panel.hash}
      and whole['step_2']['checkpoint'] == 2
  )
  folder = run.session.directory / 'episodes'
  files = sorted(str(x.relative_to(folder)) for x in folder.glob('*/*'))
  assert files == ['eval/000002.jsonl', 'eval_small/000001.jsonl']
  first, second = map(
      json.loads,
      (run.session.directory / 'metrics.jsonl').read_text().splitlines(),
  )
  assert first['eval_small/success'] == second['eval_small/success'] == 1.0
  assert 'eval/success' not in first and second['eval/success'] == 0.5
  assert 'step_1, small panel: success 1.000' in said(run)


@pytest.mark.parametrize(
    'tasks, panel, weight, seen, words',
    [
        ((3, 4, 9), {}, 1.0, 2, ', 8 tasks, 2 of them to train on'),
        ((0,), {'task_file': 'items.json'}, 1.0, 1, ', 1 of them to train on'),
        ((8, 9), {}, 1.0, None, ', 8 held-out tasks'),
        ((3, 4), {}, 0.0, None, ', 8 held-out tasks'),
        ((3, 4), {'split': 'train'}, 1.0, None, ', 8 training tasks'),
    ],
)
def test_evaluations_count_the_tasks_to_train_on(
    make_run, said, tasks, panel, weight, seen, words
):
  run = make_run(
      read(),
      collector=EvenSolved(),
      tasks=tasks,
      weight=weight,
      panel=recording.panel(task_ids=range(8), **panel),
  )
  serving = serving_of()
  learning.evaluate(run, run.arena, serving, 'after', 1, 1, checkpoint=1)
  assert run.record.evaluations()['after'].get('trained_on') == seen
  assert words in said(run)


def evaluate_after(make_run, collector, weights='a', name='', **fields):
  """Evaluates a run in its workdir on 8 tasks; returns the run."""
  run = make_run(
      read(**fields),
      collector=collector,
      name=name,
      panel=recording.panel(task_ids=range(8)),
  )
  serving = serving_of(weights)
  learning.evaluate(run, run.arena, serving, 'after', 2, 3, checkpoint=2)
  return run


PLAYED_BEFORE = 'evaluation after: 3 of 8 episodes were played before\n'


@pytest.mark.parametrize(
    'weights, fields, taken_up',
    [
        ('a', {}, True),
        # Neither is about how an episode goes.
        ('a', {'num_steps': 9, 'eval.every': 2, 'mesh.data': 1}, True),
        ('b', {}, False),
        ('a', {'eval.temperature': 0.5}, False),
        ('a', {'sampler.deterministic': True}, False),
        ('a', {'rollout.max_completion_tokens': 5}, False),
    ],
)
def test_a_killed_evaluation_goes_on_under_the_same_policy_alone(
    make_run, said, weights, fields, taken_up
):
  killed = EvenSolved(killed_after=3)
  with pytest.raises(Killed):
    evaluate_after(make_run, killed)
  second = EvenSolved()
  run = evaluate_after(make_run, second, weights, **fields)
  assert (PLAYED_BEFORE in said(run)) == taken_up
  everything = [(task, 0) for task in range(8)]
  missing = [x for x in everything if x not in killed.played]
  assert sorted(second.played) == (missing if taken_up else everything)
  found = run.record.evaluations()['after']
  assert (found['mean'], found['n']) == (0.5, 8)
  path = run.session.directory / 'episodes' / 'eval' / '000002.jsonl'
  assert [e.task_id for e in episodes_lib.read(path)] == [*range(8)]
  assert [x.name for x in path.parent.iterdir()] == ['000002.jsonl']


def test_an_evaluation_that_no_checkpoint_has_is_not_played_again(make_run):
  first = evaluate_after(make_run, EvenSolved(), name='a')
  collector = EvenSolved()
  again = evaluate_after(make_run, collector, name='a')
  assert collector.asked == []
  assert again.record.state()['evals'] == first.record.state()['evals']


def test_what_an_earlier_release_played_is_dropped(make_run):
  run = evaluate_after(make_run, EvenSolved())
  shutil.rmtree(run.session.directory / 'played_by')
  collector = EvenSolved()
  evaluate_after(make_run, collector)
  assert len(collector.played) == 8


class SolvedLate(EvenSolved):
  """Task t succeeds in its turn t + 1, after a summary that is no turn."""

  def episode(self, task):
    summary = fakes.make_turn(kind='summary')
    acts = fakes.make_episode((0.0,) * task + (1.0,)).turns
    return fakes.make_episode(
        success=True,
        turns=(*acts[:1], summary, *acts[1:]),
        tokens=(),
        completion_mask=(),
        sampler_logprobs=(),
    )


@pytest.mark.parametrize('name', ['', 'm'])
def test_a_horizon_is_told_of_success_within_the_turns_of_its_stage(
    make_run, name
):
  horizon = dict(kind='success', turns=(2, 4, 9), metric='eval_small')
  fields = {f'horizon.{key}': value for key, value in horizon.items()}
  config = read(**{
      'eval.small': {'num_tasks': 2, 'every': 1},
      'num_steps': 3,
      'horizon.every': 0,
      **fields,
  })
  run = make_run(
      config,
      collector=SolvedLate(),
      panel=recording.panel(task_ids=range(8)),
      small_panel=recording.panel(task_ids=(0, 6)),
      name=name,
  )
  serving = serving_of()
  learning.evaluate(run, run.arena, serving, 'before', 0, 1, checkpoint=0)
  # As a resume finds it.
  run.record.restore(json.loads(json.dumps(run.record.state())))
  hooks = train._Hooks(run, serving, None, None, None, None)
  found, start = hooks.held_out(0), f'{name}/' if name else ''
  assert hooks.held_out(1) == {}
  shares = {
      f'{start}{panel}/success_within_{turns}': share
      for panel, pair in (('eval', (0.25, 0.5)), ('eval_small', (0.5, 0.5)))
      for turns, share in zip((2, 4), pair, strict=True)
  }
  within = {k: v for k, v in found.items() if 'within' in k}
  assert within == shares and found[f'{start}eval/success'] == 1.0
  assert all(key.startswith(f'{start}eval') for key in found)


def test_a_run_ends_with_the_name_of_its_best_checkpoint(make_run, said):
  config = read(
      **{'num_steps': 4, 'eval.every': 1, 'checkpoint.keep_best': True}
  )
  run = make_run(config)
  rates = {'before': 0.25, 'step_1': 0.75, 'after': 0.75}
  for number, (name, rate) in enumerate(rates.items()):
    found = {'mean': rate, 'low': 0.1, 'high': 0.9, 'n': 4, 'tasks': 4}
    run.record.add_evaluation(
        name,
        found
        | {
            'checkpoint': number,
            'panel': 'a',
            'horizon': 6,
            'temperature': 1.0,
        },
    )
    learning.keep_best(run, number)
    run.checkpoints.save(number, {'params': {'w': jax.numpy.ones(3)}}, {})
  learning.finish(run, 'train', 2)
  directory = run.session.directory
  summary = json.loads((directory / 'summary.json').read_text())
  assert summary['best'] == {
      'evaluation': 'step_1',  # of equal ones the first
      'checkpoint': 1,
      'success': 0.75,
  }
  best = directory / 'checkpoints' / 'best'
  assert workdir_lib.run_of(str(best)) == (directory, 1)
  assert 'best (step_1): success 0.750' in said(run)
  assert f'checkpoint 1, {best}' in said(run)


def kept(success, checkpoint, **changes):
  """An evaluation as a run keeps it."""
  found = dict.fromkeys(('low', 'high', 'n', 'tasks', 'invalid'), 0)
  found |= dict(mean=success, checkpoint=checkpoint, panel='a', horizon=6)
  return (
      found | dict(return_mean=0.0, turns_mean=1.0, temperature=1.0) | changes
  )


ENDED = {'checkpoint.keep_best': True, 'eval.every': 2, 'num_steps': 3}
PANEL = types.SimpleNamespace(hash='a', horizon=6)


def go_on(make_run, **fields):
  """The run in its workdir, at its newest checkpoint."""
  run = make_run(read(**ENDED | fields), panel=PANEL)
  like = state_lib.abstract(tiny.new_state())
  _, _, loop = checkpoints.restore(run, like)
  return run, loop['step']


def save(run, number):
  loop = {'step': number, 'policy_version': number}
  checkpoints.save(run, tiny.new_state(), loop)
  run.checkpoints.wait()


def end(make_run, evals, last=3):
  """Ends a run whose last evaluation, as always, follows its last save."""
  run = make_run(read(**ENDED), panel=PANEL)
  for name, found in evals.items():
    if name == 'after':
      save(run, last)
    run.record.add_evaluation(name, found)
  learning.finish(run, 'train', last)
  run.checkpoints.close()
  return run.session.directory


EVALS = {'before': kept(0.1, 0), 'step_2': kept(0.3, 2), 'after': kept(0.9, 3)}


@pytest.fixture
def evaluated(monkeypatch):
  """The names of evaluations that were played."""
  names = []
  monkeypatch.setattr(
      learning,
      'evaluate',
      lambda run, arena, serving, name, *_, **how: names.append(name),
  )
  return names


def test_a_finished_run_that_is_started_again_has_its_last_evaluation(
    make_run, evaluated
):
  directory = end(make_run, EVALS)
  before = (directory / 'summary.json').read_text()
  run, step = go_on(make_run)
  learning.keep_best(run)
  best = directory / 'checkpoints' / 'best'
  assert workdir_lib.run_of(str(best)) == (directory, 3)  # while it runs, too
  learning.evaluate_last(run, None, step, 4, checkpoint=step)
  learning.finish(run, 'train', step)
  assert evaluated == []
  one, other = (json.loads(x) for x in (before, run_summary(directory)))
  assert one['eval'] == other['eval'] == EVALS and one['best'] == other['best']


def run_summary(directory):
  return (directory / 'summary.json').read_text()


@pytest.mark.parametrize(
    'name, changes',
    [
        ('panel', dict(panel='b')),
        ('horizon', dict(horizon=5)),
        ('temperature', dict(temperature=0.0)),
        ('checkpoint', dict(checkpoint=2)),
    ],
)
def test_another_evaluation_than_the_last_one_is_played(
    make_run, evaluated, name, changes
):
  end(make_run, EVALS | {'after': EVALS['after'] | changes})
  run, step = go_on(make_run)
  learning.evaluate_last(run, None, step, 4, checkpoint=step)
  assert evaluated == ['after'], name


@pytest.mark.parametrize('later', [0.2, 0.95])
def test_a_run_that_gets_more_steps_keeps_the_best_of_those_before(
    make_run, later
):
  directory = end(make_run, EVALS)
  run, step = go_on(make_run, num_steps=6)
  run.record.rename('after', f'step_{step}')
  run.record.add_evaluation('step_4', kept(later, 4))
  learning.keep_best(run, 4)
  save(run, 4)
  run.checkpoints.close()
  # A kill here: its newest checkpoint has them all.
  run, step = go_on(make_run, num_steps=6)
  assert list(run.record.evaluations()) == [
      *('before', 'step_2', 'step_3', 'step_4')
  ]
  save(run, 5)
  learning.keep_best(run)
  best = 3 if later < 0.9 else 4
  path = directory / 'checkpoints' / 'best'
  assert workdir_lib.run_of(str(path)) == (directory, best)
  assert (directory / 'checkpoints' / f'{best}').exists()


def test_evaluations_of_steps_that_are_done_again_are_set_aside(make_run):
  run = make_run(read(**ENDED))
  save(run, 2)
  run.checkpoints.close()
  directory = end(make_run, {'step_2': kept(0.3, 2), 'after': kept(0.9, 3)})
  shutil.rmtree(directory / 'checkpoints' / '3')  # to go on from an older one
  run, step = go_on(make_run)
  assert step == 2 and list(run.record.evaluations()) == ['step_2']
  assert not (directory / 'summary.json').exists()
  assert (directory / 'summary.json.discarded').exists()


def test_a_torn_summary_is_one_line_with_the_way_out(make_run):
  directory = end(make_run, EVALS)
  (directory / 'summary.json').write_text('{"mode": "tr')
  with pytest.raises(CheckpointError, match='summary.json .* Remove it'):
    go_on(make_run)


@pytest.mark.parametrize('name', ['after', 'after/a'])
def test_an_evaluation_gets_its_new_name_on_all_panels(make_run, name):
  run = make_run(read())
  for panel in (WHOLE, SMALL):
    for other in ('before', 'aftermath', name):
      run.record.add_evaluation(other, kept(0.5, 3), panel)
  run.record.rename('after', 'step_3')
  for panel in (WHOLE, SMALL):
    assert list(run.record.evaluations(panel)) == [
        *('before', 'aftermath', name.replace('after', 'step_3'))
    ]


def test_the_experts_failures_are_not_imitated(make_run, said):
  class Collector:
    """Plays an expert that solves every other task."""

    def play_expert(self, count, **how):
      self.how = how
      return [fakes.make_episode((float(i % 2),)) for i in range(count)]

  collector = Collector()
  run = make_run(read(), collector=collector)
  found = learning.play_expert(run, run.arena, 6, 12, 0.25)
  assert len(found) == 3 and all(episode.success for episode in found)
  assert '3 episodes of the expert; 3 more failed' in said(run)
  config = run.session.config
  assert collector.how == {
      'horizon': 12,
      'seed': config.seed,
      'max_context': config.rollout.max_context,
      'stumbles': 0.25,
  }


def test_phases_count_what_came_before_the_first():
  """As "Done in" does: a tokenizer's expert may play for half a minute."""
  console = rich.console.Console(file=io.StringIO())
  phases = learning.Phases(console, ['a', 'b'], time.monotonic() - 31)
  phases.begin('unplanned')
  phases.begin('b')
  assert console.file.getvalue() == 'Phase 2/2, after 0:31: b\n'


def test_a_sampler_may_be_less_precise_than_its_trainer(make_run, model):
  params = tiny.random_params(CONFIG)

  def logprobs(dtype):
    config = read(**{'rollout.max_context': 256, 'sampler.dtype': dtype})
    run = make_run(config, model=model)
    serving = learning.start_sampling(run, params, 0)
    learning.push(run, serving, params, 1)
    sampler = serving.make_sampler(temperature=1.0)
    ids = [20, 21, 22, 23, 24]
    return run.session.loop.run(sampler.score(ids, start=1))

  same, other = logprobs(None), logprobs('bfloat16')
  differences = [abs(x - y) for x, y in zip(same, other, strict=True)]
  assert 1e-5 < max(differences) < 0.1
