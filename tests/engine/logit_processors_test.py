"""Penalties, biases, least lengths and likeliest tokens, against NumPy loops."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from agentrl.engine import logit_processors
from agentrl.engine.core import EngineCore
from agentrl.engine.logit_processors import LogitParams
from agentrl.engine.request import Request, RequestLimits, SamplingParams, check
from tests.waiting import wait_until

TIMEOUT = 300
VOCAB = 97
STEPS = 30

CASES = [
    {'frequency_penalty': 0.8},
    {'frequency_penalty': -0.5},
    {'presence_penalty': 2.0},
    {'presence_penalty': -1.5},
    {'repetition_penalty': 1.8},
    {'repetition_penalty': 0.7},
    {'logit_bias': ((3, 4.0), (50, -100.0))},
    {'repetition_penalty': 1e-40},  # a division that would overflow
    {
        'frequency_penalty': 0.3,
        'presence_penalty': -0.4,
        'repetition_penalty': 1.3,
        'logit_bias': ((7, 2.5), (8, -1.0)),
        'min_new_tokens': 9,
    },
]


def oracle(logits, output, params, ends):
  """One token at a time, in float64."""
  logits = logits.astype(np.float64)
  for token in range(len(logits)):
    times = list(output).count(token)
    if times:
      z = logits[token]
      z -= params.frequency_penalty * times + params.presence_penalty
      factor = np.float64(np.float32(params.repetition_penalty))
      z = z * factor if z < 0 else z / factor
      logits[token] = np.clip(z, -1e30, 1e30)
    logits[token] += dict(params.logit_bias).get(token, 0.0)
    if token in ends and len(output) < params.min_new_tokens:
      logits[token] = -np.inf
  return logits


def log_softmax(logits):
  shifted = logits - logits.max()
  return shifted - np.log(np.exp(shifted).sum())


def greedy(model, prompt, params, ends=()):
  """Ids and log-probabilities by full forwards, up to one of `ends`."""
  output, logprobs = [], []
  while len(output) < params.max_new_tokens:
    logits = model.logits([*prompt, *output])[-1]
    table = log_softmax(oracle(logits, output, params, ends))
    output.append(int(table.argmax()))
    logprobs.append(table[output[-1]])
    if output[-1] in ends and not params.ignore_eos:
      break
  return output, logprobs


def tables(model, prompt, result, params, temperature=1.0):
  """`[T, V]` log-probabilities of what `result` could have sampled."""
  rows = model.logits([*prompt, *result.output_ids])[len(prompt) - 1 : -1]
  return np.stack([
      log_softmax(oracle(row, result.output_ids[:t], params, ()) / temperature)
      for t, row in enumerate(rows)
  ])


penalty = st.floats(-2, 2, width=32)
some_params = st.builds(
    SamplingParams,
    frequency_penalty=penalty,
    presence_penalty=penalty,
    repetition_penalty=st.floats(0.125, 2, width=32),
    min_new_tokens=st.integers(0, 6),
    logit_bias=st.lists(
        st.tuples(st.integers(0, 11), st.floats(-100, 100, width=32)),
        max_size=3,
        unique_by=lambda pair: pair[0],
    ).map(tuple),
)


@given(
    st.lists(
        st.tuples(
            some_params,
            st.lists(st.integers(0, 11), max_size=8),
            st.lists(st.integers(0, 11), max_size=3),
        ),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.integers(0, 11), max_size=4),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=50)
def test_rows_equal_the_oracle_at_every_step_of_a_dispatch(rows, later, seed):
  rng = np.random.default_rng(seed)
  logits = rng.normal(scale=3, size=(4, 12)).astype(np.float32)
  wanted = [LogitParams(params, ends, output) for params, output, ends in rows]
  wanted.append(None)
  made = logit_processors.make_arrays(wanted, batch=4, vocab=12)
  counts = made.counts
  for step in range(len(later) + 1):
    found = logit_processors.apply(logits, made, counts, step)
    for i, (params, output, ends) in enumerate(rows):
      expected = oracle(logits[i], [*output, *later[:step]], params, ends)
      np.testing.assert_allclose(
          log_softmax(np.float64(found[i])), log_softmax(expected), atol=1e-4
      )
    # Neither a row of None nor padding is touched.
    np.testing.assert_array_equal(found[len(rows) :], logits[len(rows) :])
    if step < len(later):
      ids = np.full(4, later[step])
      counts = logit_processors.count(jax.numpy.asarray(counts), ids)


@pytest.mark.parametrize('case', CASES)
def test_greedy_decoding_equals_the_oracle_beside_ordinary_rows(
    engine, model, ask, prompt_of, case
):
  prompt, mate = prompt_of(12), prompt_of(20, seed=1)
  plain = {'temperature': 0.0, 'max_new_tokens': STEPS}
  futures = [
      ask(engine, prompt, **plain, **case),
      ask(engine, mate, **plain),
      ask(engine, mate, sampling_seed=3, max_new_tokens=STEPS),
  ]
  result, beside, sampled = (future.result(TIMEOUT) for future in futures)
  ids, logprobs = greedy(model, prompt, SamplingParams(**plain, **case))
  assert list(result.output_ids) == ids
  np.testing.assert_allclose(result.output_logprobs, logprobs, atol=2e-4)
  usual = tables(model, prompt, result, SamplingParams()).max(axis=-1)
  assert not np.allclose(logprobs, usual)  # or this proves nothing
  assert list(beside.output_ids) == model.greedy(mate, STEPS)
  alone = ask(engine, mate, sampling_seed=3, max_new_tokens=STEPS)
  assert sampled.output_ids == alone.result(TIMEOUT).output_ids


@pytest.mark.parametrize('case', [CASES[0], CASES[4], CASES[-1]])
def test_logprobs_are_of_the_adjusted_distribution(
    engine, model, ask, prompt_of, case
):
  prompt = prompt_of(15)
  params = SamplingParams(
      temperature=0.7, max_new_tokens=STEPS, sampling_seed=1, **case
  )
  fields = {
      name: getattr(params, name)
      for name in ('temperature', 'max_new_tokens', 'sampling_seed', *case)
  }
  result = ask(engine, prompt, top_logprobs=4, **fields).result(TIMEOUT)
  table = tables(model, prompt, result, params, temperature=0.7)
  expected = table[np.arange(STEPS), list(result.output_ids)]
  np.testing.assert_allclose(result.output_logprobs, expected, atol=1e-4)
  for row, top in zip(table, result.output_tops, strict=True):
    order = np.argsort(-row)[:4]
    assert [token for _, token in top] == order.tolist()
    np.testing.assert_allclose([v for v, _ in top], row[order], atol=1e-4)


def test_samples_follow_the_adjusted_distribution(
    engine, model, ask, prompt_of
):
  prompt, count = prompt_of(12), 600
  best = int(model.logits(prompt)[-1].argmax())
  bias = ((best, -3.0), (5, 4.0))
  futures = [
      ask(engine, prompt, max_new_tokens=1, sampling_seed=i, logit_bias=bias)
      for i in range(count)
  ]
  ids = [future.result(TIMEOUT).output_ids[0] for future in futures]
  params = SamplingParams(logit_bias=bias)
  expected = np.exp(
      log_softmax(oracle(model.logits(prompt)[-1], [], params, ()))
  )
  counts = np.bincount(ids, minlength=VOCAB)
  # Each count is binomial; 5 standard deviations and one draw of slack.
  slack = 5 * np.sqrt(count * expected * (1 - expected)) + 1
  assert np.all(np.abs(counts - count * expected) < slack)


def test_a_bias_forces_and_forbids(engine, model, ask, prompt_of):
  prompt = prompt_of(12)
  run = lambda **params: (
      ask(engine, prompt, max_new_tokens=20, **params)
      .result(TIMEOUT)
      .output_ids
  )
  assert set(run(logit_bias=((42, 1e30),))) == {42}
  assert set(run(logit_bias=((42, 1e30),), temperature=0.3)) == {42}
  favourites = set(model.greedy(prompt, 20))
  bias = tuple((token, -1e30) for token in favourites)
  for seed in range(5):
    assert not favourites & set(run(logit_bias=bias, sampling_seed=seed))


@pytest.mark.parametrize('ignore_eos', [False, True])
def test_no_end_comes_before_its_time(
    make_engine, model, ask, prompt_of, ignore_eos
):
  prompt = prompt_of(12)
  eos = model.greedy(prompt, 1)[0]
  stop = eos - 1
  engine = make_engine(eos_ids=(eos,))
  fields = {
      'temperature': 0.0,
      'max_new_tokens': STEPS,
      'stop_token_ids': (stop,),
      'ignore_eos': ignore_eos,
      # So that the ends are what it would say next.
      'logit_bias': ((eos, 15.0), (stop, 15.0)),
  }
  ends = {eos, stop}
  for least in (0, 1, 8, 11):  # 8 tokens are one dispatch
    fields['min_new_tokens'] = least
    result = ask(engine, prompt, **fields).result(TIMEOUT)
    ids, _ = greedy(model, prompt, SamplingParams(**fields), ends)
    assert list(result.output_ids) == ids
    assert not ends & set(ids[:least]) and ends & set(ids[least:])
    assert np.isfinite(result.output_logprobs).all()
    if not ignore_eos:
      assert len(ids) == least + 1
      assert result.finish_reason['matched'] in ends


def test_a_retracted_request_keeps_its_counts(
    engine, model, ask, prompt_of, slow_decode
):
  prompt = prompt_of(20)
  fields = {
      'temperature': 0.0,
      'max_new_tokens': 140,
      'frequency_penalty': 0.2,
  }
  future = ask(engine, prompt, top_logprobs=1, **fields)
  assert wait_until(lambda: engine.stats()['num_sampled_tokens'] > 10)
  engine.call(EngineCore.pause, 'retract')
  slow_decode.set()
  engine.call(EngineCore.resume)
  result = future.result(TIMEOUT)
  assert result.num_retractions == 1
  ids, _ = greedy(model, prompt, SamplingParams(**fields))
  assert list(result.output_ids) == ids
  # And what it told of the tokens before stays one entry a token.
  assert [top[0][1] for top in result.output_tops] == ids


def test_the_likeliest_tokens_are_the_models(engine, model, ask, prompt_of):
  # Scored in several dispatches, from a shared beginning on.
  prompt = prompt_of(100)
  ask(engine, prompt[:60], max_new_tokens=1).result(TIMEOUT)
  fields = {'max_new_tokens': 12, 'temperature': 0.5, 'logprob_start': 20}
  counts = (3, 0, 128)
  futures = [
      ask(engine, prompt, top_logprobs=n, sampling_seed=n, **fields)
      for n in counts
  ]
  for n, future in zip(counts, futures, strict=True):
    result = future.result(TIMEOUT)
    if not n:
      assert result.output_tops == () and result.input_logprobs[0] is None
      continue
    outputs = tables(model, prompt, result, SamplingParams(), temperature=0.5)
    inputs = model.logprobs(prompt)[20:-1]
    assert result.input_tops[0] is None
    for table, tops in (
        (outputs, result.output_tops),
        (inputs, result.input_tops[1:]),
    ):
      assert len(table) == len(tops)
      for row, top in zip(table, tops, strict=True):
        assert len(top) == min(n, VOCAB)
        values, ids = zip(*top, strict=True)
        np.testing.assert_allclose(row[list(ids)], values, atol=2e-5)
        np.testing.assert_allclose(
            values, -np.sort(-row)[: len(top)], atol=2e-5
        )


def test_an_impossible_token_has_a_number_that_json_knows(
    make_engine, ask, prompt_of
):
  engine = make_engine(eos_ids=(5,))
  result = ask(
      engine,
      prompt_of(4),
      max_new_tokens=2,
      min_new_tokens=2,
      top_logprobs=128,
  ).result(TIMEOUT)
  for top in result.output_tops:
    assert top[-1] == (np.finfo(np.float32).min, 5)
    assert top[-2][0] > -1e4


def test_ordinary_requests_pay_for_none_of_it(
    make_engine, ask, prompt_of, monkeypatch
):
  monkeypatch.setattr(
      logit_processors,
      'make_arrays',
      lambda *args: pytest.fail('a row was adjusted'),
  )
  engine = make_engine(eos_ids=(5,))
  neutral = {
      'frequency_penalty': 0.0,
      'presence_penalty': 0.0,
      'repetition_penalty': 1.0,
      'min_new_tokens': 0,
      'logit_bias': (),
  }
  futures = [
      ask(engine, prompt_of(9, seed=i), max_new_tokens=20, **neutral)
      for i in range(6)
  ]
  for future in futures:
    assert future.result(TIMEOUT).finish_reason['type'] != 'abort'
  assert set(engine._model_runner._kinds['decode']._shapes) == {
      (False, False, False)
  }


def test_a_request_that_could_sample_nothing_is_refused():
  limits = RequestLimits(8, 32, has_tokenizer=False, eos_ids=(0, 1, 2, 3))
  request = lambda stops: Request(
      'r',
      (1,),
      SamplingParams(
          max_new_tokens=4, min_new_tokens=1, stop_token_ids=tuple(stops)
      ),
  )
  check(request(range(4, 7)), limits)
  with pytest.raises(ValueError, match='min_new_tokens leaves nothing'):
    check(request(range(4, 8)), limits)
