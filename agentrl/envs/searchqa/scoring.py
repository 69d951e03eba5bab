"""Scores of an answer: SQuAD's exact match and F1 (arXiv:1606.05250)."""

import collections
import re
import string
import unicodedata
from collections.abc import Sequence

SCORINGS = ('em', 'f1')

_PUNCTUATION = str.maketrans('', '', string.punctuation)
_ARTICLE = re.compile(r'\b(a|an|the)\b')


def fold(text: str) -> str:
  """`text` without accents."""
  if text.isascii():
    return text
  parts = unicodedata.normalize('NFKD', text)
  return ''.join(x for x in parts if not unicodedata.combining(x))


def normalise(text: str) -> str:
  """`text` in lower case, without punctuation, articles, double spaces."""
  text = text.lower().translate(_PUNCTUATION)
  return ' '.join(_ARTICLE.sub(' ', text).split())


def exact_match(answer: str, golds: Sequence[str]) -> bool:
  """True if `answer` is one of `golds` after normalisation."""
  return _compared(answer) in map(_compared, golds)


def f1(answer: str, golds: Sequence[str]) -> float:
  """The best harmonic mean of precision and recall of words, over `golds`."""
  return max(_f1(_compared(answer), _compared(gold)) for gold in golds)


def _compared(text: str) -> str:
  # Unlike SQuAD's: of an 'A' or a '+' nothing would be left, and any article or
  # punctuation would be right.
  return normalise(text) or text.lower().strip()


def _f1(answer: str, gold: str) -> float:
  words, right = answer.split(), gold.split()
  if not words or not right:
    return float(words == right)
  shared = collections.Counter(words) & collections.Counter(right)
  return 2 * shared.total() / (len(words) + len(right))
