"""An environment in a folder outside of the repository has all that ours have."""

import asyncio
import contextlib
import json
import pathlib
import subprocess
import sys

import pytest

from agentrl import envs
from agentrl.envs.blocks import Moment
from agentrl.errors import ConfigError
from agentrl.modes import doctor
from agentrl.planning.finding import FAULT, OK
from agentrl.viewer import again, env_servers, record, views
from tests.e2e.running import QUICKSTART
from tests.envs import conformance

ROOT = pathlib.Path(__file__).parents[2]
OUTSIDE = pathlib.Path(__file__).with_name('outside')
CASE = conformance.Case(
    env_name='lift:SPEC',
    tasks=range(20),
    actions=('up', 'look', 'down', 'open', 'jump'),
    digest='',
)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
  """The package lift, here and in children."""
  monkeypatch.syspath_prepend(str(OUTSIDE))
  monkeypatch.setenv('PYTHONPATH', str(OUTSIDE))


def launch(config, workdir, *flags):
  done = subprocess.run(
      [
          sys.executable,
          'launch.py',
          f'--config={config}',
          f'--workdir={workdir}',
          *flags,
      ],
      cwd=ROOT,
      capture_output=True,
      text=True,
      timeout=900,
  )
  assert done.returncode == 0, done.stdout + done.stderr
  return done.stdout


def test_it_sets_every_field_that_one_of_ours_sets():
  lift = envs.get('lift:SPEC')
  fields = lift.__dataclass_fields__
  # Of pages in a browser alone; a subtask is one of two ways to say the same.
  of_some = {'element_of', 'subtasks_of'}
  for spec in envs.every():
    for name in fields.keys() - of_some:
      default = fields[name].default
      if getattr(spec, name) != default and not callable(default):
        assert getattr(lift, name) != default, name


@pytest.mark.parametrize('check', conformance.CHECKS)
def test_it_conforms(check):
  asyncio.run(conformance.CHECKS[check](CASE))


def test_doctor_checks_what_it_requires(tmp_path):
  examine = lambda *flags: {
      found.subject: found
      for found in doctor.examine(
          'configs/quickstart.py',
          ('env.name=lift:SPEC', 'env.options={}', *flags),
          tmp_path,
      )
  }
  found = examine()
  assert found['motor'].level == OK and found['motor'].words == 'motor 1.0'
  assert found['packages'].level == FAULT
  assert 'no-such-package is missing' in found['packages'].words
  assert str(OUTSIDE / 'lift' / 'requirements.txt') in found['packages'].remedy
  found = examine("env.options={'motor': 'there'}")
  assert found['motor'].level == FAULT
  assert 'there does not run' in found['motor'].words
  assert found['motor'].remedy == 'buy a motor'


def test_the_viewer_plays_it_again_and_shows_its_view(tmp_path):
  launch(
      'configs/evaluate.py:model=expert,env=lift:SPEC,n=4',
      tmp_path,
      "--config.env.options={'floors': 3, 'cabins': 7}",
  )
  (file,) = tmp_path.glob('episodes/eval/expert/*.jsonl')
  line = file.read_bytes().splitlines()[0]
  found = record.decode(line)

  async def main():
    servers = env_servers.EnvServers(['lift:SPEC'])
    config = json.loads((tmp_path / 'config.json').read_text())
    options = servers.options('lift', config)
    assert options['floors'] == 3 and 'cabins' not in options
    async with contextlib.asynccontextmanager(servers.run)():
      async with servers.client('lift', options) as client:
        return await again.play(found, client)

  played = asyncio.run(main())
  assert not played.differences
  assert played.probed[0].startswith('Seen from here: floor')
  moment = Moment(found.prompt, found.turns, 0, probed=played.probed[0])
  (block,) = views.at(moment, envs.get('lift:SPEC').view)
  assert dict(block['items'])['probed'] == played.probed[0]


def test_the_viewer_opens_no_file_that_its_options_name():
  servers = env_servers.EnvServers(['lift:SPEC'])
  config = {'env': {'name': 'lift:SPEC', 'options': {'plan': '/etc/passwd'}}}
  with pytest.raises(ConfigError, match="plan='/etc/passwd'"):
    servers.options('lift', config)


def test_random_play_follows_its_rule(tmp_path):
  launch('configs/evaluate.py:model=random,env=lift:SPEC,n=40', tmp_path)
  (file,) = tmp_path.glob('episodes/eval/random/*.jsonl')
  episodes = [json.loads(line) for line in file.read_text().splitlines()]
  actions = {turn['action'] for one in episodes for turn in one['turns']}
  assert actions == {'up', 'down', 'open'}
  panel = json.loads((tmp_path / 'evaluation.json').read_text())['panels'][0]
  assert panel['data_version'] == 3
  assert set(panel['subtasks']) == {f'to floor {i}' for i in range(3)}


@pytest.mark.slow
def test_it_is_learnt(tmp_path):
  launch(
      QUICKSTART,
      tmp_path,
      '--config.env.name=lift:SPEC',
      '--config.env.options={}',
      '--config.eval.num_tasks=0',
  )
  assert json.loads((tmp_path / 'summary.json').read_text())['steps'] > 0
