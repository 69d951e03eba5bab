"""The engine serves more than Llama: windows, norms, biases and experts."""

import dataclasses
import types

import jax
import numpy as np
import pytest

from agentrl.models import transformer
from agentrl.models.config import FULL, SLIDING
from tests import tiny
from tests.engine.talking import GREEDY, once

GEMMA = dict(
    family='gemma3_text',
    num_layers=3,
    layer_types=[SLIDING, FULL, SLIDING],
    sliding_window=5,
    rope_local_theta=100.0,
    query_pre_attn_scalar=7,
    **tiny.GEMMA,
)
EXPERTS = dict(
    family='qwen3_moe',
    qk_norm=True,
    norm_topk_prob=True,
    **tiny.EXPERTS,
)
QWEN2 = dict(family='qwen2', qkv_bias=True, tie_embeddings=False)
KINDS = {'gemma3_text': GEMMA, 'qwen3_moe': EXPERTS, 'qwen2': QWEN2}
ARCHITECTURES = {
    'gemma3_text': 'Gemma3ForCausalLM',
    'qwen3_moe': 'Qwen3MoeForCausalLM',
    'qwen2': 'Qwen2ForCausalLM',
}
# A tensor of each that Llama does not have, or has elsewhere.
NAMES = {
    'gemma3_text': 'model.layers.2.post_feedforward_layernorm.weight',
    'qwen3_moe': 'model.layers.1.mlp.experts.3.down_proj.weight',
    'qwen2': 'model.layers.1.self_attn.k_proj.bias',
}


def find(params, name):
  """The tensor called `name`, as a file has it, out of trainer parameters."""
  layers = params['layers']
  return {
      'gemma3_text': lambda: layers['mlp_post_norm']['scale'][2],
      'qwen3_moe': lambda: layers['mlp']['experts_down'][1, 3].T,
      'qwen2': lambda: layers['attention']['k']['bias'][1],
  }[name]()


@pytest.mark.parametrize(
    'name',
    ['gemma3_text', 'qwen3_moe', pytest.param('qwen2', marks=pytest.mark.slow)],
)
def test_samples_have_the_trainer_s_logprobs(name):
  config = dataclasses.replace(tiny.CONFIG, **KINDS[name])
  module = transformer.Transformer(config, scan_layers=True)
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  rng = np.random.default_rng(0)
  params = jax.tree.map(
      lambda x: rng.normal(0, 0.4, x.shape).astype(np.float32), shapes
  )
  prompt = rng.integers(0, config.vocab_size, 19).tolist()
  with tiny.serving(params, config) as url:
    engine = types.SimpleNamespace(url=url)
    status, reply = once(
        engine,
        'generate',
        {
            'input_ids': prompt,
            'sampling_params': GREEDY,
            'return_logprob': True,
        },
    )
    assert status == 200, reply
    # As an episode's next turn: most of its prompt is in the cache already.
    turn = prompt + reply['output_ids'] + [1, 2]
    _, next_reply = once(
        engine,
        'generate',
        {
            'input_ids': turn,
            'sampling_params': GREEDY,
            'return_logprob': True,
        },
    )
    _, info = once(engine, 'model_info', method='GET')
    _, weight = once(
        engine,
        'get_weights_by_name',
        {'name': NAMES[name], 'truncate_size': 3},
    )
  assert next_reply['meta_info']['cached_tokens'] > len(prompt)
  assert info['model_type'] == name
  assert info['architectures'] == [ARCHITECTURES[name]]
  np.testing.assert_array_equal(weight, find(params, name)[:3])
  tokens = np.array([turn + next_reply['output_ids']], np.int32)
  hidden = module.apply(
      {'params': params}, tokens, np.arange(tokens.size)[None]
  ).hidden
  logits = module.apply({'params': params}, hidden, method='unembed')
  logprobs = np.asarray(jax.nn.log_softmax(logits))[0]
  for start, answer in ((len(prompt), reply), (len(turn), next_reply)):
    triples = answer['meta_info']['output_token_logprobs']
    for t, (logprob, token, _) in enumerate(triples, start):
      assert token == logprobs[t - 1].argmax()
      np.testing.assert_allclose(logprob, logprobs[t - 1, token], atol=1e-4)
