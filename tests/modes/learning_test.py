"""Tests for agentrl.modes.learning."""

import copy
import dataclasses

import aiohttp
import pytest

from agentrl import config as config_lib
from agentrl.algos import sft
from agentrl.data import episodes as episodes_lib
from agentrl.modes import learning
from agentrl.runtime.event_loop import Interrupted
from agentrl.text import template as template_lib, tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.training import language_model, supervised
from agentrl.training.optim import Rate
from agentrl.types import Message
from configs import quickstart
from tests import fakes, qwen3, tiny

CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=300, max_positions=512)
HELPS = '<|im_start|>system\nYou help.<|im_end|>\n' + template_lib.CHATML


def read(**fields):
  config = quickstart.get_config('tiny')
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
  learning.evaluate(run, None, 'before', 0, 0)  # there are no servers to ask
  assert run.record.state()['evals'] == {} and not said(run)


def test_the_experts_failures_are_not_imitated(make_run, said):
  class Collector:
    """Plays an expert that solves every other task."""

    def play_expert(self, count, **how):
      self.how = how
      return [fakes.make_episode((float(i % 2),)) for i in range(count)]

  collector = Collector()
  run = make_run(read(), collector=collector)
  found = learning.play_expert(run, 6, 12)
  assert len(found) == 3 and all(episode.success for episode in found)
  assert '3 episodes of the expert; 3 more failed' in said(run)
  config = run.session.config
  assert collector.how == {
      'horizon': 12,
      'seed': config.seed,
      'max_context': config.rollout.max_context,
  }
