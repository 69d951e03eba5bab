"""Tests for agentrl.http.errors."""

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from agentrl.http import errors


def refused(handler):
  """The response to `handler`, and the statuses that were noted."""
  noted = []

  def answer(request, error):
    return web.json_response({'error': f'{request.path}: {error}'}, status=418)

  handle = errors.middleware(answer, lambda reply: noted.append(reply.status))
  response = asyncio.run(handle(make_mocked_request('GET', '/x'), handler))
  return response, noted


@pytest.mark.parametrize('error', [ValueError('bad'), web.HTTPFound('/y')])
def test_what_a_handler_raises_is_answered_and_noted(error):
  async def handler(request):
    raise error

  response, noted = refused(handler)
  assert response.status == 418 and noted == [418]
  assert response.text == f'{{"error": "/x: {error}"}}'


@pytest.mark.parametrize('status, expected', [(200, []), (503, [503])])
def test_a_response_passes_and_is_noted_from_400_on(status, expected):
  async def handler(request):
    return web.Response(status=status)

  response, noted = refused(handler)
  assert response.status == status and noted == expected


def test_a_client_that_leaves_is_not_answered():
  async def handler(request):
    raise asyncio.CancelledError

  with pytest.raises(asyncio.CancelledError):
    refused(handler)
