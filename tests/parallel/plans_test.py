"""What a plan says is what a calculation by hand says."""

import functools
import re
import subprocess
import sys

import numpy as np
import pytest

from agentrl.models import variants
from agentrl.modes import reading
from agentrl.parallel.mesh import AXES
from agentrl.planning import plan as plan_lib
from configs import textcraft_grpo
from tests.parallel.eight_devices import ROOT, sent

MODEL = 'llama3.2-1b'
ROWS, LENGTH = 8, 1024  # of an update, and of its only microbatch
QUICK = '1x8x1x1/full'


def parse(case):
  """`DATAxFSDPxTENSORxSEQUENCE/REMAT` as `(sizes of axes, remat)`."""
  shape, _, remat = case.partition('/')
  return tuple(int(size) for size in shape.split('x')), remat


@functools.cache
def plan_of(case):
  """The plan of mode 'train' with one microbatch an update."""
  shape, remat = parse(case)
  config = textcraft_grpo.get_config(f'model={MODEL}')
  config.mesh.update(dict(zip(AXES, shape, strict=True)))
  config.model.remat = remat
  config.rollout.max_context = LENGTH
  config.rollout.tasks_per_step = 4
  config.optim.max_tokens = ROWS * LENGTH
  wanted = reading.read(config)
  shape = plan_lib.find_shape(wanted.model)
  return plan_lib.make('train', wanted, shape, 80 * 2**30)


def parameters_per_device(config, fsdp, tensor):
  """Leaf by leaf: its size over the axes that split it."""
  c, h = config, config.hidden_size
  q, kv = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
  kernels = 2 * h * q + 2 * h * kv + 3 * h * c.intermediate_size
  biases = (q + 2 * kv) * c.qkv_bias
  tables = c.vocab_size * h * (1 if c.tie_embeddings else 2)
  matrices = c.num_layers * kernels + tables
  whole = c.num_layers * 2 * h + h  # norms
  return matrices // (fsdp * tensor) + c.num_layers * biases // tensor + whole


def flops_per_device(config, rows, length, mesh, *, remat, gradient):
  """Products of one microbatch, an eighth where eight devices share them."""
  c, h = config, config.hidden_size
  q, kv = c.num_heads * c.head_dim, c.num_kv_heads * c.head_dim
  data, fsdp, tensor, sequence = mesh
  tokens = rows * length
  down = 2 * h * c.intermediate_size
  projections = 2 * (2 * h * q + 2 * h * kv) + 3 * down
  # Blocks of an eighth of the row see the keys up to their own end: 9/16 of
  # the square; with a split row all of it. Scores and sums of values.
  seen = length * (9 / 16 if sequence == 1 else 1)
  attention = 2 * 2 * q * seen
  logits = 2 * h * c.vocab_size
  if not gradient:
    work = c.num_layers * (projections + attention) + logits
  else:
    # Twice the forward pass for the backward one. Logits and attention are
    # computed again in any case, a layer with remat: but for its last product,
    # which no gradient needs.
    layer = (4 if remat else 3) * projections - remat * down
    # Blocks of attention are recomputed, and with remat again by the layer;
    # the compiler finds that some of these are the same.
    layer += (4.75 if remat else 3.75) * attention
    work = c.num_layers * layer + 4 * logits
  return tokens * work / (data * fsdp * tensor * sequence)


@pytest.mark.parametrize(
    'case',
    [QUICK, '2x2x2x1/none']
    + [
        pytest.param(case, marks=pytest.mark.slow)
        for case in ('8x1x1x1/none', '1x1x8x1/full', '1x2x2x2/full')
    ],
)
def test_bytes_and_products_are_those_of_a_hand_calculation(case):
  config, plan = variants.get(MODEL), plan_of(case)
  mesh, remat = parse(case)
  _, fsdp, tensor, _ = mesh
  params = parameters_per_device(config, fsdp, tensor)
  assert plan.held['parameters'] == plan.held['reference'] == 4 * params
  assert plan.gradients == 4 * params
  # Two moments, and three counters: of Adam, of the schedule, of the state.
  assert 0 <= plan.held['optimizer state'] - 2 * 4 * params <= 64
  assert plan.engine['engine weights'] == 4 * config.num_params
  # 64 sequences and a quarter more, of 1,024 positions of 8 heads of 64 in 16
  # layers, twice.
  assert plan.engine['KV cache'] == 4 * 80 * 1024 * 8 * 64 * 16 * 2
  for name in ('score', 'accumulate'):
    expected = flops_per_device(
        *(config, ROWS, LENGTH, mesh),
        remat=remat == 'full',
        gradient=name == 'accumulate',
    )
    found = plan.programs[name].work.flops
    np.testing.assert_allclose(found, expected, rtol=0.01)
  assert plan.peak >= 20 * params + plan.programs['accumulate'].bytes


def test_collectives_are_those_of_a_hand_calculation():
  config, programs = variants.get(MODEL), plan_of(QUICK).programs
  norms = (2 * config.num_layers + 1) * config.hidden_size
  table = config.vocab_size * config.hidden_size
  # A pass gathers all that is split: seven kernels a layer, and the table for
  # its rows and again for the logits, unless the compiler sees that they are one.
  count, gathered = sent(programs['score'].work)['all-gather/8']
  again = count - config.num_layers * 7 - 1
  assert again in (0, 1)
  assert gathered == 4 * (config.num_params - norms + again * table)
  # A gradient gathers the kernels twice, because layers are computed again, and
  # the table no more often than before: not for each of four chunks of logits.
  found = sent(programs['accumulate'].work)
  count, gathered = found['all-gather/8']
  again = count - config.num_layers * 2 * 7 - 1
  assert again in (0, 1)
  kernels = config.num_params - norms - table
  assert gathered == 4 * (2 * kernels + (1 + again) * table)
  # The table's own is reduced once for all chunks, and once for its rows as all
  # others are, with a few numbers of metrics.
  _, reduced = found['all-reduce/8']
  np.testing.assert_allclose(reduced, 4 * config.num_params, rtol=1e-4)
  assert found['reduce-scatter/8'] == (1, 4 * table)


def test_a_step_runs_what_the_config_says():
  # 32 episodes: two passes over them, and four updates of one piece each.
  runs = plan_of(QUICK).runs
  assert runs['score'] == 2 * 32 // ROWS
  assert runs['accumulate'] == runs['apply'] == 4


# Between the tests and the dry run: on Linux the peak of a process begins with
# that of the one that started it, and a test process may have used gigabytes.
MEASURE = """
import resource, subprocess, sys

subprocess.run([sys.executable, *sys.argv[1:]], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""


def dry_run(*flags):
  """What a dry run prints, its seconds of CPU and its memory in bytes."""
  printed = subprocess.run(
      [sys.executable, '-c', MEASURE, 'launch.py', '--dry_run', *flags],
      cwd=ROOT,
      stdout=subprocess.PIPE,
      text=True,
      check=True,
  ).stdout
  cpu_s, memory = printed.splitlines()[-1].split()
  return printed, float(cpu_s), int(memory)


@pytest.mark.slow
@pytest.mark.parametrize(
    'model, fsdp, tensor',
    [('qwen2.5-7b', 8, 1), ('llama3-70b', 32, 8)],
)
def test_a_large_model_is_planned_in_a_minute_of_two_cores(model, fsdp, tensor):
  printed, cpu_s, memory = dry_run(
      f'--config=configs/textcraft_grpo.py:model={model}',
      f'--config.mesh.fsdp={fsdp}',
      f'--config.mesh.tensor={tensor}',
  )
  # Of CPU: the machine may be shared.
  assert cpu_s < 60
  assert memory < 3 * 2**30
  config = variants.get(model)
  params = parameters_per_device(config, fsdp, tensor)
  rows = dict(re.findall(r'^(.*?) {2,}([\d.,]+)$', printed, re.MULTILINE))
  gib = lambda size: f'{size / 2**30:,.2f}'
  assert rows['parameters'] == rows['gradients'] == gib(4 * params)
  assert rows['reference'] == rows['parameters']
  assert rows['optimizer state'] == gib(8 * params)
  assert rows['engine weights, first device only'] == gib(4 * config.num_params)
  cache = 4 * 80 * 8192 * config.num_kv_heads * 128 * config.num_layers * 2
  assert rows['KV cache, first device only'] == gib(cache)
  assert 'The embedded engine does not fit' in printed
  assert 'The largest microbatch that fits 80 GiB' in printed
