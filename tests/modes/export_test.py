"""Tests for mode='export': any checkpoint becomes a Hugging Face folder."""

import dataclasses
import json
import shutil

import jax
import ml_dtypes
import msgspec
import numpy as np
import pytest
import safetensors.numpy

from agentrl.errors import CheckpointError, ConfigError, WeightsError
from agentrl.evaluation.chance import store
from agentrl.models import transformer
from agentrl.models.config import FULL, SLIDING, TransformerConfig
from agentrl.modes import export, reading
from agentrl.rollout import options as rollout_options
from agentrl.runtime import workdir as workdir_lib
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat
from agentrl.training import language_model
from agentrl.training.checkpoint import Checkpoints
from agentrl.types import Message
from agentrl.weights import hf, names, pretrained
from configs import evaluate
from configs.export import get_config
from tests import tiny
from tests.evaluation.chance import level_test

TOKENIZER = tokenizer_lib.train_bpe(['go to the red ball', 'turn left'], 290)
QWEN2 = TransformerConfig(
    vocab_size=300,  # more rows than the tokenizer has ids
    hidden_size=32,
    intermediate_size=40,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    max_positions=64,
    family='qwen2',
    qkv_bias=True,
)
_other = lambda family, **changes: dataclasses.replace(
    QWEN2, qkv_bias=False, family=family, **changes
)
FAMILIES = {
    'qwen2': QWEN2,
    'llama': _other('llama', tie_embeddings=False),
    'qwen3': _other('qwen3', qk_norm=True, head_dim=12),
    'qwen3_moe': _other(
        'qwen3_moe',
        qk_norm=True,
        num_experts=4,
        num_experts_per_token=2,
        moe_intermediate_size=12,
        tie_embeddings=False,
    ),
    'smollm3': _other('smollm3', rope_layers=(True, False)),
    'gemma3_text': _other(
        'gemma3_text',
        **tiny.GEMMA,
        query_pre_attn_scalar=8,
        layer_types=(SLIDING, FULL),
        sliding_window=4,
        rope_local_theta=300.0,
    ),
}
CONFIG = dict(
    mode='train',
    seed=3,
    env=dict(
        name='babyai',
        options={'levels': ['Pickup']},
        url='http://user:a-secret@host',
        token_file='/a-secret',
    ),
    agent=dict(format='plain', instructions='compact'),
    model=dict(name='tiny-1m'),
    sampler=dict(kind='sglang', api_key='a-secret'),
    rollout=dict(
        max_completion_tokens=16, max_context=48, concurrency=4, group_size=8
    ),
    eval=dict(split='test', horizon=7, num_tasks=3, task_file='/my/tasks.json'),
    algo=dict(name='grpo'),
)
SUCCESS = dict(mean=0.25, low=0.1, high=0.5, n=16)


def random_params(config, seed=0):
  """Numbers of every leaf, norms and biases too."""
  rng = np.random.default_rng(seed)
  draw = lambda x: rng.normal(0, 0.3, size=x.shape).astype(np.float32)
  return jax.tree.map(draw, names.shapes(config, np.float32))


def make_run(directory, shape=QWEN2, *, tokenizer=TOKENIZER, **config):
  """The workdir of a run with checkpoints 1 and 2; their parameters."""
  tokenizer.save(directory / 'tokenizer')
  (directory / 'config.json').write_text(json.dumps(CONFIG | config))
  saved = Checkpoints(directory / 'checkpoints')
  params = {number: random_params(shape, number) for number in (1, 2)}
  for number, tree in params.items():
    saved.save(
        number,
        {'params': jax.tree.map(jax.numpy.asarray, tree)},
        {
            'books': {'step': number, 'policy_version': number},
            'evals': {'before': SUCCESS},
            'totals': {'tokens': 1234.0},
            'model': dataclasses.asdict(shape),
        },
    )
  saved.close()
  return params


@pytest.fixture(scope='module', name='a_run')
def _a_run(tmp_path_factory):
  directory = tmp_path_factory.mktemp('run')
  return directory, make_run(directory)


@pytest.fixture
def copied(a_run, tmp_path):
  """Makes a run of one's own: saving checkpoints anew takes longer."""

  def copied(name='run', **config):
    directory = tmp_path / name
    shutil.copytree(a_run[0], directory)
    if config:
      (directory / 'config.json').write_text(json.dumps(CONFIG | config))
    return directory

  return copied


def exported(run_dir, target, **fields):
  config = get_config(f'run={run_dir}')
  with config.unlocked():
    config.update_from_flattened_dict(fields)
  export.run(config, str(target))
  return target


def logits_of(config, params, tokens):
  module = transformer.Transformer(config, scan_layers=True)

  @jax.jit
  def forward(params, tokens):
    positions = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    hidden = module.apply({'params': params}, tokens, positions).hidden
    return module.apply({'params': params}, hidden, method='unembed')

  return np.array(forward(params, tokens))


# Tied and untied, the plainest and the richest; the others take as long each.
@pytest.mark.parametrize(
    'family',
    [
        name
        if name in ('llama', 'gemma3_text')
        else pytest.param(name, marks=pytest.mark.slow)
        for name in FAMILIES
    ],
)
def test_transformers_load_an_exported_policy_of_any_family(tmp_path, family):
  torch = pytest.importorskip('torch')
  transformers = pytest.importorskip('transformers')
  torch.set_num_threads(1)  # more of them spin against jax's
  shape = FAMILIES[family]
  params = make_run(tmp_path / 'run', shape)[2]
  folder = exported(
      tmp_path / 'run', tmp_path / 'out', **{'export.shard_bytes': 20_000}
  )
  assert len(list(folder.glob('model-0*.safetensors'))) > 1

  theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
  assert type(theirs).__name__.lower().startswith(family.split('_')[0])
  prompt = torch.tensor([[4, 90, 291, 7, 7, 120]])
  with torch.no_grad():
    said = theirs.generate(
        prompt, do_sample=False, max_new_tokens=8, min_new_tokens=8
    ).numpy()
    found = theirs(torch.tensor(said)).logits.numpy()
  ours = logits_of(shape, params, said)
  np.testing.assert_allclose(found, ours, rtol=1e-4, atol=1e-4)
  # The greedy choice after each token; `min_new_tokens` forbids the end token.
  ours[..., list(TOKENIZER.eos_ids)] = -np.inf
  np.testing.assert_array_equal(
      said[0, 6:], ours.argmax(-1)[0, 5:-1], err_msg='not greedy'
  )
  assert theirs.generation_config.eos_token_id == list(TOKENIZER.eos_ids)


def test_transformers_read_the_tokenizer_with_the_template_of_the_run(
    a_run, tmp_path
):
  transformers = pytest.importorskip('transformers')
  folder = exported(a_run[0], tmp_path / 'out')
  theirs = transformers.AutoTokenizer.from_pretrained(folder)
  text = 'Go to the red ball: 日本 x  12'
  assert theirs.encode(text, add_special_tokens=False) == TOKENIZER.encode(text)
  assert theirs.eos_token_id == TOKENIZER.eos_ids[0]
  said = [Message('user', 'go to the red ball'), Message('user', 'now')]
  found = theirs.apply_chat_template(
      [dataclasses.asdict(message) for message in said],
      add_generation_prompt=True,
      return_dict=False,
  )
  # The tokenizer of the run has no template: it talks as ChatML.
  assert found == ChatFormat(TOKENIZER).prompt(said)


def test_the_newest_checkpoint_comes_back_bit_for_bit(a_run, tmp_path):
  run_dir, params = a_run
  folder = exported(run_dir, tmp_path / 'out')
  config, found = pretrained.load(folder)
  assert config == QWEN2
  tiny.assert_trees_equal(found, params[2])
  assert {path.name for path in folder.iterdir()} == {
      'config.json',
      'generation_config.json',
      'model.safetensors',
      'README.md',
      'agentrl.json',
      'chat_template.jinja',
      'tokenizer.json',
      'tokenizer_config.json',
  }
  # Tied: the head is not stored a second time.
  tensors = safetensors.numpy.load_file(folder / 'model.safetensors')
  assert 'lm_head.weight' not in tensors
  # And it is a model like any other.
  model, version = language_model.load_policy(str(folder))
  assert (model.config, version) == (QWEN2, 'default')


@pytest.mark.parametrize(
    'fields',
    [
        {'checkpoint.step': 1},
        {'checkpoint.path': '{}/checkpoints/1'},
        {'checkpoint.path': '{}/checkpoints/1', 'checkpoint.step': 1},
        {'checkpoint.path': '{}/checkpoints/best'},
    ],
)
def test_an_older_checkpoint_is_exported_by_its_number(a_run, tmp_path, fields):
  run_dir, params = a_run
  workdir_lib.name_best(run_dir / 'checkpoints', 1)
  fields = {
      k: v.format(run_dir) if isinstance(v, str) else v
      for k, v in fields.items()
  }
  folder = exported(run_dir, tmp_path / 'out', **fields)
  tiny.assert_trees_equal(pretrained.load(folder)[1], params[1])


def test_weights_are_rounded_to_the_type_that_is_asked_for(
    a_run, tmp_path, copied
):
  run_dir, params = a_run
  folder = exported(run_dir, tmp_path / 'a', **{'export.dtype': 'bfloat16'})
  rounded = jax.tree.map(lambda x: x.astype(ml_dtypes.bfloat16), params[2])
  tiny.assert_trees_equal(
      pretrained.load(folder, dtype=ml_dtypes.bfloat16)[1], rounded
  )
  assert hf.stored_dtype(folder) == 'bfloat16'
  # A run that started from this folder, and one that went on from that run.
  run = copied(model=dict(name=str(folder)))
  after = copied('next', model=dict(name=str(run)))
  folder = exported(after, tmp_path / 'b', **{'export.dtype': 'source'})
  assert hf.stored_dtype(folder) == 'bfloat16'
  assert export.source_dtype('tiny-1m') == 'float32'
  with pytest.raises(ConfigError, match='was quantised.*float32'):
    export.source_dtype('smollm2-135m')


def test_a_card_says_what_is_known_and_keeps_secrets(a_run, tmp_path):
  run_dir, _ = a_run
  card = (exported(run_dir, tmp_path / 'a') / 'README.md').read_text()
  assert 'a-secret' not in card
  for fact in ("`mode='train'`", '`babyai`', '`tiny-1m`', '1,234', '"seed": 3'):
    assert fact in card
  assert 'None was made with these weights' in card
  assert '| before | 0.250 | 0.100 to 0.500 | 16 |' in card


def test_a_folder_carries_how_the_policy_was_asked(a_run, tmp_path):
  run_dir, _ = a_run
  folder = exported(run_dir, tmp_path / 'a')
  text = (folder / 'agentrl.json').read_text()
  assert json.loads(text) == {
      'env': {'name': 'babyai', 'url': None, 'options': {'levels': ['Pickup']}},
      'agent': {'format': 'plain', 'instructions': 'compact'},
      'rollout': {
          'max_completion_tokens': 16,
          'max_context': 48,
          'concurrency': 4,
      },
      'eval': {
          'split': 'test',
          'horizon': 7,
          'num_tasks': 3,
          'task_file': None,
      },
  }


def test_evaluate_asks_all_forms_of_a_run_as_it_was_asked(a_run, tmp_path):
  run_dir, _ = a_run
  folder = exported(run_dir, tmp_path / 'a')
  for model in (run_dir, run_dir / 'checkpoints' / '1', folder):
    config = evaluate.get_config(f'model={model},n=5')
    made = reading.read(config)
    assert made.model.name == str(model)
    assert made.env.name == 'babyai'
    assert list(made.env.options['levels']) == ['Pickup']
    assert made.agent == rollout_options.AgentOptions(
        **CONFIG['agent'], template=None
    )
    limits = dict(max_completion_tokens=16, max_context=48, concurrency=4)
    assert made.rollout == type(made.rollout)(**limits)
    assert (made.eval.num_tasks, made.eval.horizon) == (5, 7)
  # Others are asked as the flags say.
  made = reading.read(evaluate.get_config('env=textcraft'))
  assert made.agent.format == 'react'


def test_a_damaged_record_of_how_it_was_asked_is_named(tmp_path):
  (tmp_path / 'agentrl.json').write_text('{"env"')
  config = evaluate.get_config(f'model={tmp_path}')
  with pytest.raises(CheckpointError, match='agentrl.json of .* be read'):
    reading.read(config)


def test_a_checkpoint_is_a_model_by_its_folder(a_run):
  run_dir, params = a_run
  for number in (1, 2):
    model, version = language_model.load_policy(
        f'{run_dir}/checkpoints/{number}'
    )
    assert version == str(number)
    tiny.assert_trees_equal(model.params, params[number])
  workdir_lib.name_best(run_dir / 'checkpoints', 1)
  best, _ = language_model.load_policy(f'{run_dir}/checkpoints/best')
  tiny.assert_trees_equal(best.params, params[1])
  with pytest.raises(CheckpointError, match='has no checkpoint 7; known: 1, 2'):
    language_model.load_policy(f'{run_dir}/checkpoints/7')


@pytest.mark.parametrize('text', ['', '{"mode": "tra', '[]'])
@pytest.mark.parametrize('name', ['config.json', 'summary.json'])
def test_a_torn_record_of_the_run_is_named(copied, tmp_path, name, text):
  run = copied()
  (run / name).write_text(text)
  with pytest.raises(CheckpointError, match=f'{name} of a run cannot be read'):
    exported(run, tmp_path / 'out')


def test_a_run_that_began_from_a_checkpoint_has_its_tokenizer(a_run, tmp_path):
  name = f'{a_run[0]}/checkpoints/1'
  (tmp_path / 'config.json').write_text(json.dumps({'model': {'name': name}}))
  found = language_model.load_run_tokenizer(tmp_path)
  assert found.encode('go to') == TOKENIZER.encode('go to')
  assert export.source_dtype(name) == 'float32'


def test_a_card_marks_the_evaluations_of_these_weights(copied, tmp_path):
  run = copied()
  after = SUCCESS | {'mean': 0.75}
  summary = {'steps': 2, 'eval': {'before': SUCCESS, 'after': after}}
  (run / 'summary.json').write_text(json.dumps(summary))
  none = msgspec.structs.replace(level_test.make('expert', [[1]]), outcomes=())
  levels = {'random': level_test.make('random', [[1], [0]]), 'expert': none}
  store.write_levels(run, levels)
  card = (exported(run, tmp_path / 'a') / 'README.md').read_text()
  assert '| random actions | 0.500 | 0.' in card and '| expert |' not in card
  assert '| after * | 0.750 |' in card and '| before | 0.250 |' in card
  older = exported(run, tmp_path / 'b', **{'checkpoint.step': 1})
  assert '0.750' not in (older / 'README.md').read_text()


@pytest.mark.parametrize(
    'fields, message',
    [
        ({'checkpoint.step': 7}, 'has no checkpoint 7; known: 1, 2'),
        ({'checkpoint.path': '/no/where'}, 'neither the workdir of a run'),
        ({'export.dtype': 'int8'}, "export.dtype='int8'; known: float32"),
        ({'checkpoint.path': ''}, 'Name a run'),
        (
            {'checkpoint.path': '{}/checkpoints/1', 'checkpoint.step': 2},
            'is checkpoint 1, and checkpoint.step=2 another',
        ),
    ],
)
def test_what_cannot_be_exported_is_said(a_run, tmp_path, fields, message):
  run_dir, _ = a_run
  fields = {
      k: v.format(run_dir) if isinstance(v, str) else v
      for k, v in fields.items()
  }
  with pytest.raises((ConfigError, CheckpointError), match=message):
    exported(run_dir, tmp_path / 'out', **fields)


def test_a_folder_with_content_is_left_alone(a_run, tmp_path):
  (tmp_path / 'mine').write_text('x')
  with pytest.raises(ConfigError, match='is not empty'):
    exported(a_run[0], tmp_path)
  assert [path.name for path in tmp_path.iterdir()] == ['mine']


def damage_weights(folder):
  path = folder / 'model.safetensors'
  tensors = safetensors.numpy.load_file(path)
  tensors['model.norm.weight'] += 1e-6
  safetensors.numpy.save_file(tensors, path)


def damage_tokenizer(folder):
  tokenizer_lib.train_bpe(['another'], 280).save(folder)


@pytest.mark.parametrize(
    'damage, message',
    [
        (damage_weights, 'another final_norm/scale back'),
        (damage_tokenizer, 'another tokenizer back'),
    ],
)
def test_what_reads_otherwise_is_no_export(
    a_run, tmp_path, monkeypatch, damage, message
):
  write = hf.shards.write

  def write_badly(directory, *args, **options):
    write(directory, *args, **options)
    damage(directory)

  monkeypatch.setattr(hf.shards, 'write', write_badly)
  with pytest.raises(WeightsError, match=message):
    exported(a_run[0], tmp_path / 'out')
  assert not list((tmp_path / 'out').iterdir())
  assert [path.name for path in tmp_path.iterdir()] == ['out']


def test_a_tokenizer_with_more_ids_than_the_model_has_rows_is_refused(tmp_path):
  make_run(tmp_path, dataclasses.replace(QWEN2, vocab_size=270))
  ids = TOKENIZER.vocab_size
  with pytest.raises(ConfigError, match=f'has {ids} ids, .* only 270 rows'):
    exported(tmp_path, tmp_path / 'out')
  with pytest.raises(ConfigError, match='belong to different models'):
    language_model.LanguageModel(
        tmp_path and dataclasses.replace(QWEN2, vocab_size=9),
        None,
        TOKENIZER,
        'x',
    )
