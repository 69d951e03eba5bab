"""The engine serves more than Llama: windows, norms, biases and experts."""

import asyncio
import dataclasses
import types

import jax
import numpy as np
import pytest

from agentrl.models import transformer
from agentrl.models.config import (
    ALL_HEADS,
    CONV,
    EACH_HEAD,
    FULL,
    LINEAR,
    SLIDING,
)
from tests import tiny
from tests.engine.talking import GREEDY, once, talk

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
OLMO3 = dict(
    family='olmo3',
    num_layers=3,
    layer_types=[SLIDING, FULL, SLIDING],
    sliding_window=5,
    rope_local_theta=100.0,
    qk_norm=ALL_HEADS,
    pre_norms=False,
    post_norms=True,
)
GLM4 = dict(
    family='glm4',
    head_dim=8,
    partial_rotary_factor=0.5,
    rope_interleaved=True,
    post_norms=True,
)
MINISTRAL3 = dict(
    family='ministral3',
    rope_scaling=dict(
        kind='yarn', factor=4.0, original_max_positions=8, query_beta=0.5
    ),
)
GRANITE = dict(
    family='granite',
    embedding_multiplier=3.0,
    residual_multiplier=0.5,
    attention_multiplier=0.3,
    logits_scaling=0.5,
)
GPT_OSS = dict(
    family='gpt_oss',
    layer_types=[SLIDING, FULL],
    sliding_window=5,
    qkv_bias=True,
    o_bias=True,
    mlp_bias=True,
    attention_sinks=True,
    norm_topk_prob=True,
    glu_limit=0.5,
    **tiny.EXPERTS,
)
QWEN3_5 = dict(
    family='qwen3_5_text',
    num_layers=4,
    layer_types=[LINEAR, FULL, LINEAR, FULL],
    attention_gate=True,
    qk_norm=EACH_HEAD,
    norm_offset=1.0,
    head_dim=8,
    partial_rotary_factor=0.25,
    **tiny.LINEAR,
)
LFM2 = dict(
    family='lfm2',
    num_layers=3,
    layer_types=[CONV, FULL, CONV],
    conv_kernel=3,
    qk_norm=EACH_HEAD,
)
KINDS = {
    'gemma3_text': GEMMA,
    'qwen3_moe': EXPERTS,
    'qwen2': QWEN2,
    'olmo3': OLMO3,
    'glm4': GLM4,
    'ministral3': MINISTRAL3,
    'granite': GRANITE,
    'gpt_oss': GPT_OSS,
    'qwen3_5_text': QWEN3_5,
    'lfm2': LFM2,
    'gemma4_text': tiny.GEMMA4,
    'qwen3_next': tiny.QWEN3_NEXT,
}
ARCHITECTURES = {
    'olmo3': 'Olmo3ForCausalLM',
    'glm4': 'Glm4ForCausalLM',
    'ministral3': 'Ministral3ForCausalLM',
    'granite': 'GraniteForCausalLM',
    'gpt_oss': 'GptOssForCausalLM',
    'qwen3_5_text': 'Qwen3_5ForCausalLM',
    'lfm2': 'Lfm2ForCausalLM',
    'gemma4_text': 'Gemma4ForCausalLM',
    'qwen3_next': 'Qwen3NextForCausalLM',
    'gemma3_text': 'Gemma3ForCausalLM',
    'qwen3_moe': 'Qwen3MoeForCausalLM',
    'qwen2': 'Qwen2ForCausalLM',
}
# More than one of the matrices that GLM has in one.
ROWS = tiny.CONFIG.intermediate_size + 2
# A tensor of each that Llama does not have, or has elsewhere.
NAMES = {
    'olmo3': 'model.layers.2.self_attn.k_norm.weight',
    'glm4': 'model.layers.1.mlp.gate_up_proj.weight',
    'ministral3': 'model.layers.1.self_attn.q_proj.weight',
    'granite': 'model.layers.0.mlp.up_proj.weight',
    'gpt_oss': 'model.layers.1.mlp.experts.gate_up_proj',
    'lfm2': 'model.layers.2.conv.out_proj.weight',
    'gemma4_text': 'model.layers.5.self_attn.q_proj.weight',
    'qwen3_5_text': 'model.layers.2.linear_attn.in_proj_qkv.weight',
    'qwen3_next': 'model.layers.2.linear_attn.in_proj_qkvz.weight',
    'gemma3_text': 'model.layers.2.post_feedforward_layernorm.weight',
    'qwen3_moe': 'model.layers.1.mlp.experts.3.down_proj.weight',
    'qwen2': 'model.layers.1.self_attn.k_proj.bias',
}


def _by_heads(attention, i):
  """Rows of queries, keys, values and gates of each of the two heads of keys."""
  qkv, z = (attention[x]['kernel'][i].T for x in ('in_qkv', 'in_z'))
  sizes = [tiny.LINEAR['linear_key_heads'] * tiny.LINEAR['linear_key_dim']] * 2
  parts = [*np.split(qkv, np.cumsum(sizes)), z]
  halves = [np.split(part, 2) for part in parts]
  return np.concatenate([half[head] for head in range(2) for half in halves])


def find(params, name):
  """The tensor called `name`, as a file has it, out of trainer parameters."""
  layers = params['layers']
  kernel = lambda block, name, i: layers[block][name]['kernel'][i].T
  return {
      'olmo3': lambda: layers['attention']['k_norm']['scale'][2],
      'glm4': lambda: np.concatenate(
          [kernel('mlp', 'gate', 1), kernel('mlp', 'up', 1)]
      ),
      'ministral3': lambda: kernel('attention', 'q', 1),
      'granite': lambda: kernel('mlp', 'up', 0),
      'gpt_oss': lambda: layers['mlp']['experts_gate_up'][1],
      'lfm2': lambda: (
          layers['block_2_of_3']['attention']['out']['kernel'][0].T
      ),
      'qwen3_5_text': lambda: (
          layers['block_0_of_2']['attention']['in_qkv']['kernel'][1].T
      ),
      'gemma4_text': lambda: (
          params['layers_from_4']['block_1_of_2']['attention']['q']['kernel'][
              0
          ].T
      ),
      'qwen3_next': lambda: _by_heads(layers['block_0_of_2']['attention'], 1),
      'gemma3_text': lambda: layers['mlp_post_norm']['scale'][2],
      'qwen3_moe': lambda: layers['mlp']['experts_down'][1, 3].T,
      'qwen2': lambda: layers['attention']['k']['bias'][1],
  }[name]()


def draw(config, rng):
  """Random parameters, the trainer's."""
  module = transformer.Transformer(config, scan_layers=True)
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  return jax.tree.map(
      lambda x: rng.normal(0, 0.4, x.shape).astype(np.float32), shapes
  )


def score(config, params, ids):
  """`[T, V]` log-probabilities of what follows each token, by the trainer."""
  module = transformer.Transformer(config, scan_layers=True)
  tokens = np.zeros((1, 128), np.int32)  # one program for all
  tokens[0, : len(ids)] = ids
  logits, _ = tiny.run_decoder(
      module, params, tokens, np.arange(tokens.size, dtype=np.int32)[None]
  )
  return np.asarray(jax.nn.log_softmax(logits))[0, : len(ids)]


@pytest.mark.parametrize(
    'name',
    [
        'gemma3_text',
        'qwen3_moe',
        'qwen3_5_text',
        'gemma4_text',
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                *('qwen2', 'olmo3', 'glm4', 'ministral3', 'granite', 'gpt_oss'),
                *('lfm2', 'qwen3_next'),
            )
        ),
    ],
)
def test_samples_have_the_trainer_s_logprobs(name):
  config = dataclasses.replace(tiny.CONFIG, **KINDS[name])
  rng = np.random.default_rng(0)
  params = draw(config, rng)
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
        {'name': NAMES[name], 'truncate_size': ROWS},
    )
  assert next_reply['meta_info']['cached_tokens'] > len(prompt)
  assert info['model_type'] == name
  assert info['architectures'] == [ARCHITECTURES[name]]
  np.testing.assert_array_equal(weight, find(params, name)[:ROWS])
  logprobs = score(config, params, turn + next_reply['output_ids'])
  for start, answer in ((len(prompt), reply), (len(turn), next_reply)):
    triples = answer['meta_info']['output_token_logprobs']
    for t, (logprob, token, _) in enumerate(triples, start):
      assert token == logprobs[t - 1].argmax()
      np.testing.assert_allclose(logprob, logprobs[t - 1, token], atol=1e-4)


@pytest.mark.parametrize(
    'name, deterministic',
    [
        # Memories that are shared whole or not at all.
        ('qwen3_5_text', False),
        pytest.param('qwen3_5_text', True, marks=pytest.mark.slow),
        # Caches of two sizes, and layers without one.
        pytest.param('gemma4_text', False, marks=pytest.mark.slow),
    ],
)
def test_requests_that_share_beginnings_get_their_own_logprobs(
    name, deterministic
):
  """Groups, forks, turns and early ends over few slots."""
  config = dataclasses.replace(tiny.CONFIG, **KINDS[name])
  rng = np.random.default_rng(0)
  params = draw(config, rng)
  ids = lambda n: rng.integers(0, config.vocab_size, n).tolist()
  begin, other = ids(70), ids(11)
  sampled = dict(temperature=1.0, max_new_tokens=12)

  def ask(prompt, seed, **settings):
    return {
        'input_ids': prompt,
        'return_logprob': True,
        'sampling_params': sampled | dict(sampling_seed=seed) | settings,
    }

  async def body(call):
    calls = lambda requests: asyncio.gather(
        *(call('generate', request) for request in requests)
    )
    group = await calls(ask(begin, seed) for seed in range(6))
    # A fork within what was shared, another beginning, and one that ends at a
    # token of its own in the middle of a dispatch.
    token = group[0][1]['output_ids'][3]
    forks = [
        ask(begin[:40] + other, 7),
        ask(other, 8),
        ask(begin, 0, stop_token_ids=[token]),
    ]
    more = await calls(forks)
    turns = [
        ask([*begin, *reply['output_ids'], *other], 20 + i)
        for i, (_, reply) in enumerate(group[:3])
    ]
    # Goes on behind what ended early.
    turns.append(ask([*begin, *more[2][1]['output_ids'], *other], 30))
    return [
        *zip([ask(begin, 0)] * 6, group, strict=True),
        *zip(forks, more, strict=True),
        *zip(turns, await calls(turns), strict=True),
    ]

  options = dict(slots=4, max_running=3, deterministic=deterministic)
  with tiny.serving(params, config, **options) as url:
    engine = types.SimpleNamespace(url=url)
    answers = talk(engine, body)
  reused = 0
  for request, (status, reply) in answers:
    assert status == 200, reply
    start = len(request['input_ids'])
    logprobs = score(config, params, request['input_ids'] + reply['output_ids'])
    reused += reply['meta_info']['cached_tokens'] or 0
    triples = reply['meta_info']['output_token_logprobs']
    assert triples
    for t, (logprob, token, _) in enumerate(triples, start):
      np.testing.assert_allclose(logprob, logprobs[t - 1, token], atol=1e-4)
  if not deterministic:
    assert reused > 3 * len(begin)  # the group shared, and turns went on
