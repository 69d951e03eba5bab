"""Tests for the embedded index and the folder it is kept in."""

import os
import pathlib
import subprocess
import sys
import threading

import pytest

from agentrl.envs.searchqa import index
from agentrl.envs.searchqa.records import Passage
from agentrl.errors import EnvError

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope='module')
def whole():
  return index.load()


def titles(found, query, topk=3):
  return [passage.title for passage in found.search(query, topk)]


@pytest.mark.parametrize(
    'query, title',
    [
        ('capital of France', 'France: Capital'),
        ('CAPITAL OF FRANCE', 'France: Capital'),
        ('where was radium discovered', 'Radium: Discovery'),
        ('which country uses the baht', 'Thailand: Currency'),
        ('Zürich city', 'Zürich, Switzerland'),
        ('zurich city', 'Zürich, Switzerland'),
        ('In chemical element symbol', 'Indium'),
    ],
)
def test_searches_find_what_they_ask_for(whole, query, title):
  assert title in titles(whole, query)


def test_topk_is_a_prefix_and_passages_come_whole(whole, passages):
  ten = whole.search('longest land border of Peru', 10)
  assert len(ten) == len(set(ten)) == 10
  assert whole.search('longest land border of Peru', 3) == ten[:3]
  assert all(x in passages[x.title] for x in ten)


@pytest.mark.parametrize('query', ['', '?!', 'the of which', 'xqzzyx', '\0'])
def test_a_query_without_a_known_word_finds_nothing(whole, query):
  assert whole.search(query, 3) == []


@pytest.mark.parametrize(
    'query', ['field:value AND (', '"', '* -a', 'a' * 10**5, 'b ' * 10**5]
)
def test_a_query_is_words_and_never_syntax(whole, query):
  whole.search(query, 3)


def test_equal_passages_come_in_the_order_of_the_corpus(tmp_path):
  same = [Passage(f'Town {i}', 'a quiet place') for i in range(50)]
  index.build(same, tmp_path)
  found = index.Index(tmp_path)
  assert titles(found, 'quiet place', 50) == [x.title for x in same]
  assert titles(found, 'quiet place', 7) == [x.title for x in same[:7]]


def test_threads_get_what_one_gets(whole):
  queries = [f'capital of {x}' for x in ('Peru', 'Chad', 'Laos', 'Fiji')] * 25
  alone = [whole.search(query, 3) for query in queries]
  together = {}

  def work(part):
    for i in range(part, len(queries), 4):
      together[i] = whole.search(queries[i], 3)

  threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert [together[i] for i in range(len(queries))] == alone


RACER = """
import sys, time
from agentrl.envs.searchqa import dataset, index
from agentrl.runtime import cache

def write(folder):
  with open(sys.argv[1], 'a') as log:
    log.write('built\\n')
  time.sleep(0.5)  # so that the others come meanwhile
  index.build(dataset.load_passages()[:500], folder)

found = index.Index(cache.folder('searchqa', 'race', write))
print(len(found), found.search('Aruba capital', 1)[0].title)
"""


def test_of_many_processes_one_builds_and_all_can_search(tmp_path):
  log = tmp_path / 'log'
  (tmp_path / 'searchqa' / 'race.partial').mkdir(parents=True)
  (tmp_path / 'searchqa' / 'race.partial' / 'meta.json').write_text('half')
  processes = [
      subprocess.Popen(
          [sys.executable, '-c', RACER, log],
          env=os.environ
          | {'AGENTRL_CACHE': str(tmp_path), 'PYTHONPATH': str(ROOT)},
          stdout=subprocess.PIPE,
          stderr=subprocess.PIPE,
          text=True,
      )
      for _ in range(3)
  ]
  outputs = [process.communicate(timeout=600) for process in processes]
  assert [out for out, _ in outputs] == ['500 Aruba: Capital\n'] * 3, outputs
  assert log.read_text() == 'built\n'
  assert sum('indexing passages' in err for _, err in outputs) == 1
  assert not (tmp_path / 'searchqa' / 'race.partial').exists()


def test_a_damaged_index_says_the_way_out(tmp_path):
  index.build([Passage('Town', 'a quiet place')], tmp_path)
  (tmp_path / 'meta.json').write_text('{')
  with pytest.raises(EnvError, match='damaged; remove that folder'):
    index.Index(tmp_path)


def test_another_version_of_the_library_is_refused(monkeypatch):
  monkeypatch.setattr(index, 'VERSION', '0.1')
  with pytest.raises(EnvError, match='tantivy 0.1, found 0.27.0: pip install'):
    index.load()
