"""What is made once for all tests of SearchQA."""

import collections

import pytest

from agentrl.envs.searchqa.dataset import (
    corpus,
    questions as questions_lib,
    sources,
)


@pytest.fixture(scope='session')
def all_questions():
  return questions_lib.load()


@pytest.fixture(scope='session')
def passages():
  """Title -> the corpus's passages of that title."""
  found = collections.defaultdict(list)
  for passage in corpus.passages(sources.load()):
    found[passage.title].append(passage)
  return found
