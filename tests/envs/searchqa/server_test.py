"""SearchQA over HTTP: AgentGym's dialect, services elsewhere, the expert."""

import asyncio
import contextlib
import json

import aiohttp
import pytest
from aiohttp import web

from agentrl import envs
from agentrl.envs import server
from agentrl.envs.client import EnvClient
from agentrl.envs.spec import SPLITS
from agentrl.errors import EnvError
from tests.envs.experts_test import solved


def with_server(body, **options):
  async def main():
    async with (
        server.running('searchqa', options) as url,
        aiohttp.ClientSession() as session,
    ):
      return await body(session, url)

  return asyncio.run(main())


async def post(session, url, route, **fields):
  async with session.post(f'{url}/{route}', json=fields) as response:
    assert response.status == 200, await response.text()
    return await response.json()


def test_it_speaks_agentgyms_routes():
  async def body(session, url):
    assert await post(session, url, 'create', id=0) == 0
    assert await post(session, url, 'create', id=0) == 1
    prompt = await post(session, url, 'reset', env_idx=1, id=3)
    assert prompt.startswith('Question: ')
    action = 'x <search>Peru</search>'
    step = await post(session, url, 'step', env_idx=1, action=action)
    assert {'observation', 'reward', 'done', 'info'} <= step.keys()
    assert step['info'] is None
    assert (step['reward'], step['done']) == (0, False)
    async with session.get(f'{url}/observation?env_idx=1') as response:
      assert await response.json() == step['observation']
    assert await post(session, url, 'close', env_idx=1) is True
    assert await post(session, url, 'close', env_idx=1) is False

  with_server(body)


def test_the_experts_way_through_each_kind_of_question():
  spec = envs.get('searchqa')
  kinds = {}
  for task_id in spec.tasks('test'):
    kinds.setdefault(spec.subtask(task_id), []).append(task_id)
  ids = [x for found in kinds.values() for x in found[::30]]
  assert len(kinds) == 3 and len(ids) > 30
  assert solved('searchqa', ids, limit=12) == set(ids)


@pytest.mark.slow
def test_every_question_can_be_answered_by_searching():
  # In this process: how the expert plays over HTTP is tested above.
  ids = [x for split in SPLITS for x in envs.get('searchqa').tasks(split)]
  assert len(set(ids)) == 8747
  env = envs.get('searchqa').open().make()
  for task_id in ids:
    env.reset(task_id, 0)
    for _ in range(16):
      result = env.step(env.expert_action())
      if result.terminated:
        break
    assert result.success is True, task_id


PAGES = {
    'röntgen': [
        {'document': {'contents': '"X-ray"\nFound by\nRöntgen.'}, 'score': 2.5},
        {'document': {'title': 'Nobel', 'text': 'A prize.'}, 'score': 1},
        {'document': {'id': '7', 'contents': 'No text'}, 'score': 0.5},
        {'document': {'contents': 'Too\nmany'}, 'score': 0.1},
    ],
    'nothing': [],
}


@contextlib.asynccontextmanager
async def service(reply=None, *, wait_s=0.0, together=1):
  """A retrieval service on loopback; `reply` in place of its own answers.

  It answers only when so many have asked `together`.
  """
  asked = []
  barrier = asyncio.Barrier(together)

  async def retrieve(request):
    body = await request.json()
    asked.append(body)
    await asyncio.sleep(wait_s)
    await barrier.wait()
    if reply is not None:
      return reply()
    found = [PAGES[query] for query in body['queries']]
    return web.json_response({'result': found})

  app = web.Application()
  app.router.add_post('/retrieve', retrieve)
  runner = web.AppRunner(app, shutdown_timeout=0.1)
  await runner.setup()
  try:
    await web.TCPSite(runner, '127.0.0.1', 0).start()
    host, port = runner.addresses[0][:2]
    yield f'http://{host}:{port}', asked
  finally:
    await runner.cleanup()


def ask(
    query, tmp_path, *, path='/retrieve', reply=None, wait_s=0.0, **options
):
  """What a search for `query` gives through both services."""
  questions = tmp_path / 'questions.jsonl'
  questions.write_text(
      json.dumps({'question': 'Who found it?', 'golden_answers': ['Röntgen']})
  )

  async def main():
    async with service(reply, wait_s=wait_s) as (retriever, asked):
      options.setdefault('retriever_url', retriever + path)
      async with (
          server.running(
              'searchqa', dict(options, questions=str(questions))
          ) as url,
          aiohttp.ClientSession() as session,
          EnvClient(session, url, env_name='searchqa') as env,
      ):
        assert await env.reset(0) == 'Question: Who found it?'
        found = await env.step(f'<search>{query}</search>')
        last = await env.step('<answer>röntgen</answer>')
        assert (last.reward, last.success) == (1, True)
        return found, asked

  return asyncio.run(main())


@pytest.mark.parametrize('path', ['/retrieve', '', '/'])
def test_a_service_elsewhere_is_searched(tmp_path, path):
  found, asked = ask('röntgen', tmp_path, path=path)
  assert asked == [{'queries': ['röntgen'], 'topk': 3, 'return_scores': True}]
  assert found.observation == (
      '<information>Doc 1(Title: "X-ray") Found by\nRöntgen.\n'
      'Doc 2(Title: Nobel) A prize.\n'
      'Doc 3(Title: No text) </information>'
  )


def test_a_service_that_finds_nothing_is_no_failure(tmp_path):
  found, _ = ask('nothing', tmp_path, topk=5)
  assert found.observation == '<information>Nothing was found.</information>'


@pytest.mark.parametrize(
    'reply, words',
    [
        (
            lambda: web.Response(status=500, text='no index'),
            'gave 500.*no index',
        ),
        (lambda: web.Response(status=404), 'gave 404'),
        (lambda: web.Response(text='hello'), 'gave no .*result.*hello'),
        (lambda: web.json_response({'error': 'x'}), 'gave no .*result'),
        (lambda: web.json_response([]), 'gave no .*result'),
        (lambda: web.json_response({'result': []}), 'gave no .*result'),
        (lambda: web.json_response({'result': [None]}), 'gave no .*result'),
        (lambda: web.json_response({'result': [[{}]]}), 'gave no .*result'),
        (
            lambda: web.json_response(
                {'result': [[{'document': {'contents': None}}]]}
            ),
            'gave no .*result',
        ),
    ],
)
def test_a_service_that_fails_is_an_error_not_an_empty_result(
    tmp_path, reply, words
):
  with pytest.raises(EnvError, match=f'(?s)retrieval service .*{words}'):
    ask('röntgen', tmp_path, reply=reply)


def test_a_service_that_is_slow_is_an_error(tmp_path):
  with pytest.raises(EnvError, match='retrieval service .*timed out'):
    ask('röntgen', tmp_path, wait_s=2.0, retriever_timeout_s=0.2)


def test_a_service_that_is_not_there_is_an_error(tmp_path):
  with pytest.raises(EnvError, match='retrieval service .*refused'):
    ask('röntgen', tmp_path, retriever_url='http://127.0.0.1:9')


def test_slow_searches_elsewhere_do_not_wait_for_each_other(tmp_path):
  async def main():
    async with service(together=4) as (retriever, asked):
      options = dict(retriever_url=retriever)
      async with (
          server.running('searchqa', options) as url,
          aiohttp.ClientSession() as session,
      ):

        async def play(task_id):
          async with EnvClient(session, url, env_name='searchqa') as env:
            await env.reset(task_id)
            await env.step('<search>nothing</search>')

        await asyncio.gather(*map(play, range(16)))
        return len(asked)

  assert asyncio.run(main()) == 16
