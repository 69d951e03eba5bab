"""Tests of every family of decoders: against transformers, and against itself.

One model of a kind at a time: what all tests of it need is computed once.
"""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from agentrl import batch
from agentrl.models import transformer
from agentrl.models.config import TransformerConfig
from agentrl.weights import hf
from tests import tiny
from tests.models import hugging_face

# Float32 sums in another order; the largest logits are about 20.
CLOSE = dict(rtol=5e-5, atol=5e-5)
# The same network, computed another way.
SAME = dict(rtol=1e-4, atol=1e-4)
ROWS, LENGTH = 2, 40


@dataclasses.dataclass(frozen=True)
class Model:
  """A random model, by transformers and by us."""

  theirs: object
  config: TransformerConfig
  params: dict  # the trainer's
  engine: dict
  tokens: np.ndarray  # [ROWS, LENGTH]
  expected: np.ndarray  # [ROWS, LENGTH, V], by transformers

  @property
  def trainer(self):
    return transformer.Transformer(self.config, scan_layers=True)


POSITIONS = np.tile(np.arange(LENGTH, dtype=np.int32), (ROWS, 1))
ONE_SEGMENT = np.ones((ROWS, LENGTH), np.int32)


# What the others leave to test is a combination.
SLOW = {
    'llama, linear',
    'llama, dynamic',
    'qwen3, windows',
    'smollm3',
    'smollm3, mlp_bias',
    'gemma3, untied',
    'qwen3_moe, biases',
    'qwen3_moe, weights as they are',
}
SLOW |= {*hugging_face.RANDOM} - {*hugging_face.DEFAULT.values()}
# Draws after the third combine the same choices anew.
EXTRA = {name for name in SLOW if name[-1] in '3456789'}


def marks(name):
  return [pytest.mark.slow] * (name in SLOW) + [pytest.mark.extra] * (
      name in EXTRA
  )


NAMES = [
    pytest.param(name, marks=marks(name))
    for name in (*hugging_face.MODELS, *hugging_face.RANDOM)
]


@pytest.fixture(scope='module', params=NAMES)
def model(request, tmp_path_factory):
  theirs = hugging_face.make(request.param)
  directory = tmp_path_factory.mktemp('theirs')
  theirs.save_pretrained(directory)
  config, params = hf.load(directory)
  rng = np.random.default_rng(0)
  tokens = rng.integers(0, 61, (ROWS, LENGTH)).astype(np.int32)
  return Model(
      theirs,
      config,
      params,
      transformer.unstack_layers(params),
      tokens,
      hugging_face.logits(theirs, tokens),
  )


def test_it_gives_the_logits_of_transformers(model):
  actual, _ = tiny.run_decoder(
      model.trainer, model.params, model.tokens, POSITIONS, ONE_SEGMENT
  )
  assert np.abs(model.expected).max() > 1  # the comparison is about something
  np.testing.assert_allclose(actual, model.expected, **CLOSE)


def test_parameters_are_counted(model):
  leaves = jax.tree.leaves(model.params)
  assert model.config.num_params == sum(x.size for x in leaves)
  scalars = (
      model.config.num_layers * model.config.layer_scalars
  )  # buffers there
  assert model.config.num_params == model.theirs.num_parameters() + scalars


def test_the_engine_s_layout_decodes_the_same(model):
  """A prompt in two pieces of their own, then a token at a time."""
  module = transformer.Transformer(model.config)
  # Whatever an earlier request left behind must not be seen.
  cache = transformer.init_cache(model.config, ROWS, 48)
  cache = jax.tree.map(lambda x: x + 100, cache)
  start, actual = 0, []
  for size in [17, 17, *[1] * 6]:
    part = slice(start, start + size)
    out, cache = tiny.run_decoder(
        module,
        model.engine,
        model.tokens[:, part],
        POSITIONS[:, part],
        cache=cache,
    )
    actual.append(out)
    start += size
  assert start == LENGTH
  np.testing.assert_allclose(np.concatenate(actual, 1), model.expected, **CLOSE)


def test_what_shares_a_row_changes_nothing(model):
  """Two episodes and padding in a row, cut out of the tests' two rows."""
  first, second = 23, 13
  segment_ids = np.repeat([[1, 2, 0]], [first, second, 4], axis=1)
  tokens = np.zeros((1, LENGTH), np.int32)
  tokens[0, :first] = model.tokens[0, :first]
  tokens[0, first:-4] = model.tokens[1, :second]
  positions = np.concatenate(
      [np.arange(first), np.arange(second), np.zeros(4)]
  ).astype(np.int32)
  # The other row is there so that no other program is compiled.
  tokens, positions, segment_ids = (
      np.repeat(x, ROWS, axis=0)
      for x in (tokens, positions[None], segment_ids.astype(np.int32))
  )
  out, _ = tiny.run_decoder(
      model.trainer, model.params, tokens, positions, segment_ids
  )
  assert np.isfinite(out).all()
  np.testing.assert_allclose(out[0, :first], model.expected[0, :first], **CLOSE)
  np.testing.assert_allclose(
      out[1, first:-4], model.expected[1, :second], **CLOSE
  )


@pytest.mark.slow
def test_a_shared_beginning_changes_nothing(model):
  """The tests' two rows as what follows beginnings of unequal lengths."""
  size, lengths = 14, np.array([13, 6])
  valid = np.arange(size) < lengths[:, None]
  prefix = batch.SharedPrefix(
      np.where(valid, model.tokens[:, :size], 0),
      valid.astype(np.int32),
      np.arange(ROWS),
  )
  rows = np.arange(ROWS)[:, None]
  positions = lengths[:, None] + np.arange(LENGTH - size)
  hidden = jax.jit(model.trainer.apply)(
      {'params': model.params},
      model.tokens[rows, positions],
      positions,
      ONE_SEGMENT[:, size:],
      prefix=prefix,
  ).hidden
  actual = model.trainer.apply(
      {'params': model.params}, hidden, method='unembed'
  )
  np.testing.assert_allclose(actual, model.expected[rows, positions], **CLOSE)


def test_transformers_loads_what_we_save(model, tmp_path):
  transformers = pytest.importorskip('transformers')
  directory = tmp_path / 'ours'
  hf.save(directory, model.config, model.params, shard_bytes=20_000)
  config, params = hf.load(directory)
  assert config == model.config
  jax.tree.map(np.testing.assert_array_equal, params, model.params)
  theirs = transformers.AutoModelForCausalLM.from_pretrained(directory)
  assert type(theirs) is type(model.theirs)
  np.testing.assert_allclose(
      hugging_face.logits(theirs, model.tokens), model.expected, **SAME
  )


def test_layouts_convert_back_and_forth(model):
  back = tiny.stack_layers(model.engine, model.config)
  jax.tree.map(np.testing.assert_array_equal, back, model.params)


def check_logits(theirs, config, params):
  """Asserts that a model of images and its text part say the same of a text."""
  tokens = np.random.default_rng(0).integers(0, 60, (ROWS, LENGTH))
  actual, _ = tiny.run_decoder(
      transformer.Transformer(config, scan_layers=True),
      params,
      tokens.astype(np.int32),
      POSITIONS,
      ONE_SEGMENT,
  )
  expected = hugging_face.logits(theirs, tokens)
  np.testing.assert_allclose(actual, expected, **CLOSE)


@pytest.mark.parametrize('kind', ['Gemma3', 'Mistral3'])
@pytest.mark.parametrize(
    'text, images',
    [
        ('language_model.model.', ''),
        pytest.param('model.language_model.', 'model.', marks=pytest.mark.slow),
    ],
    ids=['as on the hub', 'as saved by transformers'],
)
def test_the_text_part_of_a_model_of_images_is_read(
    tmp_path, kind, text, images
):
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  part = {'Gemma3': 'gemma3', 'Mistral3': 'ministral3 0'}[kind]
  text_config = hugging_face.make(part).config
  vision = dict(
      hidden_size=16,
      intermediate_size=16,
      num_hidden_layers=1,
      num_attention_heads=2,
      image_size=8,
      patch_size=4,
  )
  torch.manual_seed(0)
  theirs = getattr(transformers, f'{kind}ForConditionalGeneration')(
      getattr(transformers, f'{kind}Config')(
          text_config=text_config,
          vision_config=vision,
          image_token_index=60,
          tie_word_embeddings=text_config.tie_word_embeddings,
      )
  )
  hugging_face.randomise(theirs)
  theirs.save_pretrained(tmp_path)
  path = tmp_path / 'model.safetensors'
  saved = safetensors.numpy.load_file(path)
  assert any('vision_tower' in name for name in saved)
  head = 'language_model.lm_head' if not images else 'lm_head'
  saved = {re.sub(r'.*lm_head', head, k): v for k, v in saved.items()}
  language = re.compile(r'^(model\.)?language_model\.(?!lm_head)(model\.)?')
  other = re.compile(r'^(model\.)?(?=vision_tower|multi_modal)')
  rename = lambda name: other.sub(images, language.sub(text, name))
  safetensors.numpy.save_file({rename(k): v for k, v in saved.items()}, path)
  config, params = hf.load(tmp_path)
  assert config.family == text_config.model_type
  check_logits(theirs, config, params)


def test_the_text_part_of_qwen3_5_is_read(tmp_path):
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  text = hugging_face.make('qwen3_5_text 1').config
  sizes = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2)
  torch.manual_seed(0)
  theirs = transformers.Qwen3_5ForConditionalGeneration(
      transformers.Qwen3_5Config(
          text_config=text.to_dict(),
          vision_config=sizes | dict(out_hidden_size=text.hidden_size),
          tie_word_embeddings=text.tie_word_embeddings,
      )
  )
  hugging_face.randomise(theirs)
  theirs.save_pretrained(tmp_path)
  path = tmp_path / 'model.safetensors'
  saved = safetensors.numpy.load_file(path)
  assert any(name.startswith('model.visual.') for name in saved)
  # As published: layers beside the model that guess several tokens at once.
  saved['mtp.fc.weight'] = np.zeros((2, 2), np.float32)
  safetensors.numpy.save_file(saved, path)
  config, params = hf.load(tmp_path)
  check_logits(theirs, config, params)


def test_the_text_part_of_gemma_4_is_read(tmp_path):
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  text = hugging_face.make('gemma4_text 9', pad_token_id=0).config
  sizes = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1)
  torch.manual_seed(0)
  theirs = transformers.Gemma4ForConditionalGeneration(
      transformers.Gemma4Config(
          text_config=text.to_dict(),
          vision_config=dict(
              num_attention_heads=2,
              num_key_value_heads=2,
              head_dim=8,
              position_embedding_size=8,
              **sizes,
          ),
          image_token_id=60,
          tie_word_embeddings=text.tie_word_embeddings,
      )
  )
  hugging_face.randomise(theirs)
  theirs.save_pretrained(tmp_path)
  path = tmp_path / 'model.safetensors'
  saved = safetensors.numpy.load_file(path)
  for part in ('vision_tower', 'embed_vision'):
    assert any(name.startswith(f'model.{part}.') for name in saved)
  # As published: keys and values of layers that read those of others.
  saved |= {
      f'model.language_model.layers.5.self_attn.{name}.weight': np.zeros((2, 2))
      for name in ('k_proj', 'v_proj', 'k_norm')
  }
  safetensors.numpy.save_file(saved, path)
  config, params = hf.load(tmp_path)
  assert config.kv_shared_layers == 2
  check_logits(theirs, config, params)


def test_the_text_part_of_gemma_4_unified_is_read(tmp_path):
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  text = hugging_face.make('gemma4_unified_text 1', pad_token_id=0).config
  torch.manual_seed(0)
  theirs = transformers.Gemma4UnifiedForConditionalGeneration(
      transformers.Gemma4UnifiedConfig(
          text_config=text.to_dict(),
          vision_config=dict(
              patch_size=2,
              pooling_kernel_size=1,
              mm_embed_dim=text.hidden_size,
              mm_posemb_size=4,
              output_proj_dims=text.hidden_size,
          ),
          audio_config=dict(audio_embed_dim=8),
          image_token_id=60,
          tie_word_embeddings=text.tie_word_embeddings,
      )
  )
  hugging_face.randomise(theirs)
  theirs.save_pretrained(tmp_path)
  saved = safetensors.numpy.load_file(tmp_path / 'model.safetensors')
  for part in ('vision_embedder', 'embed_vision', 'embed_audio'):
    assert any(name.startswith(f'model.{part}.') for name in saved)
  config, params = hf.load(tmp_path)
  assert config.family == 'gemma4_unified_text'
  check_logits(theirs, config, params)


def test_transformers_runs_an_exported_gemma_without_sliding_layers(tmp_path):
  theirs = hugging_face.make('gemma3, untied')
  theirs.save_pretrained(tmp_path / 'a')
  config, params = hf.load(tmp_path / 'a')
  config = dataclasses.replace(
      config, layer_types=None, sliding_window=None, rope_local_theta=None
  )
  hf.save(tmp_path / 'b', config, params)
  assert hf.load_config(tmp_path / 'b') == config
  found = type(theirs).from_pretrained(tmp_path / 'b').float().eval()
  tokens = np.random.default_rng(0).integers(0, 61, (ROWS, LENGTH))
  expected = hugging_face.logits(found, tokens)
  # Longer than the window that is gone.
  assert np.abs(expected - hugging_face.logits(theirs, tokens)).max() > 0.1
  actual, _ = tiny.run_decoder(
      transformer.Transformer(config, scan_layers=True),
      params,
      tokens.astype(np.int32),
      POSITIONS,
      ONE_SEGMENT,
  )
  np.testing.assert_allclose(actual, expected, **CLOSE)


@pytest.mark.parametrize(
    'name, remat',
    [
        ('qwen2', 'full'),
        ('llama, biases', 'full'),
        ('qwen3_moe', 'dots'),
        ('qwen3_5_text 6', 'dots'),
        pytest.param('gemma3, untied', 'none', marks=pytest.mark.slow),
        *(
            pytest.param(
                name,
                'dots',
                # Their backward passes are those of others.
                marks=[pytest.mark.slow]
                * (family in ('mistral', 'seed_oss', 'olmo2', 'phi3')),
            )
            for family, name in hugging_face.DEFAULT.items()
        ),
    ],
)
def test_gradients_are_those_of_torch(tmp_path, name, remat):
  """Of the mean negative log-probability of the next token."""
  theirs = hugging_face.make(name)
  import torch

  theirs.save_pretrained(tmp_path / 'a')
  config, params = hf.load(tmp_path / 'a')
  tokens = np.random.default_rng(1).integers(0, 61, (2, 12))
  labels = torch.tensor(tokens)
  theirs(labels, labels=labels).loss.backward()
  with torch.no_grad():
    for value in theirs.parameters():
      value.copy_(value.grad)
    for name, value in theirs.named_buffers():
      if name.endswith('layer_scalar'):
        value.zero_()  # it is not trained
  theirs.save_pretrained(tmp_path / 'b')
  _, expected = hf.load(tmp_path / 'b')
  module = transformer.Transformer(config, scan_layers=True, remat=remat)

  def loss(params):
    out, _ = tiny.run_decoder(module, params, tokens, POSITIONS[:, :12])
    logprobs = jax.nn.log_softmax(out[:, :-1])
    return -jnp.take_along_axis(logprobs, tokens[:, 1:, None], -1).mean()

  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5),
      jax.jit(jax.grad(loss))(params),
      expected,
  )
