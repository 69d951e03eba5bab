"""Tests for the name that OpenAI's clients know the model by."""

import jax
import pytest

from agentrl.weights import hf
from tests import tiny
from tests.engine.talking import Letters, once, talk


@pytest.fixture
def saved(tmp_path, other_model):
  """The other model as a Hugging Face directory."""
  stacked = jax.device_get(
      tiny.stack_layers(other_model.params, other_model.config)
  )
  hf.save(tmp_path / 'other', other_model.config, stacked)
  return str(tmp_path / 'other')


def test_the_path_is_the_name_where_none_is_given(make_engine):
  engine = make_engine(model_path='/some/where')
  _, models = once(engine, 'v1/models')
  assert [card['id'] for card in models['data']] == ['/some/where']
  assert once(engine, 'v1/models//some/where')[0] == 200


def test_a_name_is_listed_and_found(make_engine):
  engine = make_engine(model_path='/some/where', served_name='policy/1')

  async def body(call):
    routes = ('v1/models', 'v1/models/policy/1', 'model_info', 'metrics')
    return [await call(route) for route in routes], await call('v1/models/gpt')

  answers, missing = talk(engine, body)
  (_, models), (_, card), (_, info), (_, metrics) = answers
  assert [card['id'] for card in models['data']] == ['policy/1']
  assert card == models['data'][0]
  assert info['served_model_name'] == 'policy/1'
  assert info['model_path'] == '/some/where'
  assert 'model_name="policy/1"' in metrics
  assert missing[0] == 404
  assert missing[1]['error']['code'] == 'model_not_found'


def test_a_name_outlives_an_update_from_disk(make_engine, saved):
  engine = make_engine(served_name='policy')

  async def body(call):
    await call('update_weights_from_disk', {'model_path': saved})
    routes = ('model_info', 'v1/models/policy', f'v1/models/{saved}')
    return [await call(route) for route in routes]

  (_, info), (status, card), (path_status, _) = talk(engine, body)
  assert info['model_path'] == info['served_model_name'] == saved  # SGLang's
  assert status == path_status == 200 and card['id'] == 'policy'


def test_a_card_says_what_its_weights_were_trained_with(make_engine, saved):
  sections = {'agent': {'format': 'plain'}, 'eval': {'num_tasks': 3}}
  engine = make_engine(served_name='policy', trained_with=sections)
  routes = ('v1/models/policy', 'v1/models', 'server_info', 'model_info')

  async def body(call):
    before = [await call(route) for route in routes]
    await call('update_weights_from_disk', {'model_path': saved})
    return before, [await call(route) for route in routes[:3]]

  before, after = talk(engine, body)
  (_, card), (_, cards), (_, server), (_, model) = before
  found = [card, cards['data'][0], server]
  assert [x['trained_with'] for x in found] == [sections] * 3
  assert 'trained_with' not in model
  (_, card), (_, cards), (_, server) = after
  assert all('trained_with' not in x for x in (card, cards['data'][0], server))


def test_a_reply_has_the_requests_name_or_the_models(make_engine):
  engine = make_engine(Letters(), served_name='policy')

  async def body(call):
    ask = {'prompt': [5], 'max_tokens': 1}
    return [
        await call('v1/completions', ask | more)
        for more in ({}, {'model': 'any'}, {'model': 'policy'})
    ]

  replies = talk(engine, body)
  assert [reply['model'] for _, reply in replies] == ['policy', 'any', 'policy']
