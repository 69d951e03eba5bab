"""Tests for agentrl.modes.warmstart; whole phases run in tests.e2e."""

import json

import jax
import numpy as np
import rich.console

from agentrl.config.sections import Optim
from agentrl.models import transformer
from agentrl.modes import warmstart
from agentrl.parallel.mesh import make_mesh
from tests import fakes, tiny


def test_updates_that_are_skipped_end_no_phase(tmp_path):
  batch = warmstart.as_batch([fakes.make_episode()] * 2)
  params = transformer.init_params(tiny.MODULE, jax.random.key(0))
  _, metrics = warmstart.imitate(
      params,
      batch,
      epochs=3,
      minibatch_size=2,
      optim=Optim(),
      # Gone after the first update.
      schedule=warmstart.Schedule(1e30, 0, 'constant'),
      seed=0,
      module=tiny.MODULE,
      mesh=make_mesh(dict(data=1, fsdp=1, tensor=1, sequence=1)),
      directory=tmp_path,
      console=rich.console.Console(quiet=True),
      check=lambda: None,
  )
  lines = (tmp_path / 'warmstart.jsonl').read_text().splitlines()
  skipped = [json.loads(line)['train/skipped'] for line in lines]
  assert skipped == [0.0, 1.0, 1.0]
  # Learnt from once.
  assert metrics['train/tokens'] == np.count_nonzero(batch.segment_ids)
