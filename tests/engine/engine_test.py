"""Tests for the engine without HTTP, against full forward passes."""

import concurrent.futures
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.engine import cache, padding
from agentrl.engine.core import EngineCore
from agentrl.engine.request import RESERVED
from agentrl.errors import EngineError

TIMEOUT = 300


def wait(futures):
  return [future.result(TIMEOUT) for future in futures]


def scores(model, prompt, result, temperature=1.0):
  """What a full forward pass says of the tokens of `result`."""
  table = model.logprobs([*prompt, *result.output_ids], temperature)
  return [
      table[len(prompt) - 1 + i, token]
      for i, token in enumerate(result.output_ids)
  ]


def until(condition):
  deadline = time.monotonic() + TIMEOUT
  while not condition():
    assert time.monotonic() < deadline
    time.sleep(0.005)


def test_greedy_decoding_equals_repeated_full_forwards(
    engine, model, ask, prompt_of
):
  prompts = [prompt_of(size, seed=size) for size in (1, 2, 16, 17, 70, 120)]
  results = wait(
      ask(engine, p, temperature=0.0, max_new_tokens=20) for p in prompts
  )
  for prompt, result in zip(prompts, results, strict=True):
    assert list(result.output_ids) == model.greedy(prompt, 20)
    assert result.finish_reason == {'type': 'length', 'length': 20}
    np.testing.assert_allclose(
        result.output_logprobs, scores(model, prompt, result), atol=1e-5
    )


@pytest.mark.parametrize('temperature', [0.5, 1.0, 1.7])
def test_logprobs_equal_the_trainers_forward(
    engine, model, ask, prompt_of, temperature
):
  prompts = [prompt_of(20 + 9 * i, seed=i) for i in range(6)]
  results = wait(
      ask(engine, p, temperature=temperature, max_new_tokens=12)
      for p in prompts
  )
  for prompt, result in zip(prompts, results, strict=True):
    np.testing.assert_allclose(
        result.output_logprobs,
        scores(model, prompt, result, temperature),
        atol=1e-5,
    )


def test_a_seed_gives_the_same_tokens_whatever_runs_beside_it(
    engine, ask, prompt_of
):
  prompt = prompt_of(30)
  fixed = {'max_new_tokens': 16, 'sampling_seed': 5}

  def among(others):
    # Five to eight rows: one batch bucket. The first holds the others' slots.
    mates = [
        ask(engine, prompt_of(10 + i, seed=others + i), max_new_tokens=24)
        for i in range(6)
    ]
    result = ask(engine, prompt, **fixed).result(TIMEOUT)
    wait(mates)
    return result

  first, second = among(100), among(200)
  assert first.output_ids == second.output_ids
  np.testing.assert_allclose(
      first.output_logprobs, second.output_logprobs, atol=2e-6
  )
  other = ask(engine, prompt, **(fixed | {'sampling_seed': 6}))
  assert other.result(TIMEOUT).output_ids != first.output_ids


def test_requests_without_a_seed_differ(engine, ask, prompt_of):
  prompt = prompt_of(10)
  results = wait(ask(engine, prompt, max_new_tokens=16) for _ in range(4))
  assert len({result.output_ids for result in results}) == 4


def test_sampled_tokens_follow_the_model(engine, model, ask, prompt_of):
  prompt, count = prompt_of(12), 600
  results = wait(
      ask(engine, prompt, max_new_tokens=1, sampling_seed=i)
      for i in range(count)
  )
  expected = np.exp(model.logprobs(prompt)[-1].astype(np.float64))
  counts = np.bincount([r.output_ids[0] for r in results], minlength=97)
  # Each count is binomial; 5 standard deviations and one draw of slack.
  slack = 5 * np.sqrt(count * expected * (1 - expected)) + 1
  assert np.all(np.abs(counts - count * expected) < slack)


def test_turns_of_an_episode_reuse_exactly_what_is_cached(
    engine, make_engine, model, ask, prompt_of
):
  fresh, tokens, known = make_engine(slots=8), prompt_of(40), 0
  for turn in range(4):
    wanted = {'max_new_tokens': 9, 'sampling_seed': turn}
    result = ask(engine, tokens, **wanted).result(TIMEOUT)
    assert result.cached_tokens == known
    np.testing.assert_allclose(
        result.output_logprobs, scores(model, tokens, result), atol=1e-5
    )
    uncached = ask(fresh, tokens, salt=str(turn), **wanted).result(TIMEOUT)
    assert uncached.cached_tokens == 0
    assert uncached.output_ids == result.output_ids
    # The last sampled token has not been through the model.
    known = len(tokens) + len(result.output_ids) - 1
    tokens = [*tokens, *result.output_ids, *prompt_of(11, seed=turn)]


def test_a_group_shares_one_prefill(engine, model, ask, prompt_of):
  prompt = prompt_of(100)
  results = wait(
      ask(engine, prompt, max_new_tokens=8, sampling_seed=i) for i in range(8)
  )
  assert sorted(r.cached_tokens for r in results) == [0] + [99] * 7
  assert len({r.output_ids for r in results}) > 1
  for result in results:
    np.testing.assert_allclose(
        result.output_logprobs, scores(model, prompt, result), atol=1e-5
    )
  # Each then goes on in its own slot.
  longer = [[*prompt, *r.output_ids, 7, 8, 9] for r in results]
  later = wait(ask(engine, p, max_new_tokens=2) for p in longer)
  assert [r.cached_tokens for r in later] == [107] * 8


def test_forks_of_one_round_copy_from_a_slot_that_is_filled(
    make_engine, model, ask, prompt_of
):
  engine = make_engine(slots=4, max_running=4)
  wait(ask(engine, prompt_of(30, seed=i), max_new_tokens=1) for i in range(3))
  stem = prompt_of(40, seed=9)
  ask(engine, stem, max_new_tokens=4).result(TIMEOUT)  # in the last slot
  engine.call(EngineCore.pause, 'in_place')
  # The first fork evicts slot 0; to the second, slot 0 and the last look alike.
  others = [token for token in range(1, 97) if token != stem[30]]
  prompts = [[*stem[:30], token, 1] for token in others[:3]]
  futures = [ask(engine, p, max_new_tokens=5) for p in prompts]
  engine.call(EngineCore.resume)
  for prompt, result in zip(prompts, wait(futures), strict=True):
    assert result.cached_tokens == 30
    np.testing.assert_allclose(
        result.output_logprobs, scores(model, prompt, result), atol=1e-5
    )


def test_salts_share_nothing(engine, ask, prompt_of):
  prompt = prompt_of(50)
  first = ask(engine, prompt, salt='a', max_new_tokens=2).result(TIMEOUT)
  second = ask(engine, prompt, salt='b', max_new_tokens=2).result(TIMEOUT)
  third = ask(engine, prompt, salt='a', max_new_tokens=2).result(TIMEOUT)
  cached = [r.cached_tokens for r in (first, second, third)]
  assert cached == [0, 0, 49]


@pytest.mark.parametrize('start', [0, 5, 33])
def test_prompts_are_scored_from_a_position_on(
    engine, model, ask, prompt_of, start
):
  prompt = prompt_of(34)
  ask(engine, prompt, max_new_tokens=1).result(TIMEOUT)  # fills the cache
  result = ask(engine, prompt, logprob_start=start, max_new_tokens=3).result(
      TIMEOUT
  )
  table = model.logprobs(prompt)
  expected = [table[t - 1, prompt[t]] for t in range(start + 1, 34)]
  assert result.cached_tokens == start
  assert result.input_logprobs[0] is None
  np.testing.assert_allclose(result.input_logprobs[1:], expected, atol=1e-5)
  np.testing.assert_allclose(
      result.output_logprobs, scores(model, prompt, result), atol=1e-5
  )


def test_max_new_tokens_zero_scores_only(engine, ask, prompt_of):
  result = ask(engine, prompt_of(20), logprob_start=0, max_new_tokens=0).result(
      TIMEOUT
  )
  assert result.output_ids == () and len(result.input_logprobs) == 20
  assert result.finish_reason == {'type': 'length', 'length': 0}
  again = ask(engine, prompt_of(20), max_new_tokens=0).result(TIMEOUT)
  assert again.cached_tokens == 19


def test_stop_ids_end_a_completion_and_are_kept(
    make_engine, model, ask, prompt_of
):
  prompt = prompt_of(15)
  said = model.greedy(prompt, 12)
  cut = 1 + said.index(said[4])
  engine = make_engine(eos_ids=(said[4],))
  greedy = {'temperature': 0.0, 'max_new_tokens': 12}
  result = ask(engine, prompt, **greedy).result(TIMEOUT)
  assert list(result.output_ids) == said[:cut]
  assert result.finish_reason == {'type': 'stop', 'matched': said[4]}
  ignored = ask(engine, prompt, ignore_eos=True, **greedy).result(TIMEOUT)
  assert list(ignored.output_ids) == said
  # More stop ids than the device looks at: the host finds the others.
  unused = [t for t in range(97) if t not in said][: 2 * padding.STOP_IDS]
  many = ask(engine, prompt, stop_token_ids=(*unused, said[2]), **greedy)
  assert (
      list(many.result(TIMEOUT).output_ids) == said[: said.index(said[2]) + 1]
  )


def test_a_completion_may_fill_the_rows(make_engine, model, ask, prompt_of):
  engine = make_engine(context_length=256 + RESERVED)
  prompt = prompt_of(250)
  result = ask(engine, prompt, temperature=0.0, max_new_tokens=6)
  assert list(result.result(TIMEOUT).output_ids) == model.greedy(prompt, 6)
  result = ask(engine, prompt, max_new_tokens=12).result(TIMEOUT)
  assert result.finish_reason == {'type': 'length', 'length': 6}
  with pytest.raises(ValueError, match='263 tokens: 250 .* 262 tokens'):
    ask(engine, prompt, max_new_tokens=13)


def test_more_requests_than_slots_wait_their_turn(
    make_engine, model, ask, prompt_of
):
  engine = make_engine(max_running=2, slots=2)
  prompts = [prompt_of(5 + i, seed=i) for i in range(9)]
  results = wait(
      ask(engine, p, temperature=0.0, max_new_tokens=5) for p in prompts
  )
  for prompt, result in zip(prompts, results, strict=True):
    assert list(result.output_ids) == model.greedy(prompt, 5)


def test_a_full_queue_refuses(make_engine, ask, prompt_of):
  engine = make_engine(max_queued=2)
  engine.call(EngineCore.pause, 'in_place')
  ask(engine, prompt_of(4))
  ask(engine, prompt_of(4))
  with pytest.raises(EngineError, match='2 requests wait, and max_queued is 2'):
    ask(engine, prompt_of(4))


def test_new_weights_take_over_between_two_tokens(
    engine, slow_decode, model, other_model, ask, prompt_of
):
  slow_decode.set()
  prompt, size = prompt_of(20), 200
  compiled = None
  greedy = {'temperature': 0.0, 'max_new_tokens': size}
  alone = ask(engine, prompt, salt='warm-up', **greedy).result(TIMEOUT)
  compiled = engine.stats()['num_compiled_programs']
  slow_decode.clear()
  future = ask(engine, prompt, **greedy)
  until(lambda: engine.stats()['num_sampled_tokens'] > size + 20)
  engine.update_params(other_model.params, '7')
  slow_decode.set()
  result = future.result(TIMEOUT)
  (old, start, swap), (new, begin, end) = result.spans
  assert (old, start, new, end) == ('default', 0, '7', size)
  assert swap == begin and 0 < swap < size
  assert result.weight_version == '7'
  assert result.output_ids[:swap] == alone.output_ids[:swap]
  assert result.output_ids[swap:] != alone.output_ids[swap:]
  assert engine.stats()['num_compiled_programs'] == compiled
  # What follows is scored by the new weights alone, with nothing of the old.
  after = ask(engine, prompt, max_new_tokens=8).result(TIMEOUT)
  assert after.spans == (('7', 0, 8),) and result.num_retractions == 1
  for answer, first in ((result, swap), (after, 0)):
    table = other_model.logprobs([*prompt, *answer.output_ids])
    expected = [
        table[len(prompt) - 1 + i, token]
        for i, token in enumerate(answer.output_ids)
    ]
    np.testing.assert_allclose(
        answer.output_logprobs[first:], expected[first:], atol=1e-5
    )
  np.testing.assert_allclose(
      after.output_logprobs, scores(other_model, prompt, after), atol=1e-5
  )


def test_a_swap_without_flush_keeps_the_cache(
    engine, other_model, ask, prompt_of
):
  prompt = prompt_of(30)
  ask(engine, prompt, max_new_tokens=1).result(TIMEOUT)
  engine.update_params(other_model.params, '1', flush=False)
  assert ask(engine, prompt, max_new_tokens=1).result(TIMEOUT).cached_tokens
  engine.update_params(other_model.params, '2')
  assert not ask(engine, prompt, max_new_tokens=1).result(TIMEOUT).cached_tokens


def test_weights_that_do_not_fit_are_refused(engine, model, ask, prompt_of):
  narrow = model.params | {'embed': model.params['embed'][:, :16]}
  with pytest.raises(EngineError, match=r"'embed'.*\(97, 32\).*\(97, 16\)"):
    engine.update_params(narrow, '9')
  result = ask(engine, prompt_of(5), max_new_tokens=1).result(TIMEOUT)
  assert result.weight_version == 'default'


def test_the_engine_survives_a_failing_dispatch(
    engine, model, ask, prompt_of, monkeypatch
):
  prompt = prompt_of(10)
  ask(engine, prompt, max_new_tokens=1).result(TIMEOUT)
  good = engine._model_runner.decode

  def bad(rows, **settings):
    good(rows, **settings)  # consumes the cache, as a real failure may
    raise RuntimeError('the device has a bad day')

  monkeypatch.setattr(engine._model_runner, 'decode', bad)
  failed = ask(engine, prompt, max_new_tokens=4).result(TIMEOUT)
  assert failed.finish_reason['status_code'] == 500
  assert 'bad day' in failed.finish_reason['message']
  monkeypatch.undo()
  result = ask(engine, prompt, temperature=0.0, max_new_tokens=4)
  result = result.result(TIMEOUT)
  assert result.cached_tokens == 0
  assert list(result.output_ids) == model.greedy(prompt, 4)
  assert engine.stats()['num_running_reqs'] == 0


def test_weights_that_give_nan_fail_their_requests_and_leave_nothing(
    make_engine, model, ask, prompt_of
):
  engine = make_engine(max_running=1, slots=1)
  broken = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), model.params)
  engine.update_params(broken, 'nan')
  result = ask(engine, prompt_of(20), max_new_tokens=4).result(TIMEOUT)
  assert result.finish_reason['status_code'] == 500
  assert 'NaN' in result.finish_reason['message']
  engine.update_params(model.params, 'good')
  # The same slot, whose entries past the third were not a number.
  result = ask(engine, [1, 2, 3], temperature=0.0, max_new_tokens=4)
  assert list(result.result(TIMEOUT).output_ids) == model.greedy([1, 2, 3], 4)


def test_abort_takes_a_known_id_and_keeps_what_was_sampled(
    engine, slow_decode, ask, prompt_of
):
  del slow_decode
  future = ask(engine, prompt_of(8), rid='run', max_new_tokens=240)
  longer = ask(engine, prompt_of(7), rid='run-1', max_new_tokens=240)
  other = ask(engine, prompt_of(9), rid='other', max_new_tokens=3)
  until(lambda: engine.stats()['num_sampled_tokens'] > 0)
  assert (
      engine.call(EngineCore.abort, 'run-')
      == engine.call(EngineCore.abort, 'ru')
      == 0
  )
  assert engine.call(EngineCore.abort, 'run') == 2
  assert longer.result(TIMEOUT).finish_reason['type'] == 'abort'
  result = future.result(TIMEOUT)
  assert result.finish_reason['type'] == 'abort'
  assert result.finish_reason['status_code'] is None
  assert 0 < len(result.output_ids) < 240
  assert len(result.output_logprobs) == len(result.output_ids)
  assert other.result(TIMEOUT).finish_reason['type'] == 'length'


@pytest.mark.parametrize('mode', ['retract', 'in_place'])
def test_a_pause_delays_and_changes_nothing(
    engine, slow_decode, model, ask, prompt_of, mode
):
  prompt, size = prompt_of(20), 120
  future = ask(engine, prompt, temperature=0.0, max_new_tokens=size)
  until(lambda: engine.stats()['num_sampled_tokens'] > 10)
  engine.call(EngineCore.pause, mode)
  sampled = engine.stats()['num_sampled_tokens']
  late = ask(engine, prompt_of(4), temperature=0.0, max_new_tokens=2)
  with pytest.raises(concurrent.futures.TimeoutError):
    late.result(0.2)
  assert engine.stats()['num_sampled_tokens'] == sampled
  running = engine.stats()['num_running_reqs']
  assert running == (0 if mode == 'retract' else 1)
  slow_decode.set()
  engine.call(EngineCore.resume)
  result = future.result(TIMEOUT)
  assert list(result.output_ids) == model.greedy(prompt, size)
  assert result.num_retractions == (1 if mode == 'retract' else 0)
  assert result.cached_tokens == 0  # of its first start
  assert list(late.result(TIMEOUT).output_ids) == model.greedy(prompt_of(4), 2)


def test_retract_swap_continue_recomputes_with_the_new_weights(
    engine, slow_decode, other_model, ask, prompt_of
):
  prompt, size = prompt_of(20), 120
  future = ask(engine, prompt, temperature=0.0, max_new_tokens=size)
  until(lambda: engine.stats()['num_sampled_tokens'] > 10)
  engine.call(EngineCore.pause, 'retract')
  engine.update_params(other_model.params, '1')
  slow_decode.set()
  engine.call(EngineCore.resume)
  result = future.result(TIMEOUT)
  (_, _, swap), (version, _, _) = result.spans
  assert version == '1'
  # With no old entry left, the rest is exactly what the new weights say.
  table = other_model.logprobs([*prompt, *result.output_ids])
  expected = [
      table[len(prompt) - 1 + i, result.output_ids[i]]
      for i in range(swap, size)
  ]
  np.testing.assert_allclose(result.output_logprobs[swap:], expected, atol=1e-5)


def test_a_pause_with_abort_ends_everything(
    engine, slow_decode, ask, prompt_of
):
  del slow_decode
  futures = [
      ask(engine, prompt_of(8, seed=i), max_new_tokens=240) for i in range(12)
  ]
  engine.call(EngineCore.pause, 'abort')
  stats = engine.stats()
  assert stats['num_running_reqs'] == stats['num_waiting_reqs'] == 0
  kinds = {result.finish_reason['type'] for result in wait(futures)}
  assert kinds == {'abort'}


def test_stop_answers_everybody(make_engine, slow_decode, ask, prompt_of):
  del slow_decode
  engine = make_engine()
  futures = [
      ask(engine, prompt_of(5, seed=i), max_new_tokens=240) for i in range(20)
  ]
  engine.stop()
  codes = {result.finish_reason.get('status_code') for result in wait(futures)}
  assert codes == {503}
  with pytest.raises(EngineError, match='has stopped'):
    ask(engine, prompt_of(5))
  engine.stop()


def test_random_aborts_leak_no_slot(engine, ask, prompt_of):
  rng = np.random.default_rng(0)
  futures = []
  # So that some are aborted, however fast it is.
  engine.call(EngineCore.pause, 'in_place')
  for i in range(300):
    if i == 100:
      engine.call(EngineCore.resume)
    prompt = prompt_of(int(rng.integers(1, 60)), seed=i % 7)
    futures.append(
        ask(
            engine,
            prompt,
            rid=f'{i}-',
            max_new_tokens=int(rng.integers(0, 30)),
            stop_token_ids=(int(rng.integers(97)),),
        )
    )
    if rng.random() < 0.3:
      engine.call(EngineCore.abort, f'{rng.integers(i + 1)}-')
  results = wait(futures)
  kinds = {result.finish_reason['type'] for result in results}
  assert kinds == {'abort', 'stop', 'length'}
  stats = engine.stats()
  assert stats['num_running_reqs'] == stats['num_waiting_reqs'] == 0
  assert engine._table.count(cache.RUNNING) == 0
  assert stats['num_free_slots'] + stats['num_parked_slots'] == 12
  # And the cache is still right.
  assert engine.call(EngineCore.flush)
  assert engine.stats()['num_free_slots'] == 12
