"""Tests for agentrl.http.replies."""

import asyncio

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from agentrl.http import replies

READ_IDS = msgspec.json.Decoder(list[int]).decode
READ_ANY = msgspec.json.decode


def fetched(body, limit):
  async def answer(request):
    del request
    return web.Response(body=body)

  async def main():
    app = web.Application()
    app.router.add_get('/', answer)
    async with TestClient(TestServer(app)) as client:
      return await replies.read(await client.get('/'), limit)

  return asyncio.run(main())


def test_a_body_of_the_limit_is_read_and_a_longer_one_is_not():
  body = b'x' * 10**5
  assert fetched(body, 10**5) == body
  with pytest.raises(replies.TooLong) as error:
    fetched(body, 10**5 - 1)
  assert error.value.body.startswith(b'xxx')


@pytest.mark.parametrize(
    'body, decoder, kind, words',
    [
        (b'[1, "a"]', READ_IDS, replies.OutsideContract, r'\$\[1\]'),
        (b'{}', READ_IDS, replies.OutsideContract, 'array'),
        (b'[' * 10**5, READ_ANY, replies.OutsideContract, 'nested too deeply'),
        (b'[1', READ_IDS, replies.NotJson, 'truncated'),
        (b'["\xff"]', READ_ANY, replies.NotJson, 'utf-8'),
    ],
)
def test_an_unreadable_body_is_one_of_two_errors(body, decoder, kind, words):
  with pytest.raises(kind, match=words):
    replies.decode(body, decoder)
  assert replies.decode(b'[1, 2]', decoder) == [1, 2]


def test_half_of_a_surrogate_pair_is_read_as_the_replacement_character():
  body = rb'["a\ud83d", "\ud83d\ude00", "\\ud83d"]'
  assert replies.decode(body, READ_ANY) == ['a\ufffd', '\U0001f600', r'\ud83d']
  with pytest.raises(replies.NotJson):
    replies.decode(rb'["\ud83d"', READ_ANY)


def test_an_excerpt_is_one_short_line():
  assert (
      replies.excerpt(b' <p>\n\n a \xff</p>' * 99, 9) == '<p> a \ufffd</p>'[:9]
  )
