"""Tests for agentrl.training.programs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from agentrl.algos import policy, sft
from agentrl.data import collate
from agentrl.errors import DivergedError
from agentrl.ops import logprob
from agentrl.ops.aggregate import Denominators
from agentrl.training import programs as programs_lib, state as state_lib
from agentrl.training.state import Networks
from tests import tiny

ROWS = np.arange(8)


def direct_loss(params, batch):
  """The loss of a whole batch in one piece: no buckets, no microbatches."""
  hidden = tiny.MODULE.apply(
      {'params': params}, batch.tokens, batch.positions, batch.segment_ids
  ).hidden
  unembed = lambda h: tiny.MODULE.apply({'params': params}, h, method='unembed')
  logprobs, entropy = logprob.from_hidden(
      hidden, unembed, batch.tokens, batch.positions
  )
  mask = batch.completion_mask & batch.valid[:, None]
  count = jnp.sum(mask)
  denominators = Denominators(count, batch.valid.sum(), count, 0.0)
  return tiny.bound()(policy.Outputs(logprobs, entropy), batch, denominators)


direct_grad = jax.jit(jax.grad(direct_loss, has_aux=True))


def gradient(programs, params, batch, rows, max_tokens):
  """Accumulated over the microbatches, as `update` does."""
  grads = programs.zeros()
  networks = Networks(params)
  denominators = programs_lib.denominators(batch, rows)
  pieces = collate.microbatches(batch, rows, max_tokens=max_tokens)
  for piece, _ in pieces:
    piece = state_lib.place(piece, programs.mesh)
    grads, *_ = programs.accumulate(networks, grads, piece, denominators)
  return grads.policy, len(pieces)


@pytest.mark.parametrize('rows_a_piece, count', [(8, 1), (4, 2), (1, 6)])
def test_any_number_of_microbatches_gives_the_same_update(rows_a_piece, count):
  # Sixteen episodes, packed into six rows of at most 64 tokens.
  batch, rows = tiny.random_batch(0, num_groups=4), np.arange(16)
  max_tokens = tiny.ROW * rows_a_piece
  programs, params = tiny.programs(), tiny.new_state().params
  expected, metrics = direct_grad(params, batch)
  grads, pieces = gradient(programs, params, batch, rows, max_tokens)
  assert pieces == count
  tiny.assert_trees_close(grads, expected, rtol=1e-4, atol=1e-7)

  state, found, *_ = programs_lib.update(
      programs, tiny.new_state(), batch, rows, max_tokens=max_tokens
  )
  whole = programs_lib.update(
      programs, tiny.new_state(), batch, rows, max_tokens=tiny.ROW * 8
  ).state
  tiny.assert_trees_close(state.params, whole.params, rtol=1e-5, atol=1e-6)
  assert int(state.step) == 1
  for name, value in metrics.items():
    np.testing.assert_allclose(
        found[name], value, rtol=1e-4, atol=1e-6, err_msg=name
    )


def test_a_long_row_is_a_shape_of_its_own_and_weighs_by_its_tokens():
  groups = tiny.random_groups(1)
  rng = np.random.default_rng(1)
  long = tiny.random_episode(rng, turns=15)
  episodes = (long, *groups[0].episodes[1:])
  groups[0] = type(groups[0])(0, 0, episodes)
  batch = tiny.make_batch(groups, width=192)
  params = tiny.new_state().params
  expected, _ = direct_grad(params, batch)
  grads, pieces = gradient(tiny.programs(), params, batch, ROWS, 128)
  assert pieces > 1
  tiny.assert_trees_close(grads, expected, rtol=1e-4, atol=1e-7)


def test_failed_episodes_change_nothing():
  batch = tiny.random_batch(2, failures=0.4)
  assert 0 < batch.valid.sum() < 8
  junk = batch.replace(
      tokens=np.where(batch.valid[:, None], batch.tokens, 31),
      advantages=np.where(batch.valid[:, None], batch.advantages, np.nan),
  )
  clean, dirty = (
      programs_lib.update(
          tiny.programs(), tiny.new_state(), b, ROWS, max_tokens=tiny.ROW
      )
      for b in (batch, junk)
  )
  tiny.assert_trees_equal(dirty[0].params, clean[0].params)
  assert dirty[1]['train/grad_norm'] == clean[1]['train/grad_norm']


def test_a_minibatch_is_its_rows_and_no_others():
  batch = tiny.random_batch(3, num_groups=4)
  rows = np.array([6, 1, 13])
  only = batch.replace(valid=np.isin(np.arange(16), rows))
  expected, _ = direct_grad(tiny.new_state().params, only)
  grads, _ = gradient(
      tiny.programs(), tiny.new_state().params, batch, rows, tiny.ROW
  )
  tiny.assert_trees_close(grads, expected, rtol=1e-4, atol=1e-7)


def test_parameters_that_are_not_finite_end_the_run():
  # A gradient that is finite, and a learning rate that no parameters can bear.
  tx, mesh = optax.sgd(np.inf), tiny.one_device()
  state = state_lib.create(tiny.init_params(), tx, mesh)
  programs = programs_lib.compile_programs(tiny.MODULE, tiny.bound(), tx, state)
  with pytest.raises(
      DivergedError, match='After update 1 the parameters are not finite'
  ):
    programs_lib.update(
        programs, state, tiny.random_batch(0), ROWS, max_tokens=tiny.ROW
    )


def test_a_minibatch_without_sampled_tokens_changes_nothing():
  batch = tiny.random_batch(4)
  batch = batch.replace(valid=np.zeros(8, bool))
  state = tiny.new_state()
  same, metrics, *_ = programs_lib.update(
      tiny.programs(), state, batch, ROWS, max_tokens=tiny.ROW
  )
  assert same is state and metrics == {}


def test_an_update_donates_its_state_and_counts():
  state = tiny.new_state()
  leaf = state.params['embed']
  state, metrics, *_ = programs_lib.update(
      tiny.programs(), state, tiny.random_batch(5), ROWS, max_tokens=tiny.ROW
  )
  assert leaf.is_deleted()
  assert int(state.step) == 1
  tokens = (tiny.random_batch(5).segment_ids > 0).sum()
  assert metrics['train/tokens'] == tokens
  pieces = collate.microbatches(tiny.random_batch(5), ROWS, max_tokens=tiny.ROW)
  padded = sum(piece.tokens.size for piece, _ in pieces)
  np.testing.assert_allclose(metrics['train/padding'], 1 - tokens / padded)
  assert metrics['train/grad_norm'] > 0 and metrics['train/update_norm'] > 0
  assert all(type(value) is float for value in metrics.values())


@pytest.mark.parametrize('learns_prompts', [True, False])
@pytest.mark.parametrize('temperature', [1.0, 0.5])
def test_score_equals_one_unpadded_row_at_a_time(temperature, learns_prompts):
  batch = tiny.random_batch(6, failures=0.3)
  params = tiny.new_state().params
  found = programs_lib.score(
      tiny.programs(temperature=temperature, learns_prompts=learns_prompts),
      Networks(params),
      batch,
      max_tokens=tiny.ROW,
  ).logprobs
  assert found.shape == batch.tokens.shape

  @jax.jit
  def logits_of(tokens):
    positions = jnp.arange(64)[None]
    hidden = tiny.MODULE.apply({'params': params}, tokens, positions).hidden
    return tiny.MODULE.apply({'params': params}, hidden, method='unembed')

  for row in range(8):
    n = int((batch.segment_ids[row] > 0).sum())
    logits = np.asarray(logits_of(batch.tokens[row : row + 1])[0], np.float64)
    says = logits / temperature
    says -= np.log(np.exp(says).sum(axis=-1, keepdims=True))
    expected = np.zeros(64)
    if batch.valid[row]:
      expected[1:n] = says[np.arange(n - 1), batch.tokens[row, 1:n]]
    if not learns_prompts:
      expected *= batch.completion_mask[row]
    np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-5)


def test_merge_adds_shares_and_takes_the_largest_maximum():
  parts = [{'a/x': 0.25, 'a/x_max': 3.0}, {'a/x': 0.5, 'a/x_max': 2.0}]
  assert programs_lib.merge(parts) == {'a/x': 0.75, 'a/x_max': 3.0}


def test_skips_are_counted_in_a_row_and_the_third_is_an_error():
  skipped, applied = {'train/skipped': 1.0}, {'train/skipped': 0.0}
  assert programs_lib.count_skips(0, skipped) == 1
  assert programs_lib.count_skips(2, skipped) == 3
  assert programs_lib.count_skips(2, applied) == 0
  programs_lib.check_skips(2)
  with pytest.raises(DivergedError, match='3 updates in a row were not finite'):
    programs_lib.check_skips(3)


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_a_number_that_is_not_finite_skips_the_update(value):
  batch = tiny.random_batch(8)
  b, t = np.argwhere(batch.completion_mask)[0]
  advantages = np.array(batch.advantages)
  advantages[b, t] = value
  before = tiny.new_state()
  state, metrics, _, suspects = programs_lib.update(
      tiny.programs(),
      tiny.new_state(),
      batch.replace(advantages=advantages),
      ROWS,
      max_tokens=tiny.ROW,
  )
  assert metrics == {'train/skipped': 1.0} and b in suspects
  assert int(state.step) == int(before.step) + 1
  tiny.assert_trees_equal(
      (state.params, state.opt_state), (before.params, before.opt_state)
  )


def test_supervised_and_grpo_losses_share_the_machinery():
  # GRPO's first update with every advantage 1 is maximum likelihood.
  batch = tiny.random_batch(9)
  ones = batch.replace(advantages=np.ones_like(batch.advantages))
  params = tiny.new_state().params
  policy, _ = gradient(tiny.programs(), params, ones, ROWS, tiny.ROW)
  likelihood, _ = gradient(
      tiny.programs(sft.loss), params, batch, ROWS, tiny.ROW
  )
  tiny.assert_trees_close(policy, likelihood, rtol=1e-4, atol=1e-7)
