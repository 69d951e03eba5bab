"""The ways in which byte-level tokenizers cut text into words before merging.

A GGUF file has the name of a way, `tokenizer.ggml.pre`, as llama.cpp calls it
(https://github.com/ggml-org/llama.cpp, src/llama-vocab.cpp). The ways here are those
of the tokenizer.json of the models, which llama.cpp's follow.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tokenizers
from tokenizers import pre_tokenizers


class Words(NamedTuple):
  """One way to cut text into words.

  Attributes:
    patterns: regular expressions; each isolates its matches within the pieces that
      those before have left. None given: that of GPT-2.
    digits: whether each digit is a word before that.
    nfc: whether text is brought into Unicode's NFC first.
    whole: whether a word that is a token is one though no chain of merges reaches
      it (`ignore_merges`).
  """

  patterns: tuple[str, ...] = ()
  digits: bool = False
  nfc: bool = False
  whole: bool = False

  def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
    """The way as a step of the `tokenizers` library."""
    steps: list[pre_tokenizers.PreTokenizer] = []
    if self.digits:
      steps.append(pre_tokenizers.Digits(individual_digits=True))
    steps += [
        pre_tokenizers.Split(tokenizers.Regex(pattern), 'isolated')
        for pattern in self.patterns
    ]
    letters = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=not self.patterns
    )
    return pre_tokenizers.Sequence([*steps, letters])


_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS = r'\s*[\r\n]+|\s+(?!\S)|\s+'
# Contractions, letters with one sign before them, digits, signs, blanks.
_GPT4 = (
    rf'{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}%s'
    rf'| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_BLANKS}'
)
# Combining marks are letters too.
_MARKS = (
    rf'{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}'
    rf'| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_BLANKS}'
)
# Line ends are apart from signs.
_SEED = (
    rf'{_SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}'
    rf'| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_BLANKS}'
)
# A word ends where a capital follows a small letter.
_UPPER, _LOWER = r'\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}', r'\p{Ll}\p{Lm}\p{Lo}\p{M}'
_CASED = (
    rf'[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+%s'
    rf'|[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*%s'
    rf'|\p{{N}}%s| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_BLANKS}'
)
_DEEPSEEK3 = (
    r'\p{N}{1,3}',
    '[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+',  # Han, Hiragana, Katakana
    r'[!"#$%&' + r"'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    r'|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|' + _BLANKS,
)

DIGITS = Words(digits=True)
_LLAMA3 = Words((_GPT4 % '{1,3}',))
_QWEN2 = Words((_GPT4 % '',), nfc=True)
# By tokenizer.ggml.pre.
WAYS: Mapping[str, Words] = {
    'gpt-2': Words(),
    'olmo': Words(nfc=True),
    'smollm': DIGITS,
    'refact': DIGITS,  # Granite 3
    'starcoder': DIGITS,
    # Llama 3 has words that no chain of merges reaches; so have SmolLM3 and
    # others with its vocabulary, whose name here is the fourth.
    **dict.fromkeys(
        ('llama-bpe', 'llama3', 'llama-v3', 'smaug-bpe', 'pixtral', 'lfm2'),
        _LLAMA3._replace(whole=True),
    ),
    'dbrx': _LLAMA3,  # OLMo 2 and 3, Phi-4, Granite 4
    'glm4': _LLAMA3,
    'chatglm-bpe': _LLAMA3,
    'qwen2': _QWEN2,
    'deepseek-r1-qwen': _QWEN2,
    'qwen35': Words((_MARKS,), nfc=True),
    'tekken': Words((_CASED % ('', '', ''),), whole=True),
    'gpt-4o': Words((_CASED % (f'{_SUFFIX}?', f'{_SUFFIX}?', '{1,3}'),)),
    'seed-coder': Words((_SEED,)),
    'hunyuan-dense': Words(_DEEPSEEK3),
    'deepseek-v3': Words(_DEEPSEEK3),
}
