"""Tests for the public tasks as they are read and chosen."""

import json
import pathlib
from collections import Counter

import pytest

from agentrl.envs.webarena.public import form, sites, tasks
from agentrl.errors import ConfigError, EnvError
from tests.envs.webarena.public import records
from tests.envs.webarena.public.traces import URLS

ALL = {**URLS, 'homepage': 'http://home.test'}


@pytest.mark.parametrize(
    'subset,count', [('raw', 812), ('verified', 812), ('hard', 258)]
)
def test_subsets(subset, count):
  table = tasks.load(subset)
  assert len(table) == count and list(table) == sorted(table)
  for task_id, task in table.items():
    assert task.id == task_id and 0 <= task_id < 812
    assert task.raw is (subset == 'raw')
    assert set(task.sites) <= set(sites.VARIABLES)
    # Each begins on a site.
    assert all(
        x.startswith('http') for x in tasks.start_urls(task, ALL)
    ), task_id


def test_with_all_sites_only_what_cannot_be_graded_is_skipped():
  assert tasks.ids('raw', ALL).skipped == {'fuzzy_match needs a judge': 118}
  judged = tasks.ids('raw', ALL, judge=True)
  assert len(judged.ids) == 812 and not judged.skipped
  verified = tasks.ids('verified', ALL)
  assert sum(verified.skipped.values()) == len(tasks.LEFT_OUT)
  assert set(range(812)) - set(verified.ids) == tasks.LEFT_OUT.keys()


@pytest.mark.parametrize('site', sorted(URLS))
def test_an_unset_site_skips_its_tasks_and_counts_them(site):
  urls = {name: url for name, url in ALL.items() if name != site}
  chosen = tasks.ids('raw', urls, judge=True)
  table = tasks.load('raw')
  without = Counter(site in task.sites for task in table.values())
  assert chosen.skipped == {f'{sites.VARIABLES[site]} not set': without[True]}
  assert len(chosen.ids) == without[False]
  assert all(site not in table[task_id].sites for task_id in chosen.ids)


def test_several_unset_sites_are_named_together():
  chosen = tasks.ids('raw', {'reddit': URLS['reddit']})
  assert chosen.skipped['GITLAB, WIKIPEDIA not set'] == 6
  assert len(chosen.ids) + sum(chosen.skipped.values()) == 812
  assert tasks.ids('hard', {}).ids == ()


def test_a_template_is_in_one_split_in_every_subset():
  names = Counter(
      tasks.split_of(task.template_id) for task in tasks.load('raw').values()
  )
  assert names.keys() == {'train', 'dev', 'test'}
  assert names['train'] > names['test'] > 0
  # For good, and in every process: runs are compared by their splits.
  assert [tasks.split_of(k) for k in range(4)] == [
      'test',
      'train',
      'dev',
      'train',
  ]


def test_each_tab_begins_at_an_address():
  record = records.raw(eval_types=['url_match'], reference_url='__REDDIT__/f')
  record['start_url'] = '__REDDIT__/a |AND| __MAP__'
  task = form.read(record, raw=True, path=pathlib.Path('x'))
  assert tasks.start_urls(task, ALL) == [f'{ALL["reddit"]}/a', ALL['map']]


# --- bad files


@pytest.fixture
def load(tmp_path):
  """Loads a task file of this text."""

  def go(text, subset='raw'):
    # What was read once is kept.
    path = tmp_path / f'{len(list(tmp_path.iterdir()))}-tasks.json'
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tasks.load(subset, str(path))

  return go


@pytest.mark.parametrize(
    'text,words',
    [
        ('', 'is no JSON file'),
        ('{"task_id": 1}\n{"task_id": 2}\n', 'is no JSON file'),
        (b'\xff\xfe', 'is no JSON file'),
        ('task_id,intent\n', 'is no JSON file'),
        ('{"task_id": 1}', 'is no list of WebArena tasks'),
        ('[]', 'is no list of WebArena tasks'),
        ('[5]', 'task . has another form'),
        ('[{"question": "x"}]', 'file of the verified form'),
    ],
)
def test_a_file_of_another_format(load, text, words):
  with pytest.raises(ConfigError, match=f'tasks.json.*{words}'):
    load(text)


@pytest.mark.parametrize('subset', ['verified', 'hard'])
def test_a_file_of_the_other_form_is_named(load, subset):
  raw = records.raw(eval_types=['url_match'], reference_url='__REDDIT__/f')
  with pytest.raises(ConfigError, match='a file of the raw form'):
    load(json.dumps([raw]), subset)
  assert list(load(json.dumps([raw]))) == [1]
  with pytest.raises(ConfigError, match='a file of the verified form'):
    load(json.dumps([records.verified()]), 'raw')


def test_a_task_that_is_there_twice(load):
  with pytest.raises(ConfigError, match='has task 1 twice'):
    load(json.dumps([records.verified(1), records.verified(1)]), 'verified')


def test_an_unknown_subset_and_a_missing_file(tmp_path):
  with pytest.raises(ConfigError, match="subset 'easy'; known: raw, verified"):
    tasks.load('easy')
  for path in (tmp_path / 'none.json', tmp_path):
    with pytest.raises(EnvError, match=f'{path} cannot be read'):
      tasks.load('raw', str(path))
