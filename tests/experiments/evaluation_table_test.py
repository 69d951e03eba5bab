"""Tests for experiments.2026-11-evaluation.table: what its check finds."""

import copy
import importlib
import json
import urllib.error
import urllib.request

import pytest

from agentrl.evaluation import results, rows
from agentrl.types import Group
from tests.evaluation import recording

table = importlib.import_module('experiments.2026-11-evaluation.table')


@pytest.fixture
def evaluation(tmp_path):
  """Three episodes on disk, one of them failed, and their results."""
  outcomes = (True, None, False)
  played = [
      recording.episode('p', 'textcraft', task, 0, success)
      for task, success in enumerate(outcomes)
  ]
  panel = recording.panel(task_ids=range(3))
  recording.write(tmp_path, {'p': played}, [panel])
  groups = [Group(e.task_id, i, (e,)) for i, e in enumerate(played)]
  found = results.read(tmp_path)
  return (
      results.Results(
          config={},
          policies=found.policies,
          panels=found.panels,
          rows=tuple(rows.of_panel('p', panel, groups)),
      ),
      table.lines(tmp_path),
  )


def test_what_was_kept_and_is_there_once_is_right(evaluation):
  found, journals = evaluation
  kept = {key: records[0] for key, records in journals.items()}
  assert len(kept) == 3
  assert table.check(found, journals, kept) == []
  assert '| textcraft | p | 0.500' in table.markdown(found)


def test_what_is_off_is_found(evaluation):
  found, journals = evaluation
  key = ('p', 'textcraft', 2, 0)
  kept = {key: copy.deepcopy(journals[key][0])}
  journals[key][0]['turns'][0]['env_s'] += 1.0
  assert table.check(found, journals, kept) == [f'{key} was played again']
  twice = journals | {key: journals[key] * 2}
  assert f'{key} is there 2 times' in table.check(found, twice, {})
  del journals[key]
  [missing] = table.check(found, journals, {})
  assert missing == (
      'p on textcraft: 2 episodes with 1 errors, in the table 2 and 1'
  )


def test_the_proxy_refuses_a_wrong_key_and_sometimes_a_right_one():
  with table.proxied('http://127.0.0.1:1') as (proxy, url):

    def status(key):
      headers = {'Authorization': f'Bearer {key}'}
      request = urllib.request.Request(
          f'{url}/chat/completions', data=b'{}', headers=headers
      )
      with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)
      if error.value.code == 429:
        assert error.value.headers['Retry-After'] == '1'
        assert 'message' in json.load(error.value)['error']
      return error.value.code

    assert status('wrong') == 401
    # Nothing listens behind it: what it passes on fails.
    given = [status(table._KEY) for _ in range(60)]
  assert [i + 1 for i, code in enumerate(given) if code == 429] == [40]
  assert proxy.answers[500] == 1 and proxy.answers[401] == 1
