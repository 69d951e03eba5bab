"""Random small Llamas with tokenizers that mark words: SFT and GRPO, ids compared.

The prompts and the recorded answers of both runs have the ids that the whole
conversation gets from `tokenizers`, as transformers' `apply_chat_template` has it.
"""

import json

import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.models.config import TransformerConfig
from agentrl.rollout import replay
from agentrl.rollout.agent import Agent
from agentrl.text import template
from agentrl.text.chat import ChatFormat
from agentrl.types import Message
from agentrl.weights import hf
from tests import tiny
from tests.e2e.running import launch, lines
from tests.text import chat_ids_test, word_marks

pytestmark = pytest.mark.slow

SHORT = (
    '--config.agent.format=plain',
    '--config.agent.instructions=compact',
    '--config.rollout.max_completion_tokens=24',
    '--config.rollout.max_context=1024',
    '--config.eval.num_tasks=0',
    '--config.optim.max_tokens=128',  # few shapes to compile
)


def export(directory, mark, source):
  tok = chat_ids_test.wrap(word_marks.make(mark), source)
  config = TransformerConfig(
      family='llama',
      vocab_size=tok.vocab_size,
      hidden_size=64,
      intermediate_size=128,
      num_layers=2,
      num_heads=4,
      num_kv_heads=2,
      head_dim=16,
      max_positions=4096,
  )
  hf.save(
      directory,
      config,
      tiny.random_params(config, 0),
      eos_ids=tok.eos_ids,
      companions=[tok.save],
  )
  return tok


def conversation(number):
  said = ('start', 'turn left', 'a red ball', 'go')
  return {
      'item_id': f'babyai_{number}',
      'conversations': [
          {'from': ('human', 'gpt')[i % 2], 'value': text}
          for i, text in enumerate(said)
      ],
  }


@pytest.mark.parametrize(
    'mark, source',
    [
        pytest.param('prepend', chat_ids_test.ZEPHYR, id='tinyllama'),
        # Its ids are those of `text/chat_ids_test.py`; runs differ in nothing.
        pytest.param(
            'first', chat_ids_test.LLAMA2, id='llama2', marks=pytest.mark.extra
        ),
    ],
)
def test_a_llama_learns_in_the_ids_of_whole_conversations(
    tmp_path, mark, source
):
  model, data = tmp_path / 'model', tmp_path / 'traj.json'
  tok = export(model, mark, source)
  data.write_text(json.dumps([conversation(i) for i in range(32)]))
  for name, flags, config in (
      (
          'sft',
          ('--config.algo.epochs=12', '--config.optim.lr=3e-3'),
          f'configs/babyai_sft.py:tiny,model={model},data={data}',
      ),
      (
          'grpo',
          ('--config.warmstart.episodes=0',),
          f'configs/babyai_grpo.py:tiny,model={tmp_path / "sft"}',
      ),
  ):
    done = launch(tmp_path / name, *SHORT, *flags, config=config)
    assert done.returncode == 0, done.stdout + done.stderr
  assert len(lines(tmp_path / 'grpo' / 'metrics.jsonl')) == 2

  render = template.compile_template(source, tok.special_tokens())
  files = (tmp_path / 'grpo' / 'episodes' / 'train').glob('*.jsonl')
  played = [episode for file in files for episode in episodes_lib.read(file)]
  assert len(played) == 8
  agent = Agent(ChatFormat(tok), instructions='', format='plain')
  for episode in played:
    first = tok.encode(render(episode.prompt), allow_special=True)
    assert list(episode.tokens[: len(first)]) == first
    assert not any(episode.completion_mask[: len(first)])
    said = replay.to_conversation(episode)
    recorded = replay.replay(agent, said)
    whole = tok.encode(
        render([*said.messages, Message('user', 'x')]),
        allow_special=True,
    )
    assert list(recorded.tokens) == whole[: len(recorded.tokens)]
    if all(turn.finish_reason == 'stop' for turn in episode.turns):
      inserted = [
          [
              t
              for t, on in zip(e.tokens, e.completion_mask, strict=True)
              if not on
          ]
          for e in (episode, recorded)
      ]
      # What follows the last completion is not recorded.
      assert inserted[0][: len(inserted[1])] == inserted[1]
