"""Tests of the timeline's routes, and of its page in a real Chromium."""

import json
import re

import pytest
from playwright.sync_api import expect

from agentrl.data import episodes as episodes_lib
from agentrl.errors import DataError
from agentrl.viewer import timeline
from tests.viewer import asking, axe, runs
from tests.viewer.trace_test import LINES, played


@pytest.fixture
def root(tmp_path):
  """A run of two steps that played ahead: one episode long before its use."""
  first = [played('a', 94.2), played('b', 94.4, turns=1)]
  second = [played('c', 97.0), played('d', 105.0)]
  runs.write(tmp_path, episodes=first)
  path = runs.write(
      tmp_path, file='episodes/train/000001.jsonl', episodes=second
  )
  folder = path.parents[2]
  (folder / 'metrics.jsonl').write_text(
      ''.join(json.dumps(line) + '\n' for line in LINES)
  )
  config = {'mode': 'train', 'rollout': {'ahead': 1}}
  (folder / 'config.json').write_text(json.dumps(config))
  return tmp_path


def test_a_step_has_what_was_played_in_it_for_later_ones_too(root):
  found = timeline.of_step(root / 'run', 0)
  assert found['steps'] == 2 and found['seconds'] == 6
  assert [(x['what'], x['start'], x['stop']) for x in found['learner']] == [
      ('collect', 0, 2), ('update', 2, 5), ('push', 5, 6),
  ]  # fmt: skip
  assert [(x['name'], x['lane'], x['used_in']) for x in found['episodes']] == [
      ('a', 0, 0), ('b', 1, 0), ('c', 0, 1),
  ]  # fmt: skip
  assert found['busy']['learner'] == pytest.approx(0.5)
  # a and b at once for 0.5 s, then a alone, then c.
  assert found['busy']['sampler'] == pytest.approx((0.7 + 0.5 + 1.0) / 6, 0.1)
  later = timeline.of_step(root / 'run', 1)
  assert later['learner'][0]['what'] == 'between'
  assert [x['name'] for x in later['episodes']] == ['d']


def test_what_is_not_there_is_said(root, viewer):
  with pytest.raises(DataError, match='no step 2 with times; it has 2 lines'):
    timeline.of_step(root / 'run', 2)
  (root / 'run' / 'metrics.jsonl').write_text('[]\nnull\n{"step": "x"}\n')
  url = viewer(root)
  for query in (
      dict(run='run'), dict(run='run', step='x'), dict(run='nowhere'),
  ):  # fmt: skip
    found = asking.get(url, 'timeline', **query)
    assert found['status'] in (400, 404, 422) and found['error']
  assert asking.get(url, 'trace', run='../run')['status'] == 404


def test_an_old_run_shows_its_learner_alone(root):
  path = episodes_lib.step_path(root / 'run', 'train', 0)
  episodes_lib.write(path, [runs.episode('old')])
  found = timeline.of_step(root / 'run', 0)
  assert len(found['learner']) == 3
  assert [x['name'] for x in found['episodes']] == ['c']


@pytest.mark.browser
def test_the_page_shows_who_waited_for_whom(root, viewer, page):
  url = viewer(root)
  page.goto(f'{url}#/runs?runs=run')
  page.get_by_role('link', name='Timeline').click()
  expect(page.get_by_role('heading', name='Step 1 of 2')).to_be_visible()
  assert page.locator('.timeline svg rect.update').count() == 2  # and a legend
  assert page.locator('.timeline a rect.sampler').count() == 5
  expect(page.get_by_text('updates 50%')).to_be_visible()
  assert 'false' not in page.locator('main').inner_text()
  assert axe.findings(page) == []
  page.get_by_role('button', name='Later').click()
  expect(page.get_by_role('heading', name='Step 2 of 2')).to_be_visible()
  page.get_by_text('the longest first').click()
  page.get_by_role('link', name='d', exact=True).click()
  of_d = f'{url}#/replay?runs=run&file=episodes%2Ftrain%2F000001.jsonl&line=1'
  expect(page).to_have_url(re.compile(f'{re.escape(of_d)}(&|$)'))
  trace = json.loads(asking.text(url, 'trace', run='run'))
  assert len(trace['traceEvents']) == 2 + 7 + 4 + 2 * 7
