"""Tests for agentrl.envs.adapters.mcp, with a server of the official SDK."""

import contextlib
import json
import pathlib
import socket
import subprocess
import sys
import time

import pytest

from agentrl import envs
from agentrl.errors import ConfigError, EnvError, EnvFault
from tests.waiting import wait_until

pytest.importorskip('mcp')
SPEC = envs.get('mcp')
ROOT = pathlib.Path(__file__).parents[3]
TASKS = [
    {
        'prompt': f'How old was {who}?',
        'check': {'kind': 'exact', 'answer': f'{age} Years'},
        'expert': [
            {'name': 'find', 'arguments': {'who': who}},
            {'name': 'final_answer', 'arguments': {'text': f'{age} years'}},
        ],
    }
    for who, age in (('Ada', 36), ('Alan', 41), ('Grace', 85))
] + [{
    'prompt': '3 + 4?',
    'check': {'kind': 'regex', 'pattern': '.*7'},
    'split': 'dev',
}]


def stdio(trouble=''):
  module = 'tests.envs.adapters.mcp_server'
  code = f'import sys; sys.path.insert(0, {str(ROOT)!r}); import runpy; '
  code += f'sys.argv = ["x", "stdio", {trouble!r}]; '
  code += f'runpy.run_module({module!r}, run_name="__main__")'
  return (sys.executable, '-c', code)


@pytest.fixture
def tasks(tmp_path):
  """Writes tasks into a file."""

  def write(tasks=TASKS):
    path = tmp_path / 'tasks.jsonl'
    path.write_text(''.join(json.dumps(task) + '\n' for task in tasks))
    return str(path)

  return write


@pytest.fixture
def opened(tasks, open_env):
  """Opens environments on a server."""

  def make(server=None, written=TASKS, **options):
    given = dict(server=server or stdio(), tasks=tasks(written), timeout_s=20.0)
    return open_env(SPEC, **given | options)

  return make


def call(name, **arguments):
  return json.dumps({'name': name, 'arguments': arguments})


def test_tools_are_functions_and_the_answer_ends_a_task(opened, tasks):
  env = opened()
  spec = SPEC.under(server=stdio(), tasks=tasks(), timeout_s=20.0)
  assert [function.signature for function in spec.functions] == [
      'find(who: str)',
      'people()',
      'add(a: int, b: int)',
      'final_answer(text: str)',
  ]
  assert env.reset(0, 0) == 'How old was Ada?'
  assert (
      env.step(call('find', who='Alan')).observation == 'Alan was 41 years old.'
  )
  assert env.step(call('add', a=3, b=4)).observation == '7'
  assert 'Ada' in env.step(call('people')).observation
  wrong = env.step(call('find', who='Bob'))
  assert 'I know nobody called Bob' in wrong.observation
  assert not wrong.terminated
  right = env.step(call('final_answer', text=' 36  years'))
  assert (right.reward, right.terminated, right.success) == (1.0, True, True)
  env.reset(1, 0)
  assert env.step(call('final_answer', text='7')).success is False


def test_the_expert_of_a_task_solves_it(opened):
  env = opened()
  for task in range(3):
    env.reset(task, 0)
    while not (result := env.step(env.expert_action())).terminated:
      pass
    assert result.success
  env.reset(3, 0)
  with pytest.raises(EnvError, match='has no expert'):
    env.expert_action()
  assert env.step(call('final_answer', text='It is 7')).success


def test_splits(tasks):
  path = tasks()
  assert SPEC.tasks('dev', tasks=path) == (1, 3)
  assert SPEC.tasks('test', tasks=path) == (0,)
  assert SPEC.tasks('train', tasks=path) == (2,)


@pytest.mark.parametrize('end', ['\n', '\r\n'])
def test_texts_may_hold_separators_of_lines_but_newlines(end, tmp_path):
  # JSON has U+2028, U+2029 and U+0085 as they are, not escaped.
  task = TASKS[0] | {'prompt': 'One\u2028two\u2029three\x85four?'}
  line = json.dumps(task, ensure_ascii=False)
  path = tmp_path / 'tasks.jsonl'
  path.write_bytes(f'{line}{end}{line}{end}'.encode())
  assert SPEC.tasks('test', tasks=str(path)) == (0,)
  assert SPEC.tasks('dev', tasks=str(path)) == (1,)


def test_what_is_no_call_is_explained(opened):
  env = opened()
  env.reset(0, 0)
  result = env.step('find Ada')
  assert result.observation == (
      'This is no call of a tool. There are: find, people, add, final_answer.'
  )


def test_a_function_of_ones_own_checks_and_calls(opened, tmp_path):
  path = tmp_path / 'mine.py'
  path.write_text("""
def check(answer, task, ask):
  return 0.5 if answer in ask('find', {'who': 'Ada'}) else 0.0

def breaks(answer, task, ask):
  return 1 / 0

def much(answer, task, ask):
  return 7
""")
  written = [
      {
          'prompt': 'x',
          'check': {'kind': 'function', 'function': f'{path}:{name}'},
      }
      for name in ('check', 'breaks', 'much')
  ]
  env = opened(written=written)
  env.reset(0, 0)
  result = env.step(call('final_answer', text='36'))
  assert (result.reward, result.success) == (0.5, False)
  for task, said in ((1, 'ZeroDivisionError'), (2, 'gives 7.0, which is not')):
    env.reset(task, 0)
    with pytest.raises(EnvFault, match=said):
      env.step(call('final_answer', text='36'))


def test_a_judge_compares_by_meaning(opened, tmp_path):
  written = [{'prompt': 'x', 'check': {'kind': 'judge', 'answer': 'six'}}]
  with pytest.raises(ConfigError, match=r'env.options.judge is not set'):
    opened(written=written)
  path = tmp_path / 'judge.py'
  path.write_text("""
async def meaning(question, reference, answer):
  return (reference, answer) == ('six', '6')
""")
  env = opened(written=written, judge=f'{path}:meaning')
  for text, right in (('6', True), ('7', False)):
    env.reset(0, 0)
    assert env.step(call('final_answer', text=text)).success is right


@pytest.mark.parametrize(
    'trouble, said',
    [('hangs', 'does not answer find'), ('dies', 'does not answer find')],
)
def test_a_server_in_trouble_is_an_error_and_the_next_episode_goes_on(
    trouble, said, opened
):
  env = opened(stdio(trouble), timeout_s=8.0)  # it starts within them, too
  env.reset(0, 0)
  began = time.monotonic()
  with pytest.raises(EnvError, match=said):
    env.step(call('find', who='Ada'))
  assert time.monotonic() - began < 30
  env.reset(0, 0)
  assert env.step(call('add', a=1, b=1)).observation == '2'


def test_megabytes_are_cut(opened):
  env = opened(stdio('shouts'), most_chars=100)
  env.reset(0, 0)
  text = env.step(call('find', who='Ada')).observation
  assert text == 'x' * 100 + '\n[4999900 characters were cut]'


def test_other_tools_than_those_that_were_told_are_refused(opened, tmp_path):
  env = opened(stdio(f'changes {tmp_path / "started"}'))
  with pytest.raises(EnvFault, match='others than those'):
    env.reset(0, 0)


# Servers that speak no protocol: what they write to each line that they read.
WRITES = {
    'words': b'no JSON\n' * 1000,
    'bytes': b'\xff\xfe\x00' * 1000 + b'\n',
    'a line without end': b'x' * 5_000_000,
    'depth': b'[' * 100_000 + b'\n',
    'no result': b'{"jsonrpc": "2.0", "id": 0, "result": 5}\n',
    'another id': b'{"jsonrpc": "2.0", "id": 99, "result": {}}\n',
    'nothing': b'',
}


@pytest.mark.parametrize('what', WRITES)
def test_a_server_that_speaks_no_protocol_is_an_error(what, tasks, tmp_path):
  written = tmp_path / 'written'
  written.write_bytes(WRITES[what])
  code = f"""
import sys
said = open({str(written)!r}, 'rb').read()
for line in sys.stdin:
  sys.stdout.buffer.write(said)
  sys.stdout.buffer.flush()
"""
  server = (sys.executable, '-c', code)
  began = time.monotonic()
  with pytest.raises(EnvError, match='The MCP server does not start'):
    SPEC.open(server=server, tasks=tasks(), timeout_s=5.0)
  assert time.monotonic() - began < 30


def test_a_tool_of_our_own_name_is_refused(opened):
  with pytest.raises(EnvFault, match="has a tool 'final_answer'"):
    opened(stdio('answers'))


def test_a_server_over_http(opened):
  with socket.socket() as probe:
    probe.bind(('127.0.0.1', 0))
    port = probe.getsockname()[1]
  module = 'tests.envs.adapters.mcp_server'
  process = subprocess.Popen(
      [sys.executable, '-m', module, str(port)],
      cwd=ROOT,
      stderr=subprocess.DEVNULL,
  )
  try:

    def up():
      with contextlib.suppress(OSError), socket.socket() as probe:
        probe.connect(('127.0.0.1', port))
        return True

    assert wait_until(up)
    env = opened(f'http://127.0.0.1:{port}/mcp')
    env.reset(2, 0)
    assert (
        env.step(env.expert_action()).observation == 'Grace was 85 years old.'
    )
    assert env.step(env.expert_action()).success
  finally:
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    'options, said',
    [
        ({'server': None}, 'env.options.server is not set'),
        ({'server': ('nonesuch-program',)}, 'does not start.*nonesuch-program'),
        ({'server': ('/bin/false',)}, 'does not start'),
        ({'server': 'http://127.0.0.1:1/mcp'}, 'does not start'),
    ],
)
def test_what_cannot_be_reached_is_said(options, said, tasks):
  options = dict(server=stdio(), tasks=tasks(), timeout_s=5.0) | options
  with pytest.raises((ConfigError, EnvError), match=said):
    SPEC.open(**options)


@pytest.mark.parametrize(
    'line, said',
    [
        ('{', 'line 1: Expecting'),
        ('[]', 'a task is a JSON object'),
        ('{"prompt": ""}', "'prompt' must be a text"),
        ('{"prompt": "x"}', "'check' must have a 'kind'"),
        (
            '{"prompt": "x", "check": {"kind": "exact"}}',
            "needs 'answer', a text",
        ),
        (
            '{"prompt": "x", "check": {"kind": "regex", "pattern": "("}}',
            'its pattern is broken',
        ),
        ('{"prompt": "x", "chek": {}}', "unknown 'chek'"),
        ('', 'has no task'),
    ],
)
def test_a_line_that_is_no_task_is_refused(line, said, tmp_path):
  path = tmp_path / 'tasks.jsonl'
  path.write_text(line)
  with pytest.raises(ConfigError, match=said):
    SPEC.tasks('train', tasks=str(path))
