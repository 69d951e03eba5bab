"""Tests for agentrl.engine.sampling against distributions made in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from agentrl.engine import sampling

DRAWS = 8_000
choose = jax.jit(sampling.choose, static_argnames='truncated')


def settings(
    count, vocab, *, temperature=1.0, top_p=1.0, top_k=None, min_p=0.0
):
  full = lambda value, kind: jnp.full(count, value, kind)
  return sampling.Settings(
      temperature=full(temperature, jnp.float32),
      top_p=full(top_p, jnp.float32),
      top_k=full(vocab if top_k is None else top_k, jnp.int32),
      min_p=full(min_p, jnp.float32),
  )


def oracle(logits, *, temperature=1.0, top_p=1.0, top_k=None, min_p=0.0):
  """The distribution to sample from, one token at a time, in float64."""
  scaled = logits.astype(np.float64) / temperature
  probs = np.exp(scaled - scaled.max())
  probs /= probs.sum()
  kept, mass = np.zeros_like(probs), 0.0
  for rank, token in enumerate(np.argsort(-probs, kind='stable')):
    in_k = top_k is None or rank < top_k
    if in_k and mass <= top_p and probs[token] >= min_p * probs.max():
      kept[token] = probs[token]
    mass += probs[token]
  return kept / kept.sum()


def draw(logits, *, truncated, **chosen):
  rows = jnp.tile(logits, (DRAWS, 1))
  seeds = np.arange(DRAWS)
  uniform = sampling.uniforms(seeds, np.full((DRAWS, 1), 7))[:, 0]
  return choose(
      rows,
      uniform,
      settings(DRAWS, logits.shape[-1], **chosen),
      truncated=truncated,
  )


CASES = [
    {},
    {'temperature': 0.6},
    {'top_k': 5},
    {'top_k': 200, 'temperature': 3.0},  # more than the partial sort holds
    {'top_p': 0.8},
    {'top_p': 0.995, 'temperature': 3.0},
    {'min_p': 0.1},
    {'top_k': 20, 'top_p': 0.9, 'min_p': 0.02, 'temperature': 1.3},
]


@pytest.mark.parametrize('chosen', CASES)
@pytest.mark.parametrize('vocab', [50, 300])
def test_samples_follow_the_distribution(vocab, chosen):
  logits = np.random.default_rng(1).normal(scale=2.0, size=vocab)
  logits = logits.astype(np.float32)
  expected = oracle(logits, **chosen)
  truncated = bool(chosen.keys() - {'temperature'})
  ids, _ = draw(logits, truncated=truncated, **chosen)
  counts = np.bincount(np.asarray(ids), minlength=vocab)
  assert counts[expected == 0].sum() == 0
  # Chi-square wants about five expected draws a cell: join the rare ones.
  order = np.argsort(-expected)
  rare = expected[order] * DRAWS < 8
  join = lambda x: np.append(x[order][~rare], x[order][rare].sum())
  observed, wanted = join(counts), join(expected * DRAWS)
  keep = wanted > 0
  assert scipy.stats.chisquare(observed[keep], wanted[keep]).pvalue > 1e-4


@pytest.mark.parametrize('truncated', [False, True])
def test_logprobs_are_of_the_tempered_distribution_before_truncation(truncated):
  logits = np.random.default_rng(2).normal(scale=2.0, size=60)
  logits = logits.astype(np.float32)
  chosen = {'temperature': 0.7} | ({'top_k': 3} if truncated else {})
  ids, logprobs = draw(logits, truncated=truncated, **chosen)
  expected = np.log(oracle(logits, temperature=0.7))[np.asarray(ids)]
  np.testing.assert_allclose(logprobs, expected, atol=1e-5)


@pytest.mark.parametrize('truncated', [False, True])
def test_greedy_takes_the_maximum_and_scores_at_temperature_one(truncated):
  logits = np.random.default_rng(3).normal(scale=2.0, size=60)
  logits = logits.astype(np.float32)
  ids, logprobs = draw(logits, truncated=truncated, temperature=1e-7)
  assert set(np.asarray(ids).tolist()) == {int(logits.argmax())}
  np.testing.assert_allclose(logprobs, np.log(oracle(logits).max()), atol=1e-5)


def test_rows_keep_their_own_settings():
  rng = np.random.default_rng(4)
  logits = rng.normal(scale=2.0, size=(6, 300)).astype(np.float32)
  uniform = rng.random(6).astype(np.float32)
  mixed = sampling.Settings(
      temperature=jnp.array([1.0, 0.5, 1.0, 0.0, 2.0, 1.0]),
      top_p=jnp.array([1.0, 1.0, 0.7, 1.0, 1.0, 1.0]),
      top_k=jnp.array([300, 300, 300, 300, 290, 300]),
      min_p=jnp.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.05]),
  )
  together, _ = choose(logits, uniform, mixed, truncated=True)
  for b in range(6):
    row = jax.tree.map(lambda x, b=b: x[b : b + 1], mixed)
    alone, _ = choose(
        logits[b : b + 1], uniform[b : b + 1], row, truncated=True
    )
    assert together[b] == alone[0]
  plain, _ = choose(logits, uniform, mixed, truncated=False)
  assert together[:2].tolist() == plain[:2].tolist()


def test_extreme_uniforms_choose_possible_tokens():
  logits = np.full((2, 40), -200.0, np.float32)
  logits[:, [10, 20]] = 0.0  # all others underflow to probability 0
  ids, _ = choose(
      logits,
      np.array([0.0, 1 - 2**-24], np.float32),
      settings(2, 40),
      truncated=False,
  )
  assert ids.tolist() == [10, 20]


def test_no_rounding_chooses_an_impossible_token():
  # 1 + w rounds up by one step of 2**-23, so the end of the second block less its
  # mass is 1 + 2**-23, and a threshold of 1 lies before its first entry, of weight 0.
  weights = np.zeros((1, 128), np.float32)
  weights[0, [0, 65]] = 1, 1 + 3 * 2**-23
  uniform = np.array([0.5 - 2**-23], np.float32)
  assert sampling._invert(weights, uniform).tolist() == [65]


def test_uniforms_depend_on_seed_and_position_alone():
  seeds = np.array([3, 4, 2**32 - 1])
  positions = np.array([[0, 1], [1, 2], [7, 8]])
  drawn = sampling.uniforms(seeds, positions)
  again = sampling.uniforms(seeds[1:2], np.array([[1]]))
  assert drawn[1, 0] == again[0, 0]
  assert len(set(drawn.ravel().tolist())) == 6


def test_uniforms_are_uniform_and_independent_along_both_axes():
  drawn = sampling.uniforms(np.arange(300), np.tile(np.arange(300), (300, 1)))
  assert 0 <= drawn.min() and drawn.max() < 1
  assert scipy.stats.kstest(drawn.ravel(), 'uniform').pvalue > 1e-4
  for a, b in (
      (drawn[1:], drawn[:-1]),  # neighbouring seeds
      (drawn[:, 1:], drawn[:, :-1]),  # neighbouring positions
      (drawn[1:, :-1], drawn[:-1, 1:]),  # seed + position constant
  ):
    # 90,000 pairs: the correlation's standard deviation is 0.0033.
    assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.015
