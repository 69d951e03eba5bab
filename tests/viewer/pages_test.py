"""Tests of the frame around all pages, in a real Chromium."""

import pytest

from tests.viewer import runs

pytestmark = pytest.mark.browser


def test_every_page_opens(tmp_path, viewer, page):
  runs.write(tmp_path)
  url = viewer(tmp_path)
  page.goto(url)
  for name in ('Runs', 'Episodes', 'Compare', 'Failures', 'Play'):
    page.get_by_role('link', name=name, exact=True).click()
    page.locator(f'.page.{name.lower()} > *').first.wait_for()
