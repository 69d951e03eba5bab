"""Tests for agentrl.envs.exports.verifiers, with verifiers' own evaluation.

It runs under a Python of its own, AGENTRL_VERIFIERS_PYTHON
(third_party/requirements/verifiers.txt).
"""

import contextlib
import json
import os
import pathlib
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentrl import envs

PYTHON = os.environ.get('AGENTRL_VERIFIERS_PYTHON')
pytestmark = pytest.mark.skipif(
    PYTHON is None, reason='needs AGENTRL_VERIFIERS_PYTHON'
)
ROOT = pathlib.Path(__file__).parents[3]
OPTIONS = {'max_depth': 1, 'distractors': 0}


@contextlib.contextmanager
def model(reply):
  """An OpenAI endpoint whose completions are `reply(messages)`."""

  class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
      size = int(self.headers['Content-Length'])
      messages = json.loads(self.rfile.read(size))['messages']
      message = {'role': 'assistant', 'content': reply(messages)}
      body = json.dumps({
          'id': 'x',
          'object': 'chat.completion',
          'created': 0,
          'model': 'expert',
          'choices': [
              {'index': 0, 'message': message, 'finish_reason': 'stop'}
          ],
          'usage': {
              'prompt_tokens': 1,
              'completion_tokens': 1,
              'total_tokens': 2,
          },
      }).encode()
      self.send_response(200)
      self.send_header('Content-Type', 'application/json')
      self.send_header('Content-Length', str(len(body)))
      self.end_headers()
      self.wfile.write(body)

    def log_message(self, *args):
      pass

  with ThreadingHTTPServer(('127.0.0.1', 0), Handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}/v1'
    server.shutdown()


def evaluate(tmp_path, reply, *flags, **taskset):
  """The process of an evaluation, and the episodes that it leaves, by task."""
  path = [ROOT, ROOT / 'agentrl/envs/exports/verifiers']
  taskset = {'env': 'textcraft', 'options': json.dumps(OPTIONS)} | taskset
  with model(reply) as url:
    done = subprocess.run(
        [
            pathlib.Path(PYTHON).with_name('vf-eval'),
            *('agentrl-env', '--no-push', '--no-rich', '-m', 'expert'),
            *('--client.base-url', url, '--client.api-key-var', 'KEY'),
            *('-o', tmp_path / 'out', '--run.dir', 'run'),
            *(
                x
                for key, value in taskset.items()
                for x in (f'--env.taskset.{key}', value)
            ),
            *flags,
        ],
        cwd=tmp_path,
        env=os.environ
        | {'KEY': 'x', 'PYTHONPATH': os.pathsep.join(map(str, path))},
        capture_output=True,
        text=True,
        timeout=300,
    )
  left = tmp_path / 'out/run/traces.jsonl'
  lines = left.read_text().splitlines() if left.exists() else []
  episodes = map(json.loads, lines)  # in the order in which they ended
  return done, sorted(episodes, key=lambda x: x['task']['data']['idx'])


def expert(task_id):
  """The expert's completions by what it is shown."""
  with contextlib.closing(envs.get('textcraft').open(**OPTIONS)) as factory:
    env = factory.make()
    shown, said = env.reset(task_id, 1), {}
    while True:
      said[shown] = f'Thought: so.\nAction: {env.expert_action()}'
      result = env.step(said[shown].split('Action: ')[1])
      if result.terminated:
        return said
      shown = result.observation


def test_the_expert_gets_what_it_gets_elsewhere(tmp_path):
  first, second, *_ = envs.get('textcraft').tasks('test', **OPTIONS)
  known = expert(first)
  done, episodes = evaluate(
      tmp_path,
      lambda messages: known.get(messages[-1]['content'], 'I do not know.'),
      *('-n', '2', '--env.horizon', str(len(known))),
  )
  assert done.returncode == 0, done.stderr
  assert all(episode['ok'] for episode in episodes)
  (won,), (lost,) = (episode['traces'] for episode in episodes)
  tasks = [trace['task']['data']['task_id'] for trace in (won, lost)]
  assert tasks == [first, second]
  said = [(x['message']['role'], x['message']['content']) for x in won['nodes']]
  assert said[0][0] == 'system' and 'craft' in said[0][1]
  # Each of the expert's messages and what it was an answer to, in turns.
  pairs = [
      (user, reply)
      for (_, user), (_, reply) in zip(said[1::2], said[2::2], strict=True)
  ]
  assert pairs == list(known.items())
  assert won['rewards']['return']['score'] == 1.0
  assert won['metrics'] == {'success': 1.0, 'turns': len(known)}
  assert lost['rewards']['return']['score'] == 0.0
  assert lost['metrics'] == {'success': 0.0, 'turns': len(known)}
  errors = [
      x['message']['content']
      for x in lost['nodes'][2:]
      if x['message']['role'] == 'user'
  ]
  assert len(errors) == len(known) - 1
  assert all(x.startswith('Error: ') for x in errors)


def test_a_limit_of_verifiers_ends_an_episode(tmp_path):
  first, *_ = envs.get('textcraft').tasks('test', **OPTIONS)
  known = expert(first)
  assert len(known) > 2
  done, (episode,) = evaluate(
      tmp_path,
      lambda messages: known[messages[-1]['content']],
      *('-n', '1', '--env.agent.max-turns', '2'),
      instructions='compact',
  )
  told = envs.get('textcraft').instructions('react', 'compact')
  assert episode['task']['data']['system_prompt'] == told
  assert done.returncode == 0, done.stderr
  (trace,) = episode['traces']
  assert trace['metrics'] == {'success': 0.0, 'turns': 2.0}
  assert trace['rewards']['return']['score'] == 0.0


def test_an_environment_that_fails_is_an_error_and_no_reward(tmp_path):
  path = tmp_path / 'broken.py'
  path.write_text("""
import dataclasses
from agentrl import envs
from agentrl.envs.base import Independent

class Broken:
  def reset(self, task_id, seed):
    return 'begin'
  def step(self, action):
    raise KeyError('it is broken')
  def close(self):
    pass

SPEC = dataclasses.replace(
    envs.get('textcraft'), open_factory=lambda **options: Independent(Broken)
)
""")
  _, (episode,) = evaluate(
      tmp_path,
      lambda messages: 'Thought: so.\nAction: inventory',
      *('-n', '1'),
      env=f'{path}:SPEC',
  )
  assert not episode['ok']
  assert 'it is broken' in episode['errors'][0]['message']
  assert not episode['traces'][0]['rewards']


@pytest.mark.parametrize(
    'flags, taskset, said',
    [
        ((), {'env': 'chess'}, "Unknown environment 'chess'"),
        ((), {'options': '3'}, 'valid dictionary'),
        ((), {'options': '{"depth": 1}'}, 'no option depth'),
        ((), {'format': 'nonesuch'}, 'nonesuch'),
        (('--env.horizon', '0'), {}, 'greater than or equal to 1'),
    ],
)
def test_what_is_wrong_is_said(tmp_path, flags, taskset, said):
  done, episodes = evaluate(tmp_path, lambda messages: '', *flags, **taskset)
  assert done.returncode and not episodes
  assert said in done.stdout + done.stderr
