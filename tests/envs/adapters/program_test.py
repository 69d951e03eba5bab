"""Tests for agentrl.envs.adapters.program, with agents of the openai package."""

import json
import pathlib
import sys

import pytest

from agentrl import envs
from agentrl.envs import conversation
from agentrl.errors import ConfigError, EnvError, EnvFault

pytest.importorskip('openai')
SPEC = envs.get('program')
ROOT = pathlib.Path(__file__).parents[3]
FUNCTION = 'tests.envs.adapters.program_agent:solve'
COMMAND = (
    sys.executable,
    '-c',
    (
        f'import sys; sys.path.insert(0, {str(ROOT)!r}); import runpy;'
        ' runpy.run_module("tests.envs.adapters.program_agent",'
        ' run_name="__main__")'
    ),
)


@pytest.fixture
def tasks(tmp_path):
  path = tmp_path / 'tasks.jsonl'
  path.write_text(
      ''.join(json.dumps({'a': a, 'b': 7}) + '\n' for a in range(2, 12))
  )
  return str(path)


@pytest.fixture
def opened(tasks, open_env):
  """Opens environments of a program."""
  return lambda **options: open_env(
      SPEC, **dict(tasks=tasks, timeout_s=30.0) | options
  )


def call(**arguments):
  return json.dumps({'name': 'multiply', 'arguments': arguments})


WAYS = [
    {'function': FUNCTION},
    {'function': FUNCTION.replace('solve', 'stream')},
    {'command': COMMAND},
]


@pytest.mark.parametrize('how', WAYS, ids=['function', 'stream', 'command'])
def test_an_agent_is_played_as_it_is(how, opened):
  env = opened(**how)
  first = conversation.read(env.reset(1, 0))
  assert first == [
      {'role': 'system', 'content': 'Use the tool.'},
      {'role': 'user', 'content': 'What is 3 times 7?'},
  ]
  # What it adds is an observation like any other.
  answered = env.step(call(a=3, b=7))
  assert (answered.observation, answered.terminated) == ('21', False)
  again = env.step(call(a=4, b=7))
  assert again.observation == '28'
  ended = env.step('It is 21.')
  assert (ended.reward, ended.terminated, ended.success) == (1.0, True, True)
  env.reset(2, 0)
  assert env.step('It is 3.').success is False


EXPERT = """
def answers(messages, task, seed):
  if messages[-1]['role'] == 'tool':
    return 'It is ' + messages[-1]['content'] + '.' * seed
  return {'name': 'multiply', 'arguments': task}

def mumbles(messages, task, seed):
  return 21
"""


def test_a_function_answers_in_the_policys_place(opened, tmp_path):
  path = tmp_path / 'expert.py'
  path.write_text(EXPERT)
  env = opened(function=FUNCTION, expert=f'{path}:answers')
  env.reset(1, 2)
  assert env.expert_action() == call(a=3, b=7)
  env.step(env.expert_action())
  assert env.expert_action() == 'It is 21..'
  assert env.step(env.expert_action()).success
  env = opened(function=FUNCTION, expert=f'{path}:mumbles')
  env.reset(1, 0)
  with pytest.raises(EnvFault, match='expert gives 21, which is neither'):
    env.expert_action()
  env = opened(function=FUNCTION)
  env.reset(1, 0)
  with pytest.raises(EnvError, match='no expert: warmstart.episodes=0'):
    env.expert_action()
  with pytest.raises(ConfigError, match='env.options.expert='):
    opened(function=FUNCTION, expert=f'{path}:nobody')


def test_its_tools_are_known_before_the_first_episode(tasks):
  spec = SPEC.under(function=FUNCTION, tasks=tasks)
  assert [function.signature for function in spec.functions] == [
      'multiply(a: int, b: int)'
  ]
  assert spec.conversations


OWN = """
import openai

def ask(url, *messages, **more):
  client = openai.OpenAI(base_url=url, api_key='x', max_retries=0)
  said = [{'role': role, 'content': text} for role, text in messages]
  reply = client.chat.completions.create(model='p', messages=said, **more)
  return reply.choices[0].message.content

def rewrites(url, task, seed):
  first = ask(url, ('user', 'one'))
  second = ask(url, ('user', 'one'), ('assistant', first), ('user', 'two'))
  ask(url, ('user', 'other'), ('assistant', second.upper()), ('user', 'three'))
  return 0.5

def silent(url, task, seed):
  return 1.0

def without(url, task, seed):
  ask(url, ('user', 'one'))

def breaks(url, task, seed):
  ask(url, ('user', 'one'))
  raise KeyError('x')

def refused(url, task, seed):
  ask(url, ('user', 'one'))
  try:
    ask(url, ('user', 'two'), n=2)
  except openai.BadRequestError as error:
    return float('n must be 1' in str(error))
  return 0.0

def crowd(url, task, seed):
  import concurrent.futures
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda i: ask(url, ('user', f'part {i}')), range(4)))
  return float(sorted(found) == [f'to part {i}' for i in range(4)])
"""


@pytest.fixture
def own(tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text(OWN)
  return lambda name: f'{path}:{name}'


def test_another_conversation_is_shown_whole(opened, own):
  env = opened(function=own('rewrites'))
  assert conversation.read(env.reset(0, 0)) == [
      {'role': 'user', 'content': 'one'}
  ]
  assert env.step('a').observation == 'two'
  other = env.step('b').observation
  assert conversation.read(other) == [
      {'role': 'user', 'content': 'other'},
      {'role': 'assistant', 'content': 'B'},
      {'role': 'user', 'content': 'three'},
  ]
  ended = env.step('c')
  assert (ended.reward, ended.success) == (0.5, False)


def test_conversations_at_a_time_are_answered_one_by_one(opened, own):
  env = opened(function=own('crowd'))
  seen = [conversation.read(env.reset(0, 0))]
  while True:
    result = env.step(f'to {seen[-1][-1]["content"]}')
    if result.terminated:
      break
    seen.append(conversation.read(result.observation))
  assert result.success and len(seen) == 4


@pytest.mark.parametrize(
    'name, kind, said',
    [
        ('without', EnvFault, 'ended without a reward'),
        ('breaks', EnvFault, "KeyError: 'x'"),
    ],
)
def test_a_program_that_fails_is_named_and_gets_no_reward(
    name, kind, said, opened, own
):
  env = opened(function=own(name))
  env.reset(0, 0)
  with pytest.raises(kind, match=said):
    env.step('a')


def test_a_request_that_cannot_be_answered_is_refused(opened, own):
  env = opened(function=own('refused'))
  env.reset(0, 0)
  assert env.step('a').success


def test_a_program_that_asks_nothing_is_refused(own, tasks):
  with pytest.raises(EnvFault, match='ended without asking'):
    SPEC.open(function=own('silent'), tasks=tasks)


@pytest.mark.parametrize(
    'code, timeout_s, said',
    [
        ('import sys; sys.exit("it is broken")', 60, 'exit code 1: .*broken'),
        ('import time; time.sleep(60)', 1, 'neither asks nor ends within 1 s'),
    ],
)
def test_a_command_in_trouble_is_said(code, timeout_s, said, tasks):
  options = dict(
      command=(sys.executable, '-c', code), tasks=tasks, timeout_s=timeout_s
  )
  with pytest.raises(EnvError, match=said):
    SPEC.open(**options)


@pytest.mark.parametrize(
    'options, said',
    [
        ({}, 'Name a program by env.options.command'),
        ({'function': 'none.py:X'}, 'none.py'),
        ({'command': ('x',), 'function': 'a:b'}, 'Name a program'),
        ({'function': FUNCTION, 'tasks': None}, 'env.options.tasks is not set'),
        ({'function': FUNCTION, 'tasks': '/nowhere'}, '/nowhere'),
    ],
)
def test_what_is_no_program_is_refused(options, said, tasks):
  with pytest.raises(ConfigError, match=said):
    SPEC.open(**{'tasks': tasks, **options})
