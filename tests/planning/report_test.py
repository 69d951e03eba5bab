"""Tests for agentrl.planning.report; a plan that is made is in launch_test."""

import dataclasses
import types

import pytest

from agentrl.models.options import TrainModel
from agentrl.parallel.options import Mesh
from agentrl.planning import hlo, plan, report
from agentrl.planning.footprint import Program, Size
from agentrl.rollout.options import AgentOptions, ContextOptions

GIB = 1 << 30
# One microbatch that takes 10 GiB, where the state takes 40.
PLAN = plan.Plan(
    mesh=dict(data=1, fsdp=8, tensor=1, sequence=1),
    work=plan.Work(None, None, (), episodes=64, rows=32, length=4096),
    held={'parameters': 10 * GIB, 'optimizer state': 20 * GIB},
    waiting={},
    gradients=10 * GIB,
    engine={'engine weights': 15 * GIB, 'KV cache': 5 * GIB},
    size=Size(8, 4096),
    programs={
        'accumulate': Program(10 * GIB, hlo.Costs(10**15, ())),
        'apply': Program(5 * GIB, hlo.Costs(0, ())),
    },
    runs={'accumulate': 8, 'apply': 2},
    room=20 * GIB,
    beside_engine=True,
    largest=Size(16, 4096),
)
CONFIG = types.SimpleNamespace(
    agent=AgentOptions(),
    model=TrainModel(name='qwen2.5-7b'),
    mesh=Mesh(fsdp=8),
    sampler=types.SimpleNamespace(num_slots=lambda episodes: 2 * episodes),
    rollout=types.SimpleNamespace(concurrency=64),
    optim=types.SimpleNamespace(max_tokens=32768),
    compile_cache=None,
)


def remarks(**changes):
  found = dataclasses.replace(PLAN, **changes)
  return '\n'.join(report.remarks(found, CONFIG, 80.0))


@pytest.mark.parametrize(
    'changes, said',
    [
        ({}, '80 GiB beside the embedded engine: 16 rows of 4,096 tokens'),
        ({'largest': Size(32, 4096)}, '(a whole update), optim.max_tokens=131'),
        ({'room': 8 * GIB}, 'max_tokens=32768 does not fit: 2.0 GiB'),
        ({'room': 4 * GIB}, 'The optimizer does not fit 80 GiB'),
        ({'room': -GIB}, 'The state does not fit 80 GiB'),
        ({'largest': Size(0, 4096)}, 'one row of 4,096 tokens a shard'),
        ({'largest': Size(0, 4096)}, "set model.remat='full'"),
        ({'largest': Size(0, 4096)}, "With sampler.kind='sglang'"),
        ({'beside_engine': False}, 'The embedded engine does not fit'),
    ],
)
def test_what_does_not_fit_is_said_with_the_way_out(changes, said):
  assert said in remarks(**changes)


def test_what_fits_is_not_complained_of():
  text = remarks()
  assert 'does not fit' not in text and 'No microbatch' not in text


def test_a_plan_says_that_segments_are_rows():
  agent = AgentOptions(context=ContextOptions(kind='window'))
  config = types.SimpleNamespace(**vars(CONFIG) | {'agent': agent})
  said = '\n'.join(report.remarks(PLAN, config, 80.0))
  assert "agent.context.kind='window'" in said
  assert 'segments' not in remarks()


def shown(monkeypatch, capsys, found, **changes):
  """The words and numbers of each line of a report, of this plan."""
  monkeypatch.setattr(plan, 'simulate', lambda mesh, programs: None)
  monkeypatch.setattr(plan, 'make', lambda *inputs: found)
  config = types.SimpleNamespace(**vars(CONFIG) | changes)
  report.show('sft', config, None)  # of 'train' machines follow
  return [
      ' '.join(line.split()) for line in capsys.readouterr().out.split('\n')
  ]


def test_tables_have_memory_and_work(monkeypatch, capsys):
  lines = shown(monkeypatch, capsys, PLAN)
  assert lines[1].startswith('Plan of qwen2.5-7b, 7,615,616,512 parameters, on')
  assert ' 8 devices (data 1, fsdp 8, tensor 1, sequence 1): ' in lines[1]
  for line in (
      'optimizer state 20.00',
      'accumulate 8 x 4,096 tokens: activations and temporaries 10.00',
      'apply: activations and temporaries 5.00',
      "the trainer's peak 50.00",
      'KV cache, first device only 5.00',
      'accumulate 8 1,000 8,000',
      'together 8,000',
  ):
    assert line in lines
  assert not any(line.startswith('collectives') for line in lines)
  assert lines[-2].startswith('- ')  # what the tables do not say


@pytest.mark.parametrize(
    'name, said', [('gpt-oss-20b', True), ('qwen2.5-7b', False)]
)
def test_products_of_experts_are_those_of_all(name, said, monkeypatch, capsys):
  model = TrainModel(name=name)
  text = '\n'.join(shown(monkeypatch, capsys, PLAN, model=model))
  words = 'through all 32 experts of a layer, as on CPUs and GPUs; on a TPU'
  assert (words in text) == said


def test_collectives_are_summed_over_programs(monkeypatch, capsys):
  gather = hlo.Collective('all-gather', devices=8, count=3, bytes=GIB)
  programs = {
      name: program._replace(work=hlo.Costs(0, (gather,)))
      for name, program in PLAN.programs.items()
  }
  found = dataclasses.replace(PLAN, programs=programs)
  lines = shown(monkeypatch, capsys, found)
  # Of 8 runs of one program and 2 of the other.
  assert 'all-gather among 8 30 10.00' in lines


def test_a_model_that_is_not_here_has_no_plan(monkeypatch, capsys):
  model = TrainModel(name='owner/no-such-model')
  _, said, *_ = shown(monkeypatch, capsys, None, model=model)
  assert said.startswith("No plan: the shape of 'owner/no-such-model' is not")
