"""Tests for agentrl.weights.bounds."""

import math

import pytest

from agentrl.errors import WeightsError
from agentrl.models import variants
from agentrl.weights import bounds, hf_config

FIELDS = hf_config.make(variants.get('qwen3-4b'))


@pytest.mark.parametrize(
    'field, value',
    [
        ('num_hidden_layers', 10**9),
        ('num_hidden_layers', -1),
        ('num_hidden_layers', 2.0),
        ('num_hidden_layers', True),
        ('hidden_size', '2560'),
        ('hidden_size', [2560]),
        ('vocab_size', 10**400),
        ('num_attention_heads', 0),
        ('num_key_value_heads', 0),
        ('head_dim', 2**40),
        ('tie_word_embeddings', 'no'),
        ('rms_norm_eps', 'small'),
        ('rms_norm_eps', math.nan),
        ('rope_theta', math.inf),
        ('rope_theta', 0),
        ('max_window_layers', 'all'),
    ],
)
def test_a_field_that_no_model_has_is_named(field, value):
  fields = FIELDS | {field: value}
  if field == 'rope_theta':
    del fields['rope_parameters'], fields['rope_scaling']
  with pytest.raises(
      WeightsError, match=f'^{field} of DIR/config.json is .*; it must be '
  ) as caught:
    hf_config.parse(fields, 'DIR/config.json')
  assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    'field, value, message',
    [
        ('model_type', ['qwen3'], 'model_type of .* is .*; known'),
        ('rope_scaling', [8], 'rope_scaling of .* is no object'),
        ('rope_scaling', {'rope_type': ['yarn']}, r"rope_type is \['yarn'\]"),
        (
            'rope_scaling',
            {'rope_type': 'linear', 'factor': '2'},
            "factor is '2'",
        ),
        (
            'rope_scaling',
            {'rope_type': 'yarn', 'factor': 2.0, 'beta_fast': 0.0},
            'config.json: ',
        ),
    ],
)
def test_values_of_another_kind_are_refused_in_one_line(field, value, message):
  fields = FIELDS | {field: value}
  with pytest.raises(WeightsError, match=message) as caught:
    hf_config.parse(fields, 'DIR/config.json')
  assert 'DIR/config.json' in str(caught.value)
  assert str(caught.value).isprintable()


def test_experts_are_counted_over_all_layers():
  bounds.check_experts(64, 1024, 'x')
  with pytest.raises(WeightsError, match='x asks for 4096 layers of 4096 exp'):
    bounds.check_experts(4096, 4096, 'x')
