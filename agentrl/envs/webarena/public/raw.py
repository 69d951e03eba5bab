"""The evaluators of the original benchmark: answer, address, page contents.

A score is the product of all comparisons. Answers are compared in lower case
and without a pair of quotes around them; what a page must hold is looked for
in it, however it came there.
"""

import asyncio
import html
import re
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

# (question, reference, answer) -> right. The reference of an unachievable task
# is the reason why it is.
Judge = Callable[[str, str, str], bool | Awaitable[bool]]


@runtime_checkable
class Counting(Protocol):
  """A judge that counts what it uses."""

  def gauges(self) -> Mapping[str, float]:
    """Sums by name, for the metrics of the server."""


# Signs that the original's tokeniser (NLTK's Treebank) sets apart from words.
_SIGN = re.compile(
    r'\.\.\.|--|[;@#$%&*?!()\[\]{}<>"`“”‘’«»–—]'
    r'|[:,](?!\d)'
    r"|(?<!\w)'(?=\w)|'(?=\s|$|(?:s|m|d|ll|re|ve)\b)"
    r'|\.(?=[\s)\]}>"\']*$)'  # of the last sentence alone
)


def clean(text: str) -> str:
  """`text` in lower case, without spaces and a pair of quotes around it."""
  text = text.strip()
  for quote in '\'"':
    if text.startswith(quote) and text.endswith(quote):
      text = text[1:-1]
      break
  return text.lower()


def equal(reference: str, text: str) -> bool:
  """exact_match."""
  return clean(reference) == clean(text)


def includes(reference: str, text: str, *, words: bool = False) -> bool:
  """must_include.

  Args:
    reference: that `text` must include.
    text: the answer or the contents of a page.
    words: a single character must be a word of its own: no 0 is in '10'.
  """
  reference, text = clean(reference), clean(text)
  if words and len(reference) == 1:
    return reference in _SIGN.sub(r' \g<0> ', text).split()
  return reference in text


async def of_answer(
    references: Mapping[str, Any],
    answer: str,
    *,
    intent: str,
    reason: str,
    judge: Judge | None,
) -> float:
  """string_match.

  Args:
    references: comparison -> what it compares with.
    answer: of the policy.
    intent: the question.
    reason: why the task cannot be done, where that is the answer.
    judge: compares answers by meaning; only fuzzy_match needs it.

  Raises:
    ValueError: a judge is needed and missing, or its verdict is no bool.
  """
  answer = clean(answer)
  score = 1.0
  for how, wanted in references.items():
    if how == 'exact_match':
      score *= equal(wanted, answer)
    elif how == 'must_include':
      score *= all(
          includes(each, answer, words=len(wanted) == 1) for each in wanted
      )
    elif wanted == 'N/A':
      # As there: the literal answer, else the reason by its meaning, whatever
      # the comparisons before have given.
      score *= equal(wanted, answer)
      if score != 1.0:
        score = float(await _judged(judge, intent, reason, answer))
    else:
      for each in wanted:
        score *= await _judged(judge, intent, each, answer)
  return float(score)


async def _judged(
    judge: Judge | None, intent: str, reference: str, answer: str
) -> bool:
  if judge is None:
    raise ValueError('fuzzy_match needs a judge.')
  # In a thread: one that waits for a model would hold up all episodes.
  judgement = await asyncio.to_thread(judge, intent, reference, answer)
  if isinstance(judgement, Awaitable):
    judgement = await judgement
  if not isinstance(judgement, bool):  # 'no' would be true
    raise ValueError(
        f'The judge must return True or False, got {judgement!r:.80}.'
    )
  return judgement


def of_url(reference: str, url: str) -> float:
  """url_match by the rule 'GOLD in PRED'.

  Host and path of one reference must be in those of `url`; of each parameter
  of any reference, `url` must have one of the values.

  Args:
    reference: one address, or several between ` |OR| `.
    url: of the page that the episode ended on.
  """
  references = [_split(each) for each in reference.split(' |OR| ')]
  base, query = _split(url)
  if not any(each in base for each, _ in references):
    return 0.0
  for name in {name for _, each in references for name in each}:
    wanted = {x for _, each in references for x in each.get(name, ())}
    if wanted.isdisjoint(query.get(name, ())):
      return 0.0
  return 1.0


def _split(url: str) -> tuple[str, dict[str, list[str]]]:
  parts = urllib.parse.urlparse(url.rstrip('/'))
  return parts.netloc + parts.path, urllib.parse.parse_qs(parts.query)


def of_contents(required: Mapping[str, Any], text: str) -> float:
  """Compares the contents of a page, or a part of them, as program_html.

  Args:
    required: `exact_match` with a text, else `must_include` with texts; of
      ` |OR| ` between alternatives one is enough.
    text: the contents, entities not yet read.
  """
  text = html.unescape(text)
  if 'exact_match' in required:
    return float(equal(required['exact_match'], text))
  wanted: Sequence[str] = required['must_include']
  return float(
      all(
          any(includes(x, text) for x in each.split(' |OR| '))
          for each in wanted
      )
  )
