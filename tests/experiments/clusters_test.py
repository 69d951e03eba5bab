"""Tests for the launchers of experiments/clusters, as far as one machine goes.

SkyPilot and ShellCheck are in an environment of their own
(third_party/requirements/clusters.txt), whose Python AGENTRL_CLUSTERS_PYTHON names.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import jsonschema
import pytest
import yaml

from agentrl.runtime import ranks
from agentrl.runtime.ranks import Rank
from experiments.clusters import hosts
from tests.waiting import wait_until

ROOT = pathlib.Path(__file__).parents[2]
CLUSTERS = ROOT / 'experiments' / 'clusters'
NODE = CLUSTERS / 'node.sh'
SLURM = CLUSTERS / 'slurm.sbatch'
SKYPILOT = CLUSTERS / 'skypilot.yaml'
JOBSET = CLUSTERS / 'jobset.yaml'
SCHEMA = ROOT / 'third_party' / 'jobset' / 'jobset_v1alpha2.json'
PARTS = {
    'AGENTRL_SAMPLERS': '127.0.0.1',
    'AGENTRL_ENVS': '127.0.0.1',
    'AGENTRL_MODEL': '/model',
    'AGENTRL_ENV': 'babyai',
    'PYTHON': sys.executable,
}


def tool(name):
  """A program of the environment of clusters.txt."""
  python = os.environ.get('AGENTRL_CLUSTERS_PYTHON')
  if not python:
    pytest.skip('AGENTRL_CLUSTERS_PYTHON names no environment; see above.')
  return pathlib.Path(python).parent / name


def program(path, text):
  """Writes a program in the place of another."""
  path.parent.mkdir(exist_ok=True)
  path.write_text(text)
  path.chmod(0o755)
  return path


def scripts(tmp_path):
  """All of them, also those of SkyPilot's task."""
  task = yaml.safe_load(SKYPILOT.read_text())
  for name in ('setup', 'run'):
    (tmp_path / name).write_text(f'#!/usr/bin/env bash\n{task[name]}')
  return [NODE, SLURM, tmp_path / 'setup', tmp_path / 'run']


def test_scripts_are_bash(tmp_path):
  for path in scripts(tmp_path):
    subprocess.run(['bash', '-n', path], check=True)


def test_scripts_pass_shellcheck(tmp_path):
  subprocess.run([tool('shellcheck'), *scripts(tmp_path)], check=True)


# node.sh


@contextlib.contextmanager
def listening():
  """Ports that answer, as variables of node.sh."""
  with (
      socket.create_server(('127.0.0.1', 0)) as env,
      socket.create_server(('127.0.0.1', 0)) as sampler,
  ):
    yield {
        'AGENTRL_ENV_PORT': str(env.getsockname()[1]),
        'AGENTRL_SAMPLER_PORT': str(sampler.getsockname()[1]),
    }


def node(tmp_path, *words, **variables):
  return subprocess.Popen(
      ['bash', str(NODE), *words],
      env=os.environ
      | PARTS
      | {'AGENTRL_SHARED': str(tmp_path)}
      | {k: str(v) for k, v in variables.items()},
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
  )


def test_a_trainer_is_given_the_servers_that_answer(tmp_path):
  with listening() as ports:
    process = node(
        tmp_path,
        *('trainer', '--config=configs/quickstart.py:tiny', '--dry_run'),
        **ports,
    )
    said, failed = process.communicate(timeout=300)
  assert process.returncode == 0, failed
  found = {line.split()[0]: line for line in said.splitlines() if line}
  env, sampler = ports.values()
  assert f"('http://127.0.0.1:{env}',)" in found['env.url']
  assert f"('http://127.0.0.1:{sampler}',)" in found['sampler.urls']
  assert "'sglang'" in found['sampler.kind']
  assert str(tmp_path / 'weights') in found['sampler.push_dir']
  # They are elsewhere as far as the plan knows.
  assert 'weights, written to sampler.push_dir' in said


def test_a_server_that_does_not_answer_is_named(tmp_path):
  with listening() as ports:
    sampler = ports['AGENTRL_SAMPLER_PORT']
  with listening() as others:
    ports['AGENTRL_ENV_PORT'] = others['AGENTRL_ENV_PORT']
    process = node(tmp_path, 'trainer', AGENTRL_WAIT_S=1, **ports)
    _, failed = process.communicate(timeout=60)
  assert process.returncode == 1
  assert f'http://127.0.0.1:{sampler} does not answer after' in failed


def test_what_is_missing_or_unknown_is_named(tmp_path):
  process = node(tmp_path, 'learner')
  assert 'no part is called learner' in process.communicate(timeout=60)[1]
  assert process.returncode == 2
  process = node(tmp_path, 'env', AGENTRL_ENVS='')
  assert 'AGENTRL_ENVS: names the hosts' in process.communicate(timeout=60)[1]
  assert process.returncode == 1


# Says its arguments, fails the first time, and then stays until it is ended.
SERVER = """#!/usr/bin/env bash
echo "$@" >> "$AGENTRL_SHARED/starts"
[[ $(wc -l < "$AGENTRL_SHARED/starts") -gt 1 ]] || exit 3
exec sleep 1000
"""


@pytest.mark.parametrize('by', ['signal', 'file'])
def test_a_server_is_started_again_until_the_run_has_ended(tmp_path, by):
  starts, ended = tmp_path / 'starts', tmp_path / 'ended'
  python = program(tmp_path / 'python', SERVER)
  process = node(
      tmp_path,
      'sampler',
      SGLANG_PYTHON=python,
      SGLANG_FLAGS='--tp-size 8',
      AGENTRL_UNTIL=ended,
  )
  lines = lambda: starts.read_text().splitlines() if starts.exists() else []
  assert wait_until(lambda: len(lines()) == 2, 60)
  ended.touch() if by == 'file' else process.send_signal(signal.SIGTERM)
  _, failed = process.communicate(timeout=60)
  assert process.returncode == 0
  assert 'ended with code 3; again in 5 s' in failed
  assert set(lines()) == {
      '-m sglang.launch_server --model-path /model --host 0.0.0.0 --port 30000'
      ' --tp-size 8'
  }


# Slurm: srun and scontrol that this machine does not have.

SRUN = """#!/usr/bin/env bash
echo "$AGENTRL_SAMPLERS|$*" >> "$RECORD"
trap 'echo "ended: $*" >> "$RECORD"; exit 0' TERM
case " $* " in
  *" trainer "*)
    for word; do [[ $word == --output=* ]] && log=${word#--output=}; done
    echo "$TRAINER_SAYS" > "${log/\\%t/0}"
    eval "$TRAINER_DOES"
    ;;
esac
sleep 1000 &
wait
"""
SCONTROL = """#!/usr/bin/env bash
case $1 in
  show) printf 'gpu%s\\n' 1 2 3 4 ;;
  *) echo "scontrol $*" >> "$RECORD" ;;
esac
"""
FLAGS = '--config=configs/quickstart.py', '--workdir=/shared/a run'


@pytest.fixture(name='sbatch')
def _sbatch(tmp_path):
  """Starts the script as slurmd does; its record has srun's calls."""
  program(tmp_path / 'bin' / 'srun', SRUN)
  program(tmp_path / 'bin' / 'scontrol', SCONTROL)
  record = tmp_path / 'record'

  def start(*words, **variables):
    path = f'{tmp_path / "bin"}:{os.environ["PATH"]}'
    job = {
        'PATH': path,
        'RECORD': str(record),
        'AGENTRL_SHARED': str(tmp_path),
        'SLURM_SUBMIT_DIR': str(ROOT),
        'SLURM_JOB_ID': '7',
        'SLURM_JOB_NODELIST': 'gpu[1-4]',
        'TRAINER_SAYS': 'well',
    }
    return subprocess.Popen(
        ['bash', str(SLURM), *words],
        env=os.environ | job | variables,
        stderr=subprocess.PIPE,
        text=True,
    )

  record.touch()
  start.lines = lambda: record.read_text().splitlines()
  return start


def test_slurm_starts_trainers_and_servers_on_nodes_of_their_own(sbatch):
  job = sbatch('2', *FLAGS, TRAINER_DOES='sleep 1; exit 0')
  assert job.wait(60) == 0, job.stderr.read()
  started = [line for line in sbatch.lines() if '|' in line]
  parts = {}
  for line in started:
    samplers, _, words = line.partition('|')
    assert samplers == 'gpu3 gpu4'
    where = next(x for x in words.split() if x.startswith('--nodelist='))
    parts.setdefault(where.partition('=')[2], []).append(words)
  assert {where: len(steps) for where, steps in parts.items()} == {
      'gpu1,gpu2': 1,
      'gpu3': 2,
      'gpu4': 2,
  }
  [trainer] = parts['gpu1,gpu2']
  assert '--nodes=2 --ntasks=2 ' in trainer
  assert trainer.endswith(f'node.sh trainer {" ".join(FLAGS)}')
  # An environment server takes no GPU from the sampler beside it.
  assert sum('--gres=none' in step for step in parts['gpu3']) == 1
  # Servers go with the run, and nothing is queued again.
  assert sum(line.startswith('ended: ') for line in sbatch.lines()) == 4
  assert not any(line.startswith('scontrol') for line in sbatch.lines())


@pytest.mark.parametrize(
    'says, queued', [('ProcessLost: gone', True), ('ConfigError: no', False)]
)
def test_slurm_queues_a_run_again_that_lost_a_rank(sbatch, says, queued):
  does = 'sleep 1; exit 2'
  job = sbatch('2', *FLAGS, TRAINER_DOES=does, TRAINER_SAYS=says)
  assert job.wait(60) == 2
  assert ('scontrol requeue 7' in sbatch.lines()) == queued
  last = sbatch(
      '2',
      *FLAGS,
      TRAINER_DOES=does,
      TRAINER_SAYS=says,
      SLURM_RESTART_COUNT='20',
  )
  assert last.wait(60) == 2
  assert sbatch.lines().count('scontrol requeue 7') == queued


def test_slurm_lets_a_run_save_whose_time_is_over(sbatch):
  saved = 'trap "sleep 2; echo saved >> $RECORD; exit 130" TERM'
  job = sbatch('2', *FLAGS, TRAINER_DOES=saved)
  assert wait_until(lambda: len(sbatch.lines()) == 5, 60)
  time.sleep(1)  # until it waits
  job.send_signal(signal.SIGTERM)
  job.wait(60)
  assert 'saved' in sbatch.lines()
  assert sbatch.lines()[-1] == 'scontrol requeue 7'


@pytest.mark.parametrize('count', ['0', '4'])
def test_slurm_needs_nodes_for_trainers_and_samplers(sbatch, count):
  job = sbatch(count, *FLAGS)
  assert job.wait(60) == 2
  assert f'{count} trainers of 4 nodes leave no sampler' in job.stderr.read()


# SkyPilot


def test_skypilot_reads_its_task():
  code = f'import sky; print(sky.Task.from_yaml({str(SKYPILOT)!r}).num_nodes)'
  done = subprocess.run(
      [tool('python'), '-c', code], capture_output=True, text=True
  )
  assert done.stdout.split()[-1:] == ['4'], done.stderr


@pytest.mark.parametrize(
    'rank, parts', [(0, ['trainer']), (1, ['trainer']), (3, ['env', 'sampler'])]
)
def test_a_node_of_skypilot_knows_its_part(tmp_path, rank, parts):
  *_, run = scripts(tmp_path)
  program(tmp_path / 'experiments', '').unlink()
  folder = tmp_path / 'experiments' / 'clusters'
  folder.mkdir(parents=True)
  said = tmp_path / 'said'
  program(
      folder / 'node.sh',
      'printf "%s\\n" "$*|$AGENTRL_SAMPLERS|$AGENTRL_UNTIL" >> said;'
      ' env > "env-$1"',
  )
  task = yaml.safe_load(SKYPILOT.read_text())
  text = run.read_text().replace('/shared', str(tmp_path))
  node = {
      'SKYPILOT_NODE_IPS': '10.0.0.1\n10.0.0.2\n10.0.0.3\n10.0.0.4',
      'SKYPILOT_NODE_RANK': str(rank),
      'SKYPILOT_TASK_ID': 'task',
  }
  named = {k: str(v) for k, v in task['envs'].items()}
  subprocess.run(
      ['bash', '-c', text],
      cwd=tmp_path,
      env=os.environ | named | node,
      check=True,
  )
  lines = sorted(said.read_text().splitlines())
  assert [line.partition(' ')[0].partition('|')[0] for line in lines] == parts
  ended = tmp_path / 'ended-task'
  for line in lines:
    assert line.endswith(f'|10.0.0.3 10.0.0.4|{ended}')
  assert ended.exists() == (parts == ['trainer'])
  if parts == ['trainer']:
    assert f'--workdir={tmp_path}/runs/textcraft' in lines[0]
    found = (tmp_path / 'env-trainer').read_text().splitlines()
    environ = dict(line.split('=', 1) for line in found if '=' in line)
    assert ranks.find(environ) == Rank(2, rank, '10.0.0.1:29500')


# JobSet


def closed(schema):
  """A schema that refuses unknown fields, as the API server does."""
  if isinstance(schema, list):
    return [closed(x) for x in schema]
  if not isinstance(schema, dict):
    return schema
  found = {k: closed(v) for k, v in schema.items()}
  open_ended = schema.get('x-kubernetes-preserve-unknown-fields')
  if isinstance(schema.get('properties'), dict) and not open_ended:
    if schema.get('type') == 'object':
      found['additionalProperties'] = False
  return found


def jobset():
  return yaml.safe_load(JOBSET.read_text())


def errors_of(document):
  schema = closed(json.loads(SCHEMA.read_text()))
  # The API server's own: any object's metadata.
  schema['properties']['metadata'] = {'type': 'object'}
  found = jsonschema.Draft7Validator(schema).iter_errors(document)
  return [f'{error.json_path}: {error.message}' for error in found]


def test_the_jobset_follows_the_schema_of_its_api():
  document = jobset()
  assert errors_of(document) == []
  [job, *_] = document['spec']['replicatedJobs']
  job['template']['spec']['template']['spec']['restart'] = 'OnFailure'
  document['spec']['successPolicy']['operator'] = 'Some'
  found = '\n'.join(errors_of(document))
  assert "'restart' was unexpected" in found and "'Some' is not one" in found


def test_pods_of_the_jobset_are_the_ranks_and_hosts_that_they_name():
  document = jobset()
  name, spec = document['metadata']['name'], document['spec']
  pods, containers = {}, {}
  for job in spec['replicatedJobs']:
    inner = job['template']['spec']
    assert inner['completions'] == inner['parallelism'] and job['replicas'] == 1
    part = job['name']
    pods[part] = [
        f'{name}-{part}-0-{i}.{spec["network"]["subdomain"]}'
        for i in range(inner['completions'])
    ]
    [containers[part]] = inner['template']['spec']['containers']
    assert containers[part]['command'][1:3] == [
        'experiments/clusters/node.sh',
        part,
    ]
  for container in containers.values():
    environ = {x['name']: x['value'] for x in container['env']}
    assert environ['AGENTRL_SAMPLERS'].split() == pods['sampler']
    assert environ['AGENTRL_ENVS'].split() == pods['env']
  for index, _ in enumerate(pods['trainer']):
    environ = {x['name']: x['value'] for x in containers['trainer']['env']}
    environ['JOB_COMPLETION_INDEX'] = str(index)
    rank = ranks.find(environ)
    assert rank == Rank(2, index, f'{pods["trainer"][0]}:29500')


@pytest.mark.slow
@pytest.mark.extra
def test_a_rehearsed_run_goes_on_without_hosts_that_are_cut_off(tmp_path):
  """Minutes: six hosts of namespaces, three of them cut off in turn."""
  if (reason := hosts.reason()) is not None:
    pytest.skip(reason)
  done = subprocess.run(
      [
          *(sys.executable, '-m', 'experiments.clusters.rehearsal'),
          f'--out={tmp_path}',
      ],
      cwd=ROOT,
      capture_output=True,
      text=True,
      timeout=3000,
  )
  logs = '\n'.join(
      f'{path.name}: {path.read_text()[-2000:]}'
      for path in sorted(tmp_path.glob('*.log'))
  )
  assert done.returncode == 0, f'{done.stdout}{done.stderr}\n{logs}'
  assert done.stdout.endswith('All was as it should be.\n')
