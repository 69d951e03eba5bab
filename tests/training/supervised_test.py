"""Tests for agentrl.training.supervised."""

import dataclasses
import functools
import json

import jax
import numpy as np
import pytest
import rich.console
from hypothesis import given, strategies as st

from agentrl.algos import agentevol, dpo, sft
from agentrl.algos.hyperparams import Dpo
from agentrl.data import collate
from agentrl.errors import DivergedError
from agentrl.models import transformer
from agentrl.training import programs as programs_lib, supervised
from agentrl.training.optim import Rate
from agentrl.training.options import Optim
from agentrl.training.supervised import Network, Passes
from agentrl.types import Group
from tests import fakes, tiny


def demonstrations(count=12):
  """Episodes whose every sampled id is its predecessor plus one."""
  rng = np.random.default_rng(0)
  episodes = []
  for _ in range(count):
    start, size = rng.integers(20), 6
    tokens = tuple(int(start) + i for i in range(size))
    episodes.append(
        fakes.make_episode(
            turns=(fakes.make_turn(1.0, completion_tokens=size - 1),),
            tokens=tokens,
            completion_mask=(False,) + (True,) * (size - 1),
            sampler_logprobs=(0.0,) * size,
        )
    )
  batch = collate.collate([Group(0, 0, tuple(episodes))])
  return batch.replace(sampler_logprobs=None)


def learner(
    batch, *, loss=sft.loss, epochs=1, seed=0, state=None, start=0, **options
):
  """A learner with the tiny programs, before the state's next update."""
  passes = Passes(epochs, 5, tiny.ROW, seed, **options)
  return supervised.Learner(
      state or tiny.new_state(),
      tiny.programs(loss, learns_prompts=passes.learns_prompts),
      lambda update: 0.0,
      passes.num_updates(len(batch.tokens)),
      passes,
      start,
  )


def fit(batch, *, on_update=lambda index, state, metrics: None, **options):
  return supervised.fit(learner(batch, **options), batch, on_update=on_update)


@given(
    size=st.integers(1, 40),
    minibatch_size=st.integers(1, 12),
    epochs=st.integers(1, 3),
)
def test_every_epoch_has_every_row_once(size, minibatch_size, epochs):
  passes = Passes(epochs, minibatch_size, tiny.ROW, seed=3)
  found = list(passes.minibatches(size))
  assert len(found) == passes.num_updates(size)
  assert all(0 < len(rows) <= minibatch_size for rows in found)
  rows = np.concatenate(found).reshape(epochs, size)
  np.testing.assert_array_equal(
      np.sort(rows, axis=1), np.tile(np.arange(size), (epochs, 1))
  )


def test_epochs_and_seeds_have_orders_of_their_own():
  orders = [
      tuple(np.concatenate(list(Passes(2, 7, 0, seed).minibatches(20))))
      for seed in (0, 1, 0)
  ]
  assert orders[0] == orders[2] != orders[1]
  assert orders[0][:20] != orders[0][20:]


def test_learns_to_count():
  losses, indices = [], []

  def on_update(index, state, metrics):
    indices.append(index)
    losses.append(metrics['policy/loss'])

  state = fit(demonstrations(), epochs=20, on_update=on_update)
  assert indices == list(range(60)) and int(state.step) == 60
  # A uniform guess over 32 ids costs log(32) = 3.47 nats.
  assert losses[0] == pytest.approx(np.log(32), abs=0.1)
  assert losses[-1] < 0.35


def test_what_is_read_is_learnt_where_prompts_have_a_weight():
  """The prompts are so long that they are computed apart if they may be."""
  episodes, size = [], 200
  for first in range(6):
    tokens = tuple((first + i) % 20 for i in range(size))
    episodes.append(
        fakes.make_episode(
            turns=(fakes.make_turn(1.0, completion_tokens=4),),
            tokens=tokens,
            completion_mask=tuple(125 <= i < 129 for i in range(size)),
            sampler_logprobs=(0.0,) * size,
        )
    )
  batch = supervised.as_batch(episodes)
  loss = functools.partial(sft.loss, prompt_weight=0.5)
  limit = 8 * size
  pieces = collate.microbatches(
      batch, np.arange(5), max_tokens=limit, share_prefixes=True
  )
  assert all(piece.prefix is not None for piece, _ in pieces)
  losses = {}
  for prompts, how in {
      False: dict(epochs=8),
      True: dict(epochs=8, loss=loss, learns_prompts=True),
  }.items():
    made = learner(batch, **how)
    made = made._replace(
        passes=dataclasses.replace(made.passes, max_tokens=limit)
    )
    state = supervised.fit(made, batch, on_update=lambda *_: None)
    everything = batch.replace(
        completion_mask=(batch.segment_ids > 0) & (batch.positions > 0)
    )
    losses[prompts] = supervised.mean_loss(
        state,
        everything,
        programs=tiny.programs(sft.loss),
        max_tokens=tiny.ROW,
    )
  assert losses[True] < losses[False] - 0.5


def test_the_same_seed_gives_the_same_parameters():
  first, second, other = (
      fit(demonstrations(), epochs=1, seed=seed).params for seed in (0, 0, 1)
  )
  tiny.assert_trees_equal(first, second)
  differs = jax.tree.map(lambda a, b: bool((a != b).any()), first, other)
  assert any(jax.tree.leaves(differs))


def test_a_gradient_that_is_no_number_stops_it():
  def loss(outputs, batch, denominators):
    value, metrics = sft.loss(outputs, batch, denominators)
    return value * np.nan, metrics

  seen = []
  with pytest.raises(DivergedError, match='of 3 updates in a row'):
    fit(
        demonstrations(),
        loss=loss,
        epochs=3,
        on_update=lambda index, state, metrics: seen.append(metrics),
    )
  assert seen == 3 * [{'train/skipped': 1.0}]


def test_on_update_may_stop_it():
  class Stop(Exception):
    pass

  def stop(index, state, metrics):
    if index == 1:
      raise Stop

  with pytest.raises(Stop):
    fit(demonstrations(), epochs=1, on_update=stop)


@pytest.mark.parametrize('done', [1, 3, 5, 6])
def test_a_stopped_run_goes_on_exactly(done):
  class Stop(Exception):
    pass

  batch, kept = demonstrations(), []

  def stop(index, state, metrics):
    if index + 1 == done:
      kept.append(jax.tree.map(np.array, state))
      raise Stop

  whole = fit(batch, epochs=2)
  with pytest.raises(Stop):
    fit(batch, epochs=2, on_update=stop)
  state = jax.tree.map(jax.numpy.asarray, kept[0])
  assert int(state.step) == done
  again = fit(batch, epochs=2, state=state, start=done)
  assert int(again.step) == 6
  tiny.assert_trees_equal(again.params, whole.params)


PAIRED = functools.partial(dpo.loss, hyperparams=Dpo(reference_free=True))


@pytest.mark.parametrize('share', [0.2, 0.5, 0.9])
@pytest.mark.parametrize(
    'empty, loss, options',
    [
        ((2,), sft.loss, {}),
        ((0, 1, 2), sft.loss, {}),
        (range(6), sft.loss, {}),
        ((2, 3), PAIRED, {'rows_per_example': 2}),
        ((0, 1, 4, 5), PAIRED, {'rows_per_example': 2}),
        ((4,), agentevol.loss, {}),
    ],
)
def test_what_teaches_nothing_moves_no_place_in_the_data(
    empty, loss, options, share
):
  """A run stopped after any minibatch sees each of the rest once."""

  class Stop(Exception):
    pass

  batch, kept, seen = demonstrations(6), [], []
  mask = np.array(batch.completion_mask)
  mask[list(empty)] = False
  batch = batch.replace(completion_mask=mask, advantages=mask * np.float32(0.5))

  per_example = options.get('rows_per_example', 1)
  done = int(share * 12 / per_example)

  def stop(index, state, metrics):
    if index + 1 == done:
      kept.append(jax.tree.map(np.array, state))
      raise Stop

  def learn(*, on_update, **where):
    made = learner(batch, loss=loss, epochs=2, **options, **where)
    passes = dataclasses.replace(made.passes, minibatch_size=1)
    made = made._replace(passes=passes, total=passes.num_updates(6))
    return supervised.fit(made, batch, on_update=on_update)

  whole = []
  expected = learn(on_update=lambda index, _, x: whole.append((index, x)))
  updates = (12 - 2 * len(empty)) // per_example
  assert int(expected.step) == sum(bool(x) for _, x in whole) == updates
  with pytest.raises(Stop):
    learn(on_update=stop)
  state = jax.tree.map(jax.numpy.asarray, kept[0])
  found = learn(
      on_update=lambda index, _, x: seen.append((index, x)),
      state=state,
      start=done,
  )
  own = ('train/compile_wait_s', 'train/programs')  # of a process
  for _, metrics in (*seen, *whole):
    assert not metrics or all(metrics.pop(name) >= 0 for name in own)
  assert seen == whole[done:]
  assert int(found.step) == updates
  tiny.assert_trees_equal(found.params, expected.params)


def test_rows_that_belong_together_are_learnt_together():
  batch, seen = demonstrations(), []

  def spy(programs, state, batch, rows, **options):
    assert options['rows_per_example'] == 2
    seen.append(rows.reshape(-1, 2))
    return programs_lib.Updated(state, {})

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(supervised.programs_lib, 'update', spy)
    fit(batch, epochs=1, rows_per_example=2)
  assert [len(pairs) for pairs in seen] == [5, 1]
  pairs = np.concatenate(seen)
  np.testing.assert_array_equal(pairs[:, 1], pairs[:, 0] + 1)
  assert sorted(pairs.ravel()) == list(range(12))


def test_the_mean_loss_is_that_of_the_tokens_to_learn():
  batch = demonstrations()
  state = tiny.new_state()
  found = supervised.mean_loss(
      state, batch, programs=tiny.programs(sft.loss), max_tokens=tiny.ROW
  )
  metrics = programs_lib.update(
      tiny.programs(sft.loss), state, batch, np.arange(12), max_tokens=tiny.ROW
  ).metrics
  np.testing.assert_allclose(found, metrics['policy/loss'], rtol=1e-5)


def imitate(learner, batch, directory, **options):
  return supervised.imitate(
      learner,
      batch,
      directory=directory,
      console=rich.console.Console(quiet=True),
      **dict(check=lambda: None, name='warmstart', write=True) | options,
  )


def test_updates_that_are_skipped_end_no_phase(tmp_path):
  batch = supervised.as_batch([fakes.make_episode()] * 2)
  params = transformer.init_params(tiny.MODULE, jax.random.key(0))
  learner = supervised.make_learner(
      params,
      len(batch.valid),
      network=Network(tiny.MODULE, tiny.one_device()),
      loss=sft.loss,
      optim=Optim(),
      # Gone after the first update.
      rate=lambda total: Rate(1e30, 0, 'constant', total),
      passes=Passes(3, 2, Optim().max_tokens, 0),
  )
  _, metrics = imitate(learner, batch, tmp_path)
  lines = (tmp_path / 'warmstart.jsonl').read_text().splitlines()
  skipped = [json.loads(line)['train/skipped'] for line in lines]
  assert skipped == [0.0, 1.0, 1.0]
  # Learnt from once.
  assert metrics['train/tokens'] == np.count_nonzero(batch.segment_ids)
  # Not donated: every round of AgentEvol begins with the same parameters.
  assert np.isfinite(jax.tree.leaves(params)[0]).all()


def test_a_phase_has_its_file_anew_and_none_where_nothing_is_written(tmp_path):
  batch, path = demonstrations(), tmp_path / 'round.jsonl'
  path.write_text('of a killed run')
  checked = []
  params, metrics = imitate(
      learner(batch),
      batch,
      tmp_path,
      name='round',
      check=lambda: checked.append(path.exists()),
  )
  lines = [json.loads(line) for line in path.read_text().splitlines()]
  assert len(lines) == 3 and checked == [True] * 3
  assert metrics['policy/loss'] == lines[-1]['policy/loss']
  assert metrics['train/tokens'] == sum(line['train/tokens'] for line in lines)
  quiet = tmp_path / 'quiet'
  other, _ = imitate(learner(batch), batch, quiet, write=False)
  assert not quiet.exists()
  tiny.assert_trees_equal(other, params)


def test_the_learning_rate_is_that_of_a_phase_of_so_many_updates():
  batch, totals = demonstrations(), []

  def rate(total):
    totals.append(total)
    return Rate(1e-3, 0, 'linear', total)

  learner = supervised.make_learner(
      tiny.init_params(),
      len(batch.tokens),
      network=Network(tiny.MODULE, tiny.one_device()),
      loss=sft.loss,
      optim=Optim(),
      rate=rate,
      passes=Passes(2, 5, tiny.ROW, 0),
  )
  assert totals == [learner.total] == [6] and int(learner.state.step) == 0
  assert learner.learning_rate(0) == pytest.approx(1e-3)
  assert learner.learning_rate(3) < 1e-3
