"""DPO against TRL's, which torch computes in float64.

TRL (Apache-2.0) is data here: one file is read from its wheel, whose method for
the loss gets the log-probabilities that ours gets. Without the wheel these tests
skip:

    pip download --no-deps --dest=/tmp trl==1.16.0
    AGENTRL_TRL_WHEEL=/tmp/trl-1.16.0-py3-none-any.whl \
        python -m pytest tests/algos/crosscheck_dpo_test.py

TRL's 'ipo' divides by the length, the paper's does not: it is compared with ours
under `length_normalised`. TRL smooths labels in other losses only.
"""

import collections
import importlib.util
import os
import sys
import types
import zipfile
from unittest import mock

import numpy as np
import pytest

from agentrl.algos import dpo, policy
from tests import tiny

# What TRL's file imports beside torch; none of it takes part in the loss.
UNUSED = (
    'accelerate.logging', 'accelerate.utils', 'datasets.fingerprint',
    'packaging.version', 'transformers.data.data_collator',
    'transformers.trainer_utils', 'transformers.utils', 'trl.data_utils',
    'trl.models.utils', 'trl.trainer.base_trainer', 'trl.trainer.callbacks',
    'trl.trainer.dpo_config', 'trl.trainer.utils',
)  # fmt: skip
FILE = 'trl.trainer.dpo_trainer'


class Anything:
  """A base class, a decorator, a logger: whatever the file makes of it."""

  def __init__(self, *args, **kwargs):
    pass

  def __bool__(self):
    return False


class Unused(types.ModuleType):
  """A module that has every name."""

  __path__ = ()

  def __getattr__(self, name):
    if name.startswith('__'):
      raise AttributeError(name)
    return type(name, (Anything,), {})


@pytest.fixture(scope='module', name='trainer')
def _trainer(tmp_path_factory):
  """TRL's `DPOTrainer` class."""
  pytest.importorskip('torch', reason='TRL computes with torch')
  wheel = os.environ.get('AGENTRL_TRL_WHEEL')
  if not wheel:
    pytest.skip('needs AGENTRL_TRL_WHEEL=WHEEL, see the docstring')
  modules = {}
  for name in UNUSED:
    parts = name.split('.')
    for end in range(1, len(parts) + 1):
      parent = '.'.join(parts[:end])
      modules.setdefault(parent, Unused(parent))
  with mock.patch.dict(sys.modules, modules), zipfile.ZipFile(wheel) as files:
    path = files.extract(
        FILE.replace('.', '/') + '.py', tmp_path_factory.mktemp('trl')
    )
    spec = importlib.util.spec_from_file_location(FILE, path)
    module = sys.modules[FILE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
  return module.DPOTrainer


def theirs(trainer, batch, outputs, *, loss, beta):
  """TRL's loss and its gradient in the log-probabilities, rows as in ours."""
  import torch

  # The better episodes first, then the worse ones.
  order = np.r_[0 : len(batch.tokens) : 2, 1 : len(batch.tokens) : 2]
  mask = np.asarray(batch.completion_mask)[order]
  rows = lambda x: torch.tensor(
      np.where(mask, np.asarray(x)[order], 0)[:, 1:], dtype=torch.float64
  )
  said, reference = rows(outputs.logprobs), rows(batch.ref_logprobs)
  said.requires_grad_()
  model = lambda **kwargs: types.SimpleNamespace(
      log_probs=said,
      entropy=torch.zeros_like(said),
      mean_logits=torch.zeros_like(said),
      is_top1=torch.zeros_like(said, dtype=torch.bool),
  )
  same = lambda x: x
  options = types.SimpleNamespace(
      accelerator=types.SimpleNamespace(
          device='cpu', gather=same, gather_for_metrics=same
      ),
      model=types.SimpleNamespace(training=False),
      aux_loss_enabled=False,
      ld_alpha=None,
      precompute_ref_logps=True,
      f_divergence_type='reverse_kl',
      loss_types=[loss],
      loss_weights=[1.0],
      beta=beta,
      use_weighting=False,
      _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
      _total_train_tokens=0,
  )
  better, worse = reference.sum(dim=1).chunk(2)
  inputs = dict(
      ref_chosen_logps=better,
      ref_rejected_logps=worse,
      input_ids=torch.tensor(np.asarray(batch.tokens)[order], dtype=torch.long),
      completion_mask=torch.tensor(mask, dtype=torch.long),
  )
  value = trainer._compute_loss(options, model, inputs, False)
  value.backward()
  grad = np.zeros(batch.tokens.shape)
  # TRL's model says 0 outside the mask, whatever the parameters are.
  grad[order, 1:] = said.grad.numpy() * mask[:, 1:]
  return value.item(), grad, options._metrics['eval']


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize(
    'loss, length_normalised, named',
    [
        ('sigmoid', False, 'sigmoid'),
        ('sigmoid', True, 'sigmoid_norm'),
        ('hinge', False, 'hinge'),
        ('ipo', True, 'ipo'),
    ],
)
def test_losses_and_gradients(trainer, loss, length_normalised, named, seed):
  batch = tiny.random_batch(seed, num_groups=6, group_size=2)
  rng = np.random.default_rng(seed)
  reference, logprobs, entropy = -rng.exponential(
      size=(3, *batch.tokens.shape)
  ).astype(np.float32)
  batch = batch.replace(ref_logprobs=reference)
  outputs = policy.Outputs(logprobs, entropy)
  hyperparams = dpo.Hyperparams(
      loss=loss, beta=0.3, length_normalised=length_normalised
  )
  (value, metrics), grad = tiny.outputs_grad(
      lambda *args: dpo.loss(*args, hyperparams),
      outputs,
      batch,
      tiny.denominators(batch),
  )
  expected, expected_grad, their_metrics = theirs(
      trainer, batch, outputs, loss=named, beta=0.3
  )
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  np.testing.assert_allclose(grad.logprobs, expected_grad, rtol=1e-4, atol=1e-6)
  assert np.abs(expected_grad).max() > 1e-3
  if not length_normalised:
    np.testing.assert_allclose(
        0.3 * metrics['preference/margin'],
        their_metrics['rewards/margins'][0],
        rtol=1e-4,
    )
    np.testing.assert_allclose(
        metrics['preference/accuracy'], their_metrics['rewards/accuracies'][0]
    )
