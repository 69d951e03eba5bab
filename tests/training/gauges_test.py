"""Tests for agentrl.training.gauges."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from agentrl.data import collate
from agentrl.training import gauges
from agentrl.types import Group
from tests import fakes, tiny


def estimate(logprobs, own):
  return gauges.estimate(np.array(logprobs, np.float64), np.array(own))


def test_completions_that_give_their_prompt_away_share_all_of_its_entropy():
  # Each of four completions is certain after its own prompt, impossible else.
  found = estimate(np.where(np.eye(4), 0.0, -1e9), range(4))
  assert found['gauges/conditional_entropy'] == 0
  assert found['gauges/mutual_information'] == pytest.approx(math.log(4))


def test_completions_that_are_as_likely_after_any_prompt_share_nothing():
  found = estimate(np.full((4, 2), math.log(0.25)), [0, 0, 1, 1])
  assert found['gauges/mutual_information'] == pytest.approx(0)
  assert found['gauges/conditional_entropy'] == pytest.approx(math.log(4))


@given(
    seed=st.integers(0, 2**32 - 1),
    tasks=st.integers(2, 6),
    each=st.integers(1, 3),
)
def test_it_is_the_obvious_loop_and_at_most_the_logarithm_of_the_tasks(
    seed, tasks, each
):
  rng = np.random.default_rng(seed)
  logprobs = -rng.exponential(3.0, (tasks * each, tasks))
  own = np.repeat(np.arange(tasks), each)
  gains, entropies = [], []
  for i, j in enumerate(own):
    marginal = sum(math.exp(x) for x in logprobs[i]) / tasks
    gains.append(logprobs[i, j] - math.log(marginal))
    entropies.append(-logprobs[i, j])
  found = estimate(logprobs, own)
  information = found['gauges/mutual_information']
  assert information == pytest.approx(np.mean(gains))
  assert information <= math.log(tasks) + 1e-12
  assert found['gauges/conditional_entropy'] == pytest.approx(
      np.mean(entropies)
  )


def group(ordinal, *prompts_and_completions):
  """Episodes of a task; a second turn follows, which no gauge looks at."""
  episodes = []
  for prompt, completion in prompts_and_completions:
    tokens = (*prompt, *completion, 9, 8, 8)
    mask = (
        *[False] * len(prompt), *[True] * len(completion), False, True, True
    )  # fmt: skip
    turns = [fakes.make_turn(completion_tokens=len(completion)),
             fakes.make_turn(completion_tokens=2)]  # fmt: skip
    episodes.append(
        fakes.make_episode(
            turns=tuple(turns),
            tokens=tokens,
            completion_mask=mask,
            sampler_logprobs=(0.0,) * len(tokens),
        )
    )
  return Group(ordinal, ordinal, tuple(episodes))


GROUPS = [
    group(0, ((1, 2, 3), (4, 5)), ((1, 2, 3), (6,)), ((1, 2, 3), (7,))),
    group(1, ((1, 9), (10, 11, 12))),
]


def test_each_first_completion_stands_after_each_prompt():
  crossed = gauges.cross(collate.collate(GROUPS), most=5)
  rows = [
      row[used > 0].tolist()
      for row, used in zip(
          crossed.batch.tokens, crossed.batch.segment_ids, strict=True
      )
  ]
  assert rows == [
      [1, 2, 3, 4, 5], [1, 9, 4, 5],
      [1, 2, 3, 6], [1, 9, 6],
      [1, 2, 3, 10, 11, 12], [1, 9, 10, 11, 12],
  ]  # fmt: skip
  assert crossed.own.tolist() == [0, 0, 1]
  assert crossed.batch.group_ids.tolist() == [0, 1] * 3
  sampled = [
      row[mask].tolist()
      for row, mask in zip(
          crossed.batch.tokens, crossed.batch.completion_mask, strict=True
      )
  ]
  assert sampled[::2] == [[4, 5], [6], [10, 11, 12]] == sampled[1::2]


def test_many_tasks_cost_no_more_than_the_first_of_them():
  groups = [group(i, ((1, i), (2, 3))) for i in range(9)]
  crossed = gauges.cross(collate.collate(groups), most=4)
  assert len(crossed.batch.tokens) == 4 * 4
  assert crossed.own.tolist() == [0, 1, 2, 3]
  assert crossed.batch.tokens[:4, 1].tolist() == [0, 1, 2, 3]


def test_a_later_attempt_answers_another_prompt_and_is_left_out():
  later = group(0, ((1, 2, 3), (4, 5)), ((1, 2, 8, 3), (6,)), ((1, 2, 3), (7,)))
  crossed = gauges.cross(collate.collate([later, GROUPS[1]]))
  assert crossed.own.tolist() == [0, 0, 1]
  sampled = [
      row[mask].tolist()
      for row, mask in zip(
          crossed.batch.tokens, crossed.batch.completion_mask, strict=True
      )
  ]
  assert sampled[::2] == [[4, 5], [7], [10, 11, 12]]


@pytest.mark.parametrize(
    'completions, own', [(1, [0, 1]), (3, [0, 1]), (6, [0, 0, 0, 1])]
)
def test_tasks_share_the_completions_and_have_one_at_least(completions, own):
  crossed = gauges.cross(collate.collate(GROUPS), completions)
  assert crossed.own.tolist() == own


def test_one_task_has_nothing_to_be_told_from():
  assert gauges.cross(collate.collate(GROUPS[:1])) is None
  failed = fakes.make_group(None, 1.0)
  assert gauges.cross(collate.collate([failed])) is None


def test_it_is_what_single_rows_score():
  batch = collate.collate(GROUPS)
  networks = tiny.new_state().networks
  found = gauges.information(
      tiny.programs(), networks, batch, max_tokens=tiny.ROW
  )
  crossed = gauges.cross(batch)
  sums = []
  for tokens, used, mask in zip(
      crossed.batch.tokens,
      crossed.batch.segment_ids,
      crossed.batch.completion_mask,
      strict=True,
  ):
    n = int((used > 0).sum())
    logits, _ = tiny.run_decoder(
        tiny.MODULE,
        networks.policy,
        np.pad(tokens[:n], (0, 16 - n))[None],
        np.arange(16)[None],
    )
    logits = np.asarray(logits[0], np.float64)
    logprobs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
    sums.append(
        sum(logprobs[t - 1, tokens[t]] for t in np.flatnonzero(mask[:n]))
    )
  expected = gauges.estimate(
      np.reshape(sums, (len(crossed.own), -1)), crossed.own
  )
  assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
