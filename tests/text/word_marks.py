"""Tokenizers as of SentencePiece, which mark where a word begins, made on the spot."""

import json

import tokenizers
from tokenizers import (
    AddedToken,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

TEXTS = [
    (
        'You see a red ball 3 steps forward. You see a key.\nThought: pick up'
        ' the key, go to the red ball!\nAction: go left\n'
    ),
    (
        'user assistant system INST SYS the quick brown fox [INST] hello'
        ' [/INST] <|user|> <|assistant|>\n'
    ),
] * 20

# The marks that SentencePiece's models come with: transformers' legacy=True is
# 'prepend' (a normalizer, as in older files) or 'always', legacy=False 'first'.
MARKS = ('prepend', 'always', 'first', 'never')


def make(
    mark: str, specials: tuple[str, ...] = (), *, joins_lines: bool = False
) -> tokenizers.Tokenizer:
  """A BPE over words with byte fallback, as Llama 2's.

  Args:
    mark: one of MARKS.
    specials: control tokens beside `<unk>`, `<s>` and `</s>`.
    joins_lines: lets a token hold a line end and the word after it.
  """
  specials = ('<unk>', '<s>', '</s>', *specials)
  words = tokenizers.Tokenizer(models.BPE())
  blanks = pre_tokenizers.Metaspace(prepend_scheme='always')
  lines = pre_tokenizers.Split('\n', 'isolated')
  words.pre_tokenizer = pre_tokenizers.Sequence(
      [blanks] if joins_lines else [lines, blanks]
  )
  trainer = trainers.BpeTrainer(vocab_size=420, show_progress=False)
  words.train_from_iterator(TEXTS, trainer)
  trained = json.loads(words.to_str())['model']
  tokens = [*specials, *(f'<0x{byte:02X}>' for byte in range(256))]
  tokens += sorted(trained['vocab'], key=trained['vocab'].get)
  backend = tokenizers.Tokenizer(
      models.BPE(
          vocab={token: i for i, token in enumerate(dict.fromkeys(tokens))},
          merges=[tuple(pair) for pair in trained['merges']],
          byte_fallback=True,
          fuse_unk=True,
          unk_token='<unk>',
      )
  )
  if mark == 'prepend':
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend('▁'), normalizers.Replace(' ', '▁')]
    )
  else:
    backend.pre_tokenizer = pre_tokenizers.Metaspace(
        prepend_scheme=mark, split=False
    )
  backend.decoder = decoders.Sequence([
      decoders.Replace('▁', ' '),
      decoders.ByteFallback(),
      decoders.Fuse(),
      decoders.Strip(' ', 1, 0),
  ])
  backend.add_special_tokens(
      [AddedToken(token, special=True, normalized=False) for token in specials]
  )
  return backend


def byte_level(
    *, prefix: bool, specials: tuple[str, ...]
) -> tokenizers.Tokenizer:
  """A byte-level BPE; `prefix` puts a blank before each piece of text."""
  backend = tokenizers.Tokenizer(models.BPE())
  backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
  backend.decoder = decoders.ByteLevel()
  trainer = trainers.BpeTrainer(
      vocab_size=500,
      show_progress=False,
      special_tokens=[
          AddedToken(token, special=True, normalized=False)
          for token in ('<unk>', '<s>', '</s>', *specials)
      ],
      initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
  )
  backend.train_from_iterator(TEXTS, trainer)
  return backend
