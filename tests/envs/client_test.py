"""Tests for agentrl.envs.client against other people's servers."""

import asyncio
import base64

import aiohttp
import pytest
from aiohttp import web

from agentrl.envs import replies
from agentrl.envs.client import EnvClient
from agentrl.errors import EnvError
from tests.envs.scripted import serving, step, textcraft


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


def test_actions_that_are_offered():
  async def body(env):
    await env.reset(3)
    return await env.available_actions()

  offered = {'/available_actions': {'available_actions': ['look', 'win']}}
  actions, requests = talk(textcraft() | offered, body)
  assert actions == ['look', 'win']
  assert requests[2] == ('/available_actions', None)


@pytest.mark.parametrize(
    'reply, match',
    [
        (
            web.Response(status=404),
            'offers no list of actions.*a server of our',
        ),
        (web.Response(status=500, text='broken'), 'gave 500: broken'),
        ({'available_actions': 'look'}, 'outside its contract'),
        ({'available_actions': [3]}, 'outside its contract'),
        ({}, 'outside its contract'),
    ],
)
def test_actions_that_cannot_be_read(reply, match):
  async def body(env):
    await env.reset(3)
    await env.available_actions()

  with pytest.raises(EnvError, match=match):
    talk(textcraft() | {'/available_actions': reply}, body)


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
        (
            web.Response(text='<html>\n<p>', content_type='text/html'),
            'no JSON .*: <html> <p>$',
        ),
        (web.Response(status=500, text='boom'), "'look'.* gave 500: boom"),
        (web.json_response({'error': 'gone'}, status=404), 'gave 404: gone'),
        (web.Response(status=503, text='busy'), 'gave 503: busy'),
        ({'error': {'why': ['x']}}, r'gave the error .*\{"why": \["x"\]\}'),
        (web.json_response([1, 2]), 'Expected `object`, got `array`'),
        (web.Response(text=''), 'no JSON'),
        (web.Response(body=b'\xff', charset='utf-8'), 'no JSON'),
        (web.Response(body=b'{}', charset='klingon'), 'lacks|required field'),
        (
            web.Response(body=b'{}', headers={'Content-Encoding': 'gzip'}),
            'failed: ',
        ),
        # Ended by the closing brace of a body that never came.
        (web.Response(text='{"observation": "x"'), 'no JSON'),
        (web.Response(text='[' * 10**6), 'got `array`'),
        (
            web.Response(text='{"error": ' + '[' * 10**6),
            'JSON nested too deeply',
        ),
        (step(x='[' * 10**5 + ']' * 10**5), 'JSON nested too deeply'),
        (
            web.Response(body=b'x' * (replies.MAX_BYTES + 1)),
            f'gave more than {replies.MAX_BYTES} bytes',
        ),
        ({'reward': 0, 'done': False}, 'required field `observation`'),
        ({'observation': 'x', 'done': True}, 'required field `reward`'),
        (step(observation='null'), r'got `null` - at `\$.observation`'),
        (
            step(observation='"%s"' % ('x' * (replies.MAX_CHARS + 1))),
            f'of length <= {replies.MAX_CHARS}',
        ),
        (step(observation='"\xff"'.encode('latin-1')), 'no JSON .*utf-8'),
        (step(reward='null'), r'got `null` - at `\$.reward`'),
        (step(reward='"1"'), r'got `str` - at `\$.reward`'),
        (step(reward='true'), r'got `bool` - at `\$.reward`'),
        (step(reward='NaN'), 'no JSON'),
        (step(reward='-1e999'), r'out of range - at `\$.reward`'),
        (step(reward='1' * 400), r'out of range - at `\$.reward`'),
        (step(reward='1' * 5000), r'out of range - at `\$.reward`'),
        (step(reward='1e308'), r'<= 1000000000.0 - at `\$.reward`'),
        (step(done='1'), r'got `int` - at `\$.done`'),
        (step(done='"false"'), r'got `str` - at `\$.done`'),
        (step(terminated='"false"'), r'got `str` - at `\$.terminated`'),
        (step(truncated='null'), r'got `null` - at `\$.truncated`'),
        (step(success='"no"'), r'got `str` - at `\$.success`'),
        (step(progress='"half"'), r'got `str` - at `\$.progress`'),
        (step(progress='1.01'), r'<= 1.0 - at `\$.progress`'),
        (step(progress='-0.5'), r'>= 0.0 - at `\$.progress`'),
        (step(progress='NaN'), 'no JSON'),
    ],
)
def test_every_bad_answer_is_one_error_that_says_what_was_asked(step, words):
  with pytest.raises(EnvError, match=f'/step.*{words}'):
    talk(textcraft(step=[step]), reset_and_step)


@pytest.mark.parametrize(
    'route, body, words',
    [
        ('create', '{"id": 5.0}', r'got `float` - at `\$.id`'),
        ('create', '{"id": true}', r'got `bool` - at `\$.id`'),
        ('create', '{"id": -1}', r'>= 0 - at `\$.id`'),
        ('create', '{"id": %s}' % ('1' * 5000), r'out of range - at `\$.id`'),
        ('create', '{"idx": 5}', 'required field `id`'),
        ('reset', '{"observation": null}', r'got `null` - at `\$.observation`'),
        ('reset', '"Goal"', 'Expected `object`, got `str`'),
    ],
)
def test_every_bad_beginning_is_an_error_that_names_the_field(
    route, body, words
):
  replies = textcraft(**{route: web.Response(text=body)})
  with pytest.raises(EnvError, match=f'/{route}.*{words}'):
    talk(replies, lambda env: env.reset(3))


def test_what_no_type_names_is_ignored():
  extra = '{"deep": [[1e999]], "n": %s}' % ('1' * 400)
  reply = step(reward='1', done='true', info=extra, moves='null')
  result, _ = talk(textcraft(step=[reply]), reset_and_step)
  assert (result.reward, result.terminated, result.success) == (1, True, True)


@pytest.mark.parametrize(
    'said, progress',
    [({}, None), ({'progress': 'null'}, None), ({'progress': '0.5'}, 0.5)],
)
def test_progress_is_read_where_it_is_reported(said, progress):
  result, _ = talk(textcraft(step=[step(**said)]), reset_and_step)
  assert result.progress == progress


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


def test_a_picture_is_a_png_file():
  async def body(env):
    await env.reset(3)
    return await env.picture()

  png = b'\x89PNG\r\n\x1a\n'
  content = f'data:image/png;base64,{base64.b64encode(png).decode()}'
  picture, requests = talk(textcraft() | {'/render': [content]}, body)
  assert picture == png
  assert ('/render', {'id': 5}) in requests
  for wrong in ('', 'data:image/png;base64,AA', 'data:image/png;base64,%', 7):
    with pytest.raises(EnvError, match='picture|contract'):
      talk(textcraft() | {'/render': [wrong]}, body)


def test_a_text_beyond_any_context_is_read():
  text = 'walk on ' * (5 * 2**17)
  steps = [{'observation': text, 'reward': 0, 'done': False}]
  result, _ = talk(textcraft(step=steps), reset_and_step)
  assert result.observation == text


def test_half_a_character_does_not_cost_the_reply():
  answer = step(observation=r'"a \ud800 b"')
  result, _ = talk(textcraft(step=[answer]), reset_and_step)
  assert result.observation == 'a \ufffd b'
