"""Tests for agentrl.planning.cluster."""

import dataclasses
import json
import pickle
import random

import pytest

from agentrl.models import variants
from agentrl.modes import reading
from agentrl.planning import cluster, hlo, plan, report
from agentrl.planning.cluster import Sent, Side
from agentrl.planning.footprint import Program, Size
from configs import textcraft_grpo
from tests import fakes

GIB = 1 << 30
SHAPE = variants.get('qwen2.5-7b')
WEIGHTS = 2 * SHAPE.num_params  # bfloat16
# Keys and values of 4 heads of 128 in 28 layers, for 4,096 tokens.
SEQUENCE = 2 * 2 * 4 * 128 * 28 * 4096
EPISODES = 64
URLS = ('http://gpu0:30000', 'http://gpu1:30000', 'http://gpu1:30001')
FOUND = {'kind': 'sglang', 'urls': URLS, 'push_dir': '/nfs/weights'}
LAUNCHED = {
    'kind': 'sglang',
    'launch': {'python': 'python', 'replicas': 2, 'flags': ('--tp-size', '2')},
}


def planned(fsdp, **waiting):
  return plan.Plan(
      mesh=dict(data=1, fsdp=fsdp, tensor=1, sequence=1),
      work=plan.Work(None, None, (), episodes=EPISODES, rows=32, length=4096),
      held={'parameters': 10 * GIB},
      waiting=waiting,
      gradients=5 * GIB,
      engine={},
      size=Size(8, 4096),
      programs={
          'accumulate': Program(10 * GIB, hlo.Costs(1, ())),
          'apply': Program(GIB, hlo.Costs(0, ())),
      },
      runs={'accumulate': 8, 'apply': 1},
      room=20 * GIB,
      beside_engine=False,
      largest=Size(16, 4096),
  )


def config_of(sampler=None, env=None, lora=0):
  config = textcraft_grpo.get_config('model=qwen2.5-7b')
  config.model.dtype = 'bfloat16'
  config.rollout.update(
      max_context=4096, max_completion_tokens=100, concurrency=12
  )
  config.horizon = dict(kind='stepwise', turns=(3, 7), every=10)
  config.sampler.update(sampler or {})
  config.env.update(env or {})
  config.model.lora.rank = lora
  return reading.read(config, None)


def machines(fsdp=16, host_devices=8, waiting=None, **config):
  checked = config_of(**config)
  found = planned(fsdp, **(waiting or {}))
  return cluster.make(checked, SHAPE, found, host_devices)


def test_what_one_machine_has_is_not_a_cluster():
  assert not machines(8).several
  assert machines(16).several
  assert not machines(16, 16).several
  assert machines(8, env={'url': 'http://env0:36000'}).several


def test_a_trainer_holds_offloaded_state_a_copy_and_the_episodes():
  found = machines(12, waiting={'optimizer state': 3 * GIB})
  records = 19 * EPISODES * 4096
  assert found.sides == (
      Side('trainer', 2, 'device', 12, 25 * GIB, 24 * GIB + WEIGHTS + records),
  )
  assert found.sent == (
      # Each of two has an engine, and gets the half that the other has.
      Sent('weights, brought together to push', WEIGHTS),
      Sent('episodes, from each trainer to all others', records),
  )


def test_servers_elsewhere_read_weights_and_get_transcripts():
  found = machines(16, sampler=FOUND, env={'url': 'http://env0:36000'})
  _, servers, environments = found.sides
  # 24 episodes at a time on three servers.
  size = WEIGHTS + 8 * SEQUENCE
  assert servers == Side('inference', 2, 'server', 3, size)
  assert environments == Side('environments', 1, 'server', 1, None)
  sent = dict(found.sent)
  assert sent['weights, brought together to push'] == WEIGHTS // 2
  assert sent['weights, written to sampler.push_dir'] == WEIGHTS
  assert sent['weights, read by the servers'] == 3 * WEIGHTS
  # 7 turns, of 1/7 to 7/7 of the context.
  asked = sum(turn * 4096 // 7 for turn in range(1, 8))
  ids = sent['transcripts, to the inference servers'] / 8 / EPISODES
  assert ids == pytest.approx(asked, rel=1e-3)
  assert sent['completions, from them'] == 44 * EPISODES * 700
  assert sent['observations and actions'] == 4 * EPISODES * 4096


def test_servers_of_the_run_are_on_the_trainers_machines():
  found = machines(16, sampler=LAUNCHED)
  # Twice two servers of two devices; 24 episodes at a time on four servers.
  size = (WEIGHTS + 6 * SEQUENCE) // 2
  assert found.sides[1] == Side('inference', 2, 'device', 8, size)
  assert {name for name, _ in found.sent} == {
      'weights, brought together to push',
      'episodes, from each trainer to all others',
  }
  assert machines(8, sampler=LAUNCHED).sent == ()


def test_an_adapter_alone_is_pushed():
  sent = dict(machines(16, sampler=FOUND | {'push_lora': True}, lora=4).sent)
  size = sent['weights, written to sampler.push_dir']
  # Seven matrices of each of 28 layers: 4 * (in + out) weights of two bytes.
  wide, narrow, inner = 3584, 512, 18944
  sums = 2 * (wide + wide) + 2 * (wide + narrow) + 3 * (wide + inner)
  assert size == 2 * 4 * 28 * sums


def test_a_router_knows_its_servers():
  found = machines(
      8,
      sampler={
          'kind': 'sglang',
          'router': 'http://gpu0:8000',
          'push_dir': '/nfs/weights',
      },
  )
  assert found.sides[1].hosts is None and found.sides[1].count is None
  assert 'weights are counted for one' in ' '.join(
      report.cluster_remarks(found)
  )


def test_bytes_of_a_token_are_those_of_the_encoders():
  rng = random.Random(0)
  ids = tuple(rng.randrange(151_936) for _ in range(4000))
  logprobs = tuple(-5 * rng.random() for _ in ids)
  a_token = lambda text: len(text) / len(ids)
  asked = a_token(json.dumps({'input_ids': ids}))
  assert asked == pytest.approx(cluster._ASKED, rel=0.15)
  triples = [(x, i, None) for x, i in zip(logprobs, ids, strict=True)]
  answer = {'output_ids': ids, 'output_token_logprobs': triples}
  answered = a_token(json.dumps(answer))
  assert answered == pytest.approx(cluster._ANSWERED, rel=0.15)
  episode = dataclasses.replace(
      fakes.make_episode(),
      tokens=ids,
      completion_mask=tuple(i % 2 == 0 for i in ids),
      sampler_logprobs=logprobs,
  )
  recorded = a_token(pickle.dumps(episode)) + cluster._TEXT
  assert recorded == pytest.approx(cluster._RECORDED, rel=0.15)


def test_the_plan_shows_machines_where_there_are_several(monkeypatch, capsys):
  monkeypatch.setattr(plan, 'simulate', lambda mesh, programs: None)
  monkeypatch.setattr(plan, 'make', lambda *inputs: planned(16))

  def shown(host_devices, **config):
    report.show('train', config_of(**config), None, host_devices)
    printed = capsys.readouterr().out
    return [' '.join(line.split()) for line in printed.splitlines()]

  lines = shown(4, sampler=FOUND, env={'url': 'http://env0:36000'})
  weights = f'{WEIGHTS / GIB:.3f}'
  assert f'weights, written to sampler.push_dir {weights}' in lines
  assert any(line.startswith('trainer 4 16 devices 25.00 ') for line in lines)
  assert any(line.startswith('inference 2 3 servers ') for line in lines)
  assert 'environments 1 1 server' in lines
  assert not any('machines' in line for line in shown(16))
