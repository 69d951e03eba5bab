"""The algorithms against verl's functions, which torch computes in float64.

verl (Apache-2.0) is data here: three files of functions are read from its
wheel, and torch is all they need. Without the wheel these tests skip:

    pip download --no-deps --dest=/tmp verl==0.9.1  # Python 3.10 to 3.12
    AGENTRL_VERL_WHEEL=/tmp/verl-0.9.1-py3-none-any.whl \
        python -m pytest tests/algos/crosscheck_test.py

Do not install it: the wheel brings a package `tests`, which hides this one from
`python -m tests.parallel.processes`, and its dependencies want ray and
an older transformers than the parity tests.
"""

import dataclasses
import importlib.util
import os
import sys
import types
import zipfile
from unittest import mock

import numpy as np
import pytest

from agentrl.algos import grpo, policy, ppo, reinforce_pp, rloo
from agentrl.ops import correction, kl
from agentrl.training import reward
from tests import choices, fakes, tiny

SEEDS = pytest.mark.parametrize('seed', range(3))


@dataclasses.dataclass
class ActorConfig:
  """What verl's policy losses ask of their config."""

  clip_ratio_low: float = 0.2
  clip_ratio_high: float = 0.2
  # verl always clips twice; a huge constant never acts.
  clip_ratio_c: float = 1e9
  loss_scale_factor: float | None = None
  clip_ratio: float = 0.2

  def get(self, name, default):
    return getattr(self, name, default)

  @property
  def global_batch_info(self):
    return {'loss_scale_factor': self.loss_scale_factor}


def stubs(torch):
  """Modules that verl's files import, and of which they use nothing more."""
  return {
      'omegaconf': dict(DictConfig=dict),
      'tensordict': dict(TensorDict=dict),
      'transformers': dict(PreTrainedTokenizer=object),
      'verl': {},
      'verl.protocol': dict(DataProto=object),
      'verl.utils': dict(as_torch_index=None, group_mean_std=None),
      'verl.utils.device': dict(
          get_device_name=lambda: 'cpu', get_torch_device=lambda: torch.cpu
      ),
      'verl.utils.import_utils': dict(deprecated=lambda _: lambda f: f),
      'verl.trainer': {},
      'verl.trainer.config': dict(AlgoConfig=types.SimpleNamespace),
      'verl.trainer.config.algorithm': dict(RolloutCorrectionConfig=object),
      'verl.workers': {},
      'verl.workers.config': dict(ActorConfig=ActorConfig),
      'verl.workers.config.actor': dict(PolicyLossConfig=object),
  }


@pytest.fixture(scope='module', name='verl')
def _verl(tmp_path_factory):
  torch = pytest.importorskip('torch', reason='verl computes with torch')
  wheel = os.environ.get('AGENTRL_VERL_WHEEL')
  if not wheel:
    pytest.skip('needs AGENTRL_VERL_WHEEL=WHEEL, see the docstring')
  folder = tmp_path_factory.mktemp('verl')
  modules = {'flash_attn': None, 'torch_npu': None}  # not to be imported
  for name, values in stubs(torch).items():
    modules[name] = types.ModuleType(name)
    vars(modules[name]).update(values)
  with mock.patch.dict(sys.modules, modules), zipfile.ZipFile(wheel) as files:
    for name in (
        'verl.utils.torch_functional',
        'verl.trainer.ppo.core_algos',
        'verl.trainer.ppo.rollout_corr_helper',
    ):
      path = files.extract(name.replace('.', '/') + '.py', folder)
      spec = importlib.util.spec_from_file_location(name, path)
      module = sys.modules[name] = importlib.util.module_from_spec(spec)
      spec.loader.exec_module(module)
    return types.SimpleNamespace(
        core=sys.modules['verl.trainer.ppo.core_algos'],
        correction=sys.modules['verl.trainer.ppo.rollout_corr_helper'],
    )


def tensor(x, **kwargs):
  import torch

  return torch.tensor(np.asarray(x), dtype=torch.float64, **kwargs)


def close(actual, expected, mask=..., *, atol=1e-5):
  """Float32 against float64, where the mask is."""
  if hasattr(expected, 'detach'):
    expected = expected.detach().numpy()
  actual, expected = (np.asarray(x)[mask] for x in (actual, expected))
  np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=atol)


def random_batch(seed):
  """Three groups of four, each with values and rewards of its own."""
  batch = tiny.random_batch(seed, num_groups=3)
  rng = np.random.default_rng(seed)
  noise = lambda size: rng.normal(scale=size, size=batch.tokens.shape)
  sampler = batch.sampler_logprobs
  old = (sampler + noise(0.3)).astype(np.float32)
  return batch.replace(
      truncated=np.zeros_like(batch.truncated),
      values=noise(1.0).astype(np.float32),
      bootstrap_value=np.zeros(len(batch.valid), np.float32),
      old_logprobs=old,
      ref_logprobs=(sampler + noise(0.3)).astype(np.float32),
  )


def outcome(batch):
  """The arguments of verl's estimators, and where they are to agree."""
  mask = batch.completion_mask
  given = dict(
      token_level_rewards=tensor(batch.rewards), response_mask=tensor(mask)
  )
  return given, dict(index=np.asarray(batch.group_ids)), mask


# Advantages.


@SEEDS
@pytest.mark.parametrize('normalise_std', [True, False])
def test_grpo(verl, seed, normalise_std):
  batch = random_batch(seed)
  given, index, mask = outcome(batch)
  expected, _ = verl.core.compute_grpo_outcome_advantage(
      **given, **index, norm_adv_by_std_in_grpo=normalise_std
  )
  found = tiny.advantages(grpo, batch, normalise_std=normalise_std)
  close(found.advantages, expected, mask)


@SEEDS
def test_rloo(verl, seed):
  batch = random_batch(seed)
  given, index, mask = outcome(batch)
  found = tiny.advantages(rloo, batch).advantages
  for estimate in (
      verl.core.compute_rloo_outcome_advantage,
      verl.core.compute_rloo_vectorized_outcome_advantage,
  ):
    close(found, estimate(**given, **index)[0], mask)


@SEEDS
@pytest.mark.parametrize('gamma', [1.0, 0.9])
def test_reinforce_pp(verl, seed, gamma):
  batch = random_batch(seed)
  given, _, mask = outcome(batch)
  advantages, returns = verl.core.compute_reinforce_plus_plus_outcome_advantage(
      **given, config=types.SimpleNamespace(gamma=gamma)
  )
  found = tiny.advantages(reinforce_pp, batch, gamma=gamma)
  close(found.returns, returns, mask)
  close(found.advantages, advantages, mask)


@SEEDS
def test_reinforce_pp_baseline(verl, seed):
  batch = random_batch(seed)
  given, index, mask = outcome(batch)
  expected, _ = (
      verl.core.compute_reinforce_plus_plus_baseline_outcome_advantage(
          **given, **index
      )
  )
  found = tiny.advantages(reinforce_pp, batch, group_baseline=True)
  close(found.advantages, expected, mask)


@SEEDS
@pytest.mark.parametrize('gamma, lam', [(1.0, 1.0), (0.9, 0.8), (1.0, 0.0)])
def test_gae(verl, seed, gamma, lam):
  # Without truncation: verl's scan starts from 0 whatever ended an episode;
  # ours from the critic's word where we cut it (invariant 6).
  batch = random_batch(seed)
  given, _, mask = outcome(batch)
  advantages, returns = verl.core.compute_gae_advantage_return(
      **given, values=tensor(batch.values), gamma=gamma, lam=lam
  )
  found = tiny.advantages(ppo, batch, gamma=gamma, lam=lam)
  close(found.returns, returns, mask)
  close(found.advantages, advantages, mask)


def test_where_a_group_of_one_differs(verl):
  # verl takes 0 for the mean of a group of one: its return, which is compared
  # with nothing, is its advantage. Here it can teach nothing (invariant 7),
  # as in verl's vectorised RLOO.
  batch = tiny.make_batch([fakes.make_group(3.0), fakes.make_group(1.0, 0.0)])
  given, index, mask = outcome(batch)
  core = verl.core
  for module, estimate in (
      (grpo, core.compute_grpo_outcome_advantage),
      (rloo, core.compute_rloo_outcome_advantage),
  ):
    expected, _ = estimate(**given, **index)
    found = tiny.advantages(module, batch).advantages
    close(expected[0], 3.0 * mask[0])
    np.testing.assert_array_equal(found[0], 0)
    close(found[1:], expected[1:], mask[1:])
  vectorised, _ = core.compute_rloo_vectorized_outcome_advantage(
      **given, **index
  )
  close(tiny.advantages(rloo, batch).advantages, vectorised, mask)


# Losses: their values, and their gradients in the log-probabilities.

AGGREGATIONS = {
    'token': 'token-mean',
    'sequence': 'seq-mean-token-mean',
    'constant': 'seq-mean-token-sum-norm',
    # 'turn' has no counterpart.
}
CONSTANT = 32.0


def ours(batch, *, entropy=None, module=grpo, **hyperparams):
  """Loss, metrics and the gradient in the networks' outputs."""
  if hyperparams.get('aggregation') == 'constant':
    hyperparams['aggregation_constant'] = CONSTANT
  if entropy is None:
    entropy = np.zeros_like(batch.old_logprobs)
  values = batch.values + np.float32(0.4) * np.sin(
      np.arange(batch.values.size, dtype=np.float32)
  ).reshape(batch.values.shape)
  outputs = policy.Outputs(
      np.asarray(batch.sampler_logprobs, np.float32), entropy, values
  )
  (loss, metrics), grad = tiny.outputs_grad(
      tiny.bound(module, **hyperparams),
      outputs,
      batch,
      tiny.denominators(batch, kl_coef=hyperparams.get('kl_coef', 0.0)),
  )
  return outputs, loss, metrics, grad


def compare(batch, found, evaluate):
  """`evaluate(logprobs, **others)` is verl's loss of the same outputs."""
  outputs, loss, metrics, grad = found
  logprobs = tensor(outputs.logprobs, requires_grad=True)
  expected = evaluate(logprobs)
  expected.backward()
  close(loss, expected)
  mask = batch.completion_mask
  close(grad.logprobs, logprobs.grad, mask, atol=1e-6)
  np.testing.assert_array_equal(grad.logprobs[~mask], 0)
  assert np.abs(np.asarray(grad.logprobs)).max() > 1e-4
  return metrics


def policy_arguments(batch):
  return dict(
      old_log_prob=tensor(batch.old_logprobs),
      advantages=tensor(batch.advantages),
      response_mask=tensor(batch.completion_mask),
  )


SURROGATES = {
    'ppo': ('vanilla', {}, {}),
    'clip_higher': (
        'vanilla',
        dict(clip_high=0.28),
        dict(clip_ratio_high=0.28),
    ),
    'dual_clip': ('vanilla', dict(dual_clip=1.5), dict(clip_ratio_c=1.5)),
    'gspo': (
        'gspo',
        dict(ratio_level='sequence', clip_low=0.01, clip_high=0.01),
        dict(clip_ratio_low=0.01, clip_ratio_high=0.01),
    ),
    'cispo': (
        'cispo',
        dict(surrogate='cispo', clip_low=0.5, clip_high=0.3),
        dict(clip_ratio_low=0.5, clip_ratio_high=0.3),
    ),
    'dppo_tv': (
        'dppo_tv',
        dict(surrogate='dppo_tv', clip_low=0.02, clip_high=0.03),
        dict(clip_ratio_low=0.02, clip_ratio_high=0.03),
    ),
    'dppo_kl': (
        'dppo_kl',
        dict(surrogate='dppo_kl', clip_low=0.002, clip_high=0.003),
        dict(clip_ratio_low=0.002, clip_ratio_high=0.003),
    ),
}


@pytest.mark.parametrize('name', SURROGATES)
@pytest.mark.parametrize('aggregation', AGGREGATIONS)
def test_policy_losses(verl, name, aggregation):
  verl_name, hyperparams, config = SURROGATES[name]
  batch = random_batch(4)
  # Random ones may be above 0, of which there is no KL.
  batch = batch.replace(old_logprobs=np.minimum(batch.old_logprobs, -0.01))
  given = policy_arguments(batch)
  config = ActorConfig(
      **config,
      loss_scale_factor=CONSTANT if aggregation == 'constant' else None,
  )
  theirs = {}

  def evaluate(logprobs):
    loss, metrics = verl.core.get_policy_loss_fn(verl_name)(
        log_prob=logprobs,
        loss_agg_mode=AGGREGATIONS[aggregation],
        config=config,
        **given,
    )
    theirs.update(metrics)
    return loss

  metrics = compare(
      batch, ours(batch, aggregation=aggregation, **hyperparams), evaluate
  )
  clipped = metrics['policy/clip_fraction']
  assert 0.05 < clipped < 0.95  # something was clipped, and not everything
  if name != 'dual_clip':  # verl counts the second clip apart
    close(clipped, theirs['actor/pg_clipfrac'])


@pytest.mark.parametrize('aggregation', AGGREGATIONS)
def test_gspo_of_advantages_that_differ_inside_an_episode(verl, aggregation):
  batch = random_batch(4)
  signs = np.where(np.arange(batch.advantages.shape[1]) % 2, 1, -0.5)
  batch = batch.replace(advantages=np.float32(batch.advantages * signs))
  name, hyperparams, config = SURROGATES['gspo']
  compare(
      batch,
      ours(batch, aggregation=aggregation, **hyperparams),
      lambda logprobs: verl.core.get_policy_loss_fn(name)(
          log_prob=logprobs,
          loss_agg_mode=AGGREGATIONS[aggregation],
          config=ActorConfig(
              **config,
              loss_scale_factor=CONSTANT if aggregation == 'constant' else None,
          ),
          **policy_arguments(batch),
      )[0],
  )


@pytest.mark.parametrize('estimator', choices.KL_ESTIMATORS)
@pytest.mark.parametrize('aggregation', ['token', 'sequence'])
def test_kl_in_the_loss_and_entropy(verl, estimator, aggregation):
  # verl limits k3 to 10 and log-ratios to 20, to which these do not come.
  batch = random_batch(5)
  given = policy_arguments(batch)
  mode = AGGREGATIONS[aggregation]
  rng = np.random.default_rng(5)
  entropy = rng.exponential(size=batch.tokens.shape).astype(np.float32)

  def evaluate(logprobs):
    loss, _ = verl.core.get_policy_loss_fn('vanilla')(
        log_prob=logprobs, loss_agg_mode=mode, config=ActorConfig(), **given
    )
    mask = given['response_mask']
    divergence = verl.core.kl_penalty(
        logprobs, tensor(batch.ref_logprobs), estimator
    )
    aggregate = lambda x: verl.core.agg_loss(x, mask, mode)
    return loss + 0.3 * aggregate(divergence) - 0.1 * aggregate(tensor(entropy))

  found = ours(
      batch,
      kl_coef=0.3,
      entropy=entropy,
      entropy_coef=0.1,
      kl_estimator=estimator,
      aggregation=aggregation,
  )
  compare(batch, found, evaluate)


def test_truncated_importance(verl):
  batch = random_batch(6)
  given = policy_arguments(batch)
  gap = given['old_log_prob'] - tensor(batch.sampler_logprobs)
  weights, _ = verl.correction.compute_rollout_correction_weights(
      gap, given['response_mask'], rollout_is='token', rollout_is_threshold=1.1
  )

  def evaluate(logprobs):
    return verl.core.get_policy_loss_fn('vanilla')(
        log_prob=logprobs,
        config=ActorConfig(),
        rollout_is_weights=weights,
        **given,
    )[0]

  metrics = compare(batch, ours(batch, importance_cap=1.1), evaluate)
  assert 0.1 < metrics['correction/capped'] < 0.9


@pytest.mark.parametrize(
    ('hyperparams', 'theirs'),
    [
        (
            dict(importance_low=0.9, importance_cap=1.1),
            dict(rollout_is='token', rollout_is_threshold='0.9_1.1'),
        ),
        (
            dict(sequence_cap=1.05),
            dict(rollout_is='sequence', rollout_is_threshold=1.05),
        ),
    ],
    ids=['icepop', 'sequence'],
)
def test_other_importance_weights(verl, hyperparams, theirs):
  batch = random_batch(6)
  given = policy_arguments(batch)
  gap = given['old_log_prob'] - tensor(batch.sampler_logprobs)
  weights, _ = verl.correction.compute_rollout_correction_weights(
      gap, given['response_mask'], **theirs
  )

  def evaluate(logprobs):
    return verl.core.get_policy_loss_fn('vanilla')(
        log_prob=logprobs,
        config=ActorConfig(),
        rollout_is_weights=weights,
        **given,
    )[0]

  metrics = compare(batch, ours(batch, **hyperparams), evaluate)
  [capped] = [x for name, x in metrics.items() if name.endswith('capped')]
  assert 0.1 < capped < 0.9


@pytest.mark.parametrize(
    ('name', 'most', 'theirs', 'threshold'),
    [
        ('k3_mask', 0.01, 'seq_mean_k3', '0.01'),
        # The largest k2 of an episode: half of a squared log-ratio.
        ('outlier_mask', 1.4, 'seq_max_k2', str(np.log(1.4) ** 2 / 2)),
    ],
)
def test_masks_of_episodes(verl, name, most, theirs, threshold):
  batch = random_batch(1)
  mask = batch.completion_mask
  gap = tensor(batch.old_logprobs) - tensor(batch.sampler_logprobs)
  kept, _ = verl.correction.compute_rollout_rejection_mask(
      gap, tensor(mask), theirs, threshold
  )
  found = getattr(correction, name)(
      batch.old_logprobs, batch.sampler_logprobs, mask, batch, most=most
  )
  np.testing.assert_array_equal(found & mask, kept.numpy() > 0)
  dropped = mask & ~np.asarray(found)
  assert dropped.any() and (np.asarray(found) & mask).any()


@SEEDS
def test_sequence_mask(verl, seed):
  # verl bounds p_sampler / p_old, whose bounds are the reciprocals of ours.
  # What it drops also leaves the denominator; here the denominator stays.
  batch = random_batch(seed)
  mask = batch.completion_mask
  low, high = 0.9, 1.2
  gap = tensor(batch.old_logprobs) - tensor(batch.sampler_logprobs)
  kept, _ = verl.correction.compute_rollout_rejection_mask(
      gap, tensor(mask), 'seq_mean_k1', f'{1 / high}_{1 / low}'
  )
  found = correction.sequence_mask(
      batch.old_logprobs,
      batch.sampler_logprobs,
      mask,
      batch,
      low=low,
      high=high,
  )
  np.testing.assert_array_equal(found & mask, kept.numpy() > 0)
  dropped = mask & ~np.asarray(found)
  assert dropped.any() and (found & mask).any()


@pytest.mark.parametrize('clip', [0.2, 0.5])
def test_value_loss(verl, clip):
  batch = tiny.advantages(ppo, random_batch(7), gamma=0.9, lam=0.8)
  outputs, _, metrics, grad = ours(batch, module=ppo, value_clip=clip)
  values = tensor(outputs.values, requires_grad=True)
  mask = batch.completion_mask
  loss, clipped = verl.core.compute_value_loss(
      values,
      tensor(batch.returns),
      tensor(batch.values),
      tensor(mask),
      cliprange_value=clip,
  )
  loss.backward()
  close(metrics['critic/loss'], loss)
  close(metrics['critic/clip_fraction'], clipped)
  close(grad.values, ppo.Hyperparams().value_coef * values.grad, atol=1e-6)
  assert (clipped > 0) == (clip == 0.2)


# What steers.


def test_the_controller_of_the_kl(verl):
  controller = verl.core.AdaptiveKLController(0.1, target_kl=0.05, horizon=300)
  coef = 0.1
  for observed in (0.0, 0.049, 0.052, 1.0):
    controller.update(observed, 24)
    coef = kl.adapt(coef, observed, target=0.05, count=24, horizon=300)
    assert coef == pytest.approx(controller.value, rel=1e-12)


def test_kl_in_the_reward(verl):
  batch = random_batch(8)
  shaped, _ = reward.charge_kl(batch, coef=0.3, estimator='k1')
  expected = verl.core.compute_rewards(
      tensor(batch.rewards),
      tensor(batch.old_logprobs),
      tensor(batch.ref_logprobs),
      0.3,
  )
  mask = batch.completion_mask
  close(shaped.rewards, expected, mask, atol=1e-6)
