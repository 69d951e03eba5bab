"""Tests for agentrl.modes.inspect: files that no run wrote."""

import dataclasses
import json

import numpy as np
import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.modes import inspect
from agentrl.text import tokenizer as tokenizer_lib
from configs import inspect as config_lib
from tests import fakes


@pytest.fixture
def path(tmp_path):
  path = tmp_path / '000000.jsonl'
  episodes_lib.write(path, [fakes.make_episode((1.0,))])
  return path


@pytest.fixture
def look(path, tmp_path):
  tokenizer_lib.train_bpe(['go'], vocab_size=300).save(tmp_path / 'words')

  def look():
    config = config_lib.get_config()
    config.inspect.episodes = str(path)
    config.inspect.tokenizer = str(tmp_path / 'words')
    inspect.run(config, None)

  return look


def test_a_good_file_is_shown(look, path):
  look()
  assert path.with_suffix('.html').exists()


def test_an_episode_that_contradicts_itself_is_one_line(look, path):
  line = json.loads(path.read_text())
  line['turns'][0]['completion_tokens'] = 7
  path.write_text(json.dumps(line) + '\n')
  with pytest.raises(DataError, match='000000.jsonl, line 1: .* contradicts'):
    look()


def test_an_episode_without_tokens_is_one_line(look, path):
  empty = dict(tokens=(), completion_mask=(), sampler_logprobs=())
  episode = dataclasses.replace(fakes.make_episode((1.0,)), **empty)
  episodes_lib.write(path, [episode])
  with pytest.raises(
      DataError,
      match="000000.jsonl: episode 'e' has no tokens.*played over messages",
  ):
    look()


@pytest.mark.parametrize(
    'arrays, said',
    [
        ({'advantages': np.zeros((1, 3))}, 'advantages of shape'),
        ({'advantages': np.full((1, 128), 'x')}, "'advantages' of type <U1"),
        ({'surprise': np.zeros((1, 128))}, "'surprise' of type float64"),
        ({'values': np.full((1, 128), None)}, "'values' of type object"),
    ],
)
def test_arrays_that_no_run_writes_are_one_line(look, path, arrays, said):
  np.savez(path.with_suffix('.npz'), **arrays)
  with pytest.raises(DataError, match=f'000000.npz .*{said}'):
    look()


@pytest.mark.parametrize('content', [b'', b'PK', b'PK\3\4' + b'x' * 99])
def test_a_damaged_array_file_is_one_line(look, path, content):
  path.with_suffix('.npz').write_bytes(content)
  with pytest.raises(DataError, match='000000.npz cannot be read'):
    look()
