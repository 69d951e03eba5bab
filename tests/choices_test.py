"""The names that a config may choose from are those that the code has.

A config is read before jax is imported, so these names are written twice where
what they stand for needs jax. Below the config nothing checks them again: a
wrong one ends in an error all the same, where a programmer gives it.
"""

import ast
import inspect
import textwrap

import jax.numpy as jnp
import pytest

from agentrl.algos import hyperparams, online
from agentrl.envs import formats
from agentrl.models import (
    lora,
    options,
    transformer,
    value_head,
    variants,
)
from agentrl.ops import aggregate, kl, policy_loss, preference_loss
from agentrl.schedules import HORIZONS
from agentrl.serving import options as serving_options
from agentrl.training import language_model, optim, options as training_options
from agentrl.weights import hf
from tests import choices, tiny
from tests.ops import batches


def cases(function):
  """The names that a function's `match` has a case for."""
  tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
  found = [n for n in ast.walk(tree) if isinstance(n, ast.MatchValue)]
  return tuple(node.value.value for node in found)


@pytest.mark.parametrize(
    'said, known',
    [
        (options.REMAT, transformer.REMAT),
        (options.LORA_TARGETS, lora.BLOCKS),
        (options.DTYPES, language_model.DTYPES),
        (options.TINY, [n for n in variants.VARIANTS if n.startswith('tiny-')]),
        (training_options.OPTIMIZERS, optim.OPTIMIZERS),
        (training_options.SCHEDULES, optim.SCHEDULES),
        (hyperparams.ONLINE, online.ONLINE),
        (choices.of(hyperparams.Critic, 'kind'), value_head.TRUNKS),
        (choices.KL_ESTIMATORS, cases(kl.estimate)),
        (choices.AGGREGATIONS, cases(aggregate.mean)),
        (choices.RATIO_LEVELS, cases(policy_loss.log_ratio)),
        (choices.PREFERENCE_LOSSES, cases(preference_loss.per_pair)),
    ],
)
def test_names_are_said_twice_alike(said, known):
  assert tuple(said) == tuple(known)


def test_files_are_as_large_by_default_as_weights_writes_them():
  assert serving_options.SHARD_BYTES == hf.SHARD_BYTES


@pytest.mark.parametrize('name', hyperparams.ONLINE)
def test_an_algorithm_and_its_hyperparameters_have_one_name(name):
  cls = hyperparams.ONLINE[name]
  assert online.ONLINE[name].Hyperparams is cls and cls.name == name


X = jnp.zeros((1, 2))
BATCH = batches.of([[1, 1]], turns=[[0, 0]])
DENOMINATORS = aggregate.Denominators(1.0, 1.0, 1.0, 0.0)
WRONG = {
    'optimizer': lambda: optim.make_optimizer(1.0, name='?'),
    'schedule': lambda: optim.make_schedule(
        1.0, warmup_steps=0, schedule='?', total_steps=1
    ),
    'critic': lambda: value_head.init('?', tiny.MODULE, tiny.init_params()),
    'estimator': lambda: kl.estimate(X, X, X > 0, estimator='?'),
    'aggregation': lambda: aggregate.mean(
        X, X > 0, BATCH, DENOMINATORS, mode='?'
    ),
    'level': lambda: policy_loss.log_ratio(X, X, X > 0, BATCH, level='?'),
    'preference': lambda: preference_loss.per_pair(X[0], loss='?', beta=1.0),
    'format': lambda: formats.find('?'),
    'horizon': lambda: HORIZONS['?'],
}


@pytest.mark.parametrize('name', WRONG)
def test_a_wrong_name_does_not_pass(name):
  with pytest.raises((KeyError, ValueError), match=r"'\?'"):
    WRONG[name]()
