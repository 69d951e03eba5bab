"""Byte-level BPE tokenizers, put together and trained.

`agentrl.text.tokenizer` wraps them.
"""

from collections.abc import Iterable, Sequence

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from agentrl.text import words

# Roles of a chat, so frequent in training texts that each becomes one token.
_ROLES = ('system', 'user', 'assistant')


def train(
    texts: Iterable[str], vocab_size: int, specials: Sequence[str]
) -> tokenizers.Tokenizer:
  """Trains a tokenizer that splits digits on `texts`; deterministic.

  Args:
    texts: samples of the policy's inputs and outputs. The names of the chat roles are
      mixed in, about one header per 100 characters, so that each becomes one
      token and a header costs three.
    vocab_size: most ids to use; small texts may need fewer.
    specials: control tokens; they get the ids from 0.

  Raises:
    ValueError: `vocab_size` has no room for the specials and all bytes.
  """
  alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
  needed = len(specials) + len(alphabet)
  if vocab_size < needed:
    raise ValueError(
        f'A byte-level vocabulary with {len(specials)} special tokens needs'
        f' vocab_size >= {needed}, got {vocab_size}.'
    )
  texts = list(texts)
  headers = [role + '\n' for role in _ROLES]
  repeats = 1 + sum(map(len, texts)) // 100
  backend = assemble(models.BPE(), words.DIGITS.pre_tokenizer())
  trainer = trainers.BpeTrainer(
      vocab_size=vocab_size,
      special_tokens=[
          tokenizers.AddedToken(token, special=True, normalized=False)
          for token in specials
      ],
      initial_alphabet=alphabet,
      show_progress=False,
  )
  backend.train_from_iterator([*texts, *headers * repeats], trainer)
  return backend


def assemble(
    model: models.BPE, pre_tokenizer: pre_tokenizers.PreTokenizer
) -> tokenizers.Tokenizer:
  """A tokenizer of a model over bytes and of a way to cut text into words."""
  backend = tokenizers.Tokenizer(model)
  backend.pre_tokenizer = pre_tokenizer
  backend.decoder = decoders.ByteLevel()
  return backend
