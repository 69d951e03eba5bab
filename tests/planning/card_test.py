"""Tests for agentrl.planning.card."""

import dataclasses
import os

import pytest

from agentrl import config as config_lib
from agentrl.config import commandline
from agentrl.errors import ConfigError
from agentrl.models import variants
from agentrl.planning import card, report
from agentrl.planning.card import Card
from configs import textcraft_grpo

GIB = 2**30
H100 = Card(80 * GIB, 80 * GIB)
SHAPE = variants.get('qwen2.5-7b')
LAUNCH = (
    'sampler.kind=sglang',
    'sampler.launch.python=/opt/sglang/bin/python',
    'model.dtype=bfloat16',
)


def read(*flags):
  config = textcraft_grpo.get_config('model=qwen2.5-7b')
  commandline.override(
      config, ['launch.py', *(f'--config.{flag}' for flag in (*LAUNCH, *flags))]
  )
  return config_lib.read(config)


def static(value):
  return f"sampler.launch.flags=('--mem-fraction-static', '{value}')"


def shares(*flags, found=H100, **environ):
  return card.shares(read(*flags), SHAPE, found, environ)


def test_the_server_s_fraction_is_one_of_what_the_trainer_leaves():
  # 0.35 of the 40 GiB beside a trainer of 0.5 is 17% of the card, less than a
  # 7B in bfloat16 takes: 7.6e9 parameters of two bytes.
  found = shares(static(0.35), XLA_CLIENT_MEM_FRACTION='0.5')
  assert found.trainer == 40 * GIB
  assert found.server == pytest.approx(14 * GIB, abs=2)
  assert found.weights == 2 * SHAPE.num_params > found.server
  assert 'SGLang does not fit: it needs 14.' in found.fault
  assert 'XLA_CLIENT_MEM_FRACTION=0.4' in found.fault
  found = shares(static(0.8), XLA_CLIENT_MEM_FRACTION='0.5')
  assert found.server == pytest.approx(32 * GIB, abs=2) and not found.fault
  assert '32.0 GiB' in found.words


def test_the_fraction_that_a_fault_names_is_enough():
  told = shares(static(0.35), XLA_CLIENT_MEM_FRACTION='0.5').fault
  fraction = told.partition('XLA_CLIENT_MEM_FRACTION=')[2].partition(',')[0]
  assert not shares(static(0.35), XLA_CLIENT_MEM_FRACTION=fraction).fault


def test_the_cache_holds_whole_episodes():
  short, long = (
      shares(f'rollout.max_context={n}').sequence for n in (1024, 8192)
  )
  # Keys and values of 28 layers, 4 heads of 128, two bytes.
  assert short >= 1024 * 28 * 2 * 4 * 128 * 2
  assert long > 7 * short


def test_what_others_have_taken_is_not_shared():
  busy = dataclasses.replace(H100, free=50 * GIB)
  found = shares(static(0.8), found=busy, XLA_CLIENT_MEM_FRACTION='0.5')
  assert found.server == pytest.approx(8 * GIB, abs=2) and found.fault
  found = shares(static(0.8), found=busy)  # XLA's own 0.75
  assert 'set XLA_CLIENT_MEM_FRACTION below 0.62' in found.fault


def test_the_former_name_of_the_fraction_counts_where_the_new_is_missing():
  old = dict(XLA_PYTHON_CLIENT_MEM_FRACTION='0.4')
  assert shares(**old).fraction == 0.4
  assert shares(**old, XLA_CLIENT_MEM_FRACTION='0.5').fraction == 0.5
  assert shares().fraction == 0.75


def test_several_servers_share_what_is_left():
  one = shares(static(0.5), XLA_CLIENT_MEM_FRACTION='0.5')
  two = shares(
      static(0.5), 'sampler.launch.replicas=2', XLA_CLIENT_MEM_FRACTION='0.5'
  )
  assert two.server == pytest.approx(one.server / 2, abs=2)


@pytest.mark.parametrize(
    'flags, visible, beside',
    [
        ((), '0', True),
        (("sampler.launch.devices=('1',)",), '0', False),
        (("sampler.launch.devices=('0',)",), '0', True),
        (("sampler.launch.devices=('2,3',)",), '0,1', False),
        (("sampler.launch.devices=('1,2',)",), '0,1', True),
        (('sampler.launch.module=agentrl.serving.launch_server',), '0', False),
    ],
)
def test_servers_with_cards_of_their_own_share_nothing(flags, visible, beside):
  found = shares(*flags, CUDA_VISIBLE_DEVICES=visible)
  assert (found is not None) == beside


def test_tensor_parallel_servers_split_the_weights():
  found = shares("sampler.launch.flags={'tp_size': 2}")
  assert found.weights == SHAPE.num_params


@pytest.mark.parametrize('value', ['0', '1.5', 'half', '-0.1', 'nan'])
def test_a_fraction_that_is_none_is_refused(value):
  with pytest.raises(ConfigError, match=f'MEM_FRACTION={value} is no fraction'):
    shares(XLA_CLIENT_MEM_FRACTION=value)
  with pytest.raises(ConfigError, match='--mem-fraction-static='):
    shares(static(value))


NVIDIA_SMI = """#!/bin/sh
[ "$1" = "--id=$WANTED" ] || exit 6
echo "81559, 40000"
"""


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
  path = tmp_path / 'nvidia-smi'
  path.write_text(NVIDIA_SMI)
  path.chmod(0o755)
  monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')
  return path


@pytest.mark.parametrize('visible, first', [('2,3', '2'), (None, '0')])
def test_the_first_card_is_found(nvidia_smi, monkeypatch, visible, first):
  monkeypatch.setenv('WANTED', first)
  environ = {} if visible is None else {'CUDA_VISIBLE_DEVICES': visible}
  assert card.find(environ) == Card(81559 * 2**20, 40000 * 2**20)
  monkeypatch.setenv('WANTED', '9')
  assert card.find(environ) is None


def test_a_plan_says_the_shares_and_refuses_what_does_not_fit(
    monkeypatch, capsys
):
  monkeypatch.setenv('XLA_CLIENT_MEM_FRACTION', '0.5')
  monkeypatch.setattr(report.plan_lib, 'make', lambda *args: args[-1])
  monkeypatch.setattr(report.plan_lib, 'simulate', lambda *inputs: None)
  monkeypatch.setattr(report, '_tables', lambda plan: [])
  monkeypatch.setattr(report, '_mesh', lambda plan: 'a device')
  one = report.Cluster(
      (report.cluster_lib.Side('trainer', 1, 'device', 1, 1),), ()
  )
  monkeypatch.setattr(report.cluster_lib, 'make', lambda *inputs: one)
  seen = []
  monkeypatch.setattr(
      report, 'remarks', lambda plan, config, gib: seen.append(gib) or ()
  )
  report.show('train', read(static(0.8)), 80.0)
  assert seen == [40.0] and 'SGLang 32.0 GiB' in capsys.readouterr().out
  with pytest.raises(ConfigError, match='SGLang does not fit'):
    report.show('train', read(static(0.35)), 80.0)
