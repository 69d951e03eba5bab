"""Tests for agentrl.engine.http.body_fields: as FastAPI and the gate read."""

import asyncio
import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agentrl.engine.http import body_fields
from agentrl.engine.http.body_fields import Field
from agentrl.engine.http.errors import BodyError, ContractError


@pytest.mark.parametrize(
    'body',
    [
        {},
        {'text': 'a', 'stream': True},
        {'text': ['a', 'b'], 'rid': ['x', 'y'], 'priority': None},
        {'input_ids': [[1], [2]], 'lora_path': [None, 'a']},
        {'sampling_params': [{}, {}], 'custom_labels': {'a': 'b'}},
    ],
)
def test_fields_of_their_types_pass(body):
  body_fields.check(body)


@pytest.mark.parametrize(
    'body, kind, words',
    [
        ([], BodyError, 'must be an object, got list'),
        ({'stream': None}, BodyError, 'stream must be bool, got null'),
        ({'stream': 'perhaps'}, BodyError, 'stream must be bool, got str'),
        ({'stream': 'true'}, ContractError, 'stream must be bool, got str'),
        ({'priority': 1.5}, BodyError, 'priority must be int, got float'),
        ({'priority': '1.0'}, ContractError, 'priority must be int'),
        ({'rid': 1}, BodyError, 'rid must be str, or a list'),
        ({'rid': [None]}, BodyError, 'rid must be str'),
        ({'input_ids': 'x'}, BodyError, 'got str'),
        ({'input_ids': [1.5]}, BodyError, 'list of integers'),
        ({'input_ids': [2**63]}, BodyError, 'list of integers'),
        ({'input_ids': [True]}, ContractError, 'list of integers'),
        ({'sampling_params': 1}, BodyError, 'must be an object, or a list'),
        ({'session_params': 1}, BodyError, 'must be dict, got int'),
        ({'custom_labels': {'a': 1}}, BodyError, 'must be texts'),
    ],
)
def test_each_has_its_own_refusal(body, kind, words):
  with pytest.raises(kind, match=words) as error:
    body_fields.check(body)
  assert type(error.value) is kind


def test_a_field_without_a_gate_may_be_what_converts():
  body_fields.check({'log_metrics': 'yes', 'return_routed_experts': 0})


def read(body, content_type='application/json', **fields):
  """The fields that a server reads of a body; raises what it raises."""
  found = []

  async def handler(request):
    try:
      found.append(await body_fields.read_fields(request, **fields))
    except BodyError as error:
      found.append(error)
    return web.Response()

  async def main():
    app = web.Application()
    app.router.add_post('/', handler)
    data = body if isinstance(body, bytes) else json.dumps(body)
    async with TestClient(TestServer(app)) as client:
      await client.post('/', data=data, headers={'Content-Type': content_type})

  asyncio.run(main())
  if isinstance(found[0], BodyError):
    raise found[0]
  return found[0]


def test_control_fields_are_converted_and_have_defaults():
  found = read(
      {'a': '7', 'b': 'off', 'd': None, 'z': 1},
      a=Field(int),
      b=Field(bool),
      c=Field(str, 'x'),
      d=Field(str, None),
  )
  assert found == {'a': 7, 'b': False, 'c': 'x', 'd': None}


@pytest.mark.parametrize(
    'body, content_type, words',
    [
        ({}, 'application/json', 'needs a a'),
        ({'a': None}, 'application/json', 'a must be int, got NoneType'),
        ([1], 'application/json', 'must be an object'),
        (b'{', 'application/json', 'is not JSON'),
        ({'a': 1}, 'text/plain', 'not JSON, but text/plain'),
    ],
)
def test_control_bodies_that_do_not_fit_are_refused(body, content_type, words):
  with pytest.raises(BodyError, match=words):
    read(body, content_type, a=Field(int))


def test_a_suffix_says_json_too():
  assert read({'a': 1}, 'application/problem+json', a=Field(int)) == {'a': 1}
