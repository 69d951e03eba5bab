"""The estimate of a 7B run: its arithmetic, on numbers that are easy."""

import dataclasses
import importlib
import types

import pytest

from agentrl.planning import hlo
from agentrl.planning.footprint import Program, Size

paper = importlib.import_module('experiments.2026-11-paper-7b.estimate')
PLAN = types.SimpleNamespace(
    # A second of arithmetic a microbatch, and one of an all-reduce among two.
    programs={
        'score': Program(0, hlo.Costs(int(paper.FLOPS), ())),
        'accumulate': Program(
            0,
            hlo.Costs(
                int(paper.FLOPS),
                (hlo.Collective('all-reduce', 2, 1, int(paper.NVLINK)),),
            ),
        ),
    },
    held={},
    mesh={'data': 1, 'fsdp': 8},
    size=Size(8, 1000),
    work=types.SimpleNamespace(passes=2, updates=4, length=10_000),
)
SHAPE = types.SimpleNamespace(
    num_params=10**9, num_layers=28, num_kv_heads=4, head_dim=128
)
PLAIN = dataclasses.replace(
    paper.ASSUMED['likely'], prompt=900, completion=10, observation=0, turns=1.0
)


def step(horizon=10, **changes):
  changes = dict(filled=1.0, compute=1.0, overlap=0.0) | changes
  return paper.estimate(
      PLAN, horizon, SHAPE, dataclasses.replace(PLAIN, **changes)
  )


def test_work_becomes_seconds():
  found = step()
  assert found.tokens == 256 * 1000
  assert found.score_s == pytest.approx(2 * 256 / 8)
  # Arithmetic, and a ring that sends everything twice between two halves.
  assert found.update_s == pytest.approx(2 * 256 / 8)
  assert step(overlap=1.0).update_s == pytest.approx(256 / 8)
  assert step(filled=0.5).score_s == pytest.approx(2 * found.score_s)
  assert step(compute=0.5).score_s == pytest.approx(2 * found.score_s)
  assert found.push_s == pytest.approx(2 * 2e9 / PLAIN.push)


def test_an_episode_is_no_longer_than_its_context():
  assert step(prompt=20_000).tokens == 256 * 10_000


def test_what_is_better_is_never_slower():
  low, likely, high = (
      paper.estimate(PLAN, 30, SHAPE, a).seconds for a in paper.ASSUMED.values()
  )
  assert high < likely < low


def test_more_gpus_have_fewer_microbatches_each():
  more = paper.estimate(PLAN, 10, SHAPE, PLAIN, gpus=64)
  usual = paper.estimate(PLAN, 10, SHAPE, PLAIN)
  assert more.score_s == pytest.approx(usual.score_s / 8)
  assert more.sample_s < usual.sample_s and more.push_s == usual.push_s
