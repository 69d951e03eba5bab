"""Tests for agentrl.viewer.tokens and .learned."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request

import numpy as np
import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.viewer import learned, record, server, tokens
from tests.viewer import runs

LENGTH = 12  # tokens of an episode of three turns


def arrays(rng, count=4, width=16):
  """Arrays as an update leaves them, with an episode that was in none."""
  draw = lambda: rng.normal(size=(count, width)).astype(np.float32)
  found = {
      'advantages': draw(),
      'old_logprobs': draw(),
      'last_logprobs': draw(),
      'entropy': draw(),
      'turn_groups': rng.integers(0, 9, (count, width), dtype=np.int32),
      'placements': np.array(
          [[0, 0, 0, 0, 3], [0, 0, 0, 9, 3], [0, 0, 1, 0, 3], [-1] * 5],
          np.int32,
      )[:count],
  }
  found['last_logprobs'][3] = np.nan
  return found


def write(root, values):
  path = runs.write(
      root, episodes=[runs.episode(f'train-0-{i // 3}-{i}') for i in range(4)]
  )
  episodes_lib.write_learned(path, **values)
  tokenizer_lib.train_bpe(['go'], vocab_size=300).save(root / 'run/tokenizer')
  return path


def get(url, route, **query):
  query = urllib.parse.urlencode(
      {'run': 'run', 'file': 'episodes/train/000000.jsonl', **query}
  )
  with urllib.request.urlopen(f'{url}api/{route}?{query}') as response:
    return json.load(response)


def table(values, line=0, **changes):
  episode = runs.episode('e', **changes)
  decoded = record.decode(episodes_lib.to_line(episode).encode())
  return tokens.table(decoded, values and learned.Learned(values), line)


def test_numbers_are_exactly_those_of_the_arrays():
  values = arrays(np.random.default_rng(0))
  for line in range(4):
    found = table(values, line)
    assert found['mask'] == [0, 0, 0] + [1, 1, 0] * 3
    for name in ('advantages', 'old_logprobs', 'entropy'):
      read = np.float32(found['columns'][name])
      np.testing.assert_array_equal(read, values[name][line, :LENGTH])
    assert found['columns']['turn_groups'] == (
        values['turn_groups'][line, :LENGTH].tolist()
    )
  assert (
      found['columns']['last_logprobs'] == [None] * LENGTH
  )  # was in no update
  assert found['place'] is None


def test_the_page_has_a_label_of_each_array():
  page = (server.STATIC / 'lib/tokens.js').read_text()
  table = page.partition('COLUMNS = {')[2].partition('};')[0]
  labels = set(re.findall(r'^  (\w+): ', table, re.MULTILINE))
  assert labels >= set(learned.ARRAYS) | {'ratio', 'reward', 'sampler_logprobs'}


def test_the_ratio_is_that_of_the_two_on_sampled_tokens():
  values = arrays(np.random.default_rng(1))
  found = table(values)
  expected = np.exp(values['last_logprobs'] - values['old_logprobs'])[0]
  for i, (ratio, on) in enumerate(
      zip(found['columns']['ratio'], found['mask'], strict=True)
  ):
    assert (ratio is not None) == bool(on)
    if on:
      assert np.float32(ratio) == expected[i]


def test_what_was_not_kept_is_absent_with_a_reason():
  found = table(None)
  assert set(found['columns']) == {'reward', 'sampler_logprobs'}
  assert set(found['absent']) == {*learned.ARRAYS, 'ratio'}
  found = table({'advantages': np.zeros((1, 16), np.float32)})
  assert 'advantages' not in found['absent']
  assert 'kl_coef' in found['absent']['ref_logprobs']


def test_rewards_lie_on_the_last_token_of_their_turn():
  made = (runs.turn(0, reward=0.5), runs.turn(1), runs.turn(2, reward=-1.0))
  found = table(None, made=made)
  reward = found['columns']['reward']
  assert (reward[4], reward[10]) == (0.5, -1.0) and sum(map(bool, reward)) == 2


@pytest.mark.parametrize(
    'values, said',
    [
        ({'advantages': np.zeros((1, 5), np.float32)}, r'shape \(1, 5\)'),
        ({'advantages': np.zeros((0, 16), np.float32)}, r'shape \(0, 16\)'),
    ],
)
def test_arrays_that_do_not_fit_are_refused(values, said):
  with pytest.raises(DataError, match=said):
    table(values)


@pytest.mark.parametrize(
    'arrays, said',
    [
        ({'surprise': np.zeros((1, 3))}, "'surprise' of type float64"),
        ({'values': np.full((1, 3), 'x')}, "'values' of type <U1"),
        (
            {'values': np.zeros((1, 2)), 'returns': np.zeros((1, 3))},
            'different',
        ),
        ({'placements': np.zeros((1, 2), int)}, "'placements' of shape"),
    ],
)
def test_files_that_no_run_writes_are_refused(tmp_path, arrays, said):
  np.savez(tmp_path / '0.npz', **arrays)
  (tmp_path / '0.jsonl').write_text('{}\n')
  with pytest.raises(DataError, match=said):
    learned.load(tmp_path / '0.jsonl')


def test_routes_give_windows_texts_and_neighbours(tmp_path, viewer):
  values = arrays(np.random.default_rng(2))
  write(tmp_path, values)
  url = viewer(tmp_path)
  found = get(url, 'tokens', line=0)
  assert found['total'] == LENGTH == len(found['texts'])
  assert found['place'] == {
      'minibatch': 0, 'microbatch': 0, 'row': 0, 'start': 0, 'shared': 3
  }  # fmt: skip
  beside = {x['line']: x for x in found['neighbours']}
  assert beside[1]['in_row'] and beside[1]['start'] == 9
  assert beside[2]['shares'] and not beside[2]['in_row']
  assert 3 not in beside
  part = get(url, 'tokens', line=1, **{'from': 5, 'count': 4})
  assert (part['from'], len(part['ids'])) == (5, 4)
  np.testing.assert_array_equal(
      np.float32(part['columns']['advantages']), values['advantages'][1, 5:9]
  )


def test_an_episode_without_tokens_says_why(tmp_path, viewer):
  bare = runs.episode('e', tokens=(), completion_mask=(), sampler_logprobs=())
  runs.write(tmp_path, episodes=[bare])
  with pytest.raises(urllib.error.HTTPError) as caught:
    get(viewer(tmp_path), 'tokens', line=0)
  assert caught.value.code == 422
  assert 'played over messages' in json.load(caught.value)['error']
