"""Tests for agentrl.evaluation.journal: what a kill leaves, and what is kept."""

import dataclasses

import pytest

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.evaluation import journal as journal_lib
from agentrl.evaluation.journal import Journal, PlayedBy
from tests import fakes

SEEDS = {
    (task, sample, 0): 10 * task + sample
    for task in (3, 1)
    for sample in (0, 1)
}


def episode(task, sample, **fields):
  values = dict(
      episode_id=f'eval-{task}-{sample}',
      task_id=task,
      sample=sample,
      seed=10 * task + sample,
  )
  return fakes.make_episode((1.0,), **(values | fields))


@pytest.fixture
def path(tmp_path):
  return tmp_path / 'episodes' / 'babyai.jsonl'


def journal_at(path, **settings):
  return Journal(path, **({'tokens': True, 'views': False} | settings))


def test_what_was_added_is_kept_in_the_panels_order(path):
  journal = journal_at(path)
  assert journal.open(SEEDS) == {}
  added = {journal_lib.key(e): e for e in (episode(1, 1), episode(3, 0))}
  for one in added.values():
    journal.add(one)
  kept = journal_at(path).open(SEEDS)
  assert kept == added and list(kept) == [(3, 0, 0), (1, 1, 0)]
  assert [e.task_id for e in episodes_lib.read(path)] == [3, 1]


@pytest.mark.parametrize('cut', [1, 40, 400])
def test_a_torn_last_line_is_an_episode_that_is_missing(path, cut):
  journal = journal_at(path)
  journal.open(SEEDS)
  journal.add(episode(1, 1))
  journal.add(episode(3, 0))
  data = path.read_bytes()
  path.write_bytes(data[:-cut])
  again = journal_at(path)
  # Without its line end the line is whole.
  assert list(again.open(SEEDS)) == (
      [(3, 0, 0), (1, 1, 0)] if cut == 1 else [(1, 1, 0)]
  )
  again.add(episode(1, 0))
  assert (1, 0, 0) in journal_at(path).open(SEEDS)
  list(episodes_lib.read(path))  # all lines are whole


@pytest.mark.parametrize(
    'stranger', [episode(7, 0), episode(3, 2), episode(3, 1, seed=0)]
)
def test_episodes_of_another_panel_are_refused_and_stay(path, stranger):
  journal = journal_at(path)
  journal.open(SEEDS)
  journal.add(episode(1, 0))
  journal.add(stranger)
  before = path.read_bytes()
  words = f'of another panel, such as {stranger.episode_id} .*another --workdir'
  with pytest.raises(DataError, match=words):
    journal_at(path).open(SEEDS)
  assert path.read_bytes() == before


def test_failures_are_not_kept(path):
  journal = journal_at(path)
  journal.open(SEEDS)
  journal.add(episode(3, 0, stop_reason='env_error', error='down'))
  journal.add(episode(1, 0))
  assert list(journal_at(path).open(SEEDS)) == [(1, 0, 0)]
  assert len(path.read_text().splitlines()) == 1


def test_the_second_try_of_a_failure_is_kept(path):
  journal = journal_at(path)
  journal.open(SEEDS)
  journal.add(episode(3, 0, stop_reason='timeout', error='slow'))
  journal.add(episode(3, 0))
  assert journal_at(path).open(SEEDS) == {(3, 0, 0): episode(3, 0)}


def test_tokens_are_left_out_where_none_are_wanted(path):
  journal = journal_at(path, tokens=False)
  journal.open(SEEDS)
  journal.add(episode(3, 0))
  [kept] = journal_at(path, tokens=False).open(SEEDS).values()
  assert kept.tokens == () and kept.turns == episode(3, 0).turns


def test_pictures_outlive_a_kill_and_end_in_one_file(path):
  settings = dict(tokens=True, views=True)
  journal = journal_at(path, **settings)
  journal.open(SEEDS)
  seen = episode(3, 0, views=(b'reset', b'after'))
  journal.add(seen)
  journal.add(episode(3, 1, views=(b'reset',)))  # one was not written any more
  assert journal_at(path, **settings).open(SEEDS) == {(3, 0, 0): seen}
  rest = [
      episode(task, sample, views=(b'a', b'b'))
      for task, sample, _ in SEEDS
      if (task, sample) != (3, 0)
  ]
  journal.finish([seen, *rest])
  assert sorted(x.name for x in path.parent.iterdir()) == [
      'babyai.jsonl',
      'babyai.zip',
  ]
  again = journal_at(path, **settings).open(SEEDS)
  assert list(again.values()) == [seen, *rest]
  assert again[3, 0, 0].views == (b'reset', b'after')


def test_finish_writes_failures_too(path):
  failed = episode(3, 0, stop_reason='env_error', error='down')
  journal_at(path).finish([failed, episode(3, 1)])
  assert list(episodes_lib.read(path)) == [failed, episode(3, 1)]


def test_a_folder_in_its_place_is_one_clear_error(path):
  path.mkdir(parents=True)
  with pytest.raises(DataError, match='babyai.jsonl'):
    journal_at(path).open(SEEDS)
  with pytest.raises(DataError, match='babyai.jsonl'):
    journal_at(path).add(dataclasses.replace(episode(3, 0)))


def test_an_attempt_waits_for_the_one_that_it_learns_from(path):
  wanted = {(3, 0, attempt): 30 for attempt in range(3)}
  played = [episode(3, 0, attempt=attempt) for attempt in range(3)]
  failed = dataclasses.replace(played[1], stop_reason='timeout', error='slow')
  journal = journal_at(path)
  journal.open(wanted)
  for one in (played[0], failed, played[2]):
    journal.add(one)
  assert journal_at(path).open(wanted) == {(3, 0, 0): played[0]}
  journal = journal_at(path)
  journal.add(played[2])  # as they end, not in their order
  journal.add(played[1])
  assert list(journal.open(wanted).values()) == played


@pytest.mark.parametrize('played, now', [(1, 2), (2, 1)])
def test_episodes_of_another_data_version_are_not_gone_on_with(
    path, played, now
):
  journal = journal_at(path)
  journal.open(SEEDS, data_version=played)
  journal.add(episode(3, 0, data_version=played))
  assert list(journal_at(path).open(SEEDS, data_version=played)) == [(3, 0, 0)]
  with pytest.raises(DataError, match=f'data_version {played} .* has {now}:'):
    journal_at(path).open(SEEDS, data_version=now)


def test_pictures_of_another_policy_are_dropped_too(path, tmp_path):
  def opened(weights):
    by = PlayedBy(tmp_path / 'by' / 'x.json', lambda: {'weights': weights})
    journal = journal_at(path, views=True, played_by=by)
    return journal, journal.open(SEEDS)

  journal, _ = opened('a')
  seen = episode(3, 0, views=(b'reset', b'after'))
  journal.finish([seen])
  journal.add(episode(3, 1, views=(b'reset', b'after')))
  journal, kept = opened('a')
  assert list(kept) == [(3, 0, 0), (3, 1, 0)]
  journal, kept = opened('b')
  assert not kept and not list(path.parent.iterdir())
  seen = episode(3, 0, views=(b'other', b'one'))
  journal.add(seen)
  assert opened('b')[1] == {(3, 0, 0): seen}


def test_a_file_of_what_plays_that_cannot_be_written_is_one_error(
    path, tmp_path
):
  (tmp_path / 'by').write_text('a file where a folder should be')
  by = PlayedBy(tmp_path / 'by' / 'x.json', dict)
  with pytest.raises(DataError, match='Cannot begin an evaluation in .*babyai'):
    journal_at(path, played_by=by).open(SEEDS)
