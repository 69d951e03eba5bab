"""Tests for agentrl.modes.demonstrations; the expert's are in tests.e2e."""

import json

import jax.numpy as jnp

from agentrl import config as config_lib
from agentrl.data import episodes as episodes_lib
from agentrl.modes import demonstrations
from configs import babyai_sft
from tests import fakes


def read(path):
  config = babyai_sft.get_config(f'tiny,data={path}')
  return config_lib.read(config)


def write(path, *actions):
  turns = [
      turn
      for action in actions
      for turn in (
          {'role': 'user', 'content': 'You see a red ball.'},
          {'role': 'assistant', 'content': action},
      )
  ]
  path.write_text(json.dumps([{'item_id': 'babyai_0', 'messages': turns}]))


def test_a_file_is_written_for_all_to_read(make_session):
  session = make_session(read('talks.json'))
  path = session.directory / 'episodes' / 'some.jsonl'
  demonstrations.write_episodes(
      session, path, [fakes.make_episode()], tokens=False
  )
  (found,) = episodes_lib.read(path)
  assert found.episode_id == 'e' and not found.tokens


def test_a_run_that_goes_on_needs_no_files(make_session, tmp_path):
  path = tmp_path / 'talks.json'
  write(path, 'go to red ball', 'move forward')
  config = read(path)
  session = make_session(config)
  run, _, episodes = demonstrations.build_data(session)
  kept = session.directory / 'episodes' / 'demonstrations.jsonl'
  assert list(episodes_lib.read(kept)) == episodes and len(episodes) == 1
  assert len(episodes[0].turns) == 2
  # The tokenizer was trained on these words.
  encode = run.model.tokenizer.encode
  assert len(encode('go to red ball')) < len('go to red ball')

  run.checkpoints.save(1, {'params': {'w': jnp.ones(3)}}, {})
  run.checkpoints.wait()
  path.unlink()
  again, _, found = demonstrations.build_data(make_session(config, known=True))
  assert found == episodes and again.checkpoints.latest == 1
  assert again.model.tokenizer.encode('go') == encode('go')
