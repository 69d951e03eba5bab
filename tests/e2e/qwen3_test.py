"""A random small Qwen3 with its own kind of template: SFT, GRPO, export."""

import json

import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.rollout import replay
from agentrl.rollout.agent import Agent
from agentrl.text import template, tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from tests import qwen3
from tests.e2e.running import launch, lines

# Its template is tested in text/, and runs of another one in word_marks_test.py.
pytestmark = [pytest.mark.slow, pytest.mark.extra]

SAID = "template='qwen3' takes its place"
# Completions of a few tokens, one action a line.
SHORT = (
    '--config.agent.format=plain',
    '--config.rollout.max_completion_tokens=24',
    '--config.eval.num_tasks=0',
)


def finish(workdir, *flags, config):
  done = launch(workdir, *flags, config=config)
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout + done.stderr


def conversation(number):
  said = ('start', '<think>\nleft?\n</think>\n\nturn left', 'on', 'go')
  return {
      'item_id': f'babyai_{number}',
      'conversations': [
          {'from': ('human', 'gpt')[i % 2], 'value': text}
          for i, text in enumerate(said)
      ],
  }


def test_a_qwen3_learns_and_plays_in_the_tokens_of_its_records(tmp_path):
  model, data = tmp_path / 'model', tmp_path / 'traj.json'
  qwen3.export(model)
  data.write_text(json.dumps([conversation(i) for i in range(32)]))
  said = finish(
      tmp_path / 'sft',
      *SHORT,
      '--config.algo.epochs=12',
      '--config.optim.lr=3e-3',
      config=f'configs/babyai_sft.py:tiny,model={model},data={data}',
  )
  assert SAID in said
  said = finish(
      tmp_path / 'grpo',
      *SHORT,
      '--config.warmstart.episodes=0',
      config=f'configs/babyai_grpo.py:tiny,model={tmp_path / "sft"}',
  )
  assert SAID in said
  assert len(lines(tmp_path / 'grpo' / 'metrics.jsonl')) == 2

  agent = Agent(ChatFormat(qwen3.tokenizer()), instructions='', format='plain')
  files = (tmp_path / 'grpo' / 'episodes' / 'train').glob('*.jsonl')
  played = [episode for file in files for episode in episodes_lib.read(file)]
  assert len(played) == 8
  equal = 0
  for episode in played:
    assert replay.renew(agent, episode) is episode
    recorded = replay.replay(agent, replay.to_conversation(episode))
    inserted = [
        [t for t, on in zip(e.tokens, e.completion_mask, strict=True) if not on]
        for e in (episode, recorded)
    ]
    # What follows the last completion is not recorded.
    assert inserted[0][: len(inserted[1])] == inserted[1]
    equal += episode.tokens[: len(recorded.tokens)] == recorded.tokens
  # Ids drawn at random need not be those that their text is written with; of a
  # policy that has learnt to write most are.
  assert equal > len(played) / 2

  folder = tmp_path / 'export'
  finish(folder, config=f'configs/export.py:run={tmp_path / "grpo"}')
  assert tokenizer_lib.load(folder).chat_template == template.QWEN3
