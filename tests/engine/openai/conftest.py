"""The real client of OpenAI, talking to an engine that reads text."""

import pytest


@pytest.fixture
def client(words_engine):
  openai = pytest.importorskip('openai', reason='needs the openai package')
  with openai.OpenAI(
      base_url=f'{words_engine.url}/v1', api_key='any', max_retries=0
  ) as client:
    yield client
