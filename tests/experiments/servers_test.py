"""Tests for what the benchmark of servers is made of."""

import asyncio
import dataclasses
import json
import pathlib

import aiohttp
import gguf as gguf_lib
import jax
import numpy as np
import pytest

from agentrl.models.config import TransformerConfig
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.weights.gguf import files
from experiments.benchmarks import gguf_files, loops
from experiments.benchmarks.loops import Case
from experiments.benchmarks.servers import Server
from tests import tiny

CONFIG = TransformerConfig(
    vocab_size=320,
    hidden_size=64,
    intermediate_size=96,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=32,
    max_positions=256,
)


@pytest.fixture
def words(tmp_path):
  tokenizer_lib.train_bpe(['the cat sat'], 300).save(tmp_path)
  return tmp_path / 'tokenizer.json'


def test_a_gguf_file_is_read_as_it_was(tmp_path, words):
  params = tiny.random_params(CONFIG)
  gguf_files.write(tmp_path / 'f32.gguf', CONFIG, params, words, kind='f32')
  config, read = files.load(tmp_path / 'f32.gguf')
  assert config == CONFIG
  jax.tree.map(np.testing.assert_array_equal, read, params)
  gguf_files.write(tmp_path / 'q8_0.gguf', CONFIG, params, words, kind='q8_0')
  config, read = files.load(tmp_path / 'q8_0.gguf')
  assert config == CONFIG
  for name in ('f32', 'q8_0'):
    reader = gguf_lib.GGUFReader(tmp_path / f'{name}.gguf')
    tokens = reader.fields['tokenizer.ggml.tokens'].contents()
    assert len(tokens) == CONFIG.vocab_size and 'the' in tokens
    assert len(set(tokens)) == len(tokens)
  # Blocks of 32 numbers share a scale of 1/127 of the largest: here 0.5.
  jax.tree.map(
      lambda a, b: np.testing.assert_allclose(a, b, atol=0.5 / 127),
      read,
      params,
  )


def test_another_family_is_refused(tmp_path, words):
  config = dataclasses.replace(CONFIG, family='qwen2', qkv_bias=True)
  with pytest.raises(ValueError, match='Only Llamas'):
    gguf_files.write(tmp_path / 'x', config, None, words, kind='f32')


def test_episodes_reuse_their_prefixes_on_the_engine(tmp_path):
  case = Case(batch=3, turns=3, observation=10, new=4)

  async def main(url):
    server = Server('engine', [], 1, pathlib.Path(tmp_path / 'log'))
    server.url = url
    async with aiohttp.ClientSession() as session:
      ask = lambda ids, row, _: server.complete(session, ids, case.new, row=row)
      result = await loops.play(ask, case, tiny.CONFIG.vocab_size, run=0)
      return result, await server.num_compiled(session)

  with tiny.serving(tiny.init_params()) as url:
    result, compiled = asyncio.run(asyncio.wait_for(main(url), 300))
  prompts = case.batch * (10 + 24 + 38)
  assert result['prompted'] == prompts
  # Of the turns before, all but the last sampled token was computed.
  assert result['cached'] == case.batch * (13 + 27)
  assert len(result['turn_s']) == 3 and compiled > 0
  said = loops.summary(case, [result, result])
  assert said['seconds']['median'] == pytest.approx(sum(result['turn_s']))
  sides = {'ours': said, 'theirs': json.loads(json.dumps(said))}
  loops.compare(sides, 'ours')
  assert sides['theirs']['times_as_long'] == 1
  assert 'times_as_long' not in sides['ours']
