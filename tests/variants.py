"""Every online algorithm and what its hyperparameters make of it, with batches for them."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from agentrl.algos import grpo, policy
from agentrl.algos.hyperparams import Online
from agentrl.algos.online import ONLINE
from tests import tiny

WIDTH = 128
DECAY = dict(gamma=0.9, lam=0.8)
# name -> (algorithm, hyperparameters). The discounts are below 1, where they show.
ADVANTAGES = {
    'grpo': ('grpo', {}),
    'grpo_ddof_0': ('grpo', dict(ddof=0)),
    'dr_grpo': ('grpo', dict(normalise_std=False)),
    'rloo': ('rloo', {}),
    'reinforce_pp': ('reinforce_pp', dict(gamma=0.9)),
    'reinforce_pp_baseline': ('reinforce_pp', dict(group_baseline=True)),
    'ppo': ('ppo', DECAY),
    'ppo_unwhitened': ('ppo', DECAY | dict(whiten=False)),
    'ppo_turn_level': ('ppo', DECAY | dict(turn_level=True)),
    'gigpo': ('gigpo', dict(gamma=0.9)),
    'gigpo_unscaled': ('gigpo', dict(gamma=0.9, normalise_std=False)),
    'distill': ('distill', {}),
    'distill_return': ('distill', dict(return_coef=0.5)),
}
CONSTANT = dict(aggregation='constant', aggregation_constant=32.0)
KL = dict(kl_coef=0.1)
LOSSES = {
    'grpo': ('grpo', {}),
    'grpo_kl': ('grpo', KL | dict(entropy_coef=0.01)),
    'dr_grpo': ('grpo', dict(normalise_std=False) | CONSTANT),
    'gspo': ('grpo', dict(ratio_level='sequence', aggregation='sequence')),
    'cispo': ('grpo', dict(surrogate='cispo', clip_low=1.0, clip_high=4.0)),
    'turn_mean': ('grpo', dict(aggregation='turn')),
    'dual_clip': ('grpo', dict(dual_clip=3.0)),
    'importance_cap': ('grpo', dict(importance_cap=2.0)),
    'sequence_mask': ('grpo', dict(sequence_low=0.5, sequence_high=2.0)),
    'sequence_cap': ('grpo', dict(sequence_cap=2.0, sequence_k3=1.0)),
    'icepop': ('grpo', dict(importance_low=0.5, importance_cap=2.0)),
    'dppo_tv': ('grpo', dict(surrogate='dppo_tv')),
    'dppo_kl': ('grpo', dict(surrogate='dppo_kl', outlier=100.0)),
    'topr': ('grpo', dict(surrogate='topr')),
    'rloo': ('rloo', {}),
    'reinforce_pp': ('reinforce_pp', dict(gamma=0.9)),
    'ppo': ('ppo', DECAY),
    'ppo_turn_level': ('ppo', DECAY | dict(turn_level=True)),
    'gigpo': ('gigpo', dict(gamma=0.9)),
    'distill': ('distill', {}),
}
_WINDOW = dict(sequence_low=0.5, sequence_high=2.0)


def half(old_logprobs, sampler_logprobs, mask, batch):
  """A correction of one's own."""
  del sampler_logprobs, batch
  return jnp.where(mask, 0.5, 0.0) + 0.0 * old_logprobs


# hyperparameter -> what it needs beside it, and another value than there or the default.
CHANGES = {
    'clip_low': ({}, 0.05),
    'clip_high': ({}, 0.05),
    'dual_clip': ({}, 1.1),
    'surrogate': ({}, 'cispo'),
    'ratio_level': ({}, 'sequence'),
    'aggregation': ({}, 'sequence'),
    'aggregation_constant': (CONSTANT, 64.0),
    'negative_weight': ({}, 0.5),
    'entropy_coef': ({}, 0.1),
    'kl_coef': ({}, 0.1),
    'kl_in': (KL, 'reward'),
    'kl_estimator': (KL, 'k1'),
    'importance_cap': ({}, 1.1),
    'sequence_low': (_WINDOW, 0.99),
    'sequence_high': (_WINDOW, 1.01),
    'importance_low': (dict(importance_cap=2.0), 0.99),
    'sequence_cap': ({}, 1.01),
    'sequence_k3': ({}, 1e-4),
    'outlier': ({}, 1.01),
    'correction': ({}, f'{__name__}:half'),
    # Of the advantages.
    'normalise_std': ({}, False),
    'ddof': ({}, 0),
    'gamma': ({}, 0.5),
    'lam': ({}, 0.5),
    'group_baseline': ({}, True),
    'step_weight': ({}, 0.5),
    'turn_level': ({}, True),
    'return_coef': ({}, 0.5),
    'bootstrap': ({}, False),
    'whiten': ({}, False),
    # Of the critic's loss.
    'value_clip': ({}, 0.1),
    'value_coef': ({}, 1.0),
}
# Those that say how a collection is used, likewise; training.rl reads them.
USES = {
    'epochs': ({}, 2),
    'minibatches': ({}, 2),
    'ratio': ({}, 'sampler'),
    'kl_coef': ({}, 0.1),
    'kl_in': (KL, 'reward'),
    'kl_estimator': (KL | dict(kl_in='reward'), 'k1'),
    'kl_target': (KL, 1e-9),
    'kl_horizon': (KL | dict(kl_target=1e-9), 32),
    'ties': ({}, 'mask'),
    'refill_rounds': (dict(ties='refill'), 1),
    'truncated': ({}, 'mask'),
    'overlong_buffer': ({}, 20),
}
# No estimate of advantages reads those that all algorithms have.
SHARED = {field.name for field in dataclasses.fields(Online)}
SHARED.remove('negative_weight')  # which acts in the advantages


def with_values(batch, seed):
  """Values on sampled tokens, in order; NaN wherever none must be read."""

  def draw(*key):
    out = np.full(batch.tokens.shape, np.nan, np.float32)
    for row, mask in enumerate(batch.completion_mask):
      rng = np.random.default_rng((seed, row, *key))
      out[row, mask] = rng.normal(size=mask.sum())
    return out

  bootstrap = np.random.default_rng(seed).normal(size=len(batch.valid))
  return batch.replace(
      values=draw(),
      old_logprobs=-np.abs(draw(1)),
      teacher_logprobs=-np.abs(draw(2)),
      bootstrap_value=np.where(batch.truncated, bootstrap, np.nan).astype('f4'),
      # Whoever reads a reward of nobody must not be helped by a zero.
      rewards=np.where(batch.completion_mask, batch.rewards, np.nan),
  )


def make_batch(groups, seed=0):
  return with_values(tiny.make_batch(groups, width=WIDTH), seed)


def random_batch(seed, **kwargs):
  return make_batch(tiny.random_groups(seed, **kwargs), seed)


def estimate(algorithm, hyperparams, batch):
  """The batch with advantages: one program where only the loss differs."""
  own = {k: v for k, v in hyperparams.items() if k not in SHARED}
  return tiny.advantages(ONLINE[algorithm], batch, **own)


def advantages(name, batch):
  """The batch with the advantages of an entry of `ADVANTAGES`."""
  return estimate(*ADVANTAGES[name], batch)


def loss_batch(name, seed, **kwargs):
  """A batch as the loss gets it, NaN in whatever it must not read."""
  batch = estimate(*LOSSES[name], random_batch(seed, **kwargs))
  rng = np.random.default_rng(seed)
  logprobs = np.asarray(
      tiny.logprobs_of(tiny.random_logits(batch, seed), batch)
  )
  mask = batch.completion_mask
  noisy = lambda: np.where(
      mask, logprobs + rng.normal(scale=0.05, size=mask.shape), np.nan
  ).astype(np.float32)
  poison = lambda x: x if x is None else np.where(mask, x, np.nan)
  return batch.replace(
      old_logprobs=noisy(),
      sampler_logprobs=noisy(),
      ref_logprobs=noisy(),
      advantages=poison(batch.advantages),
      returns=poison(batch.returns),
  )


def bound(module, **hyperparams):
  """A bound loss: one object, and program, where only advantages differ."""
  if module.loss is policy.loss:
    module = grpo
    hyperparams = {k: v for k, v in hyperparams.items() if k in SHARED}
  return tiny.bound(module, **hyperparams)


def value_and_grad(name, batch, logits, *, denominators=None, values=None):
  """`(loss, metrics), (gradient in logits, gradient in values)`."""
  algorithm, hyperparams = LOSSES[name]
  if denominators is None:
    denominators = tiny.denominators(batch, kl_coef=0.1)
  if values is None:
    values = random_values(batch)
  loss = bound(ONLINE[algorithm], **hyperparams)
  return tiny.value_and_grad(loss, batch, logits, denominators, values)


def random_values(batch):
  """`[B, T]` that a critic might say."""
  rng = np.random.default_rng(0)
  return jnp.asarray(rng.normal(size=batch.tokens.shape), jnp.float32)
