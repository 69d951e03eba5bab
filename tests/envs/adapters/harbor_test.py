"""Tests for agentrl.envs.adapters.harbor, in real namespaces.

No container engine runs where these tests do: the engine is docker_stand_in.py, and
docker's own client, where there is one, says that it understands what it is asked.
"""

import json
import pathlib
import shutil
import stat
import subprocess
import sys
import threading
import time

import pytest

from agentrl import envs
from agentrl.envs.adapters.harbor import env as env_lib, task_folders
from agentrl.errors import ConfigError, EnvError, EnvFault

SPEC = envs.get('harbor')
HERE = pathlib.Path(__file__).parent
TASKS = HERE / 'harbor_tasks'
COUNT, GREET = 0, 1  # by name
real = pytest.mark.skipif(
    shutil.which('bwrap') is None, reason='needs bubblewrap'
)


def bash(command):
  return json.dumps({'name': 'bash', 'arguments': {'command': command}})


@pytest.fixture
def opened(open_env):
  """Opens environments in namespaces."""

  def make(**options):
    options = {'folder': str(TASKS), 'sandbox': 'bubblewrap'} | options
    return open_env(SPEC, **options)

  return make


@pytest.fixture
def docker(tmp_path, monkeypatch):
  """Puts the stand-in in docker's place; returns the file of what it was asked."""
  folder = tmp_path / 'bin'
  folder.mkdir()
  program = folder / 'docker'
  program.write_text(
      f'#!/bin/sh\nexec {sys.executable} {HERE / "docker_stand_in.py"} "$@"\n'
  )
  program.chmod(program.stat().st_mode | stat.S_IXUSR)
  monkeypatch.setenv('PATH', str(folder), prepend=':')
  monkeypatch.setenv('DOCKER_STAND_IN', str(tmp_path / 'engine'))
  monkeypatch.setenv('PYTHONPATH', str(HERE.parents[2]))
  return tmp_path / 'engine' / 'asked.jsonl'


def task_folder(tmp_path, name='greet', **files):
  """A copy of a task with other files; `toml` replaces task.toml."""
  folder = tmp_path / 'tasks' / name
  shutil.copytree(TASKS / name, folder)
  for path, text in files.items():
    (folder / path).write_text(text)
  return str(tmp_path / 'tasks')


@real
@pytest.mark.parametrize('task_id', [COUNT, GREET])
def test_the_expert_is_rewarded_and_idling_is_not(opened, task_id):
  env = opened()
  first = env.reset(task_id, 0)
  assert first == task_folders.load(str(TASKS))[task_id].instruction
  assert not env.step('submit').success
  env.reset(task_id, 0)
  result = env.step(env.expert_action())
  assert (result.observation, result.terminated) == ('(nothing)', False)
  result = env.step(env.expert_action())
  assert (result.reward, result.success) == (1.0, True)


@real
def test_a_sandbox_shows_nothing_of_the_machine_and_leaves_nothing(
    opened, tmp_path
):
  secret = tmp_path / 'secret'
  secret.write_text('hidden')
  env = opened()
  env.reset(COUNT, 0)
  ask = lambda command: env.step(bash(command)).observation
  assert ask('cat /data/log.txt | tr -d "\\n"; pwd') == 'abc/work'
  assert 'No such file' in ask(f'cat {secret}')
  assert 'Read-only' in ask('touch /usr/x')
  assert ask('id -u') == '0'
  assert 'TOKEN' not in ask('env')
  # Its own first process is the oldest that there is, and no network is up.
  assert int(ask('ps ax | wc -l')) < 10
  assert ask('cat /proc/net/dev | tail -n +3 | cut -d: -f1').strip() == 'lo'
  assert ask('echo kept > file; export LOST=1; sleep 60 & echo ok') == 'ok'
  assert ask('cat file; echo "[$LOST]"; pgrep sleep') == (
      'kept\n[]\n[exit code 1]'
  )
  env.reset(COUNT, 0)
  assert ask('ls') == '(nothing)'


@real
def test_a_policy_cannot_write_its_reward_nor_out_of_the_sandbox(
    opened, tmp_path
):
  env = opened()
  outside = tmp_path / 'outside'
  outside.mkdir()
  for link in ('/tests', '/logs/verifier'):
    env.reset(COUNT, 0)
    env.step(bash('echo 1 > /logs/verifier/reward.txt'))
    env.step(bash(f'rm -rf {link}; ln -s {outside} {link}'))
    env.step(bash('mkdir -p /tests; echo "echo 1 > x" > /tests/test.sh'))
    result = env.step('submit')
    assert (result.reward, result.success) == (0.0, False)
    assert not list(outside.iterdir())


@real
def test_what_a_command_may_use_is_bounded(opened):
  env = opened(timeout_s=2.0, most_chars=200)
  env.reset(COUNT, 0)
  ask = lambda command: env.step(bash(command)).observation
  began = time.monotonic()
  assert ask('echo begun; sleep 60') == 'begun\n[it was ended after 2 s]'
  # A child that holds its output and outlives its shell.
  assert ask('sleep 60 & disown; echo done') == 'done'
  assert time.monotonic() - began < 30
  assert 'MemoryError' in ask('python3 -c "bytearray(1 << 30)"')
  said = ask('yes')
  assert '[exit code' in said and len(said) < 400
  assert 'characters were cut' in said
  assert (
      int(ask('head -c 99999999 /dev/zero > big; stat -c %s big')[-8:]) <= 5e7
  )
  assert ask('printf "\\xff\\x00"') == '\ufffd\0'


@real
def test_the_last_command_is_graded(opened):
  env = opened(commands=2)
  env.reset(COUNT, 0)
  assert not env.step(bash('ls')).terminated
  result = env.step(bash('echo 3 > answer.txt; echo written'))
  assert result.observation == 'written'
  assert (result.terminated, result.reward) == (True, 1.0)


@real
def test_actions_are_also_texts_and_others_are_answered(opened):
  env = opened()
  env.reset(COUNT, 0)
  assert env.step('bash echo 3 > answer.txt').observation == '(nothing)'
  for action in ('dance', '{"name": "rm", "arguments": {}}', 'bash'):
    assert env.step(action).observation.startswith('This is no action')
  assert env.step('submit').success


@real
def test_one_of_several_rewards_is_learnt_from(opened):
  env = opened(reward='named')
  env.reset(GREET, 0)
  env.step(bash('touch /app/greeting.txt'))
  assert env.step('submit').reward == 1.0
  env = opened(reward='other')
  env.reset(GREET, 0)
  with pytest.raises(EnvFault, match="no number as 'other'"):
    env.step('submit')


@real
def test_variables_of_tests_are_of_this_process(opened, monkeypatch, tmp_path):
  monkeypatch.setenv('HARBOR_TEST_WANTED', 'hello')
  env = opened()
  env.reset(GREET, 0)
  env.step(bash('echo hello > /app/greeting.txt'))
  assert env.step('submit').success
  text = (TASKS / 'greet/task.toml').read_text()
  folder = task_folder(
      tmp_path, **{'task.toml': text.replace(':-good morning', '')}
  )
  monkeypatch.delenv('HARBOR_TEST_WANTED')
  env = opened(folder=folder)
  env.reset(0, 0)
  with pytest.raises(EnvFault, match='variable HARBOR_TEST_WANTED'):
    env.step('submit')


@real
@pytest.mark.parametrize(
    'script, said',
    [
        (
            '#!/bin/bash\necho broken; exit 4\n',
            r'left no reward \(exit 4\): broken',
        ),
        ('#!/bin/bash\necho nan > /logs/verifier/reward.txt\n', 'no number'),
        (
            '#!/bin/bash\necho "\\"1\\"" > /logs/verifier/reward.json\n',
            'no number',
        ),
        ('#!/bin/bash\necho [[[ > /logs/verifier/reward.json\n', 'no number'),
        ('#!/bin/bash\nsleep 60\n', 'took over 1 s'),
        ('#!/no/such/shell\n', 'left no reward'),
    ],
)
def test_tests_that_fail_give_no_reward(opened, tmp_path, script, said):
  text = (TASKS / 'greet/task.toml').read_text().replace('= 30.0', '= 1.0')
  folder = task_folder(tmp_path, **{'tests/test.sh': script, 'task.toml': text})
  env = opened(folder=folder)
  env.reset(0, 0)
  with pytest.raises(EnvFault, match=said):
    env.step('submit')
  env.reset(0, 0)  # the next episode goes on
  assert env.step(bash('echo x')).observation == 'x'


@real
def test_closing_ends_a_command(opened):
  env = opened()
  env.reset(COUNT, 0)
  errors = []

  def step():
    try:
      env.step(bash('sleep 60'))
    except EnvError as error:
      errors.append(error)

  thread = threading.Thread(target=step)
  thread.start()
  time.sleep(0.5)
  env.close()
  thread.join(10)
  assert not thread.is_alive() and 'closed' in str(errors[0])


@real
@pytest.mark.parametrize(
    'dockerfile, said',
    [
        (
            'FROM a\nRUN exit 3\n',
            'line 2, RUN: it fails without network .exit 3',
        ),
        ('FROM a AS b\nFROM c\n', 'several stages'),
        ('FROM a\nUSER me\n', 'one user'),
        (
            'FROM a\n\n# x\nCOPY nothing /x\n',
            'line 4, COPY: there is no nothing',
        ),
        ('FROM a\nCOPY --from=b /x /y\n', 'it has options'),
        ('FROM a\nCOPY ../task.toml /x\n', 'is not in environment'),
        ('FROM a\nONBUILD RUN x\n', 'ONBUILD: it is not known'),
        ('FROM a\nCOPY ["log.txt"\n', 'COPY'),
    ],
)
def test_a_dockerfile_that_needs_an_engine_is_refused(
    opened, tmp_path, dockerfile, said
):
  folder = task_folder(tmp_path, **{'environment/Dockerfile': dockerfile})
  env = opened(folder=folder)
  with pytest.raises(EnvFault, match=f'greet.*{said}.*docker or podman'):
    env.reset(0, 0)


@real
def test_a_dockerfile_is_followed(opened, tmp_path):
  folder = task_folder(
      tmp_path,
      **{
          'environment/Dockerfile': (
              'FROM a\nARG WHERE=/x\nENV A=1 B="b c"\nENV OLD an older form\n'
              'WORKDIR ${WHERE}\nWORKDIR y\nCOPY one.txt two.txt sub/\n'
              'COPY . /all\nADD ["one.txt", "/renamed"]\n'
              'RUN echo $A$B $WHERE > made \\\n  && chmod 600 made\n'
              'LABEL x=y\nCMD ["true"]\n'
          ),
          'environment/one.txt': 'one',
          'environment/two.txt': 'two',
      },
  )
  env = opened(folder=folder)
  env.reset(0, 0)
  ask = lambda command: env.step(bash(command)).observation
  assert ask('pwd; cat sub/one.txt sub/two.txt /renamed; ls /all') == (
      '/x/y\nonetwooneDockerfile\none.txt\ntwo.txt'
  )
  assert ask('cat made; echo "$OLD,$WHERE"') == '1b c /x\nan older form,'


@pytest.mark.parametrize(
    'files, said',
    [
        ({'task.toml': '['}, 'greet: '),
        ({'task.toml': ''}, 'task.toml is empty'),
        ({'task.toml': 'environment = 3'}, 'greet: '),
        ({'task.toml': '[environment]\nmemory = "2 cats"'}, 'is no size'),
        (
            {'task.toml': '[environment]\nenv = { A = 1 }'},
            'variable A is no text',
        ),
        ({'task.toml': '[environment]\ngpus = 1'}, 'environment.gpus is not'),
        ({'task.toml': '[[steps]]\nname = "x"'}, 'steps is not played'),
        (
            {'task.toml': '[verifier]\nenvironment_mode = "separate"'},
            'verifier.environment_mode is not',
        ),
        (
            {'task.toml': '[environment]\nnetwork_mode = "allowlist"'},
            'network_mode allowlist',
        ),
        (
            {'task.toml': '[agent]\nnetwork_mode = "no-network"'},
            'network_mode no-network, public',
        ),
        (
            {'environment/docker-compose.yaml': 'x'},
            'docker-compose.yaml is not',
        ),
        ({'task.toml': '[metadata]\nsplit = "all"'}, "split='all' is none of"),
        ({'instruction.md': '\n'}, 'instruction.md is empty'),
    ],
)
def test_a_task_that_cannot_be_played_is_refused(tmp_path, files, said):
  folder = task_folder(tmp_path, **files)
  with pytest.raises(ConfigError, match=said):
    SPEC.tasks('train', folder=folder)


def test_tasks_say_their_split(tmp_path):
  for split in ('train', 'train', 'dev', 'test'):
    folder = task_folder(tmp_path, 'greet')
    text = f'[metadata]\nsplit = "{split}"\n'
    (tmp_path / 'tasks/greet/task.toml').write_text(text)
    name = f'{len(list((tmp_path / "tasks").iterdir()))}'
    (tmp_path / 'tasks/greet').rename(tmp_path / 'tasks' / name)
  found = {x: SPEC.tasks(x, folder=folder) for x in ('train', 'dev', 'test')}
  assert found == {'train': (0, 1), 'dev': (2,), 'test': (3,)}
  assert SPEC.tasks('test', folder=str(TASKS)) == (0,)


def test_what_is_missing_is_said(tmp_path, monkeypatch):
  with pytest.raises(ConfigError, match='folder is not set'):
    SPEC.tasks('train')
  with pytest.raises(ConfigError, match='has no task'):
    SPEC.tasks('train', folder=str(tmp_path))
  with pytest.raises(ConfigError, match="no sandbox 'chroot'; known: docker"):
    env_lib.find('chroot')
  monkeypatch.setenv('PATH', str(tmp_path))
  for name in (None, 'docker', 'bubblewrap'):
    with pytest.raises(ConfigError, match='apt-get install bubblewrap'):
      env_lib.find(name)


@real
def test_an_engine_is_asked_for_containers(docker, open_env):
  env = open_env(SPEC, folder=str(TASKS), sandbox=None, timeout_s=2.0)
  env.reset(GREET, 0)
  assert env.step(env.expert_action()).observation == '(nothing)'
  assert env.step(bash('sleep 60')).observation == '[it was ended after 2 s]'
  assert env.step('submit').success
  env.close()
  asked = [json.loads(line) for line in docker.read_text().splitlines()]
  kinds = [words[0] for words in asked]
  assert kinds[:2] == ['info', 'build']
  (run,) = [words for words in asked if words[0] == 'run']
  at = lambda flag: run[run.index(flag) + 1]
  assert (at('--network'), at('--memory'), at('--cpus')) == (
      'none',
      '1024m',
      '1',
  )
  assert 'good morning' not in json.dumps(asked)  # of variables, names alone
  assert kinds[-1] == 'rm' and not list(
      (docker.parent / 'containers').iterdir()
  )


@real
def test_an_image_is_built_once_and_a_build_that_fails_is_said(
    docker, open_env, tmp_path
):
  env = open_env(SPEC, folder=str(TASKS), sandbox='docker')
  for _ in range(2):
    env.reset(COUNT, 0)
  assert docker.read_text().count('"build"') == 1
  folder = task_folder(
      tmp_path, **{'environment/Dockerfile': 'FROM a\nRUN exit 3\n'}
  )
  env = open_env(SPEC, folder=folder, sandbox='docker')
  with pytest.raises(
      EnvError, match='docker does not build .*exit 1.: .*exit 3'
  ):
    env.reset(0, 0)


@pytest.mark.skipif(
    shutil.which('docker') is None, reason="needs docker's client"
)
def test_dockers_own_client_knows_what_it_is_asked(
    docker, open_env, monkeypatch
):
  client = shutil.which('docker', path=str(pathlib.Path('/usr/local/bin')))
  client = client or shutil.which('docker', path='/usr/bin')
  env = open_env(SPEC, folder=str(TASKS), sandbox='docker')
  env.reset(GREET, 0)
  env.step(bash('true'))
  env.step('submit')
  env.close()
  for line in docker.read_text().splitlines():
    done = subprocess.run(
        [client, *json.loads(line)], capture_output=True, text=True, timeout=60
    )
    assert 'unknown' not in done.stderr, line
    assert done.returncode == 0 or 'daemon' in done.stderr, done.stderr
