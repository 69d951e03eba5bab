"""Tests for agentrl.engine.batcher: who waits for whom, on a clock of its own."""

import numpy as np
import pytest

from agentrl.engine import batcher as batcher_lib, decode
from agentrl.engine.cache import SlotTable
from agentrl.engine.core import EngineCore
from agentrl.engine.model_runner import PREFILL_ROWS, ModelRunner
from agentrl.engine.request import Request, SamplingParams
from agentrl.engine.sequence import Sequence

TOKEN_S, STEP_S, COMPILE_S = 0.001, 0.010, 3.0


class Device(ModelRunner):
  """Computes nothing, and takes a known time for it."""

  def __init__(self):
    self.deterministic, self.alignment = False, 1
    self._prefill_rows = PREFILL_ROWS
    self.max_len, self.params = 8192, None
    self.now, self.step_s = 0.0, STEP_S
    self.dispatches = []  # (kind, start, end)
    self._shapes = set()

  def _run(self, kind, shape, seconds):
    start = self.now
    # The first of a shape compiles.
    self.now += seconds + COMPILE_S * ((kind, shape) not in self._shapes)
    self._shapes.add((kind, shape))
    self.dispatches.append((kind, start, self.now))

  def prefill(self, pieces, chunk):
    self._run('prefill', (chunk, len(pieces)), TOKEN_S * chunk * len(pieces))

  def decode(self, rows, *, steps, floor):
    self._run('decode', len(rows), self.step_s * steps)
    batch = len(rows)
    counts = np.array([min(steps, row['budget']) for row in rows])
    zeros = np.zeros((batch, decode.MAX_STEPS))
    return zeros.astype(int), zeros, counts, None

  def wait(self):
    pass


@pytest.fixture
def device(monkeypatch):
  device = Device()
  monkeypatch.setattr(
      batcher_lib.time, 'perf_counter', lambda: device.now, raising=True
  )
  return device


@pytest.fixture
def core(device):
  return EngineCore(
      device, SlotTable(16, 8192), max_running=16, weight_version='0'
  )


def add(core, size, new, seed=0):
  tokens = tuple(np.random.default_rng(seed).integers(1, 99, size).tolist())
  params = SamplingParams(max_new_tokens=new)
  sequence = Sequence(
      Request(f'{seed}', tokens, params), seed=0, eos_ids=(), tokenizer=None
  )
  core.sequences.add(sequence)
  return sequence


def gaps(dispatches):
  """Seconds between the ends of decode dispatches that follow each other."""
  ends = [end for kind, _, end in dispatches if kind == 'decode']
  return np.diff(ends)


def test_a_long_prompt_at_most_doubles_the_time_between_tokens(device, core):
  running = [add(core, 20, 4000, seed) for seed in range(4)]
  never, nothing = lambda: False, lambda: None
  for _ in range(20):
    core.batcher.step(never, nothing)
  assert all(s.num_output > 100 for s in running)
  add(core, 600, 8, seed=10)  # so that all that it needs is compiled
  for _ in range(20):
    core.batcher.step(never, nothing)

  device.dispatches.clear()
  long = add(core, 6000, 8, seed=11)
  while long.num_output == 0:
    core.batcher.step(never, nothing)
  # The last dispatch compiles for five.
  usual = batcher_lib.FEWEST_STEPS * STEP_S
  assert max(gaps(device.dispatches)[:-1]) <= 2 * usual + 16 * TOKEN_S
  # And it gets its share: 6 s of prefill take about twice that.
  assert device.dispatches[-1][2] - device.dispatches[0][1] < 2.5 * 6.0


def test_a_wave_of_prompts_is_filled_before_it_decodes(device, core):
  wave = [add(core, 100, 30, seed) for seed in range(16)]
  core.batcher.step(lambda: False, lambda: None)
  # 16 prompts in 1,024 tokens a dispatch, and then all decode together.
  kinds = [kind for kind, _, _ in device.dispatches]
  assert kinds[-1] == 'decode' and kinds.count('decode') == 1
  assert all(s.num_output == batcher_lib.FEWEST_STEPS for s in wave)


@pytest.mark.parametrize(
    'step_s, deterministic, most',
    [(0.001, False, 32), (0.004, False, 12), (0.1, False, 8), (0.001, True, 8)],
)
def test_a_dispatch_samples_what_fits_in_its_time(
    device, core, step_s, deterministic, most
):
  device.step_s, device.deterministic = step_s, deterministic
  device.variant = lambda row: (False, False, False)
  sequence = add(core, 20, 200)
  counts = []
  for _ in range(12):
    before = sequence.num_output
    core.batcher.step(lambda: False, lambda: None)
    counts.append(sequence.num_output - before)
  assert counts[0] == batcher_lib.FEWEST_STEPS and max(counts) == most
