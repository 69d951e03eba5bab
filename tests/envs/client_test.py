"""Tests for agentrl.envs.client against other people's servers."""

import asyncio
import contextlib

import aiohttp
import pytest
from aiohttp import web

from agentrl.envs.client import EnvClient, EnvPool
from agentrl.errors import EnvError


@contextlib.asynccontextmanager
async def serving(replies):
  """A server with scripted replies; gives its URL and the requests it got.

  Args:
    replies: path -> a reply to encode, a response, or a list to take them from.
  """
  requests = []

  async def answer(request):
    body = await request.json() if request.can_read_body else None
    requests.append((request.path, body))
    reply = replies[request.path]
    if isinstance(reply, list):
      reply = reply.pop(0)
    if callable(reply):
      reply = await reply()
    return (
        reply if isinstance(reply, web.Response) else web.json_response(reply)
    )

  app = web.Application()
  app.router.add_route('*', '/{path}', answer)
  runner = web.AppRunner(app, shutdown_timeout=0.1)
  await runner.setup()
  await web.TCPSite(runner, '127.0.0.1', 0).start()
  try:
    yield f'http://127.0.0.1:{runner.addresses[0][1]}', requests
  finally:
    await runner.cleanup()


def talk(replies, body, *, env_name='textcraft', **client):
  """Runs `body(env)` against a server with `replies`."""

  async def main():
    async with (
        serving(replies) as (url, requests),
        aiohttp.ClientSession() as session,
        EnvClient(session, url, env_name=env_name, **client) as env,
    ):
      return await body(env), requests

  return asyncio.run(main())


def textcraft(**replies):
  """AgentGym's TextCraft server, whose episode has the id 5."""
  reset = {'id': 5, 'observation': 'Goal', 'done': False, 'reward': 0}
  return {
      '/create': reset,
      '/reset': reset,
      '/close': True,
      '/step': [],
  } | {f'/{route}': reply for route, reply in replies.items()}


async def reset_and_step(env):
  await env.reset(3)
  return await env.step('look')


def test_an_original_episode():
  async def body(env):
    observation = await env.reset(3)
    return observation, [await env.step(x) for x in ('look', 'win')]

  steps = [
      {'observation': 'Could not', 'reward': 0, 'done': False},
      {'observation': 'Crafted', 'reward': 1, 'done': True},
  ]
  (observation, (first, last)), requests = talk(textcraft(step=steps), body)
  assert observation == 'Goal'
  assert (first.reward, first.terminated, first.success) == (0, False, None)
  assert (last.reward, last.terminated, last.success) == (1, True, True)
  assert requests == [
      ('/create', {}),
      ('/reset', {'id': 5, 'data_idx': 3}),
      ('/step', {'id': 5, 'action': 'look'}),
      ('/step', {'id': 5, 'action': 'win'}),
      ('/close', {'id': 5}),
  ]


def test_a_seed_is_sent_only_when_given():
  _, requests = talk(textcraft(), lambda env: env.reset(3, seed=9))
  assert requests[1] == ('/reset', {'id': 5, 'data_idx': 3, 'seed': 9})


def test_cumulative_scores_become_differences():
  # AgentGym's SciWorld: `score` runs from 0 to 100.
  replies = textcraft(
      reset={'task_description': 'Boil.', 'observation': 'A hall.'},
      step=[
          {'observation': 'a', 'reward': 7, 'score': 7, 'done': False},
          {'observation': 'b', 'reward': 0, 'score': 7, 'done': False},
          {'observation': 'c', 'reward': 93, 'score': 100, 'done': True},
      ],
  )

  async def body(env):
    return await env.reset(0), [await env.step('x') for _ in range(3)]

  (observation, results), _ = talk(replies, body, env_name='sciworld')
  assert observation == 'Boil.\nA hall.'
  assert [r.reward for r in results] == pytest.approx([0.07, 0.0, 0.93])
  assert [r.success for r in results] == [None, None, True]


def test_a_failed_sciworld_episode_loses_what_it_had():
  replies = textcraft(
      reset={'task_description': 'Boil.', 'observation': 'A hall.'},
      step=[
          {'observation': 'a', 'reward': 7, 'score': 7, 'done': False},
          {'observation': 'b', 'reward': -107, 'score': -100, 'done': True},
      ],
  )

  async def body(env):
    await env.reset(0)
    return [await env.step('x') for _ in range(2)]

  results, _ = talk(replies, body, env_name='sciworld')
  assert [r.reward for r in results] == pytest.approx([0.07, -0.07])
  assert results[-1].success is False


def test_original_babyai_is_paid_once():
  # It repeats a late reward and adds it to the score for ever.
  steps = [
      {'observation': 'a', 'reward': 0.4, 'score': 0.4, 'done': False},
      {'observation': 'b', 'reward': 0.4, 'score': 0.8, 'done': False},
      {'observation': 'c', 'reward': 0.9, 'score': 1.7, 'done': True},
  ]

  async def body(env):
    await env.reset(0)
    return [await env.step('x') for _ in range(3)]

  results, _ = talk(textcraft(step=steps), body, env_name='babyai')
  assert [r.reward for r in results] == [0, 0, 0.9]
  assert results[-1].success is True


def test_searchqa_has_bare_replies_and_other_names():
  replies = {
      '/create': web.json_response(8),
      '/reset': web.json_response('Question: who?'),
      '/step': {'observation': 'x', 'reward': 1.0, 'done': True, 'info': None},
      '/close': True,
  }

  async def body(env):
    return await env.reset(12), await env.step('<answer>me</answer>')

  (observation, result), requests = talk(replies, body, env_name='searchqa')
  assert observation == 'Question: who?' and result.success is True
  assert requests[:2] == [
      ('/create', {'id': 12}),
      ('/reset', {'env_idx': 8, 'id': 12}),
  ]


def test_webarena_hides_failures_in_its_observation():
  replies = {
      '/create': {'env_idx': 2},
      '/reset': {'observation': 'TimeoutError', 'sites': 'Error'},
      '/close': {'closed': 'closed'},
  }
  with pytest.raises(EnvError, match='to task 4 gave no observation'):
    talk(replies, lambda env: env.reset(4), env_name='webarena')


@pytest.mark.parametrize(
    'step, words',
    [
        ({'error': 'The id 5 is not valid.'}, 'error .*The id 5 is not valid'),
        (web.Response(text='<html>', content_type='text/html'), 'text/html'),
        (web.Response(status=500, text='boom'), "'look'.* gave 500: boom"),
        (web.json_response({'error': 'gone'}, status=404), 'gave 404: gone'),
        ({'reward': 0, 'done': False}, "gave no 'observation'"),
        ({'observation': 'x', 'done': True}, "gave no 'reward'"),
        (
            {'observation': 'x', 'done': True, 'reward': None},
            'gave the reward None, not a finite number',
        ),
        (
            web.Response(text='{"observation": "", "done": 1, "reward": NaN}'),
            'gave the reward nan',
        ),
        (
            web.Response(
                text='{"observation": "", "done": 1, "reward": -1e999}'
            ),
            'gave the reward -inf',
        ),
        (web.json_response([1, 2]), "gave no 'observation'"),
        (web.Response(text=''), 'not JSON'),
        (web.Response(body=b'\xff', charset='utf-8'), 'failed'),
    ],
)
def test_every_bad_answer_is_one_error_that_says_what_was_asked(step, words):
  with pytest.raises(EnvError, match=f'/step.*{words}'):
    talk(textcraft(step=[step]), reset_and_step)


def test_a_megabyte_is_not_repeated_in_an_error():
  async def body(env):
    await env.reset(0)
    await env.step('x' * 10**6)

  with pytest.raises(EnvError) as caught:
    talk(textcraft(step=[web.Response(status=413, text='y' * 10**6)]), body)
  assert len(str(caught.value)) < 600


def test_a_server_that_does_not_answer_is_an_error_in_time():
  async def sleep():
    await asyncio.Event().wait()

  with pytest.raises(EnvError, match='/step.*TimeoutError'):
    talk(textcraft(step=[sleep]), reset_and_step, timeout_s=1.0)


def test_nobody_at_the_door_is_an_error_that_names_the_url():
  async def main():
    async with (
        aiohttp.ClientSession() as session,
        EnvClient(session, 'http://127.0.0.1:9', env_name='babyai') as env,
    ):
      await env.reset(0)

  with pytest.raises(EnvError, match=r'POST http://127.0.0.1:9/create.*failed'):
    asyncio.run(main())


def test_a_step_before_the_reset_is_an_error():
  with pytest.raises(EnvError, match='call reset first'):
    talk(textcraft(), lambda env: env.step('look'))


def test_a_failing_close_does_not_hide_the_first_error():
  async def body(env):
    await env.reset(0)
    raise KeyError('first')

  with pytest.raises(KeyError, match='first'):
    talk(textcraft(close=web.Response(status=500)), body)


def test_a_cancelled_episode_is_closed():
  stepping = asyncio.Event()

  async def sleep():
    stepping.set()
    await asyncio.Event().wait()

  async def body(env):
    episode = asyncio.create_task(reset_and_step(env))
    await stepping.wait()
    episode.cancel()
    with pytest.raises(asyncio.CancelledError):
      await episode

  _, requests = talk(textcraft(step=[sleep]), body)
  assert requests[-1] == ('/close', {'id': 5})


def test_a_pool_spreads_episodes_and_avoids_what_failed():
  async def main():
    good, bad = textcraft(), textcraft(create=web.Response(status=500))
    async with (
        serving(good) as (first, at_first),
        serving(good) as (second, at_second),
        serving(bad) as (third, at_third),
        aiohttp.ClientSession() as session,
        contextlib.AsyncExitStack() as stack,
    ):
      pool = EnvPool(session, [first, second, third], env_name='textcraft')
      failures = 0
      for _ in range(9):
        env = await stack.enter_async_context(pool.client())
        try:
          await env.reset(0)
        except EnvError:
          failures += 1
      counts = [
          sum(path == '/reset' for path, _ in requests)
          for requests in (at_first, at_second, at_third)
      ]
      return failures, counts

  failures, counts = asyncio.run(main())
  assert failures == 1 and counts == [4, 4, 0]


def test_a_probe_opens_and_closes_an_episode_wherever_one_can_be_had(caplog):
  good = textcraft()

  def bad():  # a response can be sent once
    return textcraft(create=web.Response(status=501, text='no'))

  async def probe(*servers):
    async with contextlib.AsyncExitStack() as stack:
      at = [await stack.enter_async_context(serving(x)) for x in servers]
      session = await stack.enter_async_context(aiohttp.ClientSession())
      urls = [url for url, _ in at]
      await EnvPool(session, urls, env_name='textcraft').probe(0)
      return [[path for path, _ in requests] for _, requests in at]

  assert asyncio.run(probe(good, good)) == 2 * [['/create', '/close']]
  assert 'does not answer' not in caplog.text
  assert asyncio.run(probe(bad(), good))[1] == ['/create', '/close']
  assert 'does not answer' in caplog.text and '501: no' in caplog.text
  with pytest.raises(EnvError, match='No textcraft server answers: .*501: no'):
    asyncio.run(probe(bad(), bad()))


def test_an_empty_pool_is_refused():
  with pytest.raises(EnvError, match='at least one URL'):
    EnvPool(None, [], env_name='babyai')
