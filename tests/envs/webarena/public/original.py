"""The original benchmark's scores; runs in an environment of its own.

    python original.py < jobs.json > scores.json

The evaluators of libwebarena are imported as they are, over empty modules in
place of those that want a browser, a model or data files: Playwright, openai,
beartype and NLTK's sentence splitter.
"""

import json
import os
import sys
import tempfile
import types

for name in (
    'REDDIT', 'SHOPPING', 'SHOPPING_ADMIN', 'GITLAB', 'WIKIPEDIA', 'MAP',
    'HOMEPAGE',
):  # fmt: skip
  os.environ[name] = f'http://{name.lower()}.test'


def empty(name, **members):
  module = types.ModuleType(name)
  vars(module).update(members)
  sys.modules[name] = module


def no_model(*args, **kwargs):
  raise RuntimeError('There is no model.')


def load():
  """The package of evaluators, and its helper functions."""
  from nltk.tokenize import NLTKWordTokenizer

  empty('beartype', beartype=lambda function: function)
  empty('playwright')
  empty('playwright.sync_api', CDPSession=object, Page=object)
  empty('nltk.tokenize', word_tokenize=NLTKWordTokenizer().tokenize)
  empty('webarena.browser_env.actions', Action=dict)
  empty('webarena.browser_env.utils', StateInfo=dict)
  empty(
      'webarena.llms.providers.openai_utils',
      generate_from_openai_chat_completion=no_model,
  )
  # Their packages would import what is stubbed here.
  import importlib.util

  places = importlib.util.find_spec('webarena').submodule_search_locations
  for part in ('browser_env', 'llms', 'llms.providers'):
    empty(f'webarena.{part}')
    sys.modules[f'webarena.{part}'].__path__ = [
        os.path.join(place, *part.split('.')) for place in places
    ]
  from webarena.evaluation_harness import evaluators, helper_functions

  return evaluators, helper_functions


class Page:
  """A page that has been opened."""

  def __init__(self, url, text=''):
    self.url, self._text = url, text

  def content(self):
    return self._text


def main():
  evaluators, helpers = load()
  scores = []
  for kind, config, given in json.load(sys.stdin):
    if kind == 'post_url':
      scores.append(helpers.reddit_get_post_url(given))
      continue
    config = {'intent': 'x', 'eval': config}
    with tempfile.NamedTemporaryFile('w', suffix='.json') as file:
      json.dump(config, file)
      file.flush()
      judge = evaluators.evaluator_router(file.name)
      page = Page(given) if kind == 'url' else Page('http://x.test', given)
      try:
        score = judge([{}, {'answer': given}], file.name, page, None)
      except RuntimeError:  # it asked the model
        score = None
    scores.append(score)
  json.dump(scores, sys.stdout)


main()
