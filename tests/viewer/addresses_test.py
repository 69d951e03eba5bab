"""Tests of the addresses of pages: one key for runs, and keys that no page has."""

import re

import pytest
from playwright.sync_api import expect

from agentrl.viewer import server
from tests.viewer import axe, matrix_test, runs

ROOT = server.STATIC / 'pages'
FILE = 'episodes/train/000000.jsonl'

root = matrix_test.root


def keys_of(page):
  """The keys that a page says it knows, where they are written out."""
  found = re.search(
      r'^export const keys = (.*)$', page.read_text(), re.MULTILINE
  )
  assert found, f'{page.name} does not say which keys its address has'
  return re.findall(r"'([a-z_]+)'", found[1])


@pytest.mark.parametrize(
    'page', sorted(ROOT.glob('*.js')), ids=lambda x: x.stem
)
def test_runs_have_one_key_on_every_page(page):
  keys = keys_of(page)
  assert not {'of', 'among'} & set(keys)
  # A page of one run has its name as `run`, and of several as `runs`.
  assert not {'run', 'runs'} <= set(keys)


browser = pytest.mark.browser


@browser
@pytest.mark.parametrize(
    ('address', 'other'),
    [
        ('matrix?of=e1:policy-e1;e2:policy-e2', 'matrix?runs=e1:policy-e1;e2:policy-e2'),
        ('matrix?run=fixed-0', 'matrix?runs=fixed-0'),
        ('tasks?run=fixed-0', 'tasks?runs=fixed-0'),
        ('compare?run=fixed-1', 'compare?runs=fixed-1'),
        (
            'compare?among=e1:policy-e1;e2:policy-e2;e3:policy-e3&a=e1:policy-e1',
            'compare?runs=e1:policy-e1;e2:policy-e2;e3:policy-e3&a=e1:policy-e1',
        ),
        ('episodes?run=e1;e2', 'episodes?runs=e1;e2'),
        ('failures?run=fixed-0&origin=eval', 'failures?runs=fixed-0&origin=eval'),
    ],
)  # fmt: skip
def test_addresses_of_earlier_versions_show_the_same(
    root, viewer, page, address, other
):
  url = viewer(root)
  found = []
  for fragment in (other, address):
    page.goto('about:blank')
    page.goto(f'{url}#/{fragment}')
    page.locator('.page > *').first.wait_for()
    page.wait_for_load_state('networkidle')
    found.append(page.locator('#main').inner_text())
  assert found[0] == found[1] and 'does not know' not in found[0]


@browser
def test_a_key_that_a_page_does_not_know_is_said(root, viewer, page):
  url = viewer(root)
  page.goto(f'{url}#/episodes?runs=e1&step=0&stpe=3&<b>=1')
  wrong = page.locator('.wrong')
  expect(wrong).to_contain_text('does not know “stpe”, “<b>”')
  expect(wrong).to_contain_text('It knows q, success')
  expect(page.locator('.chips')).to_contain_text('Run: e1')
  page.wait_for_load_state('networkidle')
  assert axe.findings(page) == []
  page.evaluate("location.hash = '#/episodes?runs=e1'")  # the same page goes on
  expect(wrong).to_be_empty()
  page.goto(f'{url}#/runs?ru=e1')
  expect(wrong).to_contain_text('It knows runs, q, sort')
  page.get_by_label('Pages', exact=True).get_by_text('Groups').click()
  expect(page).to_have_title(re.compile('Groups'))
  expect(wrong).to_be_empty()


@browser
@pytest.mark.parametrize('run', ['a;b', 'a%3Bb', 'a%b'])
def test_any_name_of_a_run_is_an_address(tmp_path, viewer, page, run):
  runs.write(tmp_path, run, FILE)
  runs.write(tmp_path, 'other', FILE)
  page.goto(viewer(tmp_path) + '#/episodes')
  page.locator('select[name=runs]').select_option(label=run)
  expect(page.locator('.figures')).to_contain_text('4 episodes')
  page.locator('.episodes tbody a').first.click()
  expect(page.locator('.replay .head')).to_be_visible()
  expect(page).to_have_url(re.compile('replay.runs='))
  page.reload()
  page.get_by_role('link', name='Next').click()
  expect(page).to_have_url(re.compile('line=3|line=2|line=1'))
  page.get_by_role('link', name='Group', exact=True).click()
  expect(page.locator('.page.group h1')).to_contain_text('Group of')
