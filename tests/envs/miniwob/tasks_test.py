"""Tests for MiniWoB's tasks and their splits."""

from collections import Counter

import pytest

from agentrl import envs
from agentrl.envs.miniwob import site, tasks
from agentrl.envs.miniwob.experts import EXPERTS
from agentrl.envs.spec import SPLITS
from agentrl.errors import ConfigError, EnvError


def test_every_page_of_the_wheel_is_a_task():
  folder = site.folder()
  found = {path.stem for path in (folder / 'miniwob').glob('*.html')}
  found |= {
      f'flight.{path.parent.name}'
      for path in (folder / 'flight').glob('*/wrapper.html')
  }
  assert set(tasks.PAGES) == found and len(tasks.PAGES) == len(found) == 134
  for page in tasks.PAGES:
    assert (folder / site.path_of(page)[1:]).is_file()


def test_ids_are_pages_and_seeds():
  assert tasks.page_of(tasks.id_of('click-test', 7)) == 'click-test'
  assert tasks.seed_of(tasks.id_of('click-test', 7)) == 7
  with pytest.raises(EnvError, match='ids are 0 to 133999'):
    tasks.page_of(134_000)


@pytest.mark.parametrize(
    'chosen', ['expert', 'all', ('click-test', 'terminal')]
)
def test_seeds_of_a_split_are_its_own(chosen):
  ids = {split: tasks.tasks(split, tasks=chosen) for split in SPLITS}
  pages = tasks.check(chosen)
  for split, count in (('train', 600), ('dev', 200), ('test', 200)):
    assert len(ids[split]) == len(set(ids[split])) == count * len(pages)
    # A panel, which is spread evenly, has every page equally often.
    panel = [ids[split][i * count // 10] for i in range(10 * len(pages))]
    assert Counter(map(tasks.page_of, panel)) == dict.fromkeys(pages, 10)
  assert len(set().union(*ids.values())) == 1000 * len(pages)
  assert all(map(tasks.is_test, ids['test']))
  assert not any(map(tasks.is_test, (*ids['train'], *ids['dev'])))


def test_pages_of_a_split_can_be_its_own():
  pages = {
      split: set(map(tasks.page_of, tasks.tasks(split, split_by='page')))
      for split in SPLITS
  }
  assert set.union(*pages.values()) == set(tasks.check('expert'))
  assert not pages['train'] & (pages['dev'] | pages['test'])
  assert not pages['dev'] & pages['test']
  with pytest.raises(ConfigError, match='needs five pages or more'):
    tasks.tasks('train', tasks=('click-test',), split_by='page')
  with pytest.raises(ConfigError, match="Unknown split_by 'x'; known: seed"):
    tasks.tasks('train', split_by='x')


def test_what_is_left_out_has_a_reason_and_no_expert():
  for page, reason in tasks.LEFT_OUT.items():
    assert page in tasks.PAGES and reason and page not in EXPERTS
  assert not set(tasks.LEFT_OUT) & set(tasks.check('all'))


def test_pages_are_clusters_where_they_are_drawn():
  spec = envs.get('miniwob')
  assert spec.clusters() is None and spec.clusters(split_by='seed') is None
  page_of = spec.clusters(split_by='page')
  assert page_of(tasks.id_of('click-test', 7)) == 'click-test'
