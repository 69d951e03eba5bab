"""Tests for agentrl.weights.peft: what we write, and peft itself as oracle.

Those of the oracle need peft (pip install --no-deps peft) beside torch.
"""

import dataclasses
import functools
import json

import jax
import numpy as np
import pytest
import safetensors.numpy

from agentrl.errors import WeightsError
from agentrl.models import lora as lora_lib, transformer
from agentrl.models.lora import Base, Lora
from agentrl.models.options import OTHER_TARGETS
from agentrl.weights import hf, names, peft
from tests import tiny
from tests.models import hugging_face

EXPERTS = dataclasses.replace(tiny.CONFIG, **tiny.EXPERTS)
GEMMA4 = dataclasses.replace(tiny.CONFIG, **tiny.GEMMA4)
ATTENTION = ('q', 'k', 'v', 'o')


def random_adapter(config, lora, seed=0):
  rng = np.random.default_rng(seed)
  adapter = jax.eval_shape(
      lambda key: lora_lib.init(lora, names.shapes(config, np.float32), key),
      jax.random.key(0),
  )
  return jax.tree.map(
      lambda x: rng.normal(0, 0.2, x.shape).astype(np.float32), adapter
  )


@pytest.mark.parametrize(
    'config, lora',
    [
        (tiny.CONFIG, Lora(rank=3, alpha=6.0)),
        (tiny.CONFIG, Lora(rank=2, targets=('k', 'down'), rslora=True)),
        (EXPERTS, Lora(rank=2, targets=ATTENTION)),
        (GEMMA4, Lora(rank=2, targets=('q', 'k', 'v', 'up'))),
        (
            GEMMA4,
            Lora(rank=2, targets=('v',)),
        ),  # of every second layer, or none
    ],
)
def test_an_adapter_comes_back(tmp_path, config, lora):
  adapter = random_adapter(config, lora)
  peft.save_adapter(tmp_path / 'x', config, adapter, lora, base='owner/base')
  found, back = peft.load_adapter(tmp_path / 'x', config)
  assert found == lora
  tiny.assert_trees_equal(back, adapter)
  assert [p.name for p in tmp_path.iterdir()] == ['x']  # nothing half-written


def test_the_files_are_as_peft_writes_them(tmp_path):
  lora = Lora(rank=3, alpha=6.0, targets=('q', 'up'))
  adapter = random_adapter(tiny.CONFIG, lora)
  peft.save_adapter(
      tmp_path / 'x', tiny.CONFIG, adapter, lora, base='owner/base'
  )
  tensors = safetensors.numpy.load_file(
      tmp_path / 'x' / 'adapter_model.safetensors'
  )
  assert len(tensors) == 2 * 2 * 2
  prefix = 'base_model.model.model.layers.1.'
  for name, shape, ours in (
      ('self_attn.q_proj.lora_A', (3, 16), ('attention', 'q', 'a')),
      ('mlp.up_proj.lora_B', (32, 3), ('mlp', 'up', 'b')),
  ):
    found = tensors[f'{prefix}{name}.weight']
    assert found.shape == shape
    block, target, part = ours
    leaf = adapter['layers'][block][target][part]
    np.testing.assert_array_equal(found, leaf[1].T)
  fields = json.loads((tmp_path / 'x' / 'adapter_config.json').read_text())
  assert fields['peft_type'] == 'LORA' and fields['r'] == 3
  assert fields['lora_alpha'] == 6.0 and not fields['use_rslora']
  assert fields['target_modules'] == ['q_proj', 'up_proj']
  assert fields['base_model_name_or_path'] == 'owner/base'


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(peft_type='IA3'), 'does not describe a LoRA adapter'),
        (dict(use_dora=True), 'use_dora=True, which is not supported .* merge'),
        (
            dict(init_lora_weights='pissa'),
            "='pissa', which adds to a base that",
        ),
        (dict(init_lora_weights='pissa_niter_16'), 'pissa_niter_16'),
        (dict(init_lora_weights='olora'), "'olora', which adds to a base"),
        (dict(init_lora_weights='corda'), 'corda'),
        (dict(init_lora_weights='loftq'), 'loftq'),
        (dict(init_lora_weights='lora_ga'), 'lora_ga'),
        (dict(init_lora_weights=['pissa']), 'init_lora_weights='),
        (dict(alora_invocation_tokens=[1, 2]), 'alora_invocation_tokens='),
        (dict(use_qalora=True), 'use_qalora=True, which is not known here'),
        (dict(kasa_config={'rank': 1}), 'kasa_config'),
        (dict(target_parameters=['w']), 'target_parameters'),
        (dict(trainable_token_indices=[3]), 'trainable_token_indices'),
        (dict(exclude_modules=['q_proj']), 'exclude_modules'),
        (dict(of_next_year='x'), "of_next_year='x', which is not known here"),
        (dict(bias='all'), "bias='all', which is not supported"),
        (dict(task_type='SEQ_CLS'), "task_type='SEQ_CLS': not an adapter of"),
        (dict(use_rslora='false'), "use_rslora='false'; it must be true or"),
        (dict(modules_to_save=['lm_head']), 'modules_to_save'),
        (dict(target_modules=['lm_head']), r"\['lm_head'\]; known: q_proj"),
        (dict(target_modules='all-linear'), "'all-linear'; known: q_proj"),
        (dict(r='many'), "r='many'; it must be at least 1"),
        (dict(lora_alpha='x'), "lora_alpha='x'; it must be a number"),
        (dict(target_modules=[['q_proj']]), 'target_modules='),
        (dict(r=0), 'r=0; it must be at least 1'),
        (dict(r=2), r'has shape \[3, 16\]; .* ask for \[2, 16\]'),
        (dict(target_modules=['q_proj']), 'has unknown 4 tensors'),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, fields, message):
  lora = Lora(rank=3, targets=('q', 'k'))
  adapter = random_adapter(tiny.CONFIG, lora)
  peft.save_adapter(tmp_path / 'x', tiny.CONFIG, adapter, lora, base='b')
  path = tmp_path / 'x' / 'adapter_config.json'
  path.write_text(json.dumps(json.loads(path.read_text()) | fields))
  with pytest.raises(WeightsError, match=message):
    peft.load_adapter(tmp_path / 'x', tiny.CONFIG)


@pytest.mark.parametrize(
    'fields',
    [
        dict(init_lora_weights=True, peft_version='0.21.2', revision='main'),
        dict(init_lora_weights='gaussian', lora_dropout=0.1),
        dict(init_lora_weights='eva', eva_config={'rho': 2.0}),
        # Parameters of options that are off, and options of later versions.
        dict(
            use_qalora=False, qalora_group_size=16, alora_invocation_tokens=None
        ),
        dict(loftq_config={}, megatron_core='megatron.core', of_next_year=None),
        dict(bias=None, task_type=None, use_rslora=None),
    ],
)
def test_options_that_ask_for_nothing_are_read(tmp_path, fields):
  lora = Lora(rank=3, targets=('q', 'k'))
  adapter = random_adapter(tiny.CONFIG, lora)
  peft.save_adapter(tmp_path / 'x', tiny.CONFIG, adapter, lora, base='b')
  path = tmp_path / 'x' / 'adapter_config.json'
  path.write_text(json.dumps(json.loads(path.read_text()) | fields))
  found, back = peft.load_adapter(tmp_path / 'x', tiny.CONFIG)
  assert found == lora
  tiny.assert_trees_equal(back, adapter)


def test_missing_and_damaged_files_are_named(tmp_path):
  with pytest.raises(WeightsError, match='no adapter_config.json'):
    peft.load_adapter(tmp_path, tiny.CONFIG)
  lora = Lora(rank=3)
  adapter = random_adapter(tiny.CONFIG, lora)
  peft.save_adapter(tmp_path / 'x', tiny.CONFIG, adapter, lora, base='b')
  with pytest.raises(WeightsError, match='is not empty'):
    peft.save_adapter(tmp_path / 'x', tiny.CONFIG, adapter, lora, base='b')
  weights = tmp_path / 'x' / 'adapter_model.safetensors'
  weights.write_bytes(weights.read_bytes()[:-8])
  with pytest.raises(WeightsError, match='not a whole safetensors file'):
    peft.load_adapter(tmp_path / 'x', tiny.CONFIG)


def logits(config, params, tokens, base=None):
  module = transformer.Transformer(config, scan_layers=True)
  variables = lora_lib.variables(params, base)
  positions = np.tile(np.arange(tokens.shape[1]), (len(tokens), 1))
  hidden = module.apply(variables, tokens, positions).hidden
  return module.apply(variables, hidden, method='unembed')


def test_adapters_of_matrices_that_share_a_tensor_are_refused(tmp_path):
  config = dataclasses.replace(tiny.CONFIG, family='phi3')
  save = functools.partial(peft.save_adapter, config=config, base='b')
  lora = Lora(rank=3, targets=('q', 'down'))
  adapter = random_adapter(config, lora)
  message = 'one matrix for several of q, .*export.adapter=False.*o.*down'
  with pytest.raises(WeightsError, match=message):
    save(tmp_path / 'x', adapter=adapter, lora=lora)
  with pytest.raises(WeightsError, match='one matrix for several'):
    peft.modules(config, lora)
  lora = Lora(rank=3, targets=('o', 'down'))
  adapter = random_adapter(config, lora)
  save(tmp_path / 'y', adapter=adapter, lora=lora)
  found, same = peft.load_adapter(tmp_path / 'y', config)
  assert found == lora
  tiny.assert_trees_equal(same, adapter)
  path = tmp_path / 'y' / 'adapter_config.json'
  path.write_text(path.read_text().replace('o_proj', 'qkv_proj'))
  with pytest.raises(WeightsError, match='qkv_proj.*known: o_proj, down_proj'):
    peft.load_adapter(tmp_path / 'y', config)


@pytest.mark.slow
@pytest.mark.parametrize(
    'name',
    # The last has full layers whose keys are their values.
    [
        *hugging_face.MODELS,
        *hugging_face.DEFAULT.values(),
        'gemma4_text 9',
    ],
)
def test_peft_loads_what_we_write(tmp_path, name):
  oracle = pytest.importorskip('peft', reason='needs peft, the oracle')
  theirs = hugging_face.make(name)
  theirs.save_pretrained(tmp_path / 'base')
  config, params = hf.load(tmp_path / 'base')
  targets = ATTENTION if config.num_experts else Lora().targets
  if config.is_recurrent:
    own = {x for mixer in config.mixers for x in lora_lib.TARGETS[mixer]}
    targets = (*targets, *(name for name in OTHER_TARGETS if name in own))
  if config.family == 'qwen3_next':  # nor here
    targets = (*ATTENTION, 'out')
  if config.family in ('glm4', 'phi3'):  # others share tensors
    targets = ('o', 'down')
  lora = Lora(rank=3, alpha=5.0, targets=targets, rslora='qwen' in name)
  adapter = random_adapter(config, lora)
  base = str(tmp_path / 'base')  # where peft looks for its vocabulary
  peft.save_adapter(tmp_path / 'ours', config, adapter, lora, base=base)
  theirs = oracle.PeftModel.from_pretrained(theirs, tmp_path / 'ours')
  tokens = np.random.default_rng(0).integers(0, 61, (2, 12)).astype(np.int32)
  expected = hugging_face.logits(theirs, tokens)
  found = logits(config, adapter, tokens, Base(params, lora.scale))
  np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
  plain = logits(config, params, tokens)
  assert np.abs(found - plain).max() > 0.1

  # And the other way round.
  theirs.save_pretrained(tmp_path / 'theirs')
  back, same = peft.load_adapter(tmp_path / 'theirs', config)
  assert back == lora
  tiny.assert_trees_equal(same, adapter)


@pytest.mark.slow
@pytest.mark.parametrize(
    'options, accepted',
    [
        (dict(init_lora_weights=False), True),
        (dict(init_lora_weights='gaussian'), True),
        (dict(init_lora_weights='orthogonal'), True),
        (dict(init_lora_weights='pissa'), False),
        (dict(init_lora_weights='pissa_niter_4'), False),
        (dict(init_lora_weights='olora'), False),
        (dict(use_dora=True), False),
        (dict(alora_invocation_tokens=[3, 4]), False),
        (dict(rank_pattern={'q_proj': 4}), False),
        (dict(modules_to_save=['lm_head']), False),
    ],
)
def test_an_adapter_of_peft_is_the_same_or_refused(tmp_path, options, accepted):
  oracle = pytest.importorskip('peft', reason='needs peft, the oracle')
  name = next(iter(hugging_face.MODELS))
  base = hugging_face.make(name)
  base.save_pretrained(tmp_path / 'base')
  made = oracle.get_peft_model(
      base,
      oracle.LoraConfig(
          r=2,
          lora_alpha=4,
          target_modules=['q_proj', 'v_proj'],
          task_type='CAUSAL_LM',
          **options,
      ),
  )
  made.save_pretrained(tmp_path / 'adapter')
  config, params = hf.load(tmp_path / 'base')
  if not accepted:
    with pytest.raises(WeightsError, match='merge'):
      peft.load_adapter(tmp_path / 'adapter', config)
    return
  lora, adapter = peft.load_adapter(tmp_path / 'adapter', config)
  tokens = np.random.default_rng(0).integers(0, 61, (2, 12)).astype(np.int32)
  expected = hugging_face.logits(made, tokens)
  found = logits(config, adapter, tokens, Base(params, lora.scale))
  np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
