"""Tests for agentrl.serving.weight_sync.verify."""

import dataclasses

import jax
import pytest

from agentrl.models.config import CONV, EACH_HEAD, FULL, LINEAR
from agentrl.serving.weight_sync import verify
from agentrl.weights import names
from tests import tiny

LFM2 = dict(
    family='lfm2', layer_types=[FULL, CONV], conv_kernel=3, qk_norm=EACH_HEAD
)
QWEN3_5 = dict(
    family='qwen3_5_text',
    layer_types=[LINEAR, FULL],
    norm_offset=1.0,
    attention_gate=True,
    qk_norm=EACH_HEAD,
    **tiny.LINEAR,
)


@pytest.mark.parametrize(
    'changes, expected',
    [
        ({}, 'model.layers.1.self_attn.o_proj.weight'),
        (LFM2, 'model.layers.0.self_attn.out_proj.weight'),
        (QWEN3_5, 'model.layers.1.self_attn.o_proj.weight'),
        (tiny.GEMMA4, 'model.layers.5.self_attn.o_proj.weight'),
    ],
)
def test_the_last_attention_s_output_is_hashed_whatever_its_name(
    changes, expected
):
  config = dataclasses.replace(tiny.CONFIG, **changes)
  shapes = names.shapes(config, 'float32')
  params = jax.tree.map(lambda x: jax.numpy.zeros(x.shape, x.dtype), shapes)
  entries = names.disassemble(config, params)
  found = verify.make_evidence(3, entries, config)
  assert [*found.digests] == [expected]
  assert not any(part in expected for part in found.skip)
  # Training changes them, and servers have them by name.
  assert not any('layer_scalar' in name for name in found.rows)
