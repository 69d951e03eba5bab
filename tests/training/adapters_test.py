"""Tests for agentrl.training.adapters, and for what a config may say of them."""

import dataclasses
import functools
import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.errors import CheckpointError, ConfigError, WeightsError
from agentrl.models import lora as lora_lib
from agentrl.models.lora import Lora
from agentrl.models.options import TrainModel
from agentrl.modes import reading
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.training import adapters, checkpoint, language_model
from agentrl.training.checkpoint import Checkpoints
from agentrl.training.state import TrainState
from agentrl.weights import hf, peft, pretrained
from configs import babyai_sft, evaluate, serve_policy, textcraft_grpo
from tests import tiny
from tests.config.refusals import refusal, set_fields

CONFIG = dataclasses.replace(tiny.CONFIG, vocab_size=300)
LORA = Lora(rank=2, alpha=4.0, targets=('q', 'v', 'down'))


params_of = functools.partial(tiny.random_params, CONFIG)


def write_base(directory, seed=0):
  files = tokenizer_lib.train_bpe(['go'], vocab_size=300).save
  hf.save(directory, CONFIG, params_of(seed), companions=[files])


def with_adapter(base, dtype='float32'):
  """The model in `base` with an adapter that was trained, and its record."""
  model = attached(
      language_model.load_pretrained(
          str(base), dtype=language_model.DTYPES[dtype]
      )
  )
  rng = np.random.default_rng(0)
  params = jax.tree.map(
      lambda x: jnp.asarray(rng.normal(0, 0.2, x.shape), jnp.float32),
      model.params,
  )
  model = dataclasses.replace(model, params=params)
  settings = TrainModel(name=str(base), dtype=dtype, lora=LORA)
  return model, adapters.describe(model.base, settings)


def attached(model):
  """The model with a new adapter."""
  params, base = adapters.attach(
      model.config, model.params, LORA, seed=0, mesh=tiny.one_device()
  )
  return dataclasses.replace(model, params=params, base=base)


def write_run(workdir, model, record):
  checkpoints = Checkpoints(workdir / 'checkpoints')
  state = TrainState(jnp.int32(5), model.params, opt_state=None)
  host = {
      'books': {'step': 5, 'policy_version': 7},
      'model': dataclasses.asdict(model.config),
      'adapter': record,
  }
  checkpoint.save(checkpoints, state, None, host)
  checkpoints.close()


@pytest.mark.parametrize(
    'dtype', ['bfloat16', pytest.param('float32', marks=pytest.mark.slow)]
)
def test_a_run_with_an_adapter_is_read_as_a_whole_model(tmp_path, dtype):
  base, run = tmp_path / 'base', tmp_path / 'run'
  write_base(base)
  model, record = with_adapter(base, dtype)
  write_run(run, model, record)
  found, version = language_model.load_policy(str(run))
  assert version == '7' and found.base is None and found.path == str(run)
  assert found.tokenizer.vocab_size == model.tokenizer.vocab_size
  expected = lora_lib.merge(model.params, model.base)
  tiny.assert_trees_equal(
      jax.tree.map(np.float32, found.params),
      jax.tree.map(np.float32, expected),
  )
  assert found.params['embed'].dtype == dtype
  kernel = lambda p: np.float32(p['layers']['attention']['q']['kernel'])
  assert np.abs(kernel(found.params) - kernel(params_of(0))).max() > 0.1

  # A run of an adapter over that one.
  again, record = with_adapter_over(run)
  assert record['base'] == str(run) and record['rank'] == 2
  tiny.assert_trees_equal(again.base.params, found.params)

  # Another model in its base's place.
  for path in base.iterdir():
    path.unlink()
  write_base(base, seed=1)
  with pytest.raises(CheckpointError, match='not the model that the adapter'):
    language_model.load_policy(str(run))


def write_adapter(directory, base, model, record=None):
  """A folder of an adapter, as an export leaves it; ours if it has a record."""
  peft.save_adapter(
      directory, CONFIG, model.params, LORA, base=str(base), dtype=np.float32
  )
  if record is not None:
    known = {key: record[key] for key in ('base', 'dtype', 'fingerprint')}
    text = json.dumps({'adapter': known})
    (directory / 'agentrl.json').write_text(text)


@pytest.mark.parametrize('ours', [True, False])
def test_a_folder_with_an_adapter_is_a_model(tmp_path, ours):
  base, folder = tmp_path / 'base', tmp_path / 'adapter'
  write_base(base)
  model, record = with_adapter(base, 'float32')
  write_adapter(folder, base, model, record if ours else None)
  found, version = language_model.load_policy(str(folder))
  assert version == 'default' and found.path == str(folder)
  assert found.tokenizer.vocab_size == model.tokenizer.vocab_size
  tiny.assert_trees_equal(
      found.params, lora_lib.merge(model.params, model.base)
  )
  on_mesh, _ = language_model.load_policy(str(folder), tiny.one_device())
  tiny.assert_trees_equal(on_mesh.params, found.params)
  assert pretrained.load_config(folder) == CONFIG

  for path in base.iterdir():
    path.unlink()
  write_base(base, seed=1)
  if not ours:  # who made it does not say on which base
    language_model.load_policy(str(folder))
    return
  with pytest.raises(CheckpointError, match='not the model that the adapter'):
    language_model.load_policy(str(folder))


def test_an_adapter_without_a_base_is_named(tmp_path):
  base, folder = tmp_path / 'base', tmp_path / 'adapter'
  write_base(base)
  model, _ = with_adapter(base, 'float32')
  write_adapter(folder, 'nowhere-known', model)
  with pytest.raises(WeightsError, match="No model at 'nowhere-known'"):
    language_model.load_policy(str(folder))
  path = folder / peft.CONFIG
  fields = json.loads(path.read_text()) | {'base_model_name_or_path': None}
  path.write_text(json.dumps(fields))
  with pytest.raises(WeightsError, match='base_model_name_or_path'):
    language_model.load_policy(str(folder))


def test_the_adapter_of_a_run_is_read_without_its_base(tmp_path):
  base, run = tmp_path / 'base', tmp_path / 'run'
  write_base(base)
  model, record = with_adapter(base, 'float32')
  write_run(run, model, record)
  shutil.rmtree(base)
  found = language_model.load_run_adapter(run, None, jax.devices()[0])
  tiny.assert_trees_equal(found.params, model.params)
  assert found.lora == LORA and found.record['base'] == str(base)


def with_adapter_over(run):
  model, _ = language_model.load_policy(str(run))
  model = attached(model)
  settings = TrainModel(name=str(run), lora=LORA)
  return model, adapters.describe(model.base, settings)


def test_a_checkpoint_goes_on_with_its_own_adapter_and_base_alone(tmp_path):
  write_base(tmp_path / 'base')
  _, record = with_adapter(tmp_path / 'base')
  adapters.check(record, record, 'x')
  adapters.check(None, None, 'x')
  moved = record | {'base': '/elsewhere'}  # the same model at another place
  adapters.check(record, moved, 'x')
  mark = adapters.fingerprint(params_of(1))
  assert record['fingerprint'] == adapters.fingerprint(params_of(0)) != mark
  for other in (
      record | {'rank': 4},
      record | {'targets': ['q']},
      record | {'dtype': 'bfloat16'},
      record | {'fingerprint': mark},
      None,
  ):
    for pair in ((record, other), (other, record)):
      with pytest.raises(CheckpointError, match='^x has an adapter with'):
        adapters.check(*pair, 'x')


def test_experts_have_no_adapter():
  config = dataclasses.replace(CONFIG, **tiny.EXPERTS)
  with pytest.raises(ConfigError, match="experts.*targets=.'q', 'k', 'v'"):
    adapters.attach(
        config, params_of(0), Lora(rank=2), seed=0, mesh=tiny.one_device()
    )


def test_layers_with_experts_have_adapters_of_what_mixes_tokens():
  config = dataclasses.replace(CONFIG, **tiny.QWEN3_NEXT)
  lora = Lora(rank=2, targets=('q', 'o', 'in_qkv', 'out'))
  adapters.check_targets(config, lora)
  message = "'v', 'o', 'in_qkv', 'in_z', 'out'"
  with pytest.raises(ConfigError, match=message):
    adapters.check_targets(config, Lora(rank=2, targets=('q', 'up')))


def test_a_target_of_other_layers_is_refused():
  with pytest.raises(ConfigError, match='no projections in_z'):
    adapters.attach(
        CONFIG,
        params_of(0),
        Lora(rank=2, targets=('q', 'in_z')),
        seed=0,
        mesh=tiny.one_device(),
    )


def test_values_that_are_keys_have_no_adapter():
  config = dataclasses.replace(CONFIG, full_tied_values=True)
  with pytest.raises(ConfigError, match='no projections v: take'):
    adapters.check_targets(config, Lora(rank=2, targets=('q', 'v')))


def changed(**fields):
  fields = {path.replace('__', '.'): value for path, value in fields.items()}
  return set_fields(textcraft_grpo.get_config('tiny'), fields)


def read(**fields):
  return reading.read(changed(**fields))


def test_a_config_says_which_adapter_is_trained():
  assert not read().model.lora.rank
  found = read(model__lora__rank=8, model__lora__targets=('o', 'q'))
  assert found.model.lora == Lora(rank=8, targets=('o', 'q'))
  config = babyai_sft.get_config('model=smollm2-135m')
  config.model.lora.rank = 4
  assert reading.read(config).model.lora == Lora(rank=4)


def test_an_adapter_is_the_same_in_whatever_order_its_targets_are_named():
  models = [
      TrainModel(name='m', lora=Lora(rank=2, targets=targets))
      for targets in (('q', 'o'), ('o', 'q', 'o'))
  ]
  base = lora_lib.Base(params_of(0), 1.0)
  one, other = (adapters.describe(base, model) for model in models)
  assert adapters.describe(None, models[0]) is None
  assert one == other and one['targets'] == ['q', 'o']
  key = jax.random.key(0)
  tiny.assert_trees_equal(
      *(lora_lib.init(model.lora, params_of(0), key) for model in models)
  )


@pytest.mark.parametrize(
    'fields, message',
    [
        (dict(model__lora__rank=-1), 'rank must be at least 0'),
        (dict(model__lora__alpha=8.0), 'rank=0 trains all parameters'),
        (dict(model__lora__rslora=True), 'rank=0 trains all parameters'),
        (dict(model__lora__targets=('q',)), 'rank=0 trains all parameters'),
        (dict(rank=2, alpha=0.0), 'alpha must be above 0'),
        (dict(rank=2, targets=()), 'names no projection'),
        (dict(rank=2, targets='q'), r"a list .* as in \('q',\)"),
        (
            dict(rank=2, targets=('lm_head',)),
            "'lm_head'; known: q, k, v, o, gate, up, down",
        ),
        (dict(rank=2, targets=('query',)), "'query'; known: q, k, v"),
        (dict(rank=2, model__name='tiny-1m'), "'tiny-1m' starts random"),
        (dict(sampler__push_lora=True), 'servers; set sampler.kind'),
    ],
)
def test_what_cannot_act_is_refused(fields, message):
  dotted = {
      name.replace('__', '.') if '__' in name else f'model.lora.{name}': value
      for name, value in fields.items()
  }
  assert re.search(message, refusal(changed(), dotted))


def test_an_adapter_that_there_is_not_is_not_pushed():
  served = dict(sampler__kind='sglang', sampler__urls=('http://127.0.0.1:1',))
  with pytest.raises(ConfigError, match='push_lora=True has no effect: model'):
    read(sampler__push_lora=True, **served)
  assert read(model__lora__rank=2, sampler__push_lora=True, **served)


@pytest.mark.parametrize('module', [evaluate, serve_policy])
@pytest.mark.parametrize('field', ['remat', 'lora', 'lora.rank'])
def test_where_nothing_is_trained_what_acts_in_training_is_refused(
    module, field
):
  config = module.get_config()
  path = f'model.{field.partition(".")[0]}'
  said = f'{path} has no effect with mode={config.mode!r}; it acts in train'
  assert said in refusal(config, {f'model.{field}': 2})
