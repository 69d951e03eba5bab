"""Data made once for all tests of SearchQA."""

import collections

import pytest

from agentrl.envs.searchqa import dataset


@pytest.fixture(scope='session')
def all_questions():
  return dataset.load_questions()


@pytest.fixture(scope='session')
def passages():
  """Title -> the corpus's passages of that title."""
  found = collections.defaultdict(list)
  for passage in dataset.load_passages():
    found[passage.title].append(passage)
  return found
