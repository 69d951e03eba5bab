"""Parts of the real text pipeline, small."""

import pytest

from agentrl.rollout.agent import Agent
from agentrl.text import tokenizer as tokenizer_lib
from agentrl.text.chat import ChatFormat


@pytest.fixture(scope='session')
def chat():
  """ChatML over a byte-level tokenizer that knows a few words."""
  texts = ['Walk 3 steps. 2 to go. You arrived. go', 'system user assistant']
  return ChatFormat(tokenizer_lib.train_bpe(texts, vocab_size=300))


@pytest.fixture(scope='session')
def agent(chat):
  return Agent(chat, instructions='Say go.', format='plain')
