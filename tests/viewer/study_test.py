"""The pages of a study have the figures of `agentrl.evaluation.study`."""

import csv
import io
import json
import re

import pytest
from playwright.sync_api import expect

from agentrl import evaluation
from agentrl.evaluation import results
from agentrl.evaluation.chance import level as level_lib, store
from agentrl.evaluation.workdirs import panels
from tests.evaluation.studies import chance_test, study_test
from tests.evaluation.workdirs import panels_test
from tests.viewer import axe
from tests.viewer.asking import get, text


@pytest.fixture
def root(tmp_path):
  study_test.write(tmp_path)
  return tmp_path


def test_the_pages_of_the_viewer_have_the_same_rows(root, viewer):
  found = evaluation.study(root)
  url = viewer(root)
  assert get(url, 'arms')['rows'] == json.loads(json.dumps(found.groups))
  page = list(csv.DictReader(io.StringIO(text(url, 'matrix.csv'))))
  plain = lambda value: '' if value is None else str(value)
  assert page == [
      {name: plain(value) for name, value in row.items()}
      for row in found.matrix
  ]
  columns = get(url, 'tasks', env='babyai', count=200)
  labels = [column['label'] for column in columns['columns']]
  cells = {
      (row['key'], label): cell
      for row in columns['rows']
      for label, cell in zip(labels, row['cells'], strict=True)
  }
  order = [row['key'] for row in columns['rows']]
  own = [row for row in found.tasks if row['env'] == 'babyai']
  assert order == list(dict.fromkeys(row['task'] for row in own))
  for row in own:
    assert cells[row['task'], row['column']] == [row['n'], row['solved']]


def test_chance_stands_beside_success(root, viewer):
  # The panel of the runs, played by both.
  config = json.loads((root / 'fixed-0/config.json').read_text())
  for kind, success in (('random', 0), ('expert', 1)):
    run = f'{kind}-babyai'
    panels_test.write(
        root, run, '000000', [[success]] * study_test.TASKS, config=config
    )
    panel = panels.read(root, f'{run}:eval/000000')
    path = root / run / 'episodes' / 'eval'
    (path / kind).mkdir()
    (path / '000000.jsonl').rename(path / kind / 'babyai.jsonl')
    record = results.PolicyRecord(name=kind, kind=kind, source=kind)
    results.write(
        root / run,
        results.Results(
            config={},
            policies=(record,),
            panels=tuple(panel.panels.values()),
            rows=(),
        ),
    )
    (root / run / 'config.json').write_text('{"mode": "evaluate"}')
  for row in evaluation.study(root).groups:
    assert (row['random'], row['expert']) == (0.0, 1.0)
  url = viewer(root)
  levels = get(url, 'matrix', run='fixed-0')['levels']
  assert levels['step 4'] == {'babyai': {'expert': 1.0, 'random': 0.0}}
  pair = get(url, 'compare', a='fixed-0:eval/000004', b='fixed-0:eval/000000')
  assert pair['levels'] == {'babyai': {'expert': 1.0, 'random': 0.0}}


@pytest.fixture
def own(root):
  """The same runs with the levels that they have played themselves."""
  solved = [1, 0, 0, 0, 0] * (study_test.TASKS // 5)
  for path in sorted(root.glob('*-*/summary.json')):
    run = path.parent.name
    chance_test.play(root, run, random=solved, expert=[1] * study_test.TASKS)
    levels = store.read_levels(path.parent)
    summary = json.loads(path.read_text())
    chance = {kind: level_lib.summarise(x) for kind, x in levels.items()}
    path.write_text(json.dumps(summary | {'chance': chance}))
  return root


LEVELS = {'random': 0.2, 'expert': 1.0}


def test_runs_have_their_own_chance_on_all_pages(own, viewer):
  for row in evaluation.study(own).groups:
    assert (row['random'], row['expert']) == (0.2, 1.0)
  url = viewer(own)
  rows = get(url, 'arms')['rows']
  assert [(row['random'], row['expert']) for row in rows] == [(0.2, 1.0)] * 2
  levels = get(url, 'matrix', run='fixed-0')['levels']
  assert levels == dict.fromkeys(('step 0', 'step 4'), {'babyai': LEVELS})
  pair = get(
      url, 'compare', a='fixed-0:eval/000004', b='stepwise-1:eval/000000'
  )
  assert pair['levels'] == {'babyai': LEVELS}
  [run] = [x for x in get(url, 'runs')['runs'] if x['run'] == 'fixed-2']
  assert {kind: rate['mean'] for kind, rate in run['chance'].items()} == LEVELS
  metrics = ['eval/success', 'eval_before/success', 'rollout/success']
  found = get(url, 'curves', run=['fixed-0', 'stepwise-0'], metric=metrics)
  both = {'fixed-0': LEVELS, 'stepwise-0': LEVELS}
  assert found['levels'] == dict.fromkeys(metrics[:2], both)
  arms = [row['group'] for row in rows]
  found = get(url, 'arms/curves', arm=arms, metric=metrics)
  assert found['levels']['eval/success'] == dict.fromkeys(arms, LEVELS)


@pytest.mark.browser
def test_runs_show_their_own_chance(own, viewer, page):
  lines = [{'step': i, 'time': 1.0 * i} for i in range(4)]
  for line in (0, 3):
    lines[line] |= {'eval/success': 0.5, 'rollout/return_mean': 0.5}
  text = ''.join(json.dumps(line) + '\n' for line in lines)
  for run in ('fixed-0', 'stepwise-0'):
    (own / run / 'metrics.jsonl').write_text(text)
  url = viewer(own)
  page.goto(f'{url}#/runs?run=fixed-0')
  row = page.get_by_role('row').filter(has_text='fixed-0')
  expect(row).to_contain_text('0.200 · 1.000')
  note = page.locator('[data-chart="eval/success"] .note')
  expect(note).to_contain_text('random 0.200, expert 1.000')
  heading = page.get_by_role('button', name='Random · expert')
  heading.click()
  expect(page).to_have_url(re.compile('sort=-chance'))
  assert not axe.findings(page)
  page.goto(f'{url}#/arms')
  note = page.locator('[data-chart="eval/success"] .note')
  expect(note).to_contain_text('random 0.200, expert 1.000')
  assert not axe.findings(page)


@pytest.mark.browser
def test_chance_is_seen(root, viewer, page):
  page.goto(viewer(root) + '#/compare?a=r:random&b=x:expert')
  expect(page.locator('.verdict')).to_contain_text(
      'On the same tasks: random 0.400 · expert 0.800'
  )
  page.goto(viewer(root) + '#/matrix')
  table = page.get_by_label('Pairs in textcraft')
  expect(table).to_contain_text('random 0.400 · expert 0.800')


@pytest.mark.browser
@pytest.mark.parametrize('scheme', ['light', 'dark'])
@pytest.mark.parametrize('wide', [1440, 1024, 390])
def test_the_study_is_a_page_that_needs_no_server(
    wide, scheme, root, tmp_path, viewer, page
):
  page.goto(viewer(root) + '#/arms?group=horizon.kind')
  with page.expect_download() as found:
    page.get_by_role('link', name='Study as a page').click()
  assert found.value.suggested_filename == f'study-{root.name}.html'
  path = tmp_path / 'kept' / 'study.html'
  found.value.save_as(path)
  page.set_viewport_size({'width': wide, 'height': 800})
  page.emulate_media(color_scheme=scheme)
  page.goto(path.as_uri())
  expect(page.get_by_role('heading', name='Findings')).to_be_visible()
  rows = page.get_by_label('Groups of runs').locator('tbody tr')
  expect(rows).to_have_count(len(study_test.KINDS))
  assert axe.findings(page) == []
  over = 'document.documentElement.scrollWidth - innerWidth'
  assert page.evaluate(over) <= 0
