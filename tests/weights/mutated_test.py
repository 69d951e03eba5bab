"""Damaged and hostile model folders: a typed error, or a model that is whole.

Each case changes one file of a small model at random: its bytes, its JSON, the
header of its safetensors or of its GGUF file. AGENTRL_MUTATIONS=500 has more cases.
"""

import copy
import json
import math
import os
import pathlib
import random
import resource
import shutil
import struct
import time

import jax
import numpy as np
import pytest

from agentrl.errors import WeightsError
from agentrl.models.config import FULL, SLIDING, TransformerConfig
from agentrl.models.rotary import Scaling
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.weights import hf, names, pretrained
from tests import tiny
from tests.text.hf_folder_test import write_older
from tests.text.tokenizer_test import write_gguf as write_gguf_tokenizer
from tests.weights.conftest import random_params
from tests.weights.gguf.files_test import write as write_gguf

# What numbers, texts and lists are replaced by.
HOSTILE = [
    None, True, False, -1, 0, 1, 2, 3.5, 10**9, 2**40, 2**63, 10**400, 1e308,
    -1e308, math.nan, math.inf, '', 'text', '12', 'a\nb', '../../config.json',
    '\0', 'x' * 10_000, [], [1], ['a', None], [[[]]], {}, {'a': 1},
    {'content': None},
]  # fmt: skip
_KINDS = (
    'llama', 'llama', 'qwen3_moe', 'gemma3_text', 'phi3', 'gguf',
    'gguf_gemma', 'gguf_tokenizer'
)  # fmt: skip
# Those without a tokenizer, and with one only.
_MODELS = ('gguf', 'gguf_gemma')
_TOKENIZERS = ('gguf_tokenizer', 'older_tokenizer')
_MEMORY = 2**31  # more than a case may take
_SECONDS = 10.0
_MANY = int(os.environ.get('AGENTRL_MUTATIONS', '150'))


def make_config(family):
  fields = dict(
      vocab_size=300,
      hidden_size=16,
      intermediate_size=24,
      num_layers=2,
      num_heads=4,
      num_kv_heads=2,
      head_dim=8,
      family=family,
  )
  match family:
    case 'qwen3_moe':
      fields |= dict(
          qk_norm=True,
          num_experts=3,
          num_experts_per_token=2,
          moe_intermediate_size=8,
          tie_embeddings=False,
      )
    case 'gemma3_text':
      fields |= dict(
          **tiny.GEMMA,
          query_pre_attn_scalar=8,
          layer_types=(SLIDING, FULL),
          sliding_window=4,
          rope_local_theta=1e4,
      )
    case 'phi3':
      fields |= dict(
          partial_rotary_factor=0.5,
          sliding_window=4,
          layer_types=(SLIDING, SLIDING),
          rope_scaling=Scaling(
              'longrope',
              factor=4.0,
              original_max_positions=512,
              short_factor=(1.0, 2.0),
              long_factor=(3.0, 4.0),
          ),
      )
  return TransformerConfig(**fields)


@pytest.fixture(scope='module', name='folder')
def _folder(tmp_path_factory):
  """A folder for each family, in shards and with a tokenizer; a GGUF file."""
  root = tmp_path_factory.mktemp('models')
  texts = ['get 2 oak logs', 'craft 4 planks using 1 oak log'] * 4
  tokenizer = tokenizer_lib.train_bpe(texts, 300)
  for family in ('llama', 'qwen3_moe', 'gemma3_text', 'phi3'):
    config = make_config(family)
    hf.save(
        root / family,
        config,
        random_params(config),
        shard_bytes=2**14,
        eos_ids=tokenizer.eos_ids,
        companions=[tokenizer.save],
    )
  (root / 'gguf').mkdir()
  config = make_config('llama')
  write_gguf(root / 'gguf' / 'a.gguf', (config, random_params(config)))
  (root / 'gguf_gemma').mkdir()
  config = make_config('gemma3_text')
  write_gguf(
      root / 'gguf_gemma' / 'a.gguf',
      (config, random_params(config)),
      architecture='gemma3',
      **{'attention.sliding_window': 4, 'rope.freq_base_swa': 1e4},
  )
  (root / 'gguf_tokenizer').mkdir()
  write_gguf_tokenizer(root / 'gguf_tokenizer' / 'a.gguf')
  write_older(tokenizer, root / 'older_tokenizer')
  return root


def places(value, path=()):
  """The paths of all values in a JSON value."""
  yield path
  items = ()
  if isinstance(value, dict):
    items = value.items()
  elif isinstance(value, list):
    items = list(enumerate(value))[:8]
  for key, inner in items:
    yield from places(inner, (*path, key))


def mutate_json(rng, value):
  value = copy.deepcopy(value)
  for _ in range(rng.choice((1, 1, 2))):
    # As often near the root as in long lists of vocabularies.
    depth = rng.randint(0, 4)
    found = [path for path in places(value) if len(path) <= depth]
    path = rng.choice(found)
    new = rng.choice(HOSTILE)
    if not path:
      return rng.choice([new, [value]])
    parent = value
    for key in path[:-1]:
      parent = parent[key]
    match rng.randint(0, 3):
      case 0:
        del parent[path[-1]]
      case 1 if isinstance(parent, dict):
        parent[str(new)] = parent.pop(path[-1])
      case _:
        parent[path[-1]] = copy.deepcopy(new)
  return value


def mutate_bytes(rng, data, head):
  """Other bytes, of which half the cases change only the first `head`."""
  data = bytearray(data)
  end = rng.choice((min(head, len(data)), len(data)))
  match rng.randint(0, 5):
    case 0:
      return data[: rng.randrange(end)]
    case 1:
      at = rng.randrange(end)
      return data[:at] + rng.randbytes(rng.randint(1, 16)) + data[at:]
    case 2:
      at = rng.randrange(end)
      size = rng.choice((4, 8))
      number = rng.choice((0, 2**31, 2**32 - 1, 10**9, 1))
      if size == 8:
        number = rng.choice((number, 2**40, 2**62, 2**64 - 1))
      data[at : at + size] = number.to_bytes(size, 'little')
    case 3:
      at = rng.randrange(end)
      data[at : at + 64] = bytes(64)
    case _:
      for _ in range(rng.choice((1, 4, 64))):
        data[rng.randrange(end)] = rng.randrange(256)
  return data


def mutate(rng, path):
  """Changes one file."""
  data = path.read_bytes()
  if path.suffix == '.json' and rng.random() < 0.8:
    if rng.random() < 0.05:
      text = '[' * 100_000
    else:
      text = json.dumps(mutate_json(rng, json.loads(data)))
    path.write_text(text)
    return
  if path.suffix == '.safetensors' and rng.random() < 0.6:
    [size] = struct.unpack('<Q', data[:8])
    header = mutate_json(rng, json.loads(data[8 : 8 + size]))
    header = json.dumps(header).encode()
    size = len(header)
    if rng.random() < 0.2:
      size = rng.choice((0, size - 1, size + 8, 10**9, 2**40, 2**64 - 1))
    path.write_bytes(struct.pack('<Q', size) + header + data[8 + size :])
    return
  head = 2048 if path.suffix == '.gguf' else 512
  path.write_bytes(mutate_bytes(rng, data, head))


def read(path, kind):
  """Parameters and tokenizer, as a run reads them; checks what it gets."""
  if kind not in _TOKENIZERS:
    config, params = pretrained.load(path)
    shapes = jax.tree.map(
        lambda leaf: leaf.shape, names.shapes(config, np.float32)
    )
    assert jax.tree.map(lambda leaf: leaf.shape, params) == shapes
  if kind not in _MODELS:
    tokenizer = tokenizer_lib.load(path, pretrained.open_gguf(path))
    tokenizer.decode(tokenizer.encode('get 2 oak logs'))


def check(folder, tmp_path, seed, kinds=_KINDS):
  """One case; gives how it ended."""
  rng = random.Random(seed)
  kind = rng.choice(kinds)
  copied = tmp_path / 'model'
  shutil.copytree(folder / kind, copied)
  files = sorted(copied.iterdir())
  # Configurations as often as weights.
  rare = [x for x in files if x.suffix == '.json']
  path = rng.choice(rng.choice((files, rare or files)))
  mutate(rng, path)
  began = time.monotonic()
  try:
    read(path if path.suffix == '.gguf' else copied, kind)
  except WeightsError as error:
    text = str(error)
    assert str(copied) in text, (seed, text)
    assert text.isprintable() and len(text) < 1000, (seed, text)
    return 'refused'
  finally:
    assert time.monotonic() - began < _SECONDS, seed
    shutil.rmtree(copied)
  return 'read'


@pytest.fixture(name='little_memory')
def _little_memory():
  """A case that takes gigabytes ends in a MemoryError."""
  soft, hard = resource.getrlimit(resource.RLIMIT_AS)
  used = 4096 * int(pathlib.Path('/proc/self/statm').read_text().split()[0])
  resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, hard))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def check_many(folder, tmp_path, seeds, kinds=_KINDS):
  ends = [check(folder, tmp_path, seed, kinds) for seed in seeds]
  assert 0 < ends.count('read') < len(ends) / 2
  return ends


def test_some_mutated_models_are_refused_or_read(
    folder, tmp_path, little_memory
):
  check_many(folder, tmp_path, range(30))


@pytest.mark.slow
def test_many_mutated_models_are_refused_or_read(
    folder, tmp_path, little_memory
):
  check_many(folder, tmp_path, range(1000, 1000 + _MANY))


@pytest.mark.slow
def test_mutated_tokenizers_for_transformers_are_refused_or_read(
    folder, tmp_path, little_memory
):
  # With all that it imports, which is not a case's time.
  assert pytest.importorskip('transformers').AutoTokenizer
  check_many(folder, tmp_path, range(_MANY), ['older_tokenizer'])
