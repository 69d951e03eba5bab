"""Tests for agentrl.engine.http.errors: the four shapes of a refusal."""

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from agentrl.engine.http import errors
from agentrl.engine.http.errors import BodyError, ContractError
from agentrl.errors import ChatTemplateError, EngineError


def answered(error, path='/generate'):
  counted = []

  async def handler(request):
    raise error

  handle = errors.middleware(100, counted.append)
  response = asyncio.run(handle(make_mocked_request('POST', path), handler))
  assert counted == [response.status]
  return response, json.loads(response.text)


@pytest.mark.parametrize(
    'error, status, body',
    [
        (ValueError('bad'), 400, {'error': {'message': 'bad'}}),
        (ContractError('bad'), 400, {'error': 'bad'}),
        (web.HTTPNotFound(), 404, {'detail': 'Not Found'}),
        (EngineError('full'), 503, {'error': {'message': 'full'}}),
        (
            KeyError('x'),
            500,
            {'error': {'message': "The engine failed: KeyError('x')"}},
        ),
    ],
)
def test_a_refusal_has_sglangs_shape(error, status, body):
  response, found = answered(error)
  assert (response.status, found) == (status, body)
  # A client may come back to a full engine.
  assert ('Retry-After' in response.headers) == (status == 503)


@pytest.mark.parametrize(
    'error, status, kind',
    [
        (BodyError('bad'), 400, 'Bad Request'),
        (web.HTTPRequestEntityTooLarge(100, 200), 413, '413'),
    ],
)
def test_the_framework_has_a_shape_of_its_own(error, status, kind):
  response, found = answered(error)
  assert response.status == found['code'] == status
  assert (found['object'], found['type']) == ('error', kind)


@pytest.mark.parametrize(
    'error, status, kind',
    [
        (ChatTemplateError('bad'), 400, 'BadRequestError'),
        (ContractError('bad'), 400, 'BadRequestError'),
        (EngineError('full'), 503, 'InternalServerError'),
    ],
)
def test_openais_routes_have_openais_shape(error, status, kind):
  response, found = answered(error, '/v1/completions')
  assert response.status == found['code'] == status
  assert (found['type'], found['message']) == (kind, str(error))
