"""Tests for agentrl.data.episodes."""

import dataclasses
import itertools
import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, strategies as st

from agentrl import types
from agentrl.data import episodes
from agentrl.errors import DataError
from agentrl.types import Episode, Message, Turn
from tests import fakes, tiny

# Bounded, so that the sum of an episode's rewards is a number, too.
FLOATS = st.floats(-1e100, 1e100)
TEXTS = st.text(st.characters(), max_size=20)  # lone surrogates, too
COUNTS = st.integers(0, 10**6)

TURNS = st.builds(
    Turn,
    completion=TEXTS,
    action=TEXTS,
    parse_error=st.none() | TEXTS,
    observation=TEXTS,
    reward=FLOATS,
    finish_reason=st.sampled_from(['stop', 'length']),
    prompt_tokens=COUNTS,
    cached_tokens=COUNTS,
    completion_tokens=COUNTS,
    weight_version=TEXTS,
    sampler_s=FLOATS,
    env_s=FLOATS,
)


@st.composite
def any_episode(draw):
  tokens = draw(st.lists(COUNTS, max_size=8))
  mask = draw(
      st.lists(st.booleans(), min_size=len(tokens), max_size=len(tokens))
  )
  runs = [sum(1 for _ in run) for on, run in itertools.groupby(mask) if on]
  arrays = lambda kind: st.lists(
      kind, min_size=len(tokens), max_size=len(tokens)
  ).map(tuple)
  return Episode(
      episode_id=draw(TEXTS),
      env=draw(TEXTS),
      task_id=draw(COUNTS),
      split='train',
      seed=draw(COUNTS),
      policy_version=draw(COUNTS),
      horizon=draw(COUNTS),
      stop_reason=draw(st.sampled_from(types.STOP_REASONS)),
      success=draw(st.booleans()),
      prompt=tuple(
          draw(
              st.lists(
                  st.builds(Message, role=TEXTS, content=TEXTS), max_size=2
              )
          )
      ),
      turns=tuple(
          dataclasses.replace(draw(TURNS), completion_tokens=count)
          for count in runs
      ),
      tokens=tuple(tokens),
      completion_mask=tuple(mask),
      sampler_logprobs=draw(arrays(FLOATS)),
      error=draw(st.none() | TEXTS),
      sample=draw(st.integers(0, 9)),
      data_version=draw(st.integers(1, 3)),
      attempt=draw(st.integers(0, 3)),
  )


@given(any_episode())
def test_line_comes_back_exactly(episode):
  line = episodes.to_line(episode)
  assert '\n' not in line
  assert episodes.from_line(line) == episode


def test_lines_of_before_have_neither_sample_nor_progress():
  record = json.loads(episodes.to_line(fakes.make_episode((0.5,))))
  del record['sample'], record['attempt'], record['turns'][0]['progress']
  episode = episodes.from_record(record)
  assert episode.sample == 0
  assert episode.progress is None


def test_file_comes_back_exactly(tmp_path):
  written = [fakes.make_episode((0.1, 1 / 3)), fakes.make_episode((1.0,))]
  path = episodes.step_path(tmp_path, 'train', 12)
  assert path == tmp_path / 'episodes' / 'train' / '000012.jsonl'
  episodes.write(path, written)
  assert list(episodes.read(path)) == written
  assert [p.name for p in path.parent.iterdir()] == ['000012.jsonl']


def test_line_has_the_fields_that_the_design_promises():
  episode = fakes.make_episode((0.25, 0.5))
  record = json.loads(episodes.to_line(episode))
  assert set(record) == {
      'episode_id', 'env', 'task_id', 'split', 'seed', 'policy_version',
      'horizon', 'stop_reason', 'terminated', 'success', 'return', 'turns',
      'tokens', 'completion_mask', 'sampler_logprobs', 'prompt', 'error',
      'sample', 'attempt',
  }  # fmt: skip
  assert set(record['turns'][0]) == {
      'observation', 'completion', 'action', 'parse_error', 'reward',
      'finish_reason', 'prompt_tokens', 'cached_tokens', 'completion_tokens',
      'weight_version', 'sampler_s', 'env_s', 'progress',
  }  # fmt: skip
  assert record['return'] == 0.75
  assert record['terminated'] is True


def test_tokens_can_be_left_out():
  episode = fakes.make_episode()
  line = episodes.to_line(episode, tokens=False)
  assert episodes.from_line(line) == dataclasses.replace(
      episode, tokens=(), completion_mask=(), sampler_logprobs=()
  )


def test_unknown_keys_are_ignored():
  record = json.loads(episodes.to_line(fakes.make_episode()))
  record['new'] = record['turns'][0]['new'] = 1
  assert episodes.from_line(json.dumps(record)) == fakes.make_episode()


def test_line_break_characters_in_texts_do_not_split_a_line(tmp_path):
  turn = fakes.make_turn(observation='a\nb\u2028c\x85d\re')
  path = tmp_path / 'x.jsonl'
  episodes.write(path, [fakes.make_episode(turns=(turn,))])
  [episode] = episodes.read(path)
  assert episode.turns == (turn,)


def test_lone_surrogate_of_an_environment_can_be_stored(tmp_path):
  turn = fakes.make_turn(observation='\ud800')
  path = tmp_path / 'x.jsonl'
  episodes.write(path, [fakes.make_episode(turns=(turn,))])
  [episode] = episodes.read(path)
  assert episode.turns == (turn,)


def test_append_adds_a_line(tmp_path):
  path = tmp_path / 'new' / 'x.jsonl'
  episodes.append(path, fakes.make_episode())
  episodes.append(path, fakes.make_episode((1.0,)))
  assert [e.episode_return for e in episodes.read(path)] == [0.0, 1.0]


def test_number_that_json_cannot_say_is_refused(tmp_path):
  path = tmp_path / 'x.jsonl'
  with pytest.raises(ValueError, match='[Oo]ut of range float'):
    episodes.write(path, [fakes.make_episode((float('nan'),))])
  assert not path.exists()


def broken(change):
  record = json.loads(episodes.to_line(fakes.make_episode()))
  change(record)
  return json.dumps(record)


@pytest.mark.parametrize(
    'line, reason',
    [
        ('{"episode_id": "e", "env', 'control character'),
        ('[]', 'got `array`'),
        ('[' * 99999 + ']' * 99999, 'recursion'),
        (broken(lambda r: r.pop('seed')), 'missing required field `seed`'),
        (broken(lambda r: r['turns'][0].pop('reward')), 'field `reward`'),
        (broken(lambda r: r.update(tokens='text')), r'at `\$.tokens`'),
        (broken(lambda r: r['turns'][0].update(reward='1')), r'\[0\]'),
        (broken(lambda r: r['tokens'].__setitem__(0, 1.5)), r'at `\$.tokens'),
        (broken(lambda r: r['tokens'].__setitem__(0, 2**31)), '<= 2147483647'),
        (broken(lambda r: r['prompt'].append(3)), r'at `\$.prompt'),
        (
            broken(lambda r: r['turns'][0].update(completion_tokens=3)),
            r"'e' contradicts itself: .* of \[2\] tokens, its turns .* \[3\]",
        ),
        (broken(lambda r: r['turns'].clear()), 'contradicts itself'),
        (broken(lambda r: r.update(stop_reason='bored')), "'bored'"),
        (broken(lambda r: r['tokens'].pop()), 'differ in length'),
    ],
)
def test_broken_line_names_file_line_and_reason(tmp_path, line, reason):
  path = tmp_path / 'x.jsonl'
  good = episodes.to_line(fakes.make_episode())
  path.write_text(f'{good}\n\n{line}\n{good}\n')
  with pytest.raises(DataError, match=f'x.jsonl, line 3: .*{reason}'):
    list(episodes.read(path))
  found = []
  assert len(list(episodes.read(path, on_broken=found.append))) == 2
  assert len(found) == 1


def test_missing_file_is_named(tmp_path):
  with pytest.raises(DataError, match='nowhere.jsonl'):
    list(episodes.read(tmp_path / 'nowhere.jsonl'))


def test_unwritable_place_is_named(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(DataError, match='Cannot write episodes to .*file'):
    episodes.write(tmp_path / 'file' / 'x.jsonl', [fakes.make_episode()])


def test_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
  path = tmp_path / 'x.jsonl'
  episodes.write(path, [fakes.make_episode()])

  def full(*args):
    raise OSError(28, 'No space left on device')

  monkeypatch.setattr(os, 'replace', full)
  with pytest.raises(DataError, match='No space left'):
    episodes.write(path, [fakes.make_episode((1.0,))])
  assert list(episodes.read(path)) == [fakes.make_episode()]


def test_steps_beyond_a_checkpoint_are_set_aside(tmp_path):
  for step in (1, 2, 3, 10):
    path = episodes.step_path(tmp_path, 'train', step)
    episodes.write(path, [fakes.make_episode()])
  episodes.write_learned(path, advantages=np.zeros(3), ref_logprobs=None)
  assert episodes.discard_from(path.parent, 3) == 3
  assert sorted(p.name for p in path.parent.iterdir()) == [
      '000001.jsonl',
      '000002.jsonl',
      '000003.jsonl.discarded',
      '000010.jsonl.discarded',
      '000010.npz.discarded',
  ]


def test_files_of_old_steps_are_removed_with_what_lies_beside_them(tmp_path):
  for step in (1, 2, 10):
    path = episodes.step_path(tmp_path, 'train', step)
    episodes.write(path, [fakes.make_episode(views=(b'PNG',))])
    episodes.write_learned(path, advantages=np.zeros(1))
  (path.parent / '000001.jsonl.discarded').touch()
  assert episodes.drop_before(path.parent, 2) == 3
  assert episodes.drop_before(path.parent, 3) == 3
  assert sorted(p.name for p in path.parent.iterdir()) == [
      '000001.jsonl.discarded',
      '000010.jsonl',
      '000010.npz',
      '000010.zip',
  ]
  assert not episodes.drop_before(tmp_path / 'none', 3)


def test_pictures_lie_beside_their_file_and_are_set_aside_with_it(tmp_path):
  path = episodes.step_path(tmp_path, 'train', 3)
  drawn = fakes.make_episode(episode_id='step3-0-0', views=(b'PNG0', b'PNG1'))
  plain = fakes.make_episode(episode_id='step3-0-1')
  episodes.write(path, [drawn, plain])
  with zipfile.ZipFile(path.with_suffix('.zip')) as file:
    assert {name: file.read(name) for name in file.namelist()} == {
        'step3-0-0/000.png': b'PNG0',
        'step3-0-0/001.png': b'PNG1',
    }
  assert [e.views for e in episodes.read(path)] == [(), ()]
  assert episodes.discard_from(path.parent, 3) == 2
  assert (path.parent / '000003.zip.discarded').exists()


def test_without_pictures_there_is_no_such_file(tmp_path):
  path = episodes.step_path(tmp_path, 'train', 0)
  episodes.write(path, [fakes.make_episode()])
  assert [each.name for each in path.parent.iterdir()] == ['000000.jsonl']


def test_an_episode_of_several_segments_keeps_them():
  rng = np.random.default_rng(0)
  [group] = tiny.random_groups(0, num_groups=1)
  [split, *_] = tiny.with_segments(group, rng, chance=1.0).episodes
  split = dataclasses.replace(
      split,
      turns=(
          *split.turns[:-1],
          dataclasses.replace(
              split.turns[-1], kind='summary', learn=False, reward=0.0
          ),
      ),
  )
  assert len(split.segments) > 1
  line = episodes.to_line(split)
  record = json.loads(line)
  assert len(record['segments']) == len(split.segments)
  assert not {'tokens', 'completion_mask', 'sampler_logprobs'} & set(record)
  assert record['turns'][-1]['kind'] == 'summary'
  assert episodes.from_line(line) == split
  assert episodes.from_line(episodes.to_line(split, tokens=False)).tokens == ()


@pytest.mark.parametrize(
    'change, words',
    [
        (dict(segments=[dict(tokens=[1], completion_mask=[0])]), 'missing'),
        (
            dict(
                segments=[
                    dict(tokens=[1], completion_mask=[0], sampler_logprobs=[0]),
                    dict(tokens=[1], completion_mask=[1], sampler_logprobs=[0]),
                ]
            ),
            'each with a token that was not sampled',
        ),
        (
            dict(
                segments=[
                    dict(tokens=[], completion_mask=[], sampler_logprobs=[]),
                    dict(tokens=[1], completion_mask=[0], sampler_logprobs=[0]),
                ]
            ),
            'ascending order',
        ),
        (dict(turns=[{'kind': 'dance'}]), 'missing'),
    ],
)
def test_broken_segments_are_refused(change, words):
  record = json.loads(episodes.to_line(fakes.make_episode(())))
  with pytest.raises(DataError, match=words):
    episodes.from_record(record | change)


def test_lines_of_the_first_data_version_are_those_of_before():
  line = episodes.to_line(fakes.make_episode((1.0,)))
  assert 'data_version' not in json.loads(line)
  assert episodes.from_line(line).data_version == 1
