"""Tests for agentrl.algos.distill."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.algos import distill, grpo
from agentrl.algos.hyperparams import Distill
from agentrl.config import read
from agentrl.errors import ConfigError
from agentrl.serving import teacher
from configs import quickstart
from tests import tiny, variants
from tests.config.refusals import refusal, set_fields


def test_advantages_match_the_formula_token_by_token():
  batch = variants.random_batch(3, failures=0.2)
  found = variants.advantages('distill_return', batch).advantages
  episodes = grpo.advantages(batch, num_groups=64).advantages
  for b, t in np.ndindex(*batch.tokens.shape):
    expected = 0.0
    if batch.completion_mask[b, t] and batch.valid[b]:
      expected = batch.teacher_logprobs[b, t] - batch.old_logprobs[b, t]
      expected += 0.5 * episodes[b, t]
    np.testing.assert_allclose(found[b, t], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('seed', range(3))
def test_the_expected_gradient_is_that_of_the_reverse_kl(seed):
  """All tokens of a small vocabulary in turn, weighted by their probability."""
  rng = np.random.default_rng(seed)
  batch = tiny.make_batch(tiny.random_groups(seed), width=variants.WIDTH)
  logits = np.asarray(tiny.random_logits(batch, seed), np.float64)
  teacher = rng.normal(size=logits.shape)
  student = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
  teacher -= np.logaddexp.reduce(teacher, axis=-1, keepdims=True)
  probabilities = np.exp(student)

  # d KL / d logits = p (log p - log q - KL), in NumPy, at the sampled places;
  # the logits at t - 1 speak of the token at t.
  divergence = (probabilities * (student - teacher)).sum(-1, keepdims=True)
  exact = probabilities * (student - teacher - divergence)
  mask = batch.completion_mask & batch.valid[:, None]
  places = np.pad(mask[:, 1:], ((0, 0), (0, 1)))
  denominators = tiny.denominators(batch)
  exact = np.where(places[..., None], exact, 0) / denominators.tokens

  total = np.zeros_like(exact)
  for token in range(logits.shape[-1]):
    # That token at every sampled place, whatever was sampled there.
    chosen = np.where(mask, token, batch.tokens)
    one = batch.replace(tokens=chosen.astype(np.int32))
    at = lambda x, token=token: np.pad(x[:, :-1, token], ((0, 0), (1, 0)))
    one = one.replace(
        old_logprobs=at(student).astype('f4'),
        teacher_logprobs=at(teacher).astype('f4'),
    )
    one = distill.advantages(one, num_groups=64)
    _, grad = tiny.value_and_grad(
        tiny.bound(), one, jnp.asarray(logits, jnp.float32), denominators
    )
    # The gradient of each place, by how often it would have been sampled.
    weight = np.where(places, probabilities[..., token], 0)
    total += weight[..., None] * np.asarray(grad)
  np.testing.assert_allclose(total, exact, rtol=2e-3, atol=2e-7)


def test_a_teacher_that_is_the_student_teaches_nothing():
  batch = variants.random_batch(0)
  batch = batch.replace(teacher_logprobs=batch.old_logprobs)
  found = variants.estimate('distill', {}, batch).advantages
  np.testing.assert_array_equal(found, 0)
  jax.tree.map(np.asarray, found)


TEACHER = {'name': 'distill', 'teacher': {'model': 'a'}}


@pytest.mark.parametrize(
    'fields, message',
    [
        (
            {'algo': TEACHER, 'algo.teacher.urls': ('http://h:1',)},
            'There is one teacher',
        ),
        ({'algo': TEACHER, 'rollout.temperature': 0.5}, 'temperature 1'),
        (
            {
                'algo': TEACHER,
                'algo.teacher.hint': 'Look.',
                'agent.plan.kind': 'every',
            },
            'the one prompt of an episode',
        ),
        (
            {
                'algo': TEACHER | {'return_coef': 1.0},
                'rollout.group_size': 1,
            },
            'compares the episodes of a group',
        ),
        (
            {'algo': TEACHER, 'algo.teacher.api_key_file': 'k'},
            'only servers are asked',
        ),
    ],
)
def test_a_config_that_cannot_teach_is_refused(fields, message):
  said = refusal(quickstart.get_config('tiny'), fields)
  assert re.search(message, said)


def test_a_random_policy_cannot_teach_itself():
  config = read(
      set_fields(quickstart.get_config('tiny'), {'algo.name': 'distill'})
  )
  with pytest.raises(ConfigError, match='starts random'):
    teacher.model(config.algo.teacher, config.model)
  own = dataclasses.replace(config.model, name='smollm2-135m')
  assert teacher.model(config.algo.teacher, own) == 'smollm2-135m'


def test_a_group_of_one_can_be_taught():
  assert not Distill().compares
  assert Distill(return_coef=0.1).compares
