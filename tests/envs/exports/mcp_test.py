"""Tests for agentrl.envs.exports.mcp, with the client of the official SDK."""

import asyncio
import json
import subprocess
import sys

import pytest

from agentrl import envs
from agentrl.envs import functions as functions_lib

pytest.importorskip('mcp')
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

MODULE = 'agentrl.envs.exports.mcp'


def play(env, script, **options):
  """Returns what `script` does, given a session with a server."""
  server = StdioServerParameters(
      command=sys.executable,
      args=[
          *('-m', MODULE, f'--env={env}', '--split=test'),
          f'--options={json.dumps(options)}',
      ],
  )

  async def run():
    async with (
        stdio_client(server) as (read, write),
        ClientSession(read, write) as session,
    ):
      await session.initialize()
      return await script(session)

  return asyncio.run(asyncio.wait_for(run(), 120))


def said(result):
  [content] = result.content
  return content.text


def test_the_expert_solves_a_task_by_calls():
  options = {'max_depth': 1, 'distractors': 0}
  spec = envs.get('textcraft')
  task_id = spec.tasks('test', **options)[0]
  factory = spec.open(**options)
  ours = factory.make()
  first = ours.reset(task_id, 0)

  async def script(session):
    tools = {tool.name for tool in (await session.list_tools()).tools}
    assert tools == {'reset', *(function.name for function in spec.functions)}
    early = await session.call_tool('inventory', {})
    assert early.is_error and 'call reset first' in said(early)
    begun = await session.call_tool('reset', {'task_id': task_id})
    assert said(begun) == first
    assert begun.structured_content['task_id'] == task_id
    while True:
      action = ours.expert_action()
      expected = ours.step(action)
      name, arguments = functions_lib.call_of(spec.functions, action)
      result = await session.call_tool(name, arguments)
      assert said(result) == expected.observation
      if result.structured_content['done']:
        return result.structured_content

  assert play('textcraft', script, **options) == {
      'reward': 1.0,
      'done': True,
      'success': True,
  }
  ours.close()
  factory.close()


def test_wrong_calls_are_told_and_the_episode_goes_on():
  async def script(session):
    begun = await session.call_tool('reset', {})
    assert begun.structured_content['task_id'] >= 0
    for name, arguments, words in (
        ('reset', {'task_id': 'x'}, "arguments['task_id'] of reset"),
        ('reset', {'task_id': 10**9}, 'this server has only'),
        ('go_to', {'number': 1}, "lacks the argument 'object'"),
        ('fly', {}, "unknown function 'fly'"),
    ):
      result = await session.call_tool(name, arguments)
      assert result.is_error and words in said(result), said(result)
    return await session.call_tool('turn_left', {})

  result = play('babyai', script, levels=['GoToRedBall'])
  assert not result.is_error and not result.structured_content['done']


def test_a_wrong_command_is_one_line():
  for flags, words in (
      (['--env=textcraft', '--options={"depht": 1}'], 'no option depht'),
      (['--env=textcraft', '--options={'], 'Expecting property name'),
      (['--env=nowhere'], 'nowhere'),
  ):
    done = subprocess.run(
        [sys.executable, '-m', MODULE, *flags],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and words in done.stderr
    assert 'Traceback' not in done.stderr
