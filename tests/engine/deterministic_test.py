"""Tests of the engine's determinism mode: equality to the last bit."""

import concurrent.futures

import numpy as np
import pytest

from agentrl.engine import model_runner
from agentrl.engine.core import EngineCore

TIMEOUT = 300
# Rows that compile other programs, and rows whose truncation needs a full sort.
SETTINGS = (
    dict(),
    dict(temperature=0.0),
    dict(temperature=1.5),
    dict(top_p=0.7),
    dict(top_k=5, min_p=0.01),
    dict(frequency_penalty=0.5),
)


@pytest.fixture
def deterministic(make_engine):
  return make_engine(deterministic=True)


def episode(ask, engine, number, *, turns=3):
  """Turns of one episode, each with the tokens of the one before in front."""
  rng = np.random.default_rng(number)
  draw = lambda size: rng.integers(1, 97, size=size).tolist()
  tokens, results = draw(20 + 9 * number), []
  for turn in range(turns):
    result = ask(
        engine,
        tokens,
        sampling_seed=turn,
        max_new_tokens=7 + number,
        **SETTINGS[number % len(SETTINGS)],
    ).result(TIMEOUT)
    results.append((result.output_ids, result.output_logprobs))
    tokens = tokens + list(result.output_ids) + draw(11)
  return results


def together(ask, engine, numbers):
  """All episodes at once, so in batches that nobody can foresee."""
  with concurrent.futures.ThreadPoolExecutor(len(numbers)) as threads:
    return list(threads.map(lambda n: episode(ask, engine, n), numbers))


def test_replies_are_equal_to_the_bit_alone_among_others_and_without_a_cache(
    deterministic, ask
):
  numbers = range(8)
  alone = [episode(ask, deterministic, number) for number in numbers]
  assert deterministic.call(EngineCore.flush)
  assert together(ask, deterministic, numbers) == alone
  # Now every prompt is cached, in whatever slots.
  assert together(ask, deterministic, list(reversed(numbers))) == alone[::-1]


def test_an_evicted_turn_is_computed_again_to_the_bit(make_engine, ask):
  roomy = make_engine(deterministic=True)
  tight = make_engine(deterministic=True, slots=8)
  together(ask, tight, range(8))  # leaves no slot free
  assert together(ask, tight, range(8)) == together(ask, roomy, range(8))


def test_samples_of_a_group_share_a_prefill_and_only_that(
    deterministic, ask, prompt_of
):
  prompt = prompt_of(150)
  first = ask(deterministic, prompt, sampling_seed=1, max_new_tokens=20)
  tokens = prompt + list(first.result(TIMEOUT).output_ids)
  again = ask(deterministic, prompt, sampling_seed=1, max_new_tokens=20)
  longer = ask(deterministic, tokens, sampling_seed=1, max_new_tokens=1)
  results = [future.result(TIMEOUT) for future in (first, again, longer)]
  # 128 of 149 are whole chunks; what was sampled is computed anew.
  assert deterministic.stats()['num_cached_tokens'] == 2 * 128
  # That depends on who came before, and so is no part of a result.
  assert [result.cached_tokens for result in results] == [None] * 3
  assert again.result(TIMEOUT).output_ids == first.result(TIMEOUT).output_ids


def test_scored_prompts_are_equal_to_the_bit(deterministic, ask, prompt_of):
  prompt = prompt_of(120)
  score = lambda start: ask(
      deterministic, prompt, logprob_start=start, max_new_tokens=0
  ).result(TIMEOUT)
  first = score(0)
  together(ask, deterministic, range(4))
  ask(deterministic, prompt, max_new_tokens=4).result(TIMEOUT)
  assert score(0).input_logprobs == first.input_logprobs
  before = score(70).input_logprobs
  assert deterministic.call(EngineCore.flush)
  assert score(70).input_logprobs == before


def test_one_program_of_each_kind_is_compiled(deterministic, ask):
  together(ask, deterministic, range(6))
  for shapes in deterministic._model_runner._kinds['decode']._shapes.values():
    assert shapes._compiled == {(8, 256)}
  assert set(deterministic._model_runner._kinds['prefill']._shapes) == {
      model_runner._FIXED_CHUNK
  }


def test_it_agrees_with_the_trainers_forward(
    deterministic, model, ask, prompt_of
):
  prompt = prompt_of(100)
  result = ask(deterministic, prompt, max_new_tokens=30).result(TIMEOUT)
  table = model.logprobs([*prompt, *result.output_ids])
  expected = [
      table[len(prompt) - 1 + i, token]
      for i, token in enumerate(result.output_ids)
  ]
  np.testing.assert_allclose(result.output_logprobs, expected, atol=1e-5)
