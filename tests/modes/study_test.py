"""mode='study': a folder of runs in, one page and its tables out."""

import csv
import html.parser
import importlib.util
import json
import math
import subprocess
import sys

import pytest
from ml_collections import ConfigDict

from agentrl import config as config_lib, evaluation
from agentrl.errors import ConfigError, DataError
from agentrl.evaluation.studies import page
from agentrl.evaluation.studies.study import Study
from agentrl.modes import study
from agentrl.runtime import starts
from tests.evaluation.studies import recomputed, study_test

HOSTILE = (
    '<script>document.title = "hacked"</script>&\N{RIGHT-TO-LEFT OVERRIDE}'
)


def config(folder, **fields) -> ConfigDict:
  made = config_lib.defaults('study')
  made.study.update(folder=str(folder), **fields)
  return made


@pytest.fixture
def root(tmp_path):
  folder = tmp_path / 'runs'
  folder.mkdir()
  study_test.write(folder)
  for kind in study_test.KINDS:
    for seed in range(study_test.SEEDS):
      lines = [
          {'step': step, 'time': 9.0 * step, 'rollout/success': step / 9}
          for step in range(4)
      ]
      text = ''.join(json.dumps(line) + '\n' for line in lines)
      (folder / f'{kind}-{seed}' / 'metrics.jsonl').write_text(text)
  noted = {'command': 'python launch.py --config=c.py', 'python': '3.11.9'}
  (folder / 'fixed-0' / starts.FILE).write_text(json.dumps(noted) + '\n')
  return folder


class Cells(html.parser.HTMLParser):
  """The tables of a page by the label of their region, as lists of texts."""

  def __init__(self, text):
    super().__init__()
    self.tables, self._cell, self.tags = {}, None, set()
    self._rows = None
    self.feed(text)

  def handle_starttag(self, tag, attrs):
    self.tags.add(tag)
    label = dict(attrs).get('aria-label')
    if tag == 'div' and label:
      self._rows = self.tables.setdefault(label, [])
    elif tag == 'tr' and self._rows is not None:
      self._rows.append([])
    elif tag in ('td', 'th'):
      self._cell = ''

  def handle_endtag(self, tag):
    if tag in ('td', 'th'):
      self._rows[-1].append(' '.join(self._cell.split()))
      self._cell = None

  def handle_data(self, data):
    if self._cell is not None:
      self._cell += data


def share(value):
  return '–' if value is None else f'{value:.3f}'


def test_the_page_has_the_rows_of_the_study(root, tmp_path):
  study.run(config(root), str(tmp_path / 'out'))
  text = (tmp_path / 'out' / 'study.html').read_text('utf-8')
  shown = Cells(text)
  assert 'script' not in shown.tags and 'svg' in shown.tags
  found = evaluation.study(root)
  _, *rows = shown.tables['Groups of runs']
  for cells, row in zip(rows, found.groups, strict=True):
    assert cells[0] == row['group']
    assert cells[3] == share(row['mean'])
    assert cells[4] == f'[{share(row["low"])}, {share(row["high"])}]'
  _, *rows = shown.tables['Tasks of babyai']
  tasks = {row['task']: row for row in found.tasks if row['env'] == 'babyai'}
  assert [int(cells[0].split()[0]) for cells in rows] == list(tasks)
  (cells,) = shown.tables['Pairs in babyai'][1:]
  pair = found.matrix[0]
  assert cells[0] == pair['a'] and cells[1] == share(pair['success_a'])
  assert f'{abs(pair["difference"]):.3f}' in cells[2]
  (own,) = (
      x
      for x in shown.tables['Runs, their commands and versions']
      if x[0] == 'fixed-0'
  )
  assert own[6] == 'python launch.py --config=c.py'


def read_csv(path):
  with path.open(newline='', encoding='utf-8') as file:
    return list(csv.DictReader(file))


def test_tables_are_csv_and_parquet(root, tmp_path):
  parquet = pytest.importorskip('pyarrow.parquet')
  out = tmp_path / 'out'
  study.run(config(root, parquet=True), str(out))
  found = evaluation.study(root)
  for name, rows in found._asdict().items():
    if not rows:
      assert not (out / f'{name}.csv').exists()
      continue
    texts = read_csv(out / f'{name}.csv')
    values = parquet.read_table(out / f'{name}.parquet').to_pylist()
    assert len(texts) == len(values) == len(rows)
    for text, value, row in zip(texts, values, rows, strict=True):
      for column, want in row.items():
        if isinstance(want, float):
          assert value[column] == want or math.isnan(want)
          assert float(text[column]) == want
        elif want is None:
          assert value[column] is None and text[column] == ''
        elif isinstance(want, (str, int)):
          assert str(value[column]) == str(want) == text[column]
  # All episodes that a share counts are there.
  solved = {}
  for row in read_csv(out / 'episodes.csv'):
    key = row['env'], row['column'], int(row['task'])
    n, wins = solved.get(key, (0, 0))
    solved[key] = n + 1, wins + (float(row['success']) > 0)
  for row in found.tasks:
    key = row['env'], row['column'], row['task']
    assert solved[key] == (row['n'], row['solved'])


def test_a_script_without_agentrl_finds_the_same_numbers(root, tmp_path):
  study.run(config(root), str(tmp_path / 'out'))
  done = subprocess.run(
      [sys.executable, recomputed.__file__, str(root), str(tmp_path / 'out')],
      capture_output=True,
      text=True,
      cwd=tmp_path,
  )
  assert done.returncode == 0, done.stderr
  assert int(done.stdout.split()[0]) > 80
  # It would notice.
  path = tmp_path / 'out' / 'groups.csv'
  row = read_csv(path)[0]
  other = f'{float(row["mean"]) + 0.01:.3f}'
  path.write_text(path.read_text().replace(row['mean'], other))
  with pytest.raises(AssertionError):
    recomputed.main(root, tmp_path / 'out')


def test_groups_are_chosen_by_fields(root, tmp_path):
  study.run(config(root, group=('seed',)), str(tmp_path / 'out'))
  rows = read_csv(tmp_path / 'out' / 'groups.csv')
  assert sorted(row['group'] for row in rows) == [
      f'seed={seed}' for seed in range(study_test.SEEDS)
  ]
  with pytest.raises(DataError, match='No run has the field'):
    study.run(config(root, group=('nonsense',)), str(tmp_path / 'out'))


def test_hostile_names_stay_text(root, tmp_path):
  for path in root.glob('fixed-*/config.json'):
    changed = json.loads(path.read_text())
    changed['horizon']['kind'] = HOSTILE
    path.write_text(json.dumps(changed))
  study.run(config(root), str(tmp_path / 'out'))
  shown = Cells((tmp_path / 'out' / 'study.html').read_text('utf-8'))
  assert 'script' not in shown.tags
  assert f'horizon.kind={HOSTILE}' in {
      row[0] for row in shown.tables['Groups of runs']
  }


def test_what_is_missing_is_named(root, tmp_path, monkeypatch):
  with pytest.raises(DataError, match='no folder'):
    study.run(config(root / 'none'), str(tmp_path / 'out'))
  with pytest.raises(ConfigError, match='folder=runs'):
    study.run(config(''), str(tmp_path / 'out'))
  find = importlib.util.find_spec
  monkeypatch.setattr(
      importlib.util,
      'find_spec',
      lambda name, *rest: None if name == 'matplotlib' else find(name, *rest),
  )
  with pytest.raises(ConfigError, match='The page of a study draws'):
    study.run(config(root), str(tmp_path / 'out'))


def test_an_empty_folder_is_a_page_too(tmp_path):
  (tmp_path / 'runs').mkdir()
  study.run(config(tmp_path / 'runs'), str(tmp_path / 'out'))
  text = (tmp_path / 'out' / 'study.html').read_text('utf-8')
  assert '0 runs and evaluations' in text


@pytest.mark.parametrize(
    ('p', 'holm', 'seeds', 'seed_low', 'difference', 'shown'),
    [
        (0.01, 0.03, 5, 0.02, 0.1, True),
        (0.01, 0.06, 5, 0.02, 0.1, False),
        (0.01, 0.03, 5, -0.02, 0.1, False),
        (0.01, 0.03, 5, None, 0.1, False),  # of equal runs
        (0.01, 0.03, None, None, 0.1, True),  # of one run each
        (0.01, 0.03, None, None, -0.1, False),  # behind on the tasks of both
        (0.01, None, None, None, 0.1, True),  # the only pair
        (0.2, None, None, None, 0.1, False),
        (None, None, None, None, None, False),  # nothing valid
    ],
)
def test_a_difference_is_shown_by_tasks_and_seeds(
    p, holm, seeds, seed_low, difference, shown
):
  row = {
      'env': 'babyai',
      'a': 'first',
      'b': 'second',
      'success_a': 0.6,
      'success_b': 0.5,
      'difference': difference,
      'low': 0.02,
      'high': 0.18,
      'tasks': 50,
      'won': None,
      'lost': None,
      'test': None if p is None else 'permutation',
      'p_value': p,
      'p_holm': holm,
      'seeds': seeds,
      'seed_low': seed_low,
      'seed_high': None if seed_low is None else 0.2,
  }
  empty = Study(**{name: [] for name in Study._fields})
  text = page.html(empty._replace(matrix=[row]), title='T', command='C')
  assert ('The difference is shown.' in text) == shown
  assert ('not shown' in text) == (not shown)
  unknown = seeds is not None and seed_low is None
  assert ('not known, since runs are equal' in text) == unknown
